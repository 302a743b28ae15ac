"""The second wall on PostgreSQL: what a role that owns nothing sees and changes of knowledge bases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.support.knowledge import knowledge, write
from tests.support.least_rights import acting, as_agent
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.items import ROLES, Caller

TABLES = (
    *("knowledge_base", "knowledge_source", "knowledge_document", "knowledge_part"),
    *("vector_collection_pg", "vector_collection_pg_entry"),
)


@pytest.fixture
async def filled(postgres_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """A base of ann's and one of bob's own, and one that each made of the project; for a role that owns nothing."""
    text = write(tmp_path, "ports.md", "# Ports\n\nPylos lies three days from Ithaca.\n")
    async with knowledge(postgres_url, tmp_path, caller=Caller("ann")) as service:
        await service.add("tables", [text])
        await service.remove("tables")
    with as_agent(postgres_url) as restricted:
        for user in ("ann", "bob"):
            async with knowledge(restricted, tmp_path, caller=Caller(user, "argo", "editor")) as service:
                await service.add("own", [text])
                await service.add(f"shared-by-{user}", [text], project=True)
        yield restricted


def names(connection: psycopg.Connection[Any]) -> set[tuple[str, str]]:
    return set(connection.execute("SELECT created_by, name FROM knowledge_base WHERE true OR 1 = 1"))  # type: ignore[arg-type]


def count(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])


async def test_who_says_nothing_or_is_somebody_else_sees_nothing(filled: str) -> None:
    for user, project, role in (("", "", ""), ("eve", "", ""), ("eve", "gemini", "owner")):
        with acting(filled, user, project, role) as connection:
            for table in TABLES:
                assert count(connection, table) == 0, (user, table)
                assert connection.execute(f"DELETE FROM {table}").rowcount == 0  # type: ignore[arg-type]
            assert connection.execute("UPDATE knowledge_part SET places = 'x'").rowcount == 0


async def test_a_user_sees_their_own_and_a_member_the_project_s_with_all_that_is_in_them(filled: str) -> None:
    shared = {("ann", "shared-by-ann"), ("bob", "shared-by-bob")}
    with acting(filled, "ann") as connection:
        assert names(connection) == {("ann", "own")}
        assert [count(connection, table) for table in TABLES] == [1] * len(TABLES)
    for role in ROLES:
        with acting(filled, "ann", "argo", role) as connection:
            assert names(connection) == {("ann", "own"), *shared}
            assert [count(connection, table) for table in TABLES] == [3] * len(TABLES)
        with acting(filled, "eve", "argo", role) as connection:
            assert names(connection) == shared


@pytest.mark.parametrize(
    ("role", "changed"),
    [
        ("owner", {"own", "shared-by-ann", "shared-by-bob"}),
        ("admin", {"own", "shared-by-ann", "shared-by-bob"}),
        ("editor", {"own", "shared-by-ann"}),
        ("viewer", {"own"}),
    ],
)
async def test_what_may_be_changed_is_what_the_service_lets_be_changed(
    filled: str, tmp_path: Path, role: Any, changed: set[str]
) -> None:
    with acting(filled, "ann", "argo", role) as connection:
        done = connection.execute("UPDATE knowledge_base SET changes = changes + 1 RETURNING name")
        assert {name for (name,) in done} == changed
        for table in reversed(TABLES):
            assert connection.execute(f"DELETE FROM {table}").rowcount == len(changed), table  # type: ignore[arg-type]
    async with knowledge(filled, tmp_path, caller=Caller("ann", "argo", role)) as service:
        for base in sorted({"own", "shared-by-ann", "shared-by-bob"} - changed):
            with pytest.raises(UsageError):
                await service.remove(base)
        for base in sorted(changed):
            assert await service.remove(base) == 1


async def test_rows_are_made_in_one_s_own_name_and_place_only(filled: str) -> None:
    base = "INSERT INTO knowledge_base SELECT (jsonb_populate_record(of, %s::jsonb)).* FROM knowledge_base of LIMIT 1"
    for changes in (
        '{"key": 900, "name": "x", "created_by": "bob"}',
        '{"key": 900, "name": "x", "scope_id": "bob"}',
        '{"key": 900, "name": "x", "scope": "project", "scope_id": "gemini"}',
        '{"key": 900, "name": "x", "scope": "project", "scope_id": "argo"}',
    ):
        with acting(filled, "ann") as connection, pytest.raises(InsufficientPrivilege):
            connection.execute(base, [changes])
    with acting(filled, "ann", "argo", "viewer") as connection:
        theirs = connection.execute("SELECT key FROM knowledge_base WHERE scope = 'project'").fetchone()
        with pytest.raises(InsufficientPrivilege):
            connection.execute("INSERT INTO knowledge_source (base, path) VALUES (%s, '/etc')", theirs)
