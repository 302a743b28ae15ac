"""The second wall on PostgreSQL: what a role that owns nothing sees and changes by SQL of its own."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from tests.support.databases import execute
from tests.support.least_rights import acting, as_agent
from tests.support.memory import service
from zeus_runtime.memory.items import ROLES, VISIBILITIES, Caller, MemorySettings
from zeus_runtime.memory.permissions import may
from zeus_runtime.store.row_security import SECURED, SESSIONS

SETTINGS = MemorySettings(duplicate_threshold=1, related_threshold=1, related_words=1)


@pytest.fixture
async def filled(postgres_url: str, tmp_path: Path) -> Any:
    """A database with memories of ann and bob in every scope and visibility, each changed once; and its items."""
    execute(postgres_url, "CREATE EXTENSION vector")
    first = service(tmp_path, Caller("ann"), settings=SETTINGS, url=postgres_url, open_vectors=PgVectorStore)
    items = []
    for number, (user, scope, visibility) in enumerate(
        product(("ann", "bob"), ("user", "project", "session"), VISIBILITIES)
    ):
        memory = first.for_caller(Caller(user, "apollo", "editor", f"session of {user}"))
        saved = await memory.add_explicit_memory(
            f"word{number} is what word{number} says", scope=scope, visibility=visibility
        )
        assert saved.item is not None
        items.append(await memory.update_memory(saved.item.id, confidence=0.8))
    await first.aclose()
    by_user = [[item.id for item in items if item.created_by == user] for user in ("ann", "bob")]
    for one, other, *_ in by_user:
        execute(postgres_url, f"INSERT INTO memory_link VALUES ('{one}', '{other}')")
    execute(
        postgres_url,
        *(
            "INSERT INTO user_profile SELECT (jsonb_populate_record(NULL::user_profile, jsonb_object_agg(column_name,"
            f" CASE WHEN data_type IN ('integer', 'bigint') THEN '1' ELSE '{user}' END))).*"
            " FROM information_schema.columns WHERE table_name = 'user_profile'"
            for user in ("ann", "bob")
        ),
        "INSERT INTO project_profile SELECT (jsonb_populate_record(NULL::project_profile,"
        " jsonb_object_agg(column_name,"
        " CASE WHEN data_type IN ('integer', 'bigint') THEN '1' ELSE 'apollo' END))).*"
        " FROM information_schema.columns WHERE table_name = 'project_profile'",
        "INSERT INTO user_setting VALUES ('ann', 'embeddings', '1', false, 1), ('bob', 'embeddings', '1', false, 1)",
    )
    for user in ("ann", "bob"):
        execute(
            postgres_url,
            f"INSERT INTO memory_cursor VALUES ('session of {user}', '{user}', 'test', 1, 1)",
            f"INSERT INTO memory_batch VALUES ('b {user}', '{user}', 'extraction', NULL, 1, 1, 'done', '[]', 'm', 1,"
            " 1, NULL, 1)",
            f"INSERT INTO memory_batch_step VALUES ('b {user}', 0, 'stored', NULL, '[]')",
        )
    with as_agent(postgres_url) as restricted:
        yield restricted, items


def ids(connection: psycopg.Connection[Any], table: str = "memory_item", column: str = "id") -> set[str]:
    return {row[0] for row in connection.execute(f"SELECT {column} FROM {table} WHERE true OR 1 = 1")}  # type: ignore[arg-type]


async def test_who_says_nothing_sees_nothing(filled: Any) -> None:
    url, _ = filled
    with acting(url) as connection:
        for table in SECURED:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # type: ignore[arg-type]
    memory = {"memory_item", "memory_link", "memory_history", "memory_vector_pg"}
    batches = {"memory_cursor", "memory_batch", "memory_batch_step"}
    knowledge = {f"knowledge_{name}" for name in ("base", "source", "document", "part")}
    people = {"user_profile", "user_setting", "project_profile", "project_member"}
    collections = {"vector_collection_pg", "vector_collection_pg_entry"}
    assert memory | batches | people | knowledge | collections | set(SESSIONS) == set(SECURED)


async def test_another_user_sees_nothing_whatever_the_query_says(filled: Any) -> None:
    url, items = filled
    anns = {item.id for item in items if item.created_by == "ann"}
    with acting(url, "eve") as connection:
        for table in SECURED:
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == [], table  # type: ignore[arg-type]
        assert connection.execute("UPDATE memory_item SET created_by = 'eve'").rowcount == 0
        assert connection.execute("DELETE FROM memory_item").rowcount == 0
        assert connection.execute("DELETE FROM memory_vector_pg").rowcount == 0
        assert connection.execute("DELETE FROM memory_link").rowcount == 0
        assert connection.execute("UPDATE memory_history SET content = 'x'").rowcount == 0
    with acting(url, "ann") as connection:
        assert ids(connection) == ids(connection, "memory_vector_pg") == anns
        assert ids(connection, "memory_history", "item") == anns
        assert len(ids(connection, "memory_link", "item")) == 1
        assert ids(connection, "memory_link", "other") <= anns
        assert ids(connection, "user_profile", "user_id") == {"ann"}
        assert (
            ids(connection, "memory_cursor", "user_id")
            == ids(connection, "memory_batch", "user_id")
            == {"ann"}
        )
        assert ids(connection, "memory_batch_step", "batch") == {"b ann"}
        assert ids(connection, "project_profile", "project_id") == set()


async def test_a_setting_ends_with_its_transaction(filled: Any) -> None:
    url, _ = filled
    with acting(url, "ann") as connection:
        assert ids(connection)
        connection.commit()
        assert ids(connection) == set()


async def test_the_wall_lets_nothing_through_that_the_permissions_do_not_and_all_that_they_do(
    filled: Any,
) -> None:
    url, items = filled
    for user, role in product(("ann", "bob", "eve"), (*ROLES, None)):
        caller = Caller(user, "apollo", role, f"session of {user}")
        project = {item.id for item in items if item.scope == "project"}
        for operation, statement in (
            ("see", "SELECT id FROM memory_item"),
            ("edit", "UPDATE memory_item SET confidence = 0.5 RETURNING id"),
            ("delete", "DELETE FROM memory_item RETURNING id"),
        ):
            with acting(url, user, "apollo", role or "") as connection:
                done = {row[0] for row in connection.execute(statement)}
            allowed = {item.id for item in items if may(caller, operation, item)}  # type: ignore[arg-type]
            own = {item.id for item in items if item.created_by == user} if operation == "see" else set()
            assert done - own == allowed - own, (user, role, operation)
            assert done - project == allowed - project
            assert allowed <= done


async def test_rows_are_made_in_one_s_own_name_and_place_only(filled: Any) -> None:
    url, _ = filled
    copy = "INSERT INTO memory_item (SELECT (jsonb_populate_record(memory_item, %s::jsonb)).* FROM memory_item LIMIT 1)"
    for changes in (
        '{"key": 900, "id": "x", "created_by": "bob"}',
        '{"key": 900, "id": "x", "scope": "user", "scope_id": "bob"}',
        '{"key": 900, "id": "x", "scope": "project", "scope_id": "gemini"}',
        '{"key": 900, "id": "x", "scope": "project", "scope_id": "apollo"}',
    ):
        with acting(url, "ann", "apollo", "viewer") as connection, pytest.raises(InsufficientPrivilege):
            connection.execute(copy, [changes])
    with acting(url, "ann", "apollo", "editor") as connection:
        connection.execute(copy, ['{"key": 900, "id": "x", "scope": "project", "scope_id": "apollo"}'])
        assert "x" in ids(connection)
    with acting(url, "ann") as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(
            "INSERT INTO memory_history (item, version, action, by, at_ms, content)"
            " VALUES ('m', 1, 'stored', 'bob', 1, '')"
        )


async def test_a_project_s_profile_is_its_members(filled: Any) -> None:
    url, _ = filled
    for role in ROLES:
        with acting(url, "ann", "apollo", role) as connection:
            assert ids(connection, "project_profile", "project_id") == {"apollo"}
            changed = connection.execute("UPDATE project_profile SET project_goal = 'x'").rowcount
            assert changed == (role != "viewer")
        with acting(url, "ann", "gemini", role) as connection:
            assert ids(connection, "project_profile", "project_id") == set()


async def test_the_service_leaves_no_setting_behind(filled: Any, tmp_path: Path) -> None:
    url, _ = filled
    memory = service(tmp_path, Caller("ann"), url=url, open_vectors=PgVectorStore)
    assert len(await memory.list_memories()) == 3
    assert await memory.for_caller(Caller("eve")).list_memories() == []
    operations = await memory._shared.operations()
    assert (
        await operations.database.read(
            lambda connection: connection.exec_driver_sql("SELECT id FROM memory_item").all()
        )
        == []
    )
    await memory.aclose()


async def test_a_user_s_settings_are_his_own(filled: Any) -> None:
    url, _ = filled
    with acting(url, "ann") as connection:
        assert ids(connection, "user_setting", "user_id") == {"ann"}
        assert connection.execute("UPDATE user_setting SET value = '2'").rowcount == 1
        assert connection.execute("DELETE FROM user_setting").rowcount == 1
        with pytest.raises(InsufficientPrivilege):
            connection.execute("INSERT INTO user_setting VALUES ('bob', 'other', '1', false, 1)")


async def test_an_import_brings_the_changes_that_another_user_made_elsewhere(
    filled: Any, tmp_path: Path
) -> None:
    url, _ = filled
    memory = service(tmp_path, Caller("bob"), settings=SETTINGS, url=url, open_vectors=PgVectorStore)
    change = {
        "version": 1,
        "action": "stored",
        "by": "eve",
        "at": "2026-01-02T03:04:05+00:00",
        "content": "Old",
    }
    done = await memory.import_memories([{"content": "Bob plays the harp", "history": [change]}])
    (item,) = [each for each in await memory.list_memories() if "harp" in each.content]
    assert done.is_whole
    assert [(each.by, each.action) for each in await memory.memory_history(item.id)] == [
        ("eve", "stored"),
        ("bob", "imported"),
    ]
    await memory.aclose()
