"""The tree a YAML file is read into: JSON values that know where they were written, and what they overrode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from zeus_runtime.config.secrets.connection_strings import is_broken_login
from zeus_runtime.config.secrets.masking import HeaderValue, HiddenStr, Redactor
from zeus_runtime.config.secrets.secret_names import holds_headers
from zeus_runtime.config.secrets.secret_trees import number_text
from zeus_runtime.escaping import json_shown, printable

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is in the tree: keys and list indexes from the root."""


class Mark(NamedTuple):
    """A place in a source: its name, and line and column counted from 1 (in characters).

    As text it is one line without unseen characters, whatever the name of the file.
    """

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return self.short if self.source.startswith("--set ") else f"{self.short}:{self.column}"

    @property
    def short(self) -> str:
        """Source and line only."""
        name = printable(self.source)
        return name if self.source.startswith("--set ") else f"{name}:{self.line}"


class Origin(NamedTuple):
    """Where a value was written.

    Args:
        value: the place of the value.
        key: the place of its key; None for list entries and the root.
        implied: the value was not written itself, only something inside it (``a`` in ``--set a.b=c``).
    """

    value: Mark
    key: Mark | None = None
    implied: bool = False


class Node(NamedTuple):
    """A value with its origins.

    Args:
        value: a JSON scalar, a dict of str to Node or a list of Node.
        origins: the newest first; the others are what it overrode.
        cuts: it replaced what was before it, so nothing older shows through if it is merged over something else.
        variables: the names of the variables that its text came from, wholly or partly.
    """

    value: Any
    origins: tuple[Origin, ...]
    cuts: bool = False
    variables: tuple[str, ...] = ()

    @property
    def origin(self) -> Origin:
        """Where it was really written: the newest origin that is not implied, if there is one."""
        return next((origin for origin in self.origins if not origin.implied), self.origins[0])

    @property
    def interpolated(self) -> bool:
        """Whether its text came, wholly or partly, from ``${...}``."""
        return bool(self.variables)

    @property
    def is_map(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)


def plain(node: Node) -> Any:
    """The JSON value without its origins."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def of_json(value: Any) -> Node:
    """The tree of a JSON value, without origins."""
    if isinstance(value, dict):
        return Node({key: of_json(each) for key, each in value.items()}, ())
    return Node([of_json(each) for each in value] if isinstance(value, list) else value, ())


def find(node: Node, path: Path) -> Node | None:
    """The node at ``path``, or None."""
    for step in path:
        value = node.value
        # A text in a `range` is false and raises no error, so a key may be asked of a list.
        inside = (
            step in value
            if isinstance(value, dict)
            else isinstance(value, list) and step in range(len(value))
        )
        if not inside:
            return None
        node = value[step]
    return node


def nearest(node: Node, path: Path) -> tuple[Node, Path]:
    """The deepest node that exists on the way to ``path``, and its own path."""
    length = len(path)
    while (found := find(node, path[:length])) is None:
        length -= 1
    return found, path[:length]


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents first, in order of writing."""
    left = [(path, node)]
    while left:
        at, each = left.pop()
        yield at, each
        value = each.value
        if isinstance(value, dict):
            left += [((*at, key), child) for key, child in reversed(value.items())]
        elif isinstance(value, list):
            left += [((*at, index), child) for index, child in reversed([*enumerate(value)])]


def hidden(node: Node, redactor: Redactor, *, is_header: bool = False) -> Node:
    """The tree with every string that holds a secret as a ``HiddenStr``, and all below ``headers`` as
    ``HeaderValue``."""
    value = node.value
    if isinstance(value, dict):
        entries = {
            key: hidden(child, redactor, is_header=is_header or holds_headers(key))
            for key, child in value.items()
        }
        return node._replace(value=entries)
    if isinstance(value, list):
        return node._replace(value=[hidden(child, redactor, is_header=is_header) for child in value])
    if not isinstance(value, str):
        return node
    if is_header:
        return node._replace(value=HeaderValue(value))
    hides = redactor.hides(value) or is_broken_login(value)
    return node._replace(value=HiddenStr(value)) if hides else node


def unshown_values(root: Node) -> frozenset[str]:
    """The values of headers in a tree that ``hidden`` made, numbers too, and addresses that cannot be read."""
    texts = ((node.value, str.__str__(node.value)) for _, node in walk(root) if isinstance(node.value, str))
    strings = (text for value, text in texts if isinstance(value, HeaderValue) or is_broken_login(text))
    numbers = (number_text(node.value) for path, node in walk(root) if any(map(holds_headers, path)))
    return frozenset((*strings, *filter(None, numbers)))


def show_path(path: Path) -> str:
    """A path as ``--set`` writes it: ``profiles.models."gpt-5.2".max_input_tokens``; the root is ``the file``.

    It has one line: a key that has a line end, another character that does not print, or a quotation mark is JSON.
    """
    return ".".join(map(_shown_step, path)) if path else "the file"


def _shown_step(step: str | int) -> str:
    if isinstance(step, int):
        return str(step)
    is_plain = step.isprintable() and not {".", '"'} & {*step}
    return step if step and is_plain else json_shown(step)
