"""What an agent asks of the machine when it is made, asked once in a process of tests, which makes thousands of them.

Which plugins are installed, what the bundled ones register, the committed schema, the tables of models and of word
vectors, the tokens of the prompt's texts, whether a tool's schema is sound, and the statements that make a database's
tables are the same each time, and were a quarter of the time of such a test. A search path that a test changes is
searched again, a changed import system asked again; so is every plugin of a test's own; a process that a test starts
asks all of it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from threading import Lock
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from sqlalchemy import Connection, event
from zeus_plugins.embeddings.static import table as vectors

from zeus_runtime.config.layers import loading
from zeus_runtime.config.schema import annotations, composed
from zeus_runtime.config.secrets import masking
from zeus_runtime.context.tokens import choice, counter
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.models import profile_tables, profiles, suggestions
from zeus_runtime.models.profile_tables import Row, Table, litellm_table
from zeus_runtime.plan import validated as checked
from zeus_runtime.registry import discovery
from zeus_runtime.registry import schema as installed
from zeus_runtime.registry.contribution import Contribution, contribution
from zeus_runtime.registry.installed import installed_plugins
from zeus_runtime.registry.plugin import Plugin
from zeus_runtime.store import schema
from zeus_runtime.store.compiled_statements import sqlite_driver
from zeus_runtime.store.database import Database

if TYPE_CHECKING:
    from pluggy import PluginManager

    from zeus_runtime.config.schema.composed import Described
    from zeus_runtime.plugin.model import ToolSchema
    from zeus_runtime.registry.component import Kind

CATALOGUE = "zeus_plugins.catalogue"


def ask_once() -> None:
    """Let this process remember for as long as it lives."""
    on_path = cache(lambda *_search_path: installed_plugins())
    at_first = frozenset(sys.path)
    discovery.installed_plugins = lambda: on_path(*_search_path(at_first))  # type: ignore[attr-defined]
    bundled = cache(lambda plugin, module: contribution(discovery._manager(), plugin, module))

    def remembered(manager: PluginManager, plugin: Plugin, module: object) -> Contribution:
        if _is_bundled(module):
            found: Contribution = bundled(plugin, module)
            return found
        return contribution(manager, plugin, module)

    discovery.contribution = remembered  # type: ignore[attr-defined]
    discovery._load = _loaded_once(discovery._load)
    loading.secrets_in = masking.secrets_in = _found_once(masking.secrets_in)  # type: ignore[attr-defined]
    table = cache(lambda _find_spec: _rows_once(litellm_table()))
    checked.litellm_table = profiles.litellm_table = lambda: table(importlib.util.find_spec)  # type: ignore[attr-defined]
    suggestions.suggestions = _suggested_once(suggestions.suggestions)
    profile_tables.read_profiles = _read_once(profile_tables.read_profiles)
    vectors.read_table = cache(vectors.read_table)
    choice.exact = _counted_once()  # type: ignore[attr-defined]
    counter.tools_terms = _measured_once(counter.tools_terms)  # type: ignore[attr-defined]
    annotations.schema_of_function = _described_once(annotations.schema_of_function)
    composed.core_schema = cache(composed.core_schema)
    loading.ref_places = cache(loading.ref_places)  # type: ignore[attr-defined]
    composed.compose = _composed_once(composed.compose)
    _read_schema_once()
    _check_schema_once()
    schema._create = _made_alike()
    schema.ready = _copied(schema.ready)


def _loaded_once(load: Callable[..., Contribution]) -> Callable[..., Contribution]:
    """A bundled plugin's contribution, as long as its place in the catalogue has the same object."""
    kept: dict[tuple[object, ...], tuple[object, Contribution]] = {}
    steps = cache(lambda source: attrgetter(source.removeprefix(f"{CATALOGUE}:")))

    def loaded(manager: PluginManager, plugin: Plugin, codes: Mapping[str, bytes]) -> Contribution:
        if not plugin.source.startswith(f"{CATALOGUE}:"):
            return load(manager, plugin, codes)
        try:
            there = steps(plugin.source)(sys.modules.get(CATALOGUE))
        except AttributeError:
            return load(manager, plugin, codes)
        key = tuple(vars(plugin).values())  # a plugin itself is compared field by field
        known = kept.get(key)
        if known is None or known[0] is not there:
            known = kept[key] = there, load(manager, plugin, codes)
        return known[1]

    return loaded


def _found_once(find: Callable[[str, str], Iterator[str]]) -> Callable[[str, str], Sequence[str]]:
    """The secrets in variables, most of which each agent has as the one before."""
    return lru_cache(5_000)(lambda name, value: tuple(find(name, value)))


def _rows_once(table: Table) -> Table:
    """The table, which finds a row in its text once."""
    table.get = cache(table.get)  # type: ignore[method-assign]
    return table


def _suggested_once(
    suggest: Callable[[str, Mapping[str, str], int], tuple[str, ...]],
) -> Callable[..., tuple[str, ...]]:
    """Suggestions for the latest names; those of a few thousand known models are compared with each."""
    kept = lru_cache(200)(lambda name, providers, count: suggest(name, dict(providers), count))
    return lambda name, providers, count=3: kept(name, tuple(providers.items()), count)


def _read_once(read: Callable[[Path], Mapping[str, Row]]) -> Callable[[Path], Mapping[str, Row]]:
    """A file's rows, read again if it changes."""
    kept = lru_cache(200)(lambda path, _changed, _size: read(path))
    return lambda path: kept(path, (stat := path.stat()).st_mtime_ns, stat.st_size)


def _is_bundled(module: object) -> bool:
    name = module.__name__ if isinstance(module, ModuleType) else type(module).__module__
    return name.startswith("zeus_plugins.")


def _composed_once(
    compose: Callable[[Mapping[str, Any], Iterable[Described]], dict[str, Any]],
) -> Callable[[Mapping[str, Any], Iterable[Described]], dict[str, Any]]:
    """The schema of the same components. Options of bundled ones are the same object each time."""
    said: dict[int, tuple[object, str]] = {}
    kept: dict[object, dict[str, Any]] = {}

    def text(value: object) -> str:
        # The value is kept with its text, or another one could get the same identity.
        return (said.get(id(value)) or said.setdefault(id(value), (value, repr(value))))[1]

    def remembered(core: Mapping[str, Any], components: Iterable[Described]) -> dict[str, Any]:
        listed = list(components)
        key = (
            text(core),
            *(
                (each.kind, each.name, each.summary, tuple(each.aliases), text(each.options_schema))
                for each in listed
            ),
        )
        return kept.get(key) or kept.setdefault(key, compose(core, listed))

    return remembered


def _read_schema_once() -> None:
    """The committed schema and the bundled components' options in it, read again if the file changes."""
    read, options = installed.read_schema, installed.shipped_options
    kept: dict[tuple[Path, int], Mapping[str, Any]] = {}

    def read_once(path: Path) -> Mapping[str, Any]:
        if not path.exists():
            return read(path)
        key = (path, path.stat().st_mtime_ns)
        return kept.get(key) or kept.setdefault(key, read(path))

    # Only the committed schema has the identity that is asked for: it is kept as long as its parts.
    parts = cache(lambda at, kind, name: options(next(s for s in kept.values() if id(s) == at), kind, name))

    def options_once(shipped: Mapping[str, Any], kind: Kind, name: str) -> dict[str, Any]:
        is_kept = any(each is shipped for each in kept.values())
        found: dict[str, Any] = parts(id(shipped), kind, name) if is_kept else options(shipped, kind, name)
        return found

    installed.read_schema, installed.shipped_options = read_once, options_once


def _check_schema_once() -> None:
    """A sound schema of a tool's parameters is checked once: each agent defines its tools anew."""
    check = Draft202012Validator.check_schema
    sound: set[str] = set()

    def checked(given: Any, *rest: Any, **more: Any) -> None:
        text = repr((given, rest, more))
        if text not in sound:
            check(given, *rest, **more)
            sound.add(text)

    Draft202012Validator.check_schema = staticmethod(checked)  # type: ignore[assignment]


def _search_path(at_first: Set[str]) -> tuple[object, ...]:
    """What decides which plugins are installed: the folders, what is in those that came later, other finders."""
    own = [_distributions(folder) for folder in sys.path if folder not in at_first]
    return (*sys.path, *own, *map(id, sys.meta_path))


def _distributions(folder: str) -> tuple[tuple[str, int, int], ...]:
    """What the distributions in a folder say of their plugins, as far as a look at the files tells."""
    said = sorted(Path(folder).glob("*.dist-info/entry_points.txt"))
    return tuple((str(each), (stat := each.stat()).st_mtime_ns, stat.st_size) for each in said)


def _counted_once() -> Callable[[str], Callable[[str], int]]:
    """``exact``, whose counts of the latest texts are kept: prompts and tools are those of the agent before."""
    kept = cache(lambda encoding: lru_cache(2_000)(exact(encoding)))

    def counted(encoding: str) -> Callable[[str], int]:
        exact(encoding)  # raises if there is no such encoding now
        return kept(encoding)

    return counted


def _described_once(
    describe: Callable[..., tuple[str, dict[str, Any]]],
) -> Callable[..., tuple[str, dict[str, Any]]]:
    """The schema of a bundled tool, of which each agent defines the function anew."""
    kept: dict[object, tuple[str, dict[str, Any]]] = {}

    def described(function: Any, skip: Sequence[str] = ("run",)) -> tuple[str, dict[str, Any]]:
        if not isinstance(function, FunctionType) or not function.__module__.startswith("zeus_plugins."):
            return describe(function, skip)
        written = (function.__annotations__, function.__defaults__, function.__kwdefaults__)
        key = (function.__code__, function.__name__, function.__doc__, repr(written), tuple(skip))
        return kept.get(key) or kept.setdefault(key, describe(function, skip))

    return described


def _measured_once(
    measure: Callable[[Sequence[ToolSchema], Callable[[str], int], str], Mapping[str, float]],
) -> Callable[..., Mapping[str, float]]:
    """The terms of the latest lists of tools: those of one agent after the other are the same."""
    tools: list[Sequence[ToolSchema]] = []
    kept = lru_cache(2_000)(lambda _texts, count, notation: measure(tools[-1], count, notation))

    def measured(
        schemas: Sequence[ToolSchema], count: Callable[[str], int], notation: str
    ) -> Mapping[str, float]:
        tools[:] = [schemas]
        texts = tuple(json.dumps([each.name, each.description, each.parameters]) for each in schemas)
        found: Mapping[str, float] = kept(texts, count, notation)
        return found

    return measured


_MARKS = ("user_version", "application_id")


def _copied(ready: Callable[[Database], Awaitable[None]]) -> Callable[[Database], Awaitable[None]]:
    """``schema.ready``, which copies the tables into an empty SQLite file: a quarter of the time of making them."""
    copying, head, made = Lock(), schema.HEAD, cache(_with_tables)

    def copy(connection: Connection) -> None:
        raw = sqlite_driver(connection)
        # The files of one process are copied one at a time, or a copy would fall on rows that another agent wrote.
        with copying:
            if raw is not None and raw.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                # The mark that records a database as the user's (`trust/databases.py`) is its own.
                marks = [(mark, raw.execute(f"PRAGMA {mark}").fetchone()[0]) for mark in _MARKS]
                made().backup(raw)
                for mark, value in marks:
                    raw.execute(f"PRAGMA {mark}={value}")

    async def copied(database: Database) -> None:
        if database.file is not None and head == schema.HEAD:
            await database.outside(copy)
        await ready(database)

    return copied


def _with_tables() -> sqlite3.Connection:
    """A database in memory with the tables of a new one, and its settings."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database("sqlite:///made.db", directory=Path(folder), is_scratch=True)
        connection = sqlite3.connect(":memory:", check_same_thread=False)

        async def make() -> None:
            await database.run(lambda each: schema._create(each))
            await database.outside(lambda each: sqlite_driver(each).backup(connection))  # type: ignore[union-attr]
            await database.close()

        # Its own thread, because the caller's may have a running loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, make()).result()
    return connection


def _made_alike() -> Callable[[Connection], None]:
    """``schema._create``, whose statements are composed for a kind's first empty database and kept for the others."""
    create, head = schema._create, schema.HEAD
    kept: dict[str, list[tuple[str, Any]]] = {}

    def made(connection: Connection) -> None:
        kind = connection.dialect.name
        if head != schema.HEAD or not _is_empty(connection):
            create(connection)
        elif kind == "sqlite" and kind in kept:
            # SQLAlchemy would take as long as SQLite for each of the statements.
            cursor = connection.connection.cursor()
            for statement, parameters in kept[kind]:
                cursor.execute(statement, parameters or ())
            cursor.close()
        elif kind in kept:
            for statement, parameters in kept[kind]:
                connection.exec_driver_sql(statement, parameters)
        else:
            with _statements(connection) as said:
                create(connection)
            kept[kind] = _joined(said) if kind == "postgresql" else _changing(said)

    made.composing = create  # type: ignore[attr-defined]
    return made


def _joined(said: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Neighbours without parameters as one statement: a server takes half of the time for it."""
    made: list[tuple[str, Any]] = []
    for has_parameters, some in groupby(_changing(said), key=lambda each: bool(each[1])):
        if has_parameters:
            made.extend(some)
        else:
            made.append((";\n".join(statement for statement, _ in some), None))
    return made


def _changing(said: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [each for each in said if not each[0].startswith("SELECT")]


def _is_empty(connection: Connection) -> bool:
    is_sqlite = connection.dialect.name == "sqlite"
    tables = "sqlite_master" if is_sqlite else "pg_tables WHERE schemaname = current_schema()"
    return connection.exec_driver_sql(f"SELECT 1 FROM {tables} LIMIT 1").scalar() is None


@contextmanager
def _statements(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """What is executed meanwhile, with its parameters; without SQLite's settings, which are a connection's."""
    said: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if not statement.startswith("PRAGMA"):
            said.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    yield said
    event.remove(connection, "before_cursor_execute", note)
