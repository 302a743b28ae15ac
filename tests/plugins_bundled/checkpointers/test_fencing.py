"""What a process that lost its session writes late leaves no checkpoint behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from sqlalchemy import make_url

from tests.store.test_fencing import claimed_in_time, lose_claims
from tests.support.agents import PositionModel, call, calling, play, write_agent
from tests.support.databases import execute, storage
from tests.support.least_rights import as_agent
from tests.support.logs import log_of
from zeus_runtime import Agent, MissingError
from zeus_runtime.events import RunFailed
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.store.session_lock import EPOCH, LogConflictError

SESSION = "session_1"
TABLES = {
    "sqlite": ("checkpoint", "checkpoint_write"),
    "postgres": ("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
}


@asynccontextmanager
async def saver_of(
    url: str, folder: Path, *, beside_log: bool = True
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """The saver that has its checkpoints in the log's database."""
    saver: Any
    if url.startswith("sqlite"):
        from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver

        saver = SqliteSaver(folder / ".zeus/zeus.db", beside_log=beside_log)
    else:
        from zeus_plugins.checkpointers.postgres.saver import PostgresSaver

        saver = PostgresSaver(url, beside_log=beside_log)
        await saver.setup()
    try:
        yield saver
    finally:
        await saver.aclose()


def run_sql(url: str, folder: Path, *statements: str) -> list[Any]:
    """What another process does with the database; the last statement's rows."""
    if not url.startswith("sqlite"):
        return execute(url, *statements)
    with sqlite3.connect(folder / ".zeus/zeus.db") as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        found: list[Any] = []
        for each in statements:
            found = connection.execute(each).fetchall()
        return found


def rows(url: str, folder: Path) -> int:
    """How many rows of checkpoints there are, of whatever kind."""
    tables = TABLES["sqlite" if url.startswith("sqlite") else "postgres"]
    return sum(int(run_sql(url, folder, f"SELECT count(*) FROM {table}")[0][0]) for table in tables)


async def write_all(saver: BaseCheckpointSaver[Any], epoch: int | None) -> list[str]:
    """Try every kind of write in an epoch; what became of each."""
    place: Any = {"configurable": {"thread_id": SESSION, "checkpoint_ns": "", EPOCH: epoch}}
    # The list stands in a table of its own on PostgreSQL, what is one number stands in the checkpoint.
    values = {"channel_values": {"cursor": 1, "list": [1, 2]}, "channel_versions": {"list": "1"}}
    checkpoint: Any = {**empty_checkpoint(), "id": "1", **values}
    there: Any = {"configurable": {**place["configurable"], "checkpoint_id": checkpoint["id"]}}
    said = []
    for work in (
        saver.aput(place, checkpoint, CheckpointMetadata(), {"list": "1"}),
        saver.aput_writes(there, [("cursor", 2), ("tasks", ["x"])], "task"),
        saver.aput_writes(there, [("__error__", "broken")], "task"),
    ):
        try:
            await work
            said.append("written")
        except LogConflictError as error:
            said.append("refused" if "has taken the session" in error.message else error.message)
    return said


async def test_a_checkpoint_is_written_in_the_epoch_of_its_claim_or_not_at_all(
    tmp_path: Path, database_url: str
) -> None:
    async with log_of(database_url, tmp_path) as (database, log), saver_of(database_url, tmp_path) as saver:
        thread = await log.open(SESSION, agent="a")
        give_back = await database.claim(SESSION)
        await log.append(thread, 1, "a.1", "{}")
        epoch = database.epoch(SESSION)
        assert await write_all(saver, epoch) == ["written"] * 3
        assert await write_all(saver, epoch) == ["written"] * 3, "what is there already is not a conflict"
        found = await saver.aget_tuple({"configurable": {"thread_id": SESSION, "checkpoint_ns": ""}})
        assert found is not None
        assert found.checkpoint["channel_values"] == {"cursor": 1, "list": [1, 2]}
        assert [each[1:] for each in found.pending_writes or ()] == [
            ("__error__", "broken"),
            ("cursor", 2),
            ("tasks", ["x"]),
        ]
        give_back()
        await database.claim(SESSION)
        await log.append(thread, 2, "b.2", "{}")
        await saver.adelete_thread(SESSION)
        assert await write_all(saver, epoch) == ["refused"] * 3
        assert rows(database_url, tmp_path) == 0
        assert await write_all(saver, database.epoch(SESSION)) == ["written"] * 3


async def test_without_a_claim_or_away_from_the_log_nothing_is_refused(
    tmp_path: Path, database_url: str
) -> None:
    async with log_of(database_url, tmp_path):
        async with saver_of(database_url, tmp_path) as saver:
            assert await write_all(saver, None) == ["written"] * 3
        async with saver_of(database_url, tmp_path, beside_log=False) as elsewhere:
            assert await write_all(elsewhere, 7) == ["written"] * 3


HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.plugins_bundled.checkpointers.test_fencing import SESSION, saver_of, write_all
from tests.support.logs import log_of

async def main(url):
    async with log_of(url, Path.cwd()) as (database, log), saver_of(url, Path.cwd()) as saver:
        thread = await log.open(SESSION, agent="a")
        give_back = await database.claim(SESSION)
        await log.append(thread, 1, "a.1", "{}")
        print(*await write_all(saver, database.epoch(SESSION)), flush=True)
        sys.stdin.readline()
        print(*await write_all(saver, database.epoch(SESSION)), flush=True)
        give_back()

asyncio.run(main(sys.argv[1]))
"""


def test_a_stopped_process_that_lost_its_session_writes_no_checkpoint_when_it_wakes(
    tmp_path: Path, database_url: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database_url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "written written written\n"
        holder.send_signal(signal.SIGSTOP)
        try:
            lose_claims(database_url, tmp_path)
            asyncio.run(take_over(database_url, tmp_path, holder))
        finally:
            holder.send_signal(signal.SIGCONT)
            holder.kill()


async def take_over(url: str, folder: Path, holder: subprocess.Popen[str]) -> None:
    async with log_of(url, folder) as (database, log), saver_of(url, folder) as saver:
        give_back = await claimed_in_time(database)
        await log.append(await log.find(SESSION), 2, "b.2", "{}")
        await saver.adelete_thread(SESSION)
        holder.send_signal(signal.SIGCONT)
        assert holder.communicate("go on\n", timeout=60)[0] == "refused refused refused\n"
        assert rows(url, folder) == 0
        give_back()


async def test_a_run_whose_session_is_deleted_elsewhere_leaves_no_row_behind(
    tmp_path: Path, database_url: str
) -> None:
    tables = [*TABLES["sqlite" if database_url.startswith("sqlite") else "postgres"], "thread"]

    def answer(request: ModelRequest) -> AIMessage | str:
        if len(request.messages) < 3:
            return "The first run stores a checkpoint."
        assert rows(database_url, tmp_path) > 0, "the run before was kept"
        run_sql(database_url, tmp_path, *(f"DELETE FROM {table}" for table in tables))
        return calling(call("echo", "c1", text="x"))

    config = write_agent(tmp_path, storage(database_url))
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        session = (await agent.run("begin")).session
        ending = (await play(agent, "go", session))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "session_conflict"
    assert rows(database_url, tmp_path) == 0


def spelled(url: str, how: str) -> str:
    """The URL of the same database, or of another one, as a config may have it."""
    parsed = make_url(url)
    if how == "by its driver":
        parsed = parsed.set(drivername="postgresql+psycopg")
    elif how == "by another name of its host":
        if parsed.host is not None:
            pytest.skip("of a server on the network no other name is known")
        parsed = parsed.update_query_dict({"host": f"{parsed.query['host']}/."})
    elif how == "with options":
        parsed = parsed.update_query_dict({"application_name": "checkpoints"})
    elif how == "with other limits":
        parsed = parsed.update_query_dict({"options": "none"})
    elif how == "in another schema":
        parsed = parsed.update_query_dict({"options": "-c search_path=elsewhere"})
    elif how == "the server's own":
        parsed = parsed.set(database="postgres")
    return parsed.render_as_string(hide_password=False)


async def what_is_written_late(folder: Path, url: str, checkpoints: str) -> list[str]:
    """What becomes of checkpoints in a session's former epoch, with a checkpointer of that URL."""
    config = write_agent(
        folder, f"storage: {{url: '{url}'}}\ncheckpointer: {{postgres: {{url: '{checkpoints}'}}}}"
    )
    plan = make_plan(check(config, directory=folder, environ=os.environ))
    async with log_of(url, folder) as (database, log), plan.checkpointer.create(plan.context) as saver:
        thread = await log.open(SESSION, agent="a")
        give_back = await database.claim(SESSION)
        await log.append(thread, 1, "a.1", "{}")
        epoch = database.epoch(SESSION)
        assert await write_all(saver, epoch) == ["written"] * 3
        give_back()
        give_back = await database.claim(SESSION)
        await log.append(thread, 2, "b.2", "{}")
        await saver.adelete_thread(SESSION)
        try:
            return await write_all(saver, epoch)
        finally:
            await saver.adelete_thread(SESSION)
            give_back()


@pytest.mark.parametrize(
    "how", ["by its driver", "by another name of its host", "with options", "with other limits"]
)
async def test_the_logs_own_database_is_known_however_its_url_is_written(
    tmp_path: Path, postgres_url: str, how: str
) -> None:
    other = spelled(postgres_url, how)
    assert other != postgres_url
    assert await what_is_written_late(tmp_path, postgres_url, other) == ["refused"] * 3


@pytest.mark.parametrize("how", ["in another schema", "the server's own"])
async def test_another_database_is_not_taken_for_the_logs(
    tmp_path: Path, postgres_url: str, how: str
) -> None:
    execute(postgres_url, "CREATE SCHEMA elsewhere")
    other = spelled(postgres_url, how)
    assert await what_is_written_late(tmp_path, postgres_url, other) == ["written"] * 3


async def test_a_role_that_may_not_lock_the_logs_rows_keeps_checkpoints_all_the_same(
    tmp_path: Path, postgres_url: str
) -> None:
    async with log_of(postgres_url, tmp_path), saver_of(postgres_url, tmp_path):
        with as_agent(postgres_url) as other:
            role = make_url(other).username
            execute(postgres_url, f"REVOKE ALL ON thread FROM {role}")
            assert await what_is_written_late(tmp_path, postgres_url, other) == ["written"] * 3
            execute(postgres_url, f"GRANT SELECT, UPDATE ON thread TO {role}", "DELETE FROM thread")
            assert await what_is_written_late(tmp_path, postgres_url, other) == ["refused"] * 3


async def test_checkpoints_whose_database_cannot_be_reached_are_no_riddle(
    tmp_path: Path, postgres_url: str
) -> None:
    other = "postgresql://ann:secret-word@127.0.0.1:1/nowhere"
    with pytest.raises(MissingError, match="cannot be reached") as told:
        await what_is_written_late(tmp_path, postgres_url, other)
    assert "secret-word" not in str(told.value)
