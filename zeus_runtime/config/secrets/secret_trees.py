"""Read a text that may hold secrets as JSON, TOML or YAML, if it is that, and the texts in such a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from zeus_runtime.config.secrets.random_values import is_random_name

_OF_OTHERS: Final = re.compile(r"[\"'`]|[,;]\Z")
"""In a text without quotes, they say that other programs read the file too."""
_KEY_OF_TREE: Final = re.compile(r"[\w./-]+")
_MOST_LEVELS: Final = 50
_MOST_VALUES: Final = 100_000
_PUBLIC_IN_JWK: Final = frozenset("kty use key_ops alg kid x5u x5c x5t x5t#S256 crv x y n e".split())
"""The public members of a key in JSON (RFC 7517, section 4; RFC 7518, section 6), which look random all the same."""
_JWK_KINDS: Final = ("RSA", "EC", "OKP", "oct")
_LEAST_KEY: Final = 10**7
"""The least number that may be a key."""


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

    from zeus_runtime.strict_json import well_formed

    loader: Any = yaml.SafeLoader
    if yaml.__with_libyaml__:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]

        loader = CParser
    open_ones: list[list[Any]] = [[]]
    anchors: dict[str | None, str] = {}
    is_by_chance = False
    try:
        # A byte of the environment that is not UTF-8 is a lone surrogate, which the parser cannot encode.
        events: Iterable[Any] = yaml.parse(well_formed(text), Loader=loader)
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


def number_text(value: Any) -> str | None:
    """A number as it is written, for a key of digits without quotes is a number; None for anything else."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def scalar_text(value: Any) -> str | None:
    """A text or a number as a text. A number with less than eight digits before its point, such as a price, is empty:
    it is not a key, but it has a place among words."""
    is_price = isinstance(value, float) and abs(value) < _LEAST_KEY
    return value if isinstance(value, str) else "" if is_price else number_text(value)


def json_of(text: str) -> Any:
    """The mapping or list that a text is in JSON; None if it is not JSON, or only begins so."""
    if text[:1] not in ("{", "["):
        return None
    from zeus_runtime.strict_json import read_json

    try:
        return read_json(text)
    except ValueError:
        return None


def texts_in(value: Any) -> Iterator[str]:
    """The texts in JSON that may be secrets, and keys of maps that look random: a service may keep the owner of each
    key (``{KEY: "ann"}``). The public members of a JWK are not secrets.
    """
    if isinstance(value, Mapping):
        public = _PUBLIC_IN_JWK if value.get("kty") in _JWK_KINDS else ()
        yield from filter(is_random_name, value)
        for name, each in value.items():
            yield from () if name in public else texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif text := scalar_text(value):
        yield text
