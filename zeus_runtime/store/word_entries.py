"""The lexical index of memories on PostgreSQL: which items of a place contain a word, and how often.

Under row-level security, PostgreSQL uses an index only for operators that it trusts not to reveal other rows. ``@@`` is
not one of them, so each search would read all rows of the place. Therefore a function of the tables' owner uses the
index, and returns only items whose rows the caller may see.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sqlalchemy.exc import DBAPIError

from zeus_runtime.store.compiled_statements import server_driver
from zeus_runtime.store.row_security import seen

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

_ENTRIES_OF: Final = """
  SELECT asked, found.keys, found.repeated FROM unnest({terms}) AS asked CROSS JOIN LATERAL (
    SELECT string_agg(int8send(item.key), ''::bytea) AS keys,
      string_agg(int8send(item.key) || int4send(cardinality((
        SELECT positions FROM unnest(item.words) WHERE lexeme = asked))), ''::bytea)
        FILTER (WHERE length(item.words) <> item.word_count) AS repeated
    FROM (
      SELECT key, place, scope, scope_id, created_by, visibility, words, word_count FROM memory_item
      WHERE {within}words @@ quote_literal(asked)::tsquery OFFSET 0
    ) AS item WHERE item.place = {place}{rule}
  ) AS found WHERE found.keys IS NOT NULL"""
"""OFFSET 0 keeps the planner from using the place's own index too, which is slower the larger the place is.

The entries are packed, because a row for each entry of a common word would take longer than the search. They are not
sorted, because sorting would take the server as long again.
"""
_OF_ALL: Final = {"terms": "%(terms)s::text[]", "place": "%(place)s", "within": "", "rule": ""}
_SEEN: Final = {"terms": "terms", "place": "wanted", "within": "", "rule": f" AND {seen('memory_item')}"}
_NAME: Final = "memory_words_seen(bigint, text[])"
_FUNCTION: Final = f"""
CREATE OR REPLACE FUNCTION memory_words_seen(wanted bigint, terms text[])
RETURNS TABLE (term text, keys bytea, repeated bytea) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {{schema}}, pg_temp
AS $${_ENTRIES_OF.format_map(_SEEN)}$$"""
"""It runs with the rights of the tables' owner, so it reads only that owner's tables: temporary ones come last."""
_VERSION: Final = hashlib.sha256(_FUNCTION.encode()).hexdigest()[:16]
"""Recorded with the function: one from another version of Zeus, with another policy, is replaced."""
_MAKING: Final = (
    _FUNCTION,
    f"COMMENT ON FUNCTION {_NAME} IS 'zeus {_VERSION}'",
    f"ALTER FUNCTION {_NAME} OWNER TO {{owner}}",
    f"REVOKE ALL ON FUNCTION {_NAME} FROM PUBLIC",
    # An older version's function, which revealed all users' keys.
    "DROP FUNCTION IF EXISTS memory_items_with(bigint, text[])",
)
_WITHOUT: Final = f"""
SELECT DISTINCT CASE WHEN given.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END
FROM pg_class, aclexplode(relacl) AS given
WHERE oid = to_regclass('memory_item') AND given.privilege_type = 'SELECT'
  AND CASE WHEN given.grantee = 0 THEN NOT has_function_privilege('public', '{_NAME}', 'EXECUTE')
    ELSE NOT has_function_privilege(given.grantee, '{_NAME}', 'EXECUTE') END"""
"""The roles that may read the table but not call the function."""

# Makes new words searchable in the index at once: with fastupdate, each search reads all that are not merged yet.
_AT_ONCE: Final = "ALTER INDEX memory_item_words SET (fastupdate = off)"
# Recording a use then changes only the row and no index, if the new version fits beside the old one.
_ROOM: Final = "ALTER TABLE memory_item SET (fillfactor = 85)"
_STATE: Final = f"""
SELECT pg_has_role(words.relowner, 'USAGE'), coalesce('fastupdate=off' = ANY (words.reloptions), false),
  coalesce(item.reloptions::text LIKE '%%fillfactor=%%', false),
  coalesce(obj_description(to_regprocedure('{_NAME}'), 'pg_proc') = 'zeus {_VERSION}', false),
  coalesce(has_function_privilege(to_regprocedure('{_NAME}'), 'EXECUTE'), false), row_security_active(item.oid),
  item.relnamespace::regnamespace::text, quote_ident(pg_get_userbyid(item.relowner))
FROM pg_class AS words, pg_class AS item
WHERE words.oid = to_regclass('memory_item_words') AND item.oid = to_regclass('memory_item')"""

Way: TypeAlias = Literal["of the place", "by the index", "behind the wall"]
"""How entries are searched: among the place's rows, by the index of words alone, or by the function."""
_ENTRIES: Final[Mapping[Way, str]] = {
    "of the place": _ENTRIES_OF.format_map({**_OF_ALL, "within": "place = %(place)s AND "}),
    "by the index": _ENTRIES_OF.format_map(_OF_ALL),
    "behind the wall": "SELECT * FROM memory_words_seen(%(place)s, %(terms)s)",
}


def prepare_words(connection: Connection) -> Way:
    """Prepare searches by words (PostgreSQL only), as far as this role owns the tables.

    Returns:
        the fastest way for ``entries``. If rows are secured and the owner has not made the function yet, searches take
        longer where many rows are visible.
    """
    state = None
    if connection.dialect.name == "postgresql":
        state = connection.exec_driver_sql(_STATE).one_or_none()
    if state is None:
        return "of the place"
    owned, at_once, room, current, allowed, secured, schema, owner = state
    missing = [each for each, is_set in ((_AT_ONCE, at_once), (_ROOM, room)) if not is_set]
    if owned and missing:
        _set(connection, missing)
    if owned:
        _provide(connection, schema, owner, is_made=current)
    if not secured:
        return "by the index"
    if owned or (current and allowed):
        return "behind the wall"
    _log.warning("searches by words read whole places: run `zeus db upgrade` as the owner of the tables")
    return "of the place"


def _provide(connection: Connection, schema: str, owner: str, *, is_made: bool) -> None:
    """Make this version's function, and let every role that may read the table call it."""
    for each in () if is_made else _MAKING:
        connection.exec_driver_sql(each.replace("{schema}", schema).replace("{owner}", owner))
    for role in connection.exec_driver_sql(_WITHOUT).scalars().all():
        connection.exec_driver_sql(f"GRANT EXECUTE ON FUNCTION {_NAME} TO {role}")


def _set(connection: Connection, settings: Sequence[str]) -> None:
    """Apply the settings, unless constant writes lock the table; then the next opening of memory tries again."""
    try:
        with connection.begin_nested():
            before = connection.exec_driver_sql("SELECT current_setting('lock_timeout')").scalar_one()
            connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            for each in settings:
                connection.exec_driver_sql(each)
            connection.exec_driver_sql(
                "SELECT set_config('lock_timeout', %(before)s, true)", {"before": before}
            )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCKED:
            raise
        _log.info("memory_item and its index of words keep their settings for now: they are in use")


_LOCKED: Final = "55P03"


def entries(
    connection: Connection, place: int, terms: Sequence[str], way: Way
) -> dict[str, tuple[bytes, bytes]]:
    """By term: the keys of the place's items that contain it, unordered, and counts for items that repeat a word.

    The keys are big-endian int8, the counts pairs of such a key and an int4. Terms without items are left out.
    """
    rows = server_driver(connection).execute(
        _ENTRIES[way], {"place": place, "terms": list(terms)}, binary=True
    )
    return {term: (keys, repeated or b"") for term, keys, repeated in rows}
