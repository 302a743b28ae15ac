"""Several processes that open one new database at the same moment."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.databases import database_on
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog

STARTERS = 6
ROUNDS = 5


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_whoever_starts_together_on_a_new_database_finds_its_tables(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    failures: list[BaseException] = []

    def start(url: str, folder: Path, name: int, together: threading.Barrier) -> None:
        async def use() -> None:
            database = Database(url, directory=folder)
            try:
                log = ThreadLog(database)
                together.wait()
                await log.create_tables()
                thread = await log.open(f"session_{name}", agent="a")
                await log.append(thread, 1, "r.1", "{}")
            finally:
                await database.close()

        try:
            asyncio.run(use())
        except BaseException as error:  # noqa: BLE001 - carried out of the thread
            failures.append(error)

    async def sessions(url: str, folder: Path) -> set[str]:
        database = Database(url, directory=folder)
        try:
            return {each.session for each in await ThreadLog(database).sessions() if each.messages == 1}
        finally:
            await database.close()

    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        together = threading.Barrier(STARTERS)
        with database_on(server) if server else nullcontext("sqlite:///zeus.db") as url:
            threads = [
                threading.Thread(target=start, args=(url, folder, name, together)) for name in range(STARTERS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            assert asyncio.run(sessions(url, folder)) == {f"session_{name}" for name in range(STARTERS)}
