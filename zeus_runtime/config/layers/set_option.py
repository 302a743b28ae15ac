"""``--set a.b=c``: one path and one YAML value."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from zeus_runtime.command_lines import HIDDEN_VALUE
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.masking import MASK, mask_line
from zeus_runtime.config.secrets.secret_names import holds_headers
from zeus_runtime.config.yaml.reader import MAX_DEPTH, read_value
from zeus_runtime.config.yaml.sources import Sources, named_secrets_masked, unread_lines
from zeus_runtime.config.yaml.tree import Mark, Node, Origin, Path


class Setting(NamedTuple):
    """A parsed ``--set``.

    Args:
        source: the name its places carry, ``--set a.b=c``.
        text: the argument, ``a.b=c``.
        path: keys and indexes, outermost first.
        value: the value's tree.
    """

    source: str
    text: str
    path: tuple[str, ...]
    value: Node

    @property
    def origin(self) -> Origin:
        """The origin of the mappings around the value."""
        mark = Mark(self.source, 1, 1)
        return Origin(mark, mark, implied=True)


def parse_setting(text: str) -> Setting:
    """Take a ``--set`` argument apart.

    Keys are separated by dots; a key that holds a dot is written in double quotes (``profiles.models."gpt-5.2".…``).
    The value is YAML: ``3``, ``true``, ``[a, b]``, ``{a: 1}``, ``null``; an empty value is null.

    Raises:
        ConfigError: there is no ``=``, a key is empty or unquoted wrongly, there are too many keys, the value is
            ``HIDDEN_VALUE``, or it is not valid YAML.
    """
    # Not read yet, so it may be invalid YAML.
    source = "--set " + mask_line("\n".join(named_secrets_masked(text)))
    try:
        path, rest = split_path(text, stop="=")
    except ValueError as error:
        raise _wrong(text, str(error)) from None
    if rest is None:
        raise _wrong(text, "there is no `=`")
    if not all(path):
        raise _wrong(text, "a key is empty")
    if len(path) > MAX_DEPTH:
        raise _wrong(text, f"more than {MAX_DEPTH} keys lie within each other")
    start = len(text) - len(rest)
    if rest.strip() == HIDDEN_VALUE:
        hint = f"write your value in its place, or the text itself in quotes: '\"{HIDDEN_VALUE}\"'"
        raise _wrong(text[:start], f"`{HIDDEN_VALUE}` is not a value", column=start + 1, hint=hint)
    shown = text
    if any(map(holds_headers, path)):
        shown = text[:start] + MASK
        source = f"--set {shown}"
    try:
        node = read_value(rest, source)
    except ConfigError as error:
        unread = source if shown != text else _unread_source(text)
        raise ConfigError(
            replace(
                problem,
                position=problem.position
                and problem.position._replace(source=unread, line=1, column=problem.position.column + start),
                source_line=Sources({source: shown}).line(Mark(source, 1, 1)),
                related=(),
            )
            for problem in error.diagnostics
        ) from None
    mark = Mark(source, 1, start + 1)
    shifted = _shifted(node or Node(None, (Origin(mark),)), mark)
    # The last key ends before the `=`, and an earlier key may have the same text.
    key = Mark(source, 1, text.rindex(path[-1], 0, start) + 1)
    return Setting(source, text, path, shifted._replace(origins=(Origin(mark, key),)))


def split_path(text: str, *, stop: str = "") -> tuple[tuple[str, ...], str | None]:
    """A dotted path, double-quoted keys allowed, and what follows ``stop``.

    Returns:
        The keys, and the text after the first ``stop`` outside quotes; None if there is none.

    Raises:
        ValueError: a quote is not closed, or does not enclose a whole key.
    """
    keys: list[str] = []
    position = 0
    while True:
        if text[position : position + 1] == '"':
            end = text.find('"', position + 1)
            if end < 0:
                raise ValueError("a quote is not closed")
            keys.append(text[position + 1 : end])
            position = end + 1
        else:
            start = position
            while position < len(text) and text[position] not in f".{stop}":
                position += 1
            keys.append(text[start:position])
        if position >= len(text):
            return tuple(keys), None
        if stop and text[position] == stop:
            return tuple(keys), text[position + 1 :]
        if text[position] != ".":
            raise ValueError("a quoted key ends before a dot")
        position += 1


def as_path(keys: tuple[str, ...], root: Node) -> Path:
    """Keys as written to a path in a tree: numbers become indexes where a list is."""
    path: list[str | int] = []
    node: Node | None = root
    for key in keys:
        if node is not None and node.is_list and key.isdecimal():
            path.append(int(key))
            node = node.value[int(key)] if int(key) < len(node.value) else None
        else:
            path.append(key)
            node = node.value.get(key) if node is not None and node.is_map else None
    return tuple(path)


_FORM: Final = (
    "write --set key.inner=value; quote a key that holds a dot: --set 'profiles.models.\"gpt-5.2\".x=1'"
)


def _unread_source(text: str) -> str:
    return "--set " + mask_line("\n".join(unread_lines(text)))


def _wrong(text: str, message: str, *, column: int = 1, hint: str = _FORM) -> ConfigError:
    source = _unread_source(text)
    mark = Mark(source, 1, column)
    return ConfigError([Sources({source: text}).diagnostic("bad-set", message, mark, hint=hint)])


def _shifted(node: Node, mark: Mark) -> Node:
    """The tree with every place at the value's own: a command line has no lines to point at."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _shifted(child, mark) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_shifted(child, mark) for child in value]
    return node._replace(value=value, origins=(Origin(mark, mark),))
