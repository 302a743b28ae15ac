"""A PostgreSQL server that is away, refuses, or goes in the middle: the run says so, stops, and goes on later."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from sqlalchemy import Connection, event, make_url, text
from sqlalchemy.exc import OperationalError

from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, script, write_agent
from tests.support.databases import LocalServer, execute, local_server, storage
from zeus_runtime import Agent
from zeus_runtime.errors import MissingError, RunError, ZeusError
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.store.database import Database
from zeus_runtime.store.postgres import Server, connection_arguments
from zeus_runtime.store.row_security import Acting, act
from zeus_runtime.store.thread_log import ThreadLog

PASSWORD = "hunter2:secret"
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'zeus' AND datname = current_database()"
)


def changed(url: str, **changes: str | int | None) -> str:
    return make_url(url).set(**changes).render_as_string(hide_password=False)  # type: ignore[arg-type]


def asking(url: str, **query: str) -> str:
    return make_url(url).update_query_dict(query).render_as_string(hide_password=False)


async def failure(url: str, folder: Path) -> ZeusError:
    """What an agent says that has its threads there."""
    async with Agent.from_config(
        write_agent(folder, storage(url)), directory=folder, model=script("x")
    ) as agent:
        with pytest.raises(ZeusError) as failed:
            await agent.run("go")
    assert "hunter2" not in str(failed.value)
    return failed.value


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("way", ["PGHOSTADDR", "PGSERVICE"])
def test_no_variable_leads_an_address_of_this_machine_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, way: str
) -> None:
    """Such an address needs no permission; 127.0.0.2 stands for another machine."""
    pytest.importorskip("psycopg")
    (tmp_path / "services").write_text("[far]\nhostaddr=127.0.0.2\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv(way, {"PGHOSTADDR": "127.0.0.2", "PGSERVICE": "far"}[way])
    with socket.create_server(("127.0.0.1", 0)) as here, ThreadPoolExecutor(1) as pool:
        here.settimeout(5)
        caller = pool.submit(lambda: here.accept()[0].close())
        url = f"postgresql://{host}:{here.getsockname()[1]}/zeus"
        with pytest.raises(OperationalError):
            Server(url, "it").connect()
        caller.result()


def test_a_variable_may_say_where_another_machine_is() -> None:
    pytest.importorskip("psycopg")
    assert "hostaddr" not in connection_arguments("postgresql://db.example/zeus")


async def test_a_server_that_cannot_be_used_is_named_with_cause_and_remedy(
    tmp_path: Path, postgres_url: str
) -> None:
    password = "hunter2%3Asecret"
    for url, message, remedy in (
        (f"postgresql://zeus:{password}@127.0.0.1:1/zeus", "cannot be reached: .*refused", "Start it"),
        (
            f"postgresql+psycopg://zeus:{password}@zeus.invalid/zeus",
            "cannot be reached",
            "correct host and port",
        ),
        ("postgresql://zeus:an@hunter2@127.0.0.1:1/zeus", "more than one @", "percent-encoded"),
        ("postgresql://zeus@/zeus?host=/no/such/folder", "cannot be reached: .*socket", "Start it"),
        (changed(postgres_url, database="no_such"), 'is not there: .*"no_such" does not exist', "createdb"),
        (changed(postgres_url, username="no_such"), "does not know the user", "create the role"),
        (asking(postgres_url, colour="blue"), "cannot be used: .*colour", "Correct storage.url"),
    ):
        error = await failure(url, tmp_path)
        assert isinstance(error, MissingError), (url, error)
        assert error.exit_code == 4
        assert error.message.startswith("the database '")
        with pytest.raises(MissingError, match=message):
            raise error
        assert remedy in (error.remedy or "")


async def test_a_driver_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = await failure("postgresql://zeus@127.0.0.1:1/zeus", tmp_path)
    assert error.exit_code == 4
    assert error.remedy == "Install its driver: pip install 'zeus-runtime[postgres]'"


async def test_a_read_only_server_and_missing_rights_are_named(tmp_path: Path, postgres_url: str) -> None:
    url = make_url(postgres_url)
    role = f"zeus_{secrets.token_hex(6)}"
    execute(postgres_url, f"ALTER DATABASE {url.database} SET default_transaction_read_only = on")
    error = await failure(postgres_url, tmp_path)
    assert (error.exit_code, "is read-only" in error.message) == (4, True)
    execute(
        postgres_url,
        "SET default_transaction_read_only = off",
        f"ALTER DATABASE {url.database} RESET default_transaction_read_only",
        f"CREATE ROLE {role} LOGIN",
    )
    try:
        error = await failure(changed(postgres_url, username=role), tmp_path)
        assert (error.exit_code, "does not permit this" in error.message) == (4, True)
        assert "docs/how-to/deployment.md" in (error.remedy or "")
    finally:
        execute(postgres_url, f"DROP ROLE {role}")


async def test_the_rights_that_the_documentation_lists_are_enough(tmp_path: Path, postgres_url: str) -> None:
    role = f"zeus_{secrets.token_hex(6)}"
    async with Agent.from_config(
        write_agent(tmp_path, storage(postgres_url)), directory=tmp_path, model=script("x")
    ) as agent:
        await agent.run("as the owner")
    documented = (Path(__file__).parents[2] / "docs" / "how-to" / "deployment.md").read_text("utf-8")
    grants = documented.partition("```sql\n")[2].partition("```")[0].replace("zeus_agent", role)
    *statements, rest = grants.replace("zeus_database", str(make_url(postgres_url).database)).split(";")
    assert not rest.strip(), "psql runs no statement without its semicolon"
    execute(postgres_url, *statements)
    try:
        url = changed(postgres_url, username=role)
        async with Agent.from_config(
            write_agent(tmp_path, storage(url)), directory=tmp_path, model=script("hello", "again")
        ) as agent:
            session = (await agent.run("go")).session
            await agent.run("on", session=session)
            await agent.delete_session(session)
    finally:
        execute(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def test_a_dropped_connection_is_opened_again_and_a_lost_transaction_begins_anew(
    tmp_path: Path, postgres_url: str
) -> None:
    database = Database(postgres_url, directory=tmp_path)
    tries: list[int] = []

    def work(connection: Connection) -> object:
        tries.append(len(tries))
        connection.execute(text("INSERT INTO note VALUES (:n)"), {"n": len(tries)})
        if len(tries) == 1:
            execute(postgres_url, CUT)
        return connection.execute(text("SELECT array_agg(n) FROM note")).scalar()

    try:
        await database.run(lambda connection: connection.execute(text("CREATE TABLE note (n int)")))
        execute(postgres_url, CUT)
        assert await database.run(work) == [2]
        assert tries == [0, 1]
    finally:
        await database.close()


async def test_a_transaction_lost_at_its_commit_is_not_repeated(tmp_path: Path, postgres_url: str) -> None:
    database = Database(postgres_url, directory=tmp_path)
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(1)
        connection.execute(text("INSERT INTO note VALUES (1)"))
        event.listen(connection, "commit", lambda _connection: execute(postgres_url, CUT))

    try:
        await database.run(lambda connection: connection.execute(text("CREATE TABLE note (n int)")))
        with pytest.raises(RunError, match="was lost"):
            await database.run(work)
        assert tries == [1]
    finally:
        await database.close()


_PREPARED = "SELECT count(*) FROM pg_prepared_statements"


async def settings_after_some_writes(url: str, folder: Path) -> tuple[object, ...]:
    """What a connection says of itself; at last, how many statements are prepared on it."""
    database = Database(url, directory=folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_1", agent="a")
        for seq in range(1, 20):
            await log.append(thread, seq, f"a.{seq}", "{}")

        def ask(connection: Connection) -> tuple[object, ...]:
            names = ("application_name", "statement_timeout", "lock_timeout")
            asked = (*(f"SHOW {name}" for name in names), _PREPARED)
            return tuple(connection.execute(text(each)).scalar() for each in asked)

        return await database.run(ask)
    finally:
        await database.close()


async def test_connections_say_whose_they_are_and_prepare_their_frequent_statements_only(
    tmp_path: Path, postgres_url: str
) -> None:
    *settings, prepared = await settings_after_some_writes(postgres_url, tmp_path)
    assert settings == ["zeus", "1min", "30s"]
    assert isinstance(prepared, int)
    assert 0 < prepared < 10


async def test_nothing_is_prepared_behind_a_pooler(tmp_path: Path, postgres_url: str) -> None:
    parts = make_url(postgres_url)
    key = b"K\0\0\0\x0c"  # and four bytes with the id of the server process, which a pooler invents

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, changes: bool) -> None:
        while data := await reader.read(65_536):
            if changes and (place := data.find(key)) >= 0:
                changes = False
                data = data[: place + 5] + b"\x12\x34\x56\x78" + data[place + 9 :]
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = f"{parts.query['host']}/.s.PGSQL.{parts.query.get('port', 5432)}"
        answers, server = await asyncio.open_unix_connection(place)
        await asyncio.gather(
            passed_on(reader, server, changes=False), passed_on(answers, writer, changes=True)
        )

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as pooler:
        port = pooler.sockets[0].getsockname()[1]
        url = changed(postgres_url, host="127.0.0.1", port=port)
        behind = (
            make_url(url).difference_update_query(["host", "port"]).update_query_dict({"sslmode": "disable"})
        )
        found = await settings_after_some_writes(behind.render_as_string(hide_password=False), tmp_path)
    assert found == ("zeus", "1min", "30s", 0)


async def test_a_pooler_that_hides_itself_ends_preparing_and_loses_no_transaction(
    tmp_path: Path, postgres_url: str
) -> None:
    database = Database(postgres_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        await log.append(thread, 1, "a.1", "{}")

        def forget(connection: Connection) -> object:
            # Behind psycopg's back, as the next server process of a pooler would.
            raw: Any = connection.connection.dbapi_connection
            raw.pgconn.exec_(b"DEALLOCATE ALL")
            return connection.execute(text(_PREPARED)).scalar()

        assert await database.run(forget) == 0
        for seq in range(2, 20):
            await log.append(thread, seq, f"a.{seq}", "{}")
        assert [each.seq for each in await log.read(thread)] == list(range(1, 20))
        assert await database.run(lambda connection: connection.execute(text(_PREPARED)).scalar()) == 0
    finally:
        await database.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[LocalServer]:
    """A server that a test may stop; it asks the role `locked` for a password."""
    server = local_server(f"own-{secrets.token_hex(6)}")
    execute(
        server.url, f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'", "CREATE DATABASE locked OWNER locked"
    )
    rules = server.folder / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    execute(server.url, "SELECT pg_reload_conf()")
    yield server
    server.end()


@pytest.mark.xdist_group("own_server")
async def test_a_wrong_password_is_named_and_never_shown(tmp_path: Path, own_server: LocalServer) -> None:
    url = make_url(own_server.url).set(username="locked", database="locked")
    error = await failure(changed(str(url), password="hunter2wrong"), tmp_path)
    assert (error.exit_code, "refuses the user" in error.message) == (4, True)
    assert "percent-encoded" in (error.remedy or "")
    right = url.set(password=PASSWORD).render_as_string(hide_password=False)
    async with Agent.from_config(
        write_agent(tmp_path, storage(right)), directory=tmp_path, model=script("hello")
    ) as agent:
        assert (await agent.run("go")).answer == "hello"


@pytest.mark.xdist_group("own_server")
@pytest.mark.parametrize("when", ["before the answer", "in a tool"])
async def test_a_run_that_loses_its_server_stops_and_goes_on_when_it_is_back(
    tmp_path: Path, own_server: LocalServer, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"zeus_{secrets.token_hex(4)}"
    execute(own_server.url, f"CREATE DATABASE {name}")
    url = make_url(own_server.url).set(database=name).render_as_string(hide_password=False)
    stopping = [True]

    def stop() -> None:
        if stopping:
            stopping.clear()
            own_server.stop()

    def answer(request: ModelRequest) -> AIMessage | str:
        step = sum(message.type == "ai" for message in request.messages)
        if step == 2 and when == "before the answer":
            stop()
        return "done" if step == 3 else calling(call("record", f"c{step}", text=str(step)))

    config = write_agent(tmp_path, storage(url))
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        stream = agent.stream("go")
        seen = []
        async for each in stream:
            seen.append(each)
            if when == "in a tool" and each.type == "tool_call" and each.call_id == "c1":  # type: ignore[union-attr]
                stop()
        ending = seen[-1]
        assert isinstance(ending, RunFailed)
        assert ending.exit_code in (1, 4)
        assert "--continue" in ending.message
        own_server.start()
        again = await events_of(agent.resume(ending.session))
        assert isinstance(again[-1], RunCompleted), again[-1]
        history = await agent.history(ending.session)
    assert_paired(history)
    assert [message.type for message in history] == ["human", *["ai", "tool"] * 3, "ai"]
    done = (tmp_path / "effects.txt").read_text().split()
    assert set(done) == {"0", "1", "2"}
    assert len(done) <= 4


async def test_what_fails_on_the_driver_s_own_connection_is_explained_and_done_again(
    postgres_url: str, tmp_path: Path
) -> None:
    database, tries = Database(postgres_url, directory=tmp_path), 0

    def cut_once(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        raw: Any = connection.connection.dbapi_connection
        raw.execute("SELECT 1")
        if tries == 1:
            execute(postgres_url, CUT)
        return int(raw.execute("SELECT 7").fetchone()[0])

    assert await database.run(cut_once) == 7
    assert tries == 2

    def wrong(connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.execute("SELECT * FROM no_such_table")

    with pytest.raises(RunError, match="no_such_table"):
        await database.run(wrong)
    assert await database.run(cut_once) == 7
    await database.close()


async def test_transactions_of_several_connections_run_at_once_and_none_sees_what_another_one_set(
    tmp_path: Path, postgres_url: str
) -> None:
    database = Database(postgres_url, directory=tmp_path, acting=Acting("ann", "atlas"), connections=3)
    together = Barrier(3, timeout=30)

    async def at_once(leaves: Acting | None) -> list[tuple[int, str, str, str]]:
        def work(connection: Connection) -> tuple[int, str, str, str]:
            together.wait()
            names = ("user_id", "project_id", "upkeep")
            found = [f"coalesce(current_setting('zeus.{name}', true), '')" for name in names]
            row = connection.execute(text(f"SELECT pg_backend_pid(), {', '.join(found)}")).one()
            if leaves is not None:
                act(connection, leaves)
            return tuple(row)  # type: ignore[return-value]

        return sorted(await asyncio.gather(*(database.run(work) for _ in range(3))))

    try:
        first = await at_once(Acting("bob", "other", upkeep=True))
        again = await at_once(None)
        assert len({pid for pid, *_ in first}) == 3
        assert again == first
        assert {tuple(settings) for _, *settings in again} == {("ann", "atlas", "")}
        execute(postgres_url, CUT)
        assert {pid for pid, *_ in await at_once(None)}.isdisjoint(pid for pid, *_ in first)
    finally:
        await database.close()
