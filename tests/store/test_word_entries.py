"""What searches by words ask of PostgreSQL is there after the first opening, or after the next one."""

from __future__ import annotations

import secrets

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import ProgrammingError

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


def test_what_another_version_made_is_made_anew_and_what_an_older_one_made_goes(url: str) -> None:
    execute(
        url,
        "CREATE FUNCTION memory_items_with(wanted bigint, terms text[]) RETURNS bigint"
        " LANGUAGE sql AS 'SELECT wanted'",
        "CREATE FUNCTION memory_words_seen(wanted bigint, terms text[])"
        " RETURNS TABLE (term text, keys bytea, repeated bytea) LANGUAGE sql AS"
        " $$SELECT 'told', ''::bytea, ''::bytea$$",
    )
    with as_agent(url) as restricted:
        with connected(restricted) as connection, connection.begin():
            assert prepare_words(connection) == "of the place", "it is another version's"
        with connected(url) as connection, connection.begin():
            prepare_words(connection)
        with connected(restricted) as connection, connection.begin():
            assert prepare_words(connection) == "behind the wall"
            assert entries(connection, 1, ["1_word"], "behind the wall") == {}
    assert execute(url, "SELECT to_regprocedure('memory_items_with(bigint, text[])') IS NULL") == [(True,)]


def test_who_may_not_read_the_memories_may_not_ask_the_function(url: str) -> None:
    with connected(url) as connection, connection.begin():
        prepare_words(connection)
    role = f"zeus_stranger_{secrets.token_hex(4)}"
    execute(url, f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA public TO {role}")
    try:
        with connected(url) as connection:
            connection.exec_driver_sql(f"SET ROLE {role}")
            with pytest.raises(ProgrammingError, match="permission denied for function"):
                connection.exec_driver_sql("SELECT * FROM memory_words_seen(1, ARRAY['1_word'])")
    finally:
        execute(url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_callers_own_tables_and_functions_are_not_asked_with_the_owners_rights(url: str) -> None:
    with connected(url) as connection, connection.begin():
        prepare_words(connection)
    with as_agent(url) as restricted, connected(restricted) as connection, connection.begin():
        connection.exec_driver_sql(
            "CREATE FUNCTION pg_temp.evil() RETURNS text LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'it runs as somebody else'; END$$"
        )
        connection.exec_driver_sql(
            "CREATE TEMP VIEW memory_item AS SELECT 1::bigint AS key, 1::bigint AS place, pg_temp.evil() AS scope,"
            " 'ann'::text AS scope_id, 'ann'::text AS created_by, 'members'::text AS visibility,"
            " $$'1_word':1$$::tsvector AS words, 1 AS word_count"
        )
        connection.exec_driver_sql("GRANT SELECT ON memory_item TO PUBLIC")
        connection.exec_driver_sql("SET LOCAL zeus.user_id = 'ann'")
        assert entries(connection, 1, ["1_word"], "behind the wall") == {}


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
