"""Items as rows: nothing is lost on the way, and the reach is the same in SQL as in ``may``."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine

from zeus_runtime.memory import records
from zeus_runtime.memory.items import (
    MEMORY_TYPES,
    ROLES,
    SCOPES,
    STATUSES,
    VISIBILITIES,
    Caller,
    Embedding,
    MemoryItem,
    Source,
)
from zeus_runtime.memory.permissions import OPERATIONS, may, reach
from zeus_runtime.store.memory_tables import ITEM, create_memory_tables, secures_deletes

NOW = records.from_ms(1_767_225_600_123)
NUMBERS = itertools.count()
times = st.integers(0, 4_000_000_000_000).map(records.from_ms)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
items = st.builds(
    MemoryItem,
    id=st.just("m"),
    content=words,
    memory_type=st.sampled_from(MEMORY_TYPES),
    scope=st.sampled_from(SCOPES),
    scope_id=words,
    created_by=words,
    source=st.sampled_from(get_args(Source)),
    source_id=st.none() | words,
    confidence=st.floats(0, 1),
    visibility=st.sampled_from(VISIBILITIES),
    status=st.sampled_from(STATUSES),
    trust=st.sampled_from(["trusted", "untrusted", "quarantined"]),
    subject=st.none() | words,
    valid_from=st.none() | times,
    valid_until=st.none() | times,
    superseded_by=st.none() | words,
    embedding=st.none() | st.builds(Embedding, words, st.integers(1, 4_000)),
    version=st.integers(1, 1_000),
    created_at=times,
    updated_at=times,
    last_used_at=st.none() | times,
)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as opened, opened.begin():
        create_memory_tables(opened)
        yield opened


def kept(connection: Connection, item: MemoryItem) -> records.MemoryPlace:
    place = records.changed(connection, records.lock_place(connection, item.scope, item.scope_id))
    records.write(connection, item, place)
    return place


@settings(max_examples=50, deadline=None)
@given(item=items)
def test_an_item_comes_back_as_it_was(connection: Connection, item: MemoryItem) -> None:
    item = replace(item, id=f"m{next(NUMBERS)}")
    kept(connection, item)
    assert records.items(connection, ITEM.c.id == item.id) == [item]
    changed = records.new_version(item, NOW, content="another text", status="active")
    records.rewrite(connection, changed, records.lock_place(connection, item.scope, item.scope_id))
    assert records.items(connection, ITEM.c.id == item.id) == [changed]


def plain(item_id: str, **more: object) -> MemoryItem:
    values: dict[str, object] = {
        "content": "some text",
        "memory_type": "fact",
        "scope": "user",
        "scope_id": "ann",
        "created_by": "ann",
        "source": "user",
        "confidence": 1.0,
        "created_at": NOW,
        "updated_at": NOW,
        **more,
    }
    return MemoryItem(id=item_id, **values)  # type: ignore[arg-type]


def test_the_reach_in_sql_is_what_may_says_for_everyone_and_everything() -> None:
    engine = create_engine("sqlite://")
    everything = [
        plain(
            "-".join((scope, scope_id, owner, visibility)),
            scope=scope,
            scope_id=scope_id,
            created_by=owner,
            visibility=visibility,
        )
        for scope, scope_id in (
            ("user", "ann"), ("user", "bob"), ("project", "p"), ("project", "q"), ("session", "s"), ("session", "t")
        )
        for owner in ("ann", "bob")
        for visibility in VISIBILITIES
    ]  # fmt: skip
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        for item in everything:
            kept(connection, item)
        for user, project, role, session in itertools.product(
            ("ann", "bob", ""), (None, "p"), (None, *ROLES), (None, "s")
        ):
            caller = Caller(user, project, role, session)
            for operation in OPERATIONS:
                parts = reach(caller, operation)
                found = records.items(connection, records.reach_filter(parts, user))
                assert {item.id for item in found} == {
                    item.id for item in everything if may(caller, operation, item)
                }, (caller, operation)
                for item in everything[::5]:
                    asked = records.find(connection, item.id, caller, operation)
                    assert (asked is not None) == may(caller, operation, item)


def test_an_empty_reach_finds_nothing(connection: Connection) -> None:
    kept(connection, plain("alone"))
    assert records.items(connection, records.reach_filter((), "ann")) == []
    assert records.listed(connection, (), "ann") == []


def test_a_removed_item_leaves_no_text_anywhere() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        item = plain("m1", content="a quixotic text")
        place = kept(connection, item)
        records.record(connection, "stored", "ann", NOW, item)
        place = records.changed(connection, place)
        records.remove(connection, ["m1"], place)
        records.record(connection, "deleted", "ann", NOW, item)
        dump = "\n".join(connection.connection.dbapi_connection.iterdump())  # type: ignore[union-attr]
        assert "quixotic" not in dump
        assert [(each.action, each.content) for each in records.history(connection, "m1")] == [
            ("stored", ""),
            ("deleted", ""),
        ]


def wear(connection: Connection) -> None:
    """Write words and remove some until the index has hundreds of levels."""
    for number in range(600):
        for key in range(number * 10 + 1_000, number * 10 + 1_005):
            words = (key, f"1_word{number} 1_other{key}")
            connection.exec_driver_sql("INSERT INTO memory_words(rowid, words) VALUES (?, ?)", words)
        gone = (key, words[1])
        connection.exec_driver_sql(
            "INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', ?, ?)", gone
        )
        connection.exec_driver_sql("INSERT INTO memory_words(memory_words) VALUES ('optimize')")


def level_bytes(connection: Connection) -> int:
    return int(
        connection.exec_driver_sql("SELECT length(block) FROM memory_words_data WHERE id = 10").scalar_one()
    )


@pytest.mark.skipif(secures_deletes(), reason="this SQLite removes words without optimize")
def test_the_lexical_index_lives_through_any_number_of_removals() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        kept(connection, plain("left", content="a text"))
        place = kept(connection, plain("gone", content="a quixotic text"))
        wear(connection)
        assert level_bytes(connection) > 1_000
        records.remove(connection, ["gone"], records.changed(connection, place))
        assert level_bytes(connection) < 100
        connection.exec_driver_sql(
            "INSERT INTO memory_words(memory_words, rank) VALUES ('integrity-check', 1)"
        )


def test_a_lexical_index_that_removals_broke_is_made_anew() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        kept(connection, plain("left", content="a quixotic text"))
        broken = b"\0" * 4 + b"\x8f\x52" + b"\0" * 4_010
        connection.exec_driver_sql("UPDATE memory_words_data SET block = ? WHERE id = 10", (broken,))
        records.rebuild_words(connection)
        connection.exec_driver_sql(
            "INSERT INTO memory_words(memory_words, rank) VALUES ('integrity-check', 1)"
        )
        found = connection.exec_driver_sql("SELECT doc FROM memory_word WHERE term LIKE '%quixot'").all()
        assert len(found) == 1


def test_only_extractions_within_the_window_count_and_older_ones_are_forgotten(
    connection: Connection,
) -> None:
    since = NOW - timedelta(hours=24)
    for at in (since, since + timedelta(milliseconds=1), NOW):
        records.record_extraction(connection, "s9", at, since - timedelta(days=1))
    records.record_extraction(connection, "other", NOW, since)
    assert records.extractions(connection, "s9", since) == 2
    records.record_extraction(connection, "s9", NOW, since)
    rows = connection.exec_driver_sql("SELECT COUNT(*) FROM extraction_log WHERE session = 's9'").scalar_one()
    assert rows == 3


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("SELECT id FROM memory_item WHERE id = 'm'", "sqlite_autoindex_memory_item_1"),
        ("SELECT key FROM memory_item WHERE place = 1 AND changed > 5", "memory_item_changed"),
        ("SELECT id FROM memory_item WHERE digest = 'd' AND status = 'active'", "memory_item_digest"),
        (
            "SELECT id FROM memory_item WHERE place IN (1) AND status = 'active' ORDER BY updated_ms DESC",
            "memory_item_listed",
        ),
        ("SELECT id FROM memory_item WHERE superseded_by IN ('a')", "memory_item_superseded"),
        ("SELECT content FROM memory_history WHERE item = 'm' ORDER BY key", "memory_history_of"),
        ("SELECT COUNT(*) FROM extraction_log WHERE session = 's' AND at_ms > 5", "extraction_log_of"),
        ("SELECT key FROM memory_place WHERE scope = 'user' AND scope_id = 'a'", "memory_place_of"),
    ],
)
def test_each_question_has_its_index(connection: Connection, statement: str, index: str) -> None:
    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
    assert all(index in row[3] for row in plan if "memory_" in row[3] or "extraction" in row[3]), plan
    assert any(index in row[3] for row in plan), plan


def test_more_ids_than_a_statement_takes_are_read_and_removed(connection: Connection) -> None:
    item = MemoryItem(
        "old",
        "a",
        MEMORY_TYPES[0],
        "user",
        "many",
        "ann",
        get_args(Source)[0],
        1.0,
        NOW,
        NOW,
        superseded_by="id 1500",
    )
    place = kept(connection, item)
    ids = {f"id {number}" for number in range(2_000)}
    raw = connection.connection.driver_connection
    assert raw is not None
    most = raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
    try:
        assert records.superseded_by(connection, ids) == [item]
        assert records.histories(connection, ids | {"old"}) == {}
        assert records.linked(connection, ids | {"old"}, (), "ann") == {}
        records.unlink(connection, ids | {"old"})
        records.remove(connection, ids | {"old"}, place)
    finally:
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most)
    assert records.items(connection, ITEM.c.id == "old") == []
