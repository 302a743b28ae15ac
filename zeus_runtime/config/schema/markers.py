"""Markers in ``Annotated[...]`` next to a field's or parameter's type."""

from __future__ import annotations

from typing import Any, NamedTuple


class Doc(NamedTuple):
    """The description of a field or parameter."""

    text: str


class Minimum(NamedTuple):
    """The least allowed number (inclusive)."""

    value: float


class Maximum(NamedTuple):
    """The greatest allowed number (inclusive)."""

    value: float


class MinLength(NamedTuple):
    """The least number of characters of a string, or of entries of a list."""

    value: int


class MaxLength(NamedTuple):
    """The greatest number of characters of a string, or of entries of a list."""

    value: int


class Pattern(NamedTuple):
    """A regular expression (ECMA 262 dialect, searched, not anchored) that a string must contain."""

    regex: str


class FileRelative(NamedTuple):
    """The string is a path, resolved against the folder of the YAML file it is written in.

    Args:
        holds_secrets: it is a JSON file; its secrets are masked wherever the config's own secrets are.
        unless: a string that begins so is not a path and stays unchanged.
    """

    holds_secrets: bool = False
    unless: str = ""


class WorkRelative(NamedTuple):
    """The string is a path; the code that uses it resolves it against the working directory.

    Args:
        protected: Zeus writes the file; no tool may change it, or a file beside it whose name begins with its name
            (``.db-wal``).
        holds_keys: no tool may read it either.
    """

    protected: bool = False
    holds_keys: bool = False


class Tunable(NamedTuple):
    """The values that `zeus context tune` tries for an option of a middleware, smallest first; ``null`` is None.

    Mark an option only if a replay of recorded sessions shows all that it changes: not the text of a summary.
    """

    values: tuple[Any, ...]


class Executes(NamedTuple):
    """The string names something that is executed, here, or elsewhere with this user's keys; or a folder that
    programs see or Zeus cleans. It is used only after the user has allowed it (docs/explanation/trust.md). A value that
    equals the default needs no permission.

    Args:
        servers: it is a JSON file of MCP servers; the user allows each of them.
        command: the list is a program and its arguments, which is started in the working directory. The user allows it
            as one part, with the content of the project files that it names. The code that starts it calls ``permit``.
    """

    servers: bool = False
    command: bool = False


class Destination(NamedTuple):
    """The string, or each string in the list or mapping, says where data is sent. Another machine receives it only
    after the user has allowed it (docs/explanation/trust.md). The default and this machine's own addresses need no
    permission.

    Args:
        signs: texts that make the string a destination; without any, it always is one.
        names_files: the string goes to a library that may read it as the name of a file with keys or addresses. The
            user allows such a file with its content, and no tool may read or change a file of that name.
    """

    signs: tuple[str, ...] = ()
    names_files: bool = False


class Alias(NamedTuple):
    """The key in YAML and JSON, where it cannot be the field's own name."""

    key: str


class AlsoCalled(NamedTuple):
    """Words by which other products call the same key: the error for such an unknown key names ours."""

    words: tuple[str, ...]


class RefTo(NamedTuple):
    """Which kind of component a ``Ref`` field names.

    Args:
        kind: the component kind (``model``, ``tool``, ...).
        plain: the meaning of a plain string that is not a component's name: ``(component, option)``. With
            ``("litellm", "model")``, ``model: gpt-5.2`` means ``{litellm: {model: gpt-5.2}}``.
    """

    kind: str
    plain: tuple[str, str] | None = None
