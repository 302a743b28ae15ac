"""The second wall on PostgreSQL around sessions: what a role that owns nothing sees, whatever its query says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.serving.test_http_keys import bearer, made
from tests.support.agents import call, calling, script, write_agent
from tests.support.databases import execute, storage
from tests.support.least_rights import acting, as_agent, as_owner
from tests.support.serving import begun, service_of, serving, told, until
from zeus_runtime import Agent
from zeus_runtime.store import tables
from zeus_runtime.store.database import Database
from zeus_runtime.store.file_references import named_elsewhere
from zeus_runtime.store.row_security import SESSIONS
from zeus_runtime.store.schema import ready
from zeus_runtime.store.threads import Owner, acting_for

ASKING = "middlewares: [approve]\nretention: {max_sessions: 2, archive: false}\n"


class Served(NamedTuple):
    """A database in which ann and bob each have a finished turn and one that waits.

    Args:
        url: for the role that owns nothing.
        owner_url: for the tables' owner.
        sessions: by user.
        backtests: by user, each of the user's session.
    """

    url: str
    owner_url: str
    sessions: dict[str, str]
    backtests: dict[str, str]


def keys_of(connection: psycopg.Connection[Any], table: str) -> set[Any]:
    column = {"thread": "key", "backtest": "id"}.get(table, "thread")
    return {row[0] for row in connection.execute(f"SELECT {column} FROM {table} WHERE true OR 1 = 1")}  # type: ignore[arg-type]


@pytest.fixture
async def served(postgres_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    owner = Database(postgres_url, directory=tmp_path)
    await ready(owner)
    await owner.close()
    write_agent(tmp_path, storage(postgres_url) + ASKING)
    async with Agent.from_config(directory=tmp_path, model=script("Hello."), trust="all") as agent:
        await agent.connections()
    with as_agent(postgres_url) as url:
        write_agent(tmp_path, storage(url) + ASKING)
        keys = Database(url, directory=tmp_path)
        service = service_of(tmp_path, script("Hello.", calling(call("record", "a", text="x")), "Done."))
        service = replace(service, database=keys)
        sessions, backtests = {}, {}
        scopes = ("run", "approve", "read", "admin")
        async with serving(service) as client:
            for name in ("ann", "bob"):
                key = await made(keys, name, project="blue", role="editor", scopes=scopes)
                client.headers.update(bearer(key))
                session, run = await begun(client, f"first of {name}")
                await until(client, run, "complete")
                await begun(client, "second", session)
                sessions[name] = session
                async for _ in told_until_waiting(client, session):
                    break
                job = await client.post("/v1/backtests", json={"sessions": [session]})
                assert job.status_code == 202, job.text
                backtests[name] = job.json()["id"]
        yield Served(url, postgres_url, sessions, backtests)


async def told_until_waiting(client: Any, session: str) -> AsyncIterator[None]:
    runs = (await client.get(f"/v1/sessions/{session}/runs")).json()
    await until(client, runs[-1]["run"], "waiting")
    assert [each["type"] for each in await told(client, f"/v1/runs/{runs[0]['run']}/events")]
    yield


def test_every_table_of_a_session_is_behind_the_wall() -> None:
    # A service's keys and audit log are no user's; the rest has no content of a session.
    open_to_all = {"upkeep", "database_identity", "service_key", "audit_entry"}
    assert {each.name for each in tables.TABLES} - open_to_all == set(SESSIONS)


async def test_a_query_without_a_condition_gives_no_other_users_rows(served: Served) -> None:
    everything = {table: set() for table in SESSIONS if table != "allowlist"}
    with psycopg.connect(served.owner_url) as connection:
        everything = {table: keys_of(connection, table) for table in everything}
        own = dict(connection.execute("SELECT owner, key FROM thread").fetchall())
    filled = {
        "thread",
        "message",
        "context_step",
        "session_state_snapshot",
        "pending_approval",
        "run_event",
        "turn",
        "backtest_replay",
    }
    assert all(everything[table] == set(own.values()) for table in filled)
    assert everything["backtest"] == set(served.backtests.values())
    for user in ("ann", "bob"):
        with acting(served.url, user, "blue") as connection:
            for table in everything:
                mine = {own[user], served.backtests[user]}
                assert keys_of(connection, table) == everything[table] & mine, table
    for user, project in (("ann", ""), ("ann", "red"), ("", ""), ("", "blue"), ("eve", "blue")):
        with acting(served.url, user, project, "owner") as connection:
            for table in everything:
                assert keys_of(connection, table) == set(), (table, user, project)


async def test_a_query_without_a_condition_changes_and_deletes_no_other_users_rows(served: Served) -> None:
    with acting(served.url, "eve", "blue", "owner") as connection:
        for table in SESSIONS:
            assert connection.execute(f"DELETE FROM {table}").rowcount == 0, table  # type: ignore[arg-type]
        assert connection.execute("UPDATE thread SET owner = 'eve'").rowcount == 0
        assert connection.execute("UPDATE message SET payload = 'x'").rowcount == 0
        assert connection.execute("UPDATE turn SET state = 'cancelled'").rowcount == 0
        assert connection.execute("UPDATE backtest SET owner = 'eve'").rowcount == 0
        assert connection.execute("UPDATE backtest_replay SET outcome = NULL").rowcount == 0
    with acting(served.url, "ann", "blue") as connection:
        assert connection.execute("UPDATE message SET payload = 'x'").rowcount == len(
            connection.execute("SELECT FROM message").fetchall()
        )
        with pytest.raises(InsufficientPrivilege):
            connection.execute("UPDATE thread SET owner = 'bob'")
    with psycopg.connect(served.owner_url) as connection:
        ((bobs,),) = connection.execute("SELECT key FROM thread WHERE owner = 'bob'").fetchall()
    for statement in (
        f"INSERT INTO message VALUES ({bobs}, 99, 'x', 1, '{{}}')",
        "INSERT INTO turn (thread, run_id, number, state, request, created_ms)"
        f" VALUES ({bobs}, 'x', 9, 'queued', '{{}}', 1)",
        "INSERT INTO backtest (id, owner, created_ms, state, problem) VALUES ('b', 'bob', 1, 'complete', '')",
        "INSERT INTO backtest_replay (backtest, number, thread, policy)"
        f" VALUES ('{served.backtests['ann']}', 9, {bobs}, 'x')",
        "INSERT INTO allowlist VALUES ('bob', 'shell', '', 1)",
        "INSERT INTO thread (session, agent, created_ms, updated_ms, title, owner)"
        " VALUES ('s', 'a', 1, 1, '', 'bob')",
    ):
        with acting(served.url, "ann", "blue") as connection, pytest.raises(InsufficientPrivilege):
            connection.execute(statement)  # type: ignore[arg-type]


async def test_the_wall_holds_in_our_own_transactions_and_ends_with_each(
    served: Served, tmp_path: Path
) -> None:
    database = Database(served.url, directory=tmp_path, acting=acting_for(Owner("ann", "blue")))

    def seen(connection: Any) -> list[Any]:
        return list(connection.exec_driver_sql("SELECT owner FROM thread").scalars())

    assert await database.run(seen) == ["ann"]
    assert sorted(await database.for_everyone().run(seen)) == ["ann", "bob"]
    assert await database.run(seen) == ["ann"]
    # As soon as many sessions are live, the writer's transactions are for all of them.
    for number in range(10):
        await database.claim(f"s{number}")
    assert await database.append(seen) == ["ann"]
    # A file goes with its session unless another session, perhaps another user's, names it too.
    execute(served.owner_url, "INSERT INTO original_handle SELECT 'shared', key FROM thread")
    ((anns,),) = execute(served.owner_url, "SELECT key FROM thread WHERE owner = 'ann'")
    assert await database.run(lambda connection: named_elsewhere(connection, anns, ["shared"])) == {"shared"}
    assert await database.run(seen) == ["ann"]
    await database.close()
    nobody = Database(served.url, directory=tmp_path)
    assert await nobody.run(seen) == []
    await nobody.close()


async def test_the_command_line_and_a_retention_reach_every_users_sessions(
    served: Served, tmp_path: Path
) -> None:
    async with Agent.from_config(directory=tmp_path, model=script("Hello."), trust="all") as agent:
        found = {each.session for each in await agent.sessions()}
        assert found == set(served.sessions.values())
        assert len(await agent.pending_approvals()) == 2
        await agent.archive(served.sessions["bob"])
        await agent.restore(served.sessions["bob"])
        assert len(await agent.history(served.sessions["bob"])) == 4
    service = service_of(tmp_path, script("Hello."))
    ann = next(iter(service.hosting)).of(Owner("ann", "blue", "editor"))
    execute(served.owner_url, "UPDATE thread SET updated_ms = 1 WHERE owner = 'bob'", "DELETE FROM upkeep")
    await ann.run("third")
    left = execute(served.owner_url, "SELECT owner, session FROM thread ORDER BY owner, key")
    assert [owner for owner, _ in left] == ["ann", "ann"], "the retention keeps two sessions of the agent"
    checkpoints = f"SELECT count(*) FROM checkpoints WHERE thread_id = '{served.sessions['bob']}'"
    assert execute(served.owner_url, checkpoints) == [(0,)]
    await service.aclose()


async def test_an_owner_who_is_behind_the_wall_too_runs_and_deletes_sessions(
    postgres_url: str, tmp_path: Path
) -> None:
    documented = (Path(__file__).parents[2] / "docs" / "how-to" / "deployment.md").read_text("utf-8")
    force = "DO $$" + documented.partition("DO $$")[2].partition("```")[0]
    with as_owner(postgres_url) as url:
        write_agent(tmp_path, storage(url))
        async with Agent.from_config(directory=tmp_path, model=script("Hello."), trust="all") as agent:
            await agent.run("as the owner")
        execute(postgres_url, force)
        with acting(url) as connection:
            assert connection.execute("SELECT count(*) FROM thread").fetchone() == (0,)
        async with Agent.from_config(
            directory=tmp_path, model=script("Hello.", "Again."), trust="all"
        ) as agent:
            session = (await agent.run("behind the wall")).session
            await agent.run("again", session=session)
            await agent.delete_session(session)
            assert len(await agent.sessions()) == 1
        for table in ("thread", "message", "run_note"):
            counted = f"SELECT count(*) FROM {table} WHERE {'key' if table == 'thread' else 'thread'} > 1"
            assert execute(postgres_url, counted) == [(0,)]
