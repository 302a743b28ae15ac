"""Profiles as rows: what a hand wrote, the lines drawn from memories, and how far memories were drawn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, insert, or_, select, update

from zeus_runtime.memory import records
from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.permissions import Reach
from zeus_runtime.memory.profile.fields import (
    ProfileField,
    ProfileKind,
    ProfileValue,
    field_names,
    line_of,
    profile_fields,
)
from zeus_runtime.store.memory_tables import ITEM, PLACE, PROJECT_PROFILE, USER_PROFILE

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Table

MOST_ITEMS: Final = 2_000
"""The newest memories that a profile is drawn from."""

_TABLES: Final[Mapping[ProfileKind, tuple[Table, str]]] = {
    "user": (USER_PROFILE, "user_id"),
    "project": (PROJECT_PROFILE, "project_id"),
}


@dataclass(frozen=True)
class StoredProfile:
    """A profile as it is stored.

    Args:
        written: field to what a hand wrote; empty for fields that no hand wrote.
        lines: drawn from memories.
        drawn_ms: up to which change of a memory; UTC milliseconds.
        version: counts its changes; 0 for one that is not there.
    """

    written: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[ProfileValue] = ()
    drawn_ms: int = 0
    version: int = 0


def stored(connection: Connection, kind: ProfileKind, owner: str, *, held: bool = False) -> StoredProfile:
    """The profile of a user or a project; an empty one where there is none.

    Args:
        held: locked until the transaction ends.
    """
    table, key = _TABLES[kind]
    if held:
        # A lock by name and not of the row, as the row may not exist yet.
        records.lock(connection, f"{kind} profile {owner}")
    row = connection.execute(select(table).where(table.c[key] == owner)).first()
    if row is None:
        return StoredProfile()
    values = row._mapping
    drawn = json.loads(values["lines"] or "{}")
    return StoredProfile(
        {name: values[name] for name in field_names(kind)},
        tuple(map(line_of, drawn.get("lines", ()))),
        drawn.get("drawn_ms", 0),
        values["version"],
    )


def keep(
    connection: Connection, kind: ProfileKind, owner: str, profile: StoredProfile, now: datetime
) -> None:
    """Write the profile as its next version."""
    table, key = _TABLES[kind]
    values = {
        **{name: profile.written.get(name, "") for name in field_names(kind)},
        "lines": _lines_text(profile.lines, profile.drawn_ms),
        "version": profile.version + 1,
        "updated_ms": records.to_ms(now),
    }
    if profile.version:
        connection.execute(update(table).where(table.c[key] == owner).values(values))
    else:
        connection.execute(insert(table), {key: owner, **values})


def _lines_text(lines: Sequence[ProfileValue], drawn_ms: int) -> str:
    return json.dumps({"drawn_ms": drawn_ms, "lines": [line.as_json() for line in lines]}, ensure_ascii=False)


def shown(
    connection: Connection, kind: ProfileKind, owner: str, reach: Sequence[Reach], user_id: str, now: datetime
) -> tuple[ProfileField, ...]:
    """Every field as it is now: lines whose memories went or changed are left out."""
    profile = standing(connection, kind, owner, reach, user_id, now)
    versions = {each: version for line in profile.lines for each, version in line.sources.items()}
    return profile_fields(kind, profile.written, profile.lines, versions)


def standing(
    connection: Connection, kind: ProfileKind, owner: str, reach: Sequence[Reach], user_id: str, now: datetime
) -> StoredProfile:
    """The profile with the lines that stand now."""
    profile = stored(connection, kind, owner)
    versions = _versions(connection, profile, _holding(kind, owner, reach, user_id, now))
    return replace(profile, lines=tuple(line for line in profile.lines if line.stands(versions)))


def fresh(
    connection: Connection,
    kind: ProfileKind,
    owner: str,
    reach: Sequence[Reach],
    user_id: str,
    now: datetime,
) -> int:
    """How many memories are new or changed since the profile was drawn, those that lines lost included."""
    profile = stored(connection, kind, owner)
    where = _holding(kind, owner, reach, user_id, now)
    new = records.count(connection, and_(where, ITEM.c.updated_ms > profile.drawn_ms))
    return new + len(_source_ids(profile)) - len(_versions(connection, profile, where))


def _source_ids(profile: StoredProfile) -> set[str]:
    return {each for line in profile.lines for each in line.sources}


def _versions(connection: Connection, profile: StoredProfile, where: ColumnElement[bool]) -> dict[str, int]:
    """The sources that are there and meet ``where``, with their versions."""
    found: dict[str, int] = {}
    for some in records.portions(_source_ids(profile)):
        query = select(ITEM.c.id, ITEM.c.version).where(ITEM.c.id.in_(some), where)
        found |= {row[0]: row[1] for row in connection.execute(query)}
    return found


def sources(
    connection: Connection,
    kind: ProfileKind,
    owner: str,
    reach: Sequence[Reach],
    user_id: str,
    now: datetime,
) -> list[MemoryItem]:
    """The memories that the profile is drawn from, oldest change first, the newest ``MOST_ITEMS``."""
    where = _holding(kind, owner, reach, user_id, now)
    return records.items(connection, where, newest=True, limit=MOST_ITEMS)[::-1]


def _holding(
    kind: ProfileKind, owner: str, reach: Sequence[Reach], user_id: str, now: datetime
) -> ColumnElement[bool]:
    place = select(PLACE.c.key).where(PLACE.c.scope == kind, PLACE.c.scope_id == owner)
    now_ms = records.to_ms(now)
    return and_(
        ITEM.c.place.in_(place),
        records.reach_filter(reach, user_id),
        ITEM.c.status == "active",
        ITEM.c.trust == "trusted",
        *([ITEM.c.visibility != "owner_only"] if kind == "project" else []),
        or_(ITEM.c.valid_from_ms.is_(None), ITEM.c.valid_from_ms <= now_ms),
        or_(ITEM.c.valid_until_ms.is_(None), ITEM.c.valid_until_ms > now_ms),
    )


class ProfileLines:
    """Lines drawn from memories are deleted with them, in the same transaction."""

    def forget(self, connection: Connection, ids: Collection[str]) -> None:
        """Remove the lines that came from these memories."""
        for (table, key), some in itertools.product(_TABLES.values(), records.portions(ids)):
            # In quotes, as in the JSON, so that no id is found within a longer one.
            named = or_(*(table.c.lines.contains(f'"{each}"', autoescape=True) for each in some))
            for row in connection.execute(select(table.c[key], table.c.lines).where(named)).all():
                drawn = json.loads(row[1])
                left = [kept for each in drawn["lines"] if (kept := line_of(each).without(ids)) is not None]
                text = _lines_text(left, drawn["drawn_ms"])
                connection.execute(update(table).where(table.c[key] == row[0]).values(lines=text))
