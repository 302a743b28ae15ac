"""The row of a user, project or session: a change of its items locks it, and it counts the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, or_, select, text, update

from zeus_runtime.memory.items import Scope
from zeus_runtime.memory.permissions import Reach
from zeus_runtime.memory.retrieval.analysis import ANALYSIS
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import PLACE

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class MemoryPlace:
    """The row of a user, project or session, held until the transaction ends."""

    key: int
    changes: int


def lock_place(connection: Connection, scope: Scope, scope_id: str) -> MemoryPlace:
    """The place's row, made if it is new; no other transaction changes its items until this one ends."""
    which = {"scope": scope, "scope_id": scope_id}
    found = _PLACE.rows(connection, which)
    if not found:
        # Another process may insert it first: DO NOTHING then waits for its transaction, and the row is read and
        # locked below.
        connection.execute(_NEW_PLACE, which)
        found = _PLACE.rows(connection, which)
    ((key, changes),) = found
    return MemoryPlace(key, changes)


_PLACE: Final = Prepared(
    select(PLACE.c.key, PLACE.c.changes)
    .where(PLACE.c.scope == bindparam("scope"), PLACE.c.scope_id == bindparam("scope_id"))
    .with_for_update()
)
_NEW_PLACE = text(
    f"INSERT INTO memory_place (scope, scope_id, changes, analysis) VALUES (:scope, :scope_id, 0, {ANALYSIS})"
    " ON CONFLICT (scope, scope_id) DO NOTHING"
)
_COUNT_CHANGE: Final = Prepared(
    update(PLACE).where(PLACE.c.key == bindparam("place")).values(changes=bindparam("now"))
)


def changed(connection: Connection, place: MemoryPlace) -> MemoryPlace:
    """Count one more change of the place, for the items that are written next."""
    _COUNT_CHANGE.run(connection, {"place": place.key, "now": place.changes + 1})
    return MemoryPlace(place.key, place.changes + 1)


def places(connection: Connection, parts: Sequence[Reach]) -> list[int]:
    """The keys of the places of a reach that have a row; items are found by these, which the indexes begin with."""
    if not parts:
        return []
    wanted = or_(*(and_(PLACE.c.scope == part.scope, PLACE.c.scope_id == part.scope_id) for part in parts))
    return list(connection.execute(select(PLACE.c.key).where(wanted)).scalars())
