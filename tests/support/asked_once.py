"""What an agent asks of the machine when it is made, asked once in a process of tests, which makes thousands of them.

Which plugins are installed, what the bundled ones register, litellm's table, the tokens of the prompt's texts and the
statements that make a database's tables are the same each time, and were a quarter of the time of such a test. A
search path that a test changes is looked through anew, a changed import system asked anew; so is every plugin of a
test's own; a process that a test starts asks all of it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event

from zeus_runtime.context.tokens import choice
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.models import profiles
from zeus_runtime.models.profile_tables import litellm_table
from zeus_runtime.plan import validated as checked
from zeus_runtime.registry import discovery
from zeus_runtime.registry.contribution import Contribution, contribution
from zeus_runtime.registry.installed import installed_plugins
from zeus_runtime.registry.plugin import Plugin
from zeus_runtime.store import schema

if TYPE_CHECKING:
    from pluggy import PluginManager


def ask_once() -> None:
    """Let this process remember for as long as it lives."""
    on_path = cache(lambda *_search_path: installed_plugins())
    at_first = frozenset(sys.path)
    discovery.installed_plugins = lambda: on_path(*_search_path(at_first))  # type: ignore[attr-defined]
    bundled = cache(lambda plugin, module: contribution(discovery._manager(), plugin, module))

    def remembered(manager: PluginManager, plugin: Plugin, module: object) -> Contribution:
        if isinstance(module, ModuleType) and module.__name__.startswith("zeus_plugins."):
            found: Contribution = bundled(plugin, module)
            return found
        return contribution(manager, plugin, module)

    discovery.contribution = remembered  # type: ignore[attr-defined]
    table = cache(lambda _find_spec: litellm_table())
    checked.litellm_table = profiles.litellm_table = lambda: table(importlib.util.find_spec)  # type: ignore[attr-defined]
    choice.exact = _counted_once()  # type: ignore[attr-defined]
    schema._create = _made_alike()


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


def _made_alike() -> Callable[[Connection], None]:
    """``schema._create``, whose statements are composed for the first empty SQLite database and kept for the others."""
    create, head = schema._create, schema.HEAD
    kept: list[tuple[str, Any]] = []

    def made(connection: Connection) -> None:
        if connection.dialect.name != "sqlite" or head != schema.HEAD or not _is_empty(connection):
            create(connection)
        elif kept:
            for statement, parameters in kept:
                connection.exec_driver_sql(statement, parameters)
        else:
            with _statements(connection) as said:
                create(connection)
            kept.extend(each for each in said if not each[0].startswith("PRAGMA"))

    made.composing = create  # type: ignore[attr-defined]
    return made


def _is_empty(connection: Connection) -> bool:
    return connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").scalar() is None


@contextmanager
def _statements(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """What is executed meanwhile, with its parameters."""
    said: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        said.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    yield said
    event.remove(connection, "before_cursor_execute", note)
