"""The keys of the environment that a component sends where its options hold none."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

from zeus_runtime.config.schema.types import PLAIN, REF
from zeus_runtime.config.schema.walk import at, branches
from zeus_runtime.config.yaml.tree import find, plain
from zeus_runtime.disk_paths import home_folders, is_file
from zeus_runtime.plan.part_sources import PartSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeus_runtime.config import Document
    from zeus_runtime.config.yaml.tree import Path as ConfigPath
    from zeus_runtime.plan.part_sources import FileSource
    from zeus_runtime.registry import Kind, Registry


def default_keys(ground: FileSource, path: ConfigPath, address: str) -> tuple[str, ...]:
    """The variables of the environment whose keys go to the machine that the option at ``path`` names.

    The component's ``Options`` tell them by their method ``default_keys``. A variable of the project's ``.env`` is none
    of the user's, and one that is not set sends nothing.
    """
    if address.startswith("postgres"):
        return () if _PASSWORD.match(address) else tuple(_of_postgres(address))
    if not isinstance(ground, PartSource):
        return ()
    return set_keys(ground.document, ground.registry, path, ground.trust.environ)


_PASSWORD: Final = re.compile(r"\w+(\+\w+)?://[^/@]*:[^/@]+@")
"""The beginning of an address with a password in its login."""


def _of_postgres(address: str) -> Iterator[str]:
    """What PostgreSQL's library looks for a password in, for an address without one.

    The lines of a password file are not compared with the address: the library knows more of it than is written there.
    """
    options, environ = parse_qs(address.partition("?")[2]), os.environ
    if "service" in options:
        yield "account in pg_service.conf"
    elif environ.get("PGSERVICE"):
        yield "PGSERVICE"
    if environ.get("PGPASSWORD"):
        yield "PGPASSWORD"
    elif "passfile" in options:
        yield "password file"
    elif file := environ.get("PGPASSFILE"):
        if is_file(Path(file)):
            yield "PGPASSFILE"
    elif any(is_file(home / ".pgpass") for home in home_folders(environ)):
        yield "password file ~/.pgpass"


def set_keys(
    document: Document, registry: Registry, path: ConfigPath, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The variables, of those that are set, from which the component of an option at ``path`` takes keys by itself."""
    named = _component(document, path)
    taken = () if named is None else _taken(registry, named)
    # A library reads the process's own environment, even where a program gives Zeus another one.
    # With a blank it is no variable, but an account in files of the user's, which are not looked at.
    return tuple(
        name for name in dict.fromkeys(taken) if " " in name or environ.get(name) or os.environ.get(name)
    )


class _Component(NamedTuple):
    """A component that a config names, with its place and its options as they are written."""

    kind: Kind
    name: str
    path: ConfigPath
    options: Mapping[str, Any]


def _component(document: Document, path: ConfigPath) -> _Component | None:
    """The innermost component that has the option at ``path``."""
    assert document.schema is not None, "a document that was checked has its schema"
    found = None
    places = branches(document.schema, document.schema)
    for length in range(len(path) + 1):
        node = find(document.root, path[:length])
        value = None if node is None else plain(node)
        kinds = [place for place in places if REF in place]
        if kinds and isinstance(value, dict) and length < len(path):
            options = value.get(path[length])
            found = _Component(
                kinds[0][REF], str(path[length]), path[:length], options if isinstance(options, dict) else {}
            )
        elif kinds and isinstance(value, str) and PLAIN in kinds[0]:
            name, option = kinds[0][PLAIN]
            found = _Component(kinds[0][REF], name, path[:length], {option: value})
        if length < len(path):
            places = at(places, path[length], document.schema)
    return found


def _taken(registry: Registry, named: _Component) -> tuple[str, ...]:
    from zeus_runtime.config.schema.construct import BuildError, build
    from zeus_runtime.errors import MissingError
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.registry import load_options

    try:
        registered = registry.get(named.kind, named.name)
    except MissingError:  # of a plugin file that is not trusted yet: its component asks for itself later
        return ()
    options_type = load_options(registered)
    if not hasattr(options_type, "default_keys"):
        return ()
    try:
        options: Any = build(options_type, dict(named.options))
    except BuildError:  # the planner reports it
        return ()
    component = PlannedComponent(named.kind, named.name, named.path, {}, registered.plugin, registered)
    with component.blamed("default_keys"):
        return tuple(map(str, options.default_keys()))
