"""The schema of a database: made, recognised, upgraded with what is in it, and refused where it must be."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import Engine

from tests.support.agents import play, script, shape, write_agent
from tests.support.databases import asked_call, database_on, storage
from zeus_runtime import Agent
from zeus_runtime.errors import MissingError, RunError
from zeus_runtime.events import RunCompleted
from zeus_runtime.store import schema
from zeus_runtime.store.allowlist import allow, allowlist, listing, revoke
from zeus_runtime.store.approvals import changed_at, put, rejected_at, settle
from zeus_runtime.store.archived import archive
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import StepEntry, ThreadLog
from zeus_runtime.store.threads import Thread
from zeus_runtime.store.turns import paused_turns
from zeus_runtime.tools.approval import ApprovalRequest, Decision, setting_digest

NEXT = f"{int(schema.HEAD) + 1:04}"
LATER = f"""
from alembic import op
revision = "{NEXT}"
down_revision = "{schema.HEAD}"
def rewrites_data(connection):
    return True
def upgrade():
    op.execute("UPDATE message SET payload = 'rewritten'")
"""


async def do(url: str, folder: Path, work: Callable[[Connection], object]) -> object:
    database = Database(url, directory=folder)
    try:
        return await database.run(work)
    finally:
        await database.close()


async def at_revision_1(url: str, folder: Path, *, named: bool = True) -> None:
    """A database as it was before threads had an epoch, with a conversation in it."""

    def make(connection: Connection) -> None:
        from alembic.operations import Operations
        from alembic.runtime.migration import MigrationContext
        from alembic.script import ScriptDirectory

        first = ScriptDirectory(str(schema.MIGRATIONS)).get_revision("0001")
        with Operations.context(MigrationContext.configure(connection)):
            first.module.upgrade()
        if named:
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            connection.execute(text("INSERT INTO alembic_version VALUES ('0001')"))
        connection.execute(text("INSERT INTO thread VALUES (7, 'session_old', 'test', 1, 2, 'an old title')"))
        for seq, role in enumerate(("user", "assistant"), 1):
            connection.execute(
                text("INSERT INTO message VALUES (7, :seq, :id, 3, :payload)"),
                {"seq": seq, "id": f"r.{seq}", "payload": f'{{"role": "{role}", "content": "old {role}"}}'},
            )
        connection.execute(text("INSERT INTO context_text VALUES (7, 'd', 'a section')"))

    await do(url, folder, make)


async def old_things(url: str, folder: Path) -> None:
    """Everything that was there is there, and the session goes on."""
    config = write_agent(folder, storage(url))
    async with Agent.from_config(config, directory=folder, model=script("old", "new")) as agent:
        (info,) = await agent.sessions()
        assert (info.session, info.title, info.messages) == ("session_old", "an old title", 2)
        assert isinstance((await play(agent, "go on", "session_old"))[-1], RunCompleted)
        old = [("human", "old user"), ("ai", "old assistant")]
        assert shape(await agent.history("session_old")) == [*old, ("human", "go on"), ("ai", "new")]
    database = Database(url, directory=folder)
    try:
        log = ThreadLog(database)
        assert "a section" in (await log.texts(await log.find("session_old"))).values()
        assert await schema.current(database) == schema.HEAD
    finally:
        await database.close()


async def test_a_sqlite_file_of_an_older_schema_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    await at_revision_1("sqlite:///.zeus/zeus.db", tmp_path)
    await old_things("sqlite:///.zeus/zeus.db", tmp_path)
    assert not list((tmp_path / ".zeus").glob("*.before-*"))


async def test_a_servers_database_of_an_older_schema_waits_for_zeus_db_upgrade(
    tmp_path: Path, postgres_url: str
) -> None:
    await at_revision_1(postgres_url, tmp_path)
    config = write_agent(tmp_path, storage(postgres_url))
    async with Agent.from_config(config, directory=tmp_path, model=script("x")) as agent:
        with pytest.raises(MissingError, match=r"older \(0001\).*\n.*`zeus db upgrade`"):
            await agent.sessions()
    database = Database(postgres_url, directory=tmp_path)
    try:
        assert await schema.upgrade(database) == "0001"
        assert await schema.upgrade(database) == schema.HEAD
    finally:
        await database.close()
    await old_things(postgres_url, tmp_path)


async def test_a_database_from_before_revisions_is_the_first_one(tmp_path: Path, database_url: str) -> None:
    await at_revision_1(database_url, tmp_path, named=False)
    await do(database_url, tmp_path, lambda connection: connection.execute(text("DROP TABLE context_step")))
    database = Database(database_url, directory=tmp_path)
    try:
        assert await schema.current(database) == "0001"
        assert await schema.upgrade(database) == "0001"
    finally:
        await database.close()
    await old_things(database_url, tmp_path)


@pytest.mark.parametrize(
    ("revision", "said"),
    [("0999", r"newer \(0999\) than this Zeus knows"), ("ae1027a6acf", "is not a revision of Zeus")],
)
async def test_a_newer_schema_and_a_strangers_are_refused_and_left_alone(
    tmp_path: Path, database_url: str, revision: str, said: str
) -> None:
    database = Database(database_url, directory=tmp_path)
    try:
        await schema.ready(database)
        await database.run(
            lambda connection: connection.execute(
                text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision}
            )
        )
        for work in (schema.ready, schema.upgrade):
            with pytest.raises(MissingError, match=said) as refused:
                await work(database)
            assert refused.value.exit_code == 4
        assert await schema.current(database) == revision
    finally:
        await database.close()


async def test_another_programs_threads_are_left_alone(tmp_path: Path, database_url: str) -> None:
    await do(
        database_url,
        tmp_path,
        lambda connection: connection.execute(text("CREATE TABLE thread (title TEXT)")),
    )
    database = Database(database_url, directory=tmp_path)
    try:
        for work in (schema.ready, schema.upgrade):
            with pytest.raises(MissingError, match="another program's"):
                await work(database)
        assert await database.run(lambda connection: inspect(connection).get_table_names()) == ["thread"]
    finally:
        await database.close()


async def test_a_new_database_is_what_all_revisions_make(tmp_path: Path, database_url: str) -> None:
    """Also the proof that ``HEAD`` and the tables' classes were not forgotten."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import MetaData

    from zeus_runtime.store.knowledge_tables import KNOWLEDGE_TABLES
    from zeus_runtime.store.memory_tables import MEMORY_TABLES
    from zeus_runtime.store.tables import TABLES

    assert ScriptDirectory(str(schema.MIGRATIONS)).get_heads() == [schema.HEAD]

    def differences(connection: Connection) -> list[object]:
        metadata = MetaData()
        for table in (*TABLES, *MEMORY_TABLES, *KNOWLEDGE_TABLES):
            table.to_metadata(metadata)
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_server_default": True,
                "include_name": lambda name, *_: (
                    name is None
                    or not name.startswith(
                        ("memory_word", "memory_item_words", "ix_turn_waiting", "ix_approval")
                    )
                ),
            },
        )
        return list(compare_metadata(context, metadata))

    def columns(connection: Connection) -> dict[str, list[str]]:
        found = inspect(connection)
        return {
            name: sorted(f"{column['name']} {column['type']!r}" for column in found.get_columns(name))
            for name in found.get_table_names()
        }

    def rules(connection: Connection) -> list[object]:
        if connection.dialect.name == "sqlite":
            return []
        return [tuple(row) for row in connection.execute(text("SELECT * FROM pg_policies ORDER BY 1, 2, 3"))]

    database = Database(database_url, directory=tmp_path)
    try:
        await schema.ready(database)
        assert await database.run(differences) == []
        made = await database.run(columns)
        secured = await database.run(rules)
        assert bool(secured) == database_url.startswith("postgres")
        words = ["memory_word", "memory_words"] if database_url.startswith("sqlite") else []
        mine = (table.name for table in reversed((*TABLES, *MEMORY_TABLES, *KNOWLEDGE_TABLES)))
        for table in ("alembic_version", *words, *mine):
            await database.run(
                lambda connection, table=table: connection.execute(text(f"DROP TABLE {table}"))
            )
    finally:
        await database.close()
    await at_revision_1(database_url, tmp_path)
    database = Database(database_url, directory=tmp_path)
    try:
        await schema.upgrade(database)
        assert await database.run(differences) == []
        assert await database.run(columns) == made
        assert await database.run(rules) == secured
    finally:
        await database.close()


async def test_a_current_database_is_opened_with_one_query(tmp_path: Path, database_url: str) -> None:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        statements.append(statement)

    database = Database(database_url, directory=tmp_path)
    try:
        await schema.ready(database)
        event.listen(Engine, "before_cursor_execute", note)
        try:
            await schema.ready(database)
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    finally:
        await database.close()
    assert len(statements) == 1
    assert "alembic_version" in statements[0]


def test_neither_a_new_nor_a_current_database_needs_alembic(tmp_path: Path) -> None:
    opening = (
        "import asyncio, sys; from pathlib import Path; from zeus_runtime.store.database import Database;"
        "from zeus_runtime.store import schema\n"
        "async def main():\n"
        "    for _ in range(2):\n"
        "        database = Database('sqlite:///z.db', directory=Path.cwd())\n"
        "        await schema.ready(database); await database.close()\n"
        "asyncio.run(main()); sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", opening], cwd=tmp_path, check=True)


async def test_a_file_is_copied_before_a_revision_rewrites_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_revision_1("sqlite:///zeus.db", tmp_path)
    later = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, later, ignore=shutil.ignore_patterns("__pycache__"))
    (later / "versions" / f"r{NEXT}_later.py").write_text(LATER)
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(schema, "HEAD", NEXT)
    database = Database("sqlite:///zeus.db", directory=tmp_path)
    try:
        await schema.ready(database)
    finally:
        await database.close()
    copy = tmp_path / f"zeus.db.before-{NEXT}"
    assert copy.stat().st_mode & 0o777 == 0o600
    for file, payloads in ((tmp_path / "zeus.db", {"rewritten"}), (copy, None)):
        with closing(sqlite3.connect(file)) as connection:
            found = {row[0] for row in connection.execute("SELECT payload FROM message")}
        assert (found == payloads) is (payloads is not None)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]


async def test_a_revision_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_revision_1(database_url, tmp_path)
    later = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, later, ignore=shutil.ignore_patterns("__pycache__"))
    (later / "versions" / f"r{NEXT}_later.py").write_text(LATER.replace("message SET", "nothing SET"))
    with monkeypatch.context() as changed:
        changed.setattr(schema, "MIGRATIONS", later)
        changed.setattr(schema, "HEAD", NEXT)
        database = Database(database_url, directory=tmp_path)
        with pytest.raises(RunError, match="nothing"):
            await schema.upgrade(database)
        assert await schema.current(database) == "0001"
        await schema_columns_without_epoch(database)
        await database.close()


async def schema_columns_without_epoch(database: Database) -> None:
    columns = await database.run(lambda connection: inspect(connection).get_columns("thread"))
    assert "epoch" not in {column["name"] for column in columns}


async def test_a_ledger_entry_and_a_title_may_hold_nul(tmp_path: Path, database_url: str) -> None:
    database = Database(database_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_nul", agent="a", title="a\0b")
        await log.append_step(thread, StepEntry(1, 0, "{}", texts={"d": "x\0y"}))
        assert dict(await log.texts(thread)) == {"d": "x␀y"}
        assert (await log.sessions())[0].title == "a␀b"
    finally:
        await database.close()


async def test_what_sessions_name_is_noted_for_those_that_there_are(
    tmp_path: Path, database_url: str
) -> None:
    database = Database(database_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        named = '{"kind": "evict", "handle": "/large_tool_results/%s"}'
        brought = (
            '{"role": "user", "additional_kwargs": {"references": [{"copy": "/attached_files/%s/a.md"}, {}],'
            ' "pictures": [{"path": "/attached_files/%s/b.png"}]}}'
        )
        for name in ("one", "two"):
            thread = await log.open(f"session_{name}", agent="a")
            await log.append(thread, 1, "a.1", brought % (name, name))
            await log.append_edits(
                thread, 1, 1, [named % name, named % "both", '{"kind": "pin", "handle": ""}']
            )
        assert await archive(log, thread)
        query = text("SELECT handle, thread FROM original_handle ORDER BY handle, thread")
        noted = await database.run(lambda connection: connection.execute(query).all())
        assert len(noted) == 8

        def back(connection: Connection) -> None:
            connection.execute(text("DROP TABLE original_handle"))
            before_backtests(connection)
            old_allowlist(connection)
            connection.execute(text("DROP TABLE audit_entry"))
            connection.execute(text("DROP TABLE service_key"))
            connection.execute(text("DROP TABLE run_note"))
            connection.execute(text("DROP TABLE run_event"))
            connection.execute(text("DROP TABLE turn"))
            connection.execute(text("DROP INDEX ix_thread_owner"))
            behind_no_wall(connection)
            connection.execute(text("ALTER TABLE thread DROP COLUMN owner"))
            connection.execute(text("ALTER TABLE thread DROP COLUMN owner_project"))
            connection.execute(text("DROP TABLE knowledge_part"))
            connection.execute(text("DROP TABLE database_identity"))
            connection.execute(text("ALTER TABLE knowledge_base DROP COLUMN collection"))
            connection.execute(text("ALTER TABLE pending_approval DROP COLUMN shown"))
            for name in ("memory_link", "memory_cursor", "memory_batch_step", "memory_batch"):
                connection.execute(text(f"DROP TABLE {name}"))
            connection.execute(text("ALTER TABLE memory_item DROP COLUMN settled"))
            connection.execute(text("ALTER TABLE memory_history DROP COLUMN valid_from_ms"))
            connection.execute(text("ALTER TABLE memory_history DROP COLUMN valid_until_ms"))
            connection.execute(text("ALTER TABLE extraction_log DROP COLUMN answer"))
            connection.execute(text("CREATE TABLE knowledge_chunk (key INTEGER, document INTEGER)"))
            connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))

        await database.run(back)
        assert await schema.upgrade(database) == "0008"
        assert await database.run(lambda connection: connection.execute(query).all()) == noted
    finally:
        await database.close()


def behind_no_wall(connection: Connection) -> None:
    """The sessions as they were when no policy named their owner."""
    if connection.dialect.name == "postgresql":
        for command in ("select", "insert", "update", "delete"):
            connection.execute(text(f"DROP POLICY zeus_{command} ON thread"))


def before_backtests(connection: Connection) -> None:
    """The tables as they were when backtests were not stored, nor begun calls, and turns had no index."""
    for name in ("begun_epoch", "begun_with"):
        connection.execute(text(f"ALTER TABLE pending_approval DROP COLUMN {name}"))
    for name in ("backtest_replay", "backtest"):
        connection.execute(text(f"DROP TABLE {name}"))
    for name in ("ix_turn_waiting", "ix_approval_rejected"):
        connection.execute(text(f"DROP INDEX {name}"))


def old_allowlist(connection: Connection) -> None:
    """The allowlist as it was when its entries were for a tool's name."""
    connection.execute(text("DROP TABLE allowlist"))
    connection.execute(
        text(
            'CREATE TABLE allowlist ("user" TEXT NOT NULL, tool TEXT NOT NULL, created_ms BIGINT NOT NULL,'
            ' PRIMARY KEY ("user", tool))'
        )
    )


async def plan_of(folder: Path, words: str, search: Callable[[ThreadLog], Awaitable[object]]) -> list[str]:
    """How SQLite finds the rows of the statement with ``words`` in it that ``search`` executes."""
    database = Database("sqlite:///searched.db", directory=folder)
    searched: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if words in statement:
            searched.append((statement, values))

    try:
        log = ThreadLog(database)
        await log.create_tables()
        event.listen(Engine, "before_cursor_execute", note)
        assert not await search(log)
        event.remove(Engine, "before_cursor_execute", note)
    finally:
        await database.close()
    ((statement, values),) = searched
    with closing(sqlite3.connect(folder / "searched.db")) as file:
        return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


async def test_the_search_for_waiting_turns_reads_no_others(tmp_path: Path) -> None:
    plan = await plan_of(tmp_path, "FROM turn", lambda log: paused_turns(log, "test"))
    assert "SCAN turn USING INDEX ix_turn_waiting" in plan


async def test_the_search_for_a_rejection_reads_no_other_requests(tmp_path: Path) -> None:
    asked = ApprovalRequest("pay", {}, "3")
    plan = await plan_of(
        tmp_path, "FROM pending_approval", lambda log: rejected_at(log, asked_call(Thread(1, "one"), asked))
    )
    found = "SEARCH pending_approval USING INDEX ix_approval_rejected (thread=? AND run_id=?)"
    assert found in plan


async def test_an_allowlist_from_before_settings_is_for_every_tool_of_its_names(
    tmp_path: Path, database_url: str
) -> None:
    is_server = database_url.startswith("postgres")
    database = Database(database_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()

        def back(connection: Connection) -> None:
            before_backtests(connection)
            old_allowlist(connection)
            connection.execute(text("INSERT INTO allowlist VALUES ('ann', 'record', 5)"))
            connection.execute(text("UPDATE alembic_version SET version_num = '0020'"))
            if is_server:
                connection.execute(text("GRANT SELECT ON allowlist TO pg_monitor"))

        await database.run(back)
        assert await schema.upgrade(database) == "0020"
        seen, other = setting_digest("seen", ""), setting_digest("other", "")
        assert await listing(log, "ann", "record", other) == "allowed"
        assert await allow(log, "ann", "record", seen)
        assert [each[:2] for each in await allowlist(log, "ann")] == [("record", ""), ("record", seen)]
        assert await revoke(log, "ann", "record")
        assert await allowlist(log, "ann") == []
        if is_server:
            right = text("SELECT has_table_privilege('pg_monitor', 'allowlist', 'SELECT')")
            assert await database.run(lambda connection: connection.execute(right).scalar())
    finally:
        await database.close()


async def test_a_rejection_and_changed_arguments_from_before_hold_with_another_setting(
    tmp_path: Path, database_url: str
) -> None:
    def back(connection: Connection) -> None:
        connection.execute(text("DROP INDEX ix_approval_rejected"))
        connection.execute(text("ALTER TABLE pending_approval DROP COLUMN begun_with"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0026'"))

    form = {"type": "object"}
    calls = [
        ApprovalRequest("pay", {"what": "Zoë"}, "3", setting="old"),
        ApprovalRequest("pay", {"question": "?"}, "4.1", schema=form, setting="old"),
        ApprovalRequest("pay", {"what": "b"}, "5", setting="old"),
        ApprovalRequest("pay", {"what": "c"}, "6", setting="old"),
    ]
    no, changed = Decision("reject"), Decision("approve", arguments={"what": "mine"})
    database = Database(database_url, directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        for each, decision in zip(calls, (no, no, changed, Decision("approve")), strict=True):
            await settle(log, await put(log, asked_call(thread, each), each.arguments), decision)
        masked = ApprovalRequest("pay", {"what": "a secret"}, "7", setting="old")
        await settle(log, await put(log, asked_call(thread, masked), {"what": "<secret:A>"}), no)
        await database.run(back)
        assert await schema.upgrade(database) == "0026"
        # What the model wrote is known now: the former rows have what the tool made of it.
        now = [replace(each, setting="new", written={"what": 1}) for each in calls]
        for each in now[:2]:
            asked = await put(log, asked_call(thread, each), each.arguments)
            assert asked.decision == no
        assert await rejected_at(log, asked_call(thread, masked)) is not None
        found = [await changed_at(log, asked_call(thread, each)) for each in now[2:]]
        assert [each and each.decision for each in found] == [changed, None]
    finally:
        await database.close()


MADE = {
    "sqlite": "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2",
    "postgres": """
        SELECT table_name, column_name, concat(data_type, is_nullable, column_default)
            FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT tablename, policyname, concat(cmd, qual, with_check) FROM pg_policies
        UNION ALL SELECT relname, 'walls', concat(relforcerowsecurity) FROM pg_class WHERE relrowsecurity
        UNION ALL SELECT version_num, 'version', '' FROM alembic_version ORDER BY 1, 2, 3""",
}


@pytest.mark.parametrize("kind", MADE)
async def test_the_statements_that_tests_repeat_make_what_composing_them_makes(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """``tests.support.asked_once`` keeps the statements of the first database for the others."""
    made = []
    for number, create in enumerate((schema._create, schema._create, schema._create.composing)):  # type: ignore[attr-defined]
        with (
            database_on(request.getfixturevalue("postgres_server"))
            if kind == "postgres"
            else nullcontext(f"sqlite:///{number}.db")
        ) as url:
            database = Database(url, directory=tmp_path)
            await database.run(create)
            made.append(await database.run(lambda connection: connection.exec_driver_sql(MADE[kind]).all()))
            await database.close()
    assert len(made[0]) > 20
    assert made[0] == made[1] == made[2]


async def test_the_file_that_tests_copy_is_one_that_composing_makes(tmp_path: Path) -> None:
    """``tests.support.asked_once`` copies the tables into new files."""
    settings = [f"PRAGMA {name}" for name in ("auto_vacuum", "journal_mode", "page_size")]

    def read(connection: Connection) -> list[object]:
        return [connection.exec_driver_sql(each).all() for each in (MADE["sqlite"], *settings)]

    copied, composed = (
        Database(f"sqlite:///{name}.db", directory=tmp_path) for name in ("copied", "composed")
    )
    await schema.ready(copied)
    await composed.run(schema._create.composing)  # type: ignore[attr-defined]
    made = [await each.run(read) for each in (copied, composed)]
    assert len(made[0][0]) > 20  # type: ignore[arg-type]
    assert made[0] == made[1]
    for each in (copied, composed):
        await each.close()


async def test_a_copy_leaves_the_mark_of_a_database(tmp_path: Path) -> None:
    database = Database("sqlite:///marked.db", directory=tmp_path)

    def marks(connection: Connection) -> list[object]:
        return [
            connection.exec_driver_sql(f"PRAGMA {mark}").scalar()
            for mark in ("user_version", "application_id")
        ]

    before = await database.run(marks)
    await schema.ready(database)
    assert await database.run(marks) == before
    assert before != [0, 0]
    await database.close()


async def test_a_copy_falls_on_no_rows(tmp_path: Path) -> None:
    first, second = (Database("sqlite:///kept.db", directory=tmp_path) for _ in range(2))
    await schema.ready(first)
    await first.run(lambda connection: connection.exec_driver_sql("CREATE TABLE mine AS SELECT 7 AS number"))
    await schema.ready(second)
    assert await second.run(lambda each: each.exec_driver_sql("SELECT number FROM mine").scalar()) == 7
    await first.close()
    await second.close()
