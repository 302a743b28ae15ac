"""Profiles as rows: one with more sources than a statement takes."""

from __future__ import annotations

import sqlite3

from sqlalchemy import create_engine

from tests.support.memory import START
from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, MemoryItem
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.profile import rows
from zeus_runtime.memory.profile.fields import ProfileValue
from zeus_runtime.store.memory_tables import create_memory_tables

ANN = Caller("ann")


def test_a_profile_may_have_more_sources_than_a_statement_takes() -> None:
    others = [f"id {number}" for number in range(2_000)]
    drawn = [
        ProfileValue("programming_languages", "Rust", {**dict.fromkeys(others, 1), "mine": 1}),
        ProfileValue("characteristics", "orderly", {"id 1999": 1}),
    ]
    item = MemoryItem("mine", "uses Rust", "fact", "user", "ann", "ann", "user", 1.0, START, START)
    seen = ("user", "ann", reach(ANN, "read", "user"), "ann", START)
    with create_engine("sqlite://").connect() as connection, connection.begin():
        create_memory_tables(connection)
        records.write(
            connection, item, records.changed(connection, records.lock_place(connection, "user", "ann"))
        )
        rows.keep(connection, "user", "ann", rows.StoredProfile(lines=drawn), START)
        raw = connection.connection.driver_connection
        assert raw is not None
        # SQLite before 3.32 takes no more.
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        assert [line.value for line in rows.standing(connection, *seen).lines] == ["Rust"]
        # The item is new to a profile that was never drawn, and the other sources have gone.
        assert rows.fresh(connection, *seen) == 1 + len(others)
        rows.ProfileLines().forget(connection, others)
        (line,) = rows.stored(connection, "user", "ann").lines
    assert line.sources == {"mine": 1}
