"""A Document against the schema: every problem with its place, or the finished Document."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from zeus_runtime.config.document import Document, Early
from zeus_runtime.config.layers.files import folder_of
from zeus_runtime.config.messages.diagnostics import Diagnostic, in_order
from zeus_runtime.config.schema.acceptance import fits
from zeus_runtime.config.schema.marked import from_home, is_at_work, is_path
from zeus_runtime.config.schema.signatures import schema_of
from zeus_runtime.config.schema.types import PLAIN, REF
from zeus_runtime.config.schema.walk import Schema, at, branches, type_name, types, walk_with
from zeus_runtime.config.secrets.masking import HiddenStr, told_apart
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.scalars import NotJsonError, resolve
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Node, Path, find, hidden, nearest, plain, show_path
from zeus_runtime.disk_paths import closed_link, expanded
from zeus_runtime.errors import MissingError

KnownModel: TypeAlias = Callable[[str], Sequence[str] | None]
"""Says of a model's name whether it is known: None if so, else names that may have been meant, nearest first."""


_EARLY = ("plugins", "homes")


def check(
    document: Document,
    schema: Mapping[str, Any],
    *,
    known_model: KnownModel | None = None,
    unknown_components: bool = False,
) -> Document:
    """Validate a document and finish it: numbers from variables converted, paths made absolute, secrets known.

    A text that came from ``${...}`` stays text wherever the schema allows text; where it does not, it is read as a YAML
    scalar (``"8080"`` becomes 8080). Paths marked FileRelative are resolved against the folder of the file they are
    written in, those of ``--set`` and standard input against the working directory. In those marked WorkRelative, ``~``
    is replaced by the home folder.

    Args:
        document: as ``load`` made it.
        schema: as ``compose`` made it, or the same read from a file.
        known_model: asked about every plain model name that ``profiles.models`` does not name; a name it does not know
            is a warning, under ``profiles.strict`` an error.
        unknown_components: accept components that the schema does not have, because not every plugin was examined.

    Raises:
        ConfigError: with all problems, those of loading too, in order of position.
    """
    # First: it converts what the schema judges, and makes known what no message may show.
    document = prepared(document, schema)
    diagnostics = [*document.problems, *_violations(document, schema, document.value)]
    diagnostics += _impossible_paths(document, schema)
    if known_model is not None:
        diagnostics += _unknown_models(document, schema, known_model)
    if unknown_components:
        diagnostics = [each for each in diagnostics if each.code != "unknown-component"]
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise document.error([*diagnostics, *document.notices])
    notices = in_order([*document.notices, *diagnostics], document.sources.texts)
    document = with_absolute_paths(document, schema)
    return replace(document, notices=notices, problems=(), schema=schema)


def read_early(document: Document) -> Early:
    """Validate ``plugins`` and ``homes`` separately: they decide which components the rest is checked against.

    Raises:
        ConfigError: something is wrong in these two.
    """
    from zeus_runtime.config.model import Config, Plugins
    from zeus_runtime.config.schema.construct import build
    from zeus_runtime.config.schema.forms import fields

    part = {key: node for key, node in document.root.value.items() if key in _EARLY}
    if not part:
        return Early(Plugins(), ())
    annotations = {field.key: field.annotation for field in fields(Config) if field.key in _EARLY}
    schema = {"type": "object", "properties": {key: schema_of(hint) for key, hint in annotations.items()}}
    document = prepared(replace(document, root=document.root._replace(value=part), replaced=()), schema)
    problems = [problem for problem in document.problems if problem.path and problem.path[0] in _EARLY]
    problems += _violations(document, schema, document.value)
    problems += _impossible_paths(document, schema)
    if problems:
        raise document.error(problems)
    value = plain(_resolved(document, document.root, schema))
    plugins: Plugins = build(Plugins, value.get("plugins", {}))
    return Early(plugins, tuple(value.get("homes", ())))


def _violations(document: Document, schema: Mapping[str, Any], value: Any) -> list[Diagnostic]:
    if fits(schema, value):
        return []
    from zeus_runtime.config.messages.schema_errors import problems

    # The unset variable itself is reported. A guess at the form of a value that holds one may be wrong, too.
    unset = (problem.path for problem in document.problems)
    holes = [path for path in dict.fromkeys(unset) if find(document.root, path)]
    return [
        document.diagnostic(
            problem.path,
            problem.code,
            problem.message,
            at="key" if problem.at_key else "value",
            hint=problem.hint,
        )
        for problem in problems(schema, value)
        if not any(
            hole == problem.path or (problem.is_guess and hole[: len(problem.path)] == problem.path)
            for hole in holes
        )
    ]


def prepared(document: Document, schema: Mapping[str, Any]) -> Document:
    """The document with texts from variables converted where they must be, and with the secrets the schema names."""
    secrets: list[tuple[str, str]] = []

    def prepare(node: Node, places: list[Schema], path: Path, *, secret: bool = False) -> Node:
        value = node.value
        secret = secret or any(place.get("writeOnly") is True for place in places)
        if isinstance(value, dict):
            entries = {
                key: prepare(child, at(places, key, schema), (*path, key), secret=secret)
                for key, child in value.items()
            }
            return node._replace(value=entries)
        if isinstance(value, list):
            items = [
                prepare(child, at(places, index, schema), (*path, index), secret=secret)
                for index, child in enumerate(value)
            ]
            return node._replace(value=items)
        # As secrets, `true` and `null` would mask every such word.
        if secret and value is not None and not isinstance(value, bool):
            secrets.append((str(value), show_path(path)))
        return _converted(node, types(places)) if node.interpolated else node

    places = branches(schema, schema)
    root = prepare(document.root, places, ())
    # Only for its secrets: a tool may read the file that still has the replaced value.
    for each in document.replaced:
        prepare(each, places, ())
    shown = told_apart(secrets)
    # A dict keeps the last name of a text: reversed, a secret at two places has the name of the first.
    return hiding(replace(document, root=root), {text: shown[text, name] for text, name in reversed(secrets)})


def hiding(document: Document, secrets: Mapping[str, str]) -> Document:
    """The document with further secrets known."""
    redactor = document.redactor.adding(secrets)
    if redactor is document.redactor:
        return document
    problems = tuple(_redacted(problem, redactor) for problem in document.problems)
    sources = Sources(document.sources.texts, redactor, document.sources.headers)
    return replace(document, root=hidden(document.root, redactor), sources=sources, problems=problems)


def _redacted(problem: Diagnostic, redactor: Callable[[str], str]) -> Diagnostic:
    line = problem.source_line
    return replace(
        problem, message=redactor(problem.message), source_line=None if line is None else redactor(line)
    )


def _converted(node: Node, allowed: frozenset[str]) -> Node:
    # A name of digits stays a text where the schema takes texts; `${PORT}` becomes a number where it does not.
    if not isinstance(node.value, str) or not allowed or "string" in allowed:
        return node
    try:
        value = resolve(node.value.strip())
    except NotJsonError:
        return node
    name = type_name(value)
    if name in allowed or (name == "integer" and "number" in allowed):
        return node._replace(value=value)
    return node


def with_absolute_paths(document: Document, schema: Mapping[str, Any]) -> Document:
    """The document with its paths as ``check`` makes them."""
    return replace(document, root=_resolved(document, document.root, schema))


def _resolved(document: Document, root: Node, schema: Mapping[str, Any]) -> Node:
    """A tree of the document with its FileRelative paths absolute, and the ``~`` of WorkRelative ones replaced."""

    def resolved(node: Node, places: list[Schema]) -> Node:
        value = node.value
        if isinstance(value, dict):
            entries = {key: resolved(child, at(places, key, schema)) for key, child in value.items()}
            return node._replace(value=entries)
        if isinstance(value, list):
            items = [resolved(child, at(places, index, schema)) for index, child in enumerate(value)]
            return node._replace(value=items)
        if not isinstance(value, str):
            return node
        is_placed = any(is_path(value, place) for place in places)
        path = str(_absolute(document, node)) if is_placed else from_home(value, places)
        if path == value:
            return node
        return node._replace(value=HiddenStr(path) if isinstance(value, HiddenStr) else path)

    return resolved(root, branches(schema, schema))


def _absolute(document: Document, node: Node) -> FilePath:
    return folder_of(node, document.folders, document.directory) / expanded(str(node.value))


def _impossible_paths(document: Document, schema: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A problem for each path that the system could never open: too long, a NUL, links in a circle, a closed
    link."""
    for path, node, places in walk_with(document.root, schema):
        if not isinstance(node.value, str):
            continue
        if any(is_path(node.value, place) for place in places):
            file = _absolute(document, node)
        elif is_at_work(places):
            file = document.directory / from_home(node.value, places)
        elif path != ("storage", "url") or (database := _database(document, node.value)) is None:
            continue
        else:
            file = database
        if (reason := _impossible(file)) is not None:
            from zeus_runtime.config.messages.schema_errors import shown_value

            shown = shown_value(node.value)
            yield document.diagnostic(
                path, "unreadable-file", f"{shown} cannot be a path here: {reason}", hint="correct the path"
            )


def _database(document: Document, url: str) -> FilePath | None:
    try:
        return database_file(url, document.directory)
    except MissingError:
        return None  # a URL that names no file is refused by the schema, or where it is opened


def _impossible(file: FilePath) -> str | None:
    try:
        file.stat()
    except ValueError:
        return "it holds a NUL character or half of a surrogate pair"
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return error.strerror
        # A file that is missing or closed may be there when a run opens it.
        closed = closed_link(file)
        return None if closed is None else f"this user may not read the link {closed}"
    return None


def _unknown_models(
    document: Document, schema: Mapping[str, Any], known_model: KnownModel
) -> Iterator[Diagnostic]:
    strict = document.get(("profiles", "strict")) is True
    own = document.get(("profiles", "models"), {})
    unfilled = {problem.path for problem in document.problems}
    for path, name in _model_names(document, schema):
        if path in unfilled or (isinstance(own, dict) and name in own):
            continue
        near = known_model(name)
        if near is None:
            continue
        tail = f"; did you mean {near[0]!r}?" if near else ""
        yield document.diagnostic(
            path,
            "unknown-model",
            f"no model {name!r} is known{tail}",
            hint="names are exact; say what it can do under profiles.models, or see `zeus models list`",
            severity="error" if strict else "warning",
        )


def _model_names(document: Document, schema: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The places where a model's name is written: plain Refs, and the option that a plain Ref stands for."""
    for path, node, places in walk_with(document.root, schema):
        plains = [tuple(place[PLAIN]) for place in places if place.get(REF) == "model" and place.get(PLAIN)]
        if not plains:
            continue
        component, option = plains[0]
        if isinstance(node.value, str) and node.value:
            yield path, node.value
        elif node.is_map:
            inner = (*path, component, option)
            named, found = nearest(document.root, inner)
            if found == inner and isinstance(named.value, str) and named.value:
                yield inner, named.value
