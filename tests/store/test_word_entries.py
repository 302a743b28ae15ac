"""What searches by words ask of PostgreSQL is there after the first opening, or after the next one."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, create_engine, text

from tests.support.databases import execute
from tests.support.least_rights import as_agent
from zeus_runtime.store.memory_tables import create_memory_tables
from zeus_runtime.store.postgres import connection_arguments, driver_url
from zeus_runtime.store.word_entries import entries, prepare_words

AT_ONCE = (
    "SELECT coalesce('fastupdate=off' = ANY (reloptions), false)"
    " FROM pg_class WHERE relname = 'memory_item_words'"
)
FILLED = """
INSERT INTO memory_item (id, place, changed, scope, scope_id, content, digest, words, word_count, memory_type,
  created_by, source, confidence, visibility, status, trust, version, created_ms, updated_ms)
SELECT 'm' || number, 1, 1, 'user',
  'ann', repeat('word ', 20), '', '''1_word''', 1, 'fact', 'ann', 'user', 1, 'members',
  'active', 'stated', 1, 0, 0 FROM generate_series(1, 300) AS number"""
USED = "UPDATE memory_item SET last_used_ms = 1 WHERE key % 30 = 0"
IN_PLACE = "SELECT pg_stat_get_xact_tuples_hot_updated('memory_item'::regclass)"


@pytest.fixture
def url(postgres_url: str) -> str:
    """A database with the tables and nothing else."""
    with connected(postgres_url) as connection, connection.begin():
        create_memory_tables(connection)
    return postgres_url


def connected(url: str) -> Connection:
    return create_engine(
        driver_url(url), connect_args=connection_arguments(url), use_native_hstore=False
    ).connect()


def test_the_owner_makes_it_and_others_use_it(url: str) -> None:
    with as_agent(url) as restricted:
        with connected(restricted) as connection, connection.begin():
            assert prepare_words(connection) == "of the place"
            assert entries(connection, 1, ["1_word"], "of the place") == {}
        with connected(url) as connection, connection.begin():
            before = connection.execute(text("SHOW lock_timeout")).scalar_one()
            assert prepare_words(connection) == "by the index"
            assert prepare_words(connection) == "by the index"
            assert connection.execute(text("SHOW lock_timeout")).scalar_one() == before
        with connected(restricted) as connection, connection.begin():
            assert prepare_words(connection) == "behind the wall"
            assert entries(connection, 1, ["1_word"], "behind the wall") == {}
    assert execute(url, AT_ONCE) == [(True,)]


def test_an_older_versions_function_goes_when_this_ones_is_made(url: str) -> None:
    execute(
        url,
        "CREATE FUNCTION memory_items_with(wanted bigint, terms text[]) RETURNS bigint"
        " LANGUAGE sql AS 'SELECT wanted'",
    )
    with connected(url) as connection, connection.begin():
        prepare_words(connection)
    assert execute(url, "SELECT to_regprocedure('memory_items_with(bigint, text[])') IS NULL") == [(True,)]


def test_tables_in_use_are_left_for_the_next_one(url: str) -> None:
    with connected(url) as writing, connected(url) as opening:
        # As a transaction that saves a memory holds it.
        writing.execute(text("SET enable_seqscan = off"))
        writing.execute(text("SELECT count(*) FROM memory_item WHERE words @@ 'x'::tsquery"))
        with opening.begin():
            assert prepare_words(opening) == "by the index"
        assert execute(url, AT_ONCE) == [(False,)]
    with connected(url) as later, later.begin():
        assert prepare_words(later) == "by the index"
    assert execute(url, AT_ONCE) == [(True,)]


def test_that_a_memory_was_used_changes_no_index(url: str) -> None:
    with connected(url) as connection:
        with connection.begin():
            prepare_words(connection)
        with connection.begin():
            connection.exec_driver_sql(FILLED)
        with connection.begin():
            assert connection.execute(text(USED)).rowcount == 10
            assert connection.execute(text(IN_PLACE)).scalar_one() == 10


def test_room_that_somebody_chose_is_left_as_it_is(url: str) -> None:
    execute(url, "ALTER TABLE memory_item SET (fillfactor = 60)")
    with connected(url) as connection, connection.begin():
        prepare_words(connection)
    assert execute(url, "SELECT reloptions FROM pg_class WHERE relname = 'memory_item'") == [
        (["fillfactor=60"],)
    ]
