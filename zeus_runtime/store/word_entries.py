"""The lexical index of the memories on PostgreSQL: which items of a place have a word, and how often.

Behind row-level security PostgreSQL asks an index only by operators that it trusts to tell nothing of other rows, and
``@@`` is not one of them: each question would read all rows of the place. So a function of the tables' owner asks the
index for keys, and the caller sees those of rows that are his.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

_FUNCTION: Final = """
CREATE OR REPLACE FUNCTION memory_items_with(wanted bigint, terms text[])
RETURNS TABLE (term text, key bigint, often integer) LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT asked.term, entry.key, CASE WHEN length(entry.words) = entry.word_count THEN 1
    ELSE cardinality((SELECT positions FROM unnest(entry.words) WHERE lexeme = asked.term)) END
  FROM unnest(terms) AS asked(term) CROSS JOIN LATERAL (
    SELECT item.key, item.place, item.words, item.word_count FROM memory_item AS item
    WHERE item.words @@ quote_literal(asked.term)::tsquery OFFSET 0
  ) AS entry WHERE entry.place = wanted
$$"""
"""OFFSET 0 keeps the planner from asking the place's own index too, which takes longer the larger the place is."""

# New words are found in the index at once: before, each search went through all that were not sorted into it yet.
_AT_ONCE: Final = "ALTER INDEX memory_item_words SET (fastupdate = off)"
_STATE: Final = """
SELECT pg_has_role(relowner, 'USAGE'), coalesce('fastupdate=off' = ANY (reloptions), false),
  to_regprocedure('memory_items_with(bigint, text[])') IS NOT NULL, row_security_active('memory_item')
FROM pg_class WHERE oid = to_regclass('memory_item_words')"""

_FOUND: Final = "memory_items_with(%(place)s, %(terms)s)"
# OFFSET 0 again: for many keys the planner would rather read all rows that are the caller's.
_SEEN: Final = f"""(
  SELECT found.* FROM {_FOUND} AS found
  CROSS JOIN LATERAL (SELECT FROM memory_item WHERE memory_item.key = found.key OFFSET 0) AS seen)"""
_OF_PLACE: Final = """unnest(%(terms)s::text[]) AS term CROSS JOIN LATERAL (
  SELECT key, CASE WHEN length(words) = word_count THEN 1
    ELSE cardinality((SELECT positions FROM unnest(words) WHERE lexeme = term)) END AS often
  FROM memory_item WHERE place = %(place)s AND words @@ quote_literal(term)::tsquery OFFSET 0)"""

Way: TypeAlias = Literal["of the place", "by function", "behind the wall"]
"""How entries are asked for: with the place's other index, by the function, or by it where rows are secured."""
_PACKED: Final = """
SELECT term, string_agg(int8send(key), ''::bytea ORDER BY key), string_agg(int4send(often), ''::bytea ORDER BY key)
FROM {found} AS entry GROUP BY term"""
_ENTRIES: Final[Mapping[Way, str]] = {
    "of the place": _PACKED.format(found=_OF_PLACE),
    "by function": _PACKED.format(found=_FOUND),
    "behind the wall": _PACKED.format(found=_SEEN),
}


def prepare_words(connection: Connection) -> Way:
    """Make what searches by words ask (PostgreSQL; nothing elsewhere), as far as this role owns the tables.

    Returns:
        how ``entries`` had better ask. Without the function, which the owner makes, it takes longer where much is in
        reach.
    """
    state = None
    if connection.dialect.name == "postgresql":
        state = connection.exec_driver_sql(_STATE).one_or_none()
    if state is None:
        return "of the place"
    owned, at_once, there, secured = state
    if owned and not at_once:
        _find_new_words_at_once(connection)
    if owned and not there:
        connection.exec_driver_sql(_FUNCTION)
    if not (owned or there):
        return "of the place"
    return "behind the wall" if secured else "by function"


def _find_new_words_at_once(connection: Connection) -> None:
    """Where somebody writes all the while, the next one who opens memory will do it."""
    try:
        with connection.begin_nested():
            before = connection.exec_driver_sql("SELECT current_setting('lock_timeout')").scalar_one()
            connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            connection.exec_driver_sql(_AT_ONCE)
            connection.exec_driver_sql(
                "SELECT set_config('lock_timeout', %(before)s, true)", {"before": before}
            )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCKED:
            raise
        _log.info("memory_item_words keeps its list of new words for now: its table is in use")


_LOCKED: Final = "55P03"


def entries(
    connection: Connection, place: int, terms: Sequence[str], way: Way
) -> dict[str, tuple[bytes, bytes]]:
    """Term to the keys of the place's items that have it and how often each does, as big-endian int8 and int4.

    In one statement, and packed: a row for each entry of a common word would take longer than to find them.
    """
    raw: Any = connection.connection.dbapi_connection
    rows = raw.execute(_ENTRIES[way], {"place": place, "terms": list(terms)}, binary=True)
    return {term: (keys, counts) for term, keys, counts in rows}
