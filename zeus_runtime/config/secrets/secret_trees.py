"""Read a text that is known to hold secrets as JSON, TOML or YAML, if it is that: each scalar is a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

_OF_OTHERS: Final = re.compile(r"[\"'`]|[,;]\Z")
"""In a text without quotes, they say that other programs read the file too."""
_KEY_OF_TREE: Final = re.compile(r"[\w./-]+")
_MOST_LEVELS: Final = 50
_MOST_VALUES: Final = 100_000


def trees_of(text: str) -> tuple[Sequence[Any], bool]:
    """What a text is in JSON, TOML or YAML, and whether all of it is that; of YAML with an error, what is before it."""
    import tomllib

    from zeus_runtime.strict_json import read_json

    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError):
            return [read_json(text)], True
    with suppress(ValueError, RecursionError):
        return [tomllib.loads(text)], True
    documents, is_whole = _yaml(text)
    trees = [_plain(each) for each in documents if not isinstance(each, str)]
    return trees, is_whole and len(trees) == len(documents) > 0


class _Pairs(list[Any]):
    """The keys and values of a map in turn."""


def _yaml(text: str) -> tuple[Sequence[Any], bool]:
    """The maps and lists of YAML by its events, so without regard to tags and the kinds of scalars."""
    import yaml

    loader: Any = yaml.SafeLoader
    if yaml.__with_libyaml__:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]

        loader = CParser
    open_ones: list[list[Any]] = [[]]
    anchors: dict[str | None, str] = {}
    is_by_chance = False
    try:
        events: Iterable[Any] = yaml.parse(text, Loader=loader)
        for count, event in enumerate(events):
            if len(open_ones) > _MOST_LEVELS or count > _MOST_VALUES:
                return open_ones[0], False
            if isinstance(event, yaml.CollectionEndEvent):
                open_ones.pop()
            elif isinstance(event, yaml.AliasEvent):
                # Only of texts: a map or a list is read where it is written.
                open_ones[-1].append(anchors.get(event.anchor, ""))
            elif isinstance(event, yaml.ScalarEvent):
                # No text is YAML by chance: ``see the docs: here``.
                is_key = isinstance(open_ones[-1], _Pairs) and len(open_ones[-1]) % 2 == 0
                is_by_chance |= is_key and not _KEY_OF_TREE.fullmatch(event.value)
                is_by_chance |= event.implicit[0] and bool(_OF_OTHERS.search(event.value))
                anchors[event.anchor] = event.value
                open_ones[-1].append(event.value)
            elif isinstance(event, yaml.CollectionStartEvent):
                new: list[Any] = _Pairs() if isinstance(event, yaml.MappingStartEvent) else []
                open_ones[-1].append(new)
                open_ones.append(new)
    except yaml.YAMLError:
        return open_ones[0], False
    return open_ones[0], not is_by_chance


def _plain(node: Any) -> Any:
    if not isinstance(node, list):
        return node
    if not isinstance(node, _Pairs):
        return [_plain(each) for each in node]
    tree: dict[str, Any] = {}
    for key, value in zip(node[::2], node[1::2], strict=False):
        name = key if isinstance(key, str) else ""
        # Of a key that is written twice, each value counts; a number changes no name.
        tree[f"{name}{len(tree)}" if name in tree else name] = _plain(value)
    return tree
