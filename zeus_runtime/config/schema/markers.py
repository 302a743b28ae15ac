"""Markers in ``Annotated[...]`` next to a field's or parameter's type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

FILE_RELATIVE: Final = "x-zeus-file-relative"
"""Schema keyword: the string is a path relative to the file it is written in."""
WORK_RELATIVE: Final = "x-zeus-work-relative"
"""Schema keyword: the string is a path relative to the working directory."""
PROTECTED: Final = "x-zeus-protected"
"""Schema keyword beside ``x-zeus-work-relative``: tools may not change it (``write``) or read it (``read``)."""
FOLDER: Final = "x-zeus-folder"
"""Schema keyword: the string is a folder, relative to the working directory, in which Zeus changes the files; or
``sessions``, if it has a subfolder for each session."""
SHOWN: Final = "x-zeus-shown"
"""Schema keyword: the string is a folder, relative to the working directory, that programs see."""
NOT_A_PATH: Final = "x-zeus-not-a-path"
"""Schema keyword beside ``x-zeus-file-relative``: strings that begin so are not paths."""
EXECUTES: Final = "x-zeus-executes"
"""Schema keyword of a string that names what is executed: ``value``, or ``servers`` for a file of MCP servers."""
DESTINATION: Final = "x-zeus-destination"
"""Schema keyword of what says where data is sent: the texts without one of which it does not; none for always."""
NAMES_FILES: Final = "x-zeus-names-files"
"""Schema keyword beside ``x-zeus-destination``: a library may read the string as the name of a file."""
PLAIN_KEYS: Final = "x-zeus-plain-keys"
"""Schema keyword beside ``x-zeus-destination`` of a mapping: the keys besides which each value needs permission."""
HOLDS_SECRETS: Final = "x-zeus-holds-secrets"
"""Schema keyword: the path is a JSON file with secrets in it."""

_Schema: TypeAlias = Mapping[str, Any]
_COMBINED: Final = ("anyOf", "oneOf", "allOf")
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


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

    @property
    def keywords(self) -> _Schema:
        return {
            FILE_RELATIVE: True,
            **({HOLDS_SECRETS: True} if self.holds_secrets else {}),
            **({NOT_A_PATH: self.unless} if self.unless else {}),
        }

    @property
    def types(self) -> frozenset[str]:
        return frozenset({"string"})

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], _Schema]) -> _Schema:
        return marked(handler(core), self)


class WorkRelative(NamedTuple):
    """The string is a path; the code that uses it resolves it against the working directory. ``~`` at its beginning is
    the home folder, and Zeus replaces it.

    Args:
        protected: Zeus writes the file; no tool may change it, or a file beside it whose name begins with its name
            (``.db-wal``).
        holds_keys: no tool may read it either.
        folder: it is a protected folder, and no command may make it lead elsewhere.
    """

    protected: bool = False
    holds_keys: bool = False
    folder: bool = False

    @property
    def keywords(self) -> _Schema:
        is_protected = self.protected or self.folder
        if not (is_protected or self.holds_keys):
            return {WORK_RELATIVE: True}
        both = is_protected and self.holds_keys
        kept = "both" if both else "read" if self.holds_keys else "write"
        return {WORK_RELATIVE: True, PROTECTED: kept, **({FOLDER: True} if self.folder else {})}

    @property
    def types(self) -> frozenset[str]:
        return frozenset({"string"})

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], _Schema]) -> _Schema:
        return marked(handler(core), self)


class Tunable(NamedTuple):
    """The values that `zeus context tune` tries for an option of a middleware, smallest first; ``null`` is None.

    Mark an option only if a replay of recorded sessions shows all that it changes: not the text of a summary.
    """

    values: tuple[Any, ...]


class Executes(NamedTuple):
    """The string names something that is executed, here, or elsewhere with this user's keys; a folder that programs see
    or Zeus cleans; or a value that gives this user's secrets away. It is used only after the user has allowed it
    (docs/explanation/trust.md), with the content of the project files that it names, which no tool may change. A value
    that equals the default needs no permission.

    Args:
        servers: it is a JSON file of MCP servers; the user allows each of them.
        command: the list is a program and its arguments, which is started in the working directory. The user allows it
            as one part, with the content of the project files that it names. The code that starts it calls ``permit``.
        by_name: it names nothing in the project: a machine, an image, a module. The user allows the value alone.
        folder: a folder, relative to the working directory (``~`` is the home folder), whose files Zeus changes itself.
            The user allows the value, and where links lead from it; no tool may change its files or make it lead
            elsewhere. ``sessions``: the folder has a subfolder for each session, and no tool reads another session's.
        shown: a folder, relative to the working directory (``~`` is the home folder), that programs see. The user
            allows the value, and where links lead from it; no command may make it lead elsewhere.
        asked: with it, only a person's answers keep a program from what the user may do. The user allows the value, and
            the config's approvals with it.
    """

    servers: bool = False
    command: bool = False
    by_name: bool = False
    folder: bool | Literal["sessions"] = False
    shown: bool = False
    asked: bool = False

    @property
    def keywords(self) -> _Schema:
        if self.command or self.servers:
            return {EXECUTES: "command" if self.command else "servers"}
        if self.folder:
            return {EXECUTES: "name", FOLDER: self.folder}
        if self.shown:
            return {EXECUTES: "name", SHOWN: True}
        return {EXECUTES: "asked" if self.asked else "name" if self.by_name else "value"}

    @property
    def types(self) -> frozenset[str]:
        return frozenset({"array"}) if self.command else _SCALARS

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], _Schema]) -> _Schema:
        return marked(handler(core), self)


class Destination(NamedTuple):
    """The string, or each string in the list or mapping, says where data is sent. Another machine receives it only
    after the user has allowed it (docs/explanation/trust.md). The default and this machine's own addresses need no
    permission.

    Args:
        signs: texts that make the string a destination; without any, it always is one.
        names_files: the string goes to a library that may read it as the name of a file with keys or addresses. The
            user allows such a file with its content, and no tool may read or change a file of that name.
        plain: for a mapping whose entries go to a library as they are, the keys that choose neither an account nor a
            connection. The user allows each value at another key, also a number. None: all keys are plain.
    """

    signs: tuple[str, ...] = ()
    names_files: bool = False
    plain: tuple[str, ...] | None = None

    @property
    def keywords(self) -> _Schema:
        return {
            DESTINATION: list(self.signs),
            **({NAMES_FILES: True} if self.names_files else {}),
            **({} if self.plain is None else {PLAIN_KEYS: list(self.plain)}),
        }

    @property
    def types(self) -> None:
        """All: it holds for whatever is in the value."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], _Schema]) -> _Schema:
        return marked(handler(core), self)


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


def marked(schema: _Schema, marker: FileRelative | WorkRelative | Executes | Destination) -> dict[str, Any]:
    """A schema with the keywords of a marker, where its values have the marker's types; so has each of its entries.

    Pydantic asks the markers themselves (``__get_pydantic_json_schema__``), since it knows a model's fields.
    """
    found = _in_entries(schema, marker)
    return {**found, **marker.keywords} if _has_types(schema, marker.types) else found


def _in_entries(
    schema: _Schema, marker: FileRelative | WorkRelative | Executes | Destination
) -> dict[str, Any]:
    found = dict(schema)
    if marker.types is None:
        return found
    for name in _COMBINED:
        if name in schema:
            found[name] = [_in_entries(each, marker) for each in schema[name]]
    if "prefixItems" in schema:
        found["prefixItems"] = [marked(each, marker) for each in schema["prefixItems"]]
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            found[name] = marked(schema[name], marker)
    return found


def _has_types(schema: _Schema, types: frozenset[str] | None) -> bool:
    # A keyword may be beside a reference, as pydantic makes one for an enumeration.
    if types is None or "$ref" in schema or ("enum" in schema and types == _SCALARS):
        return True
    stated = schema.get("type", ())
    stated = {stated} if isinstance(stated, str) else {*stated}
    inner = (each for name in _COMBINED for each in schema.get(name, ()))
    return bool(types & stated) or any(_has_types(each, types) for each in inner)
