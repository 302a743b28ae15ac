"""What the profiles' rows say, as lines for a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from zeus_runtime.store.memory_tables import PROJECT_PROFILE, USER_PROFILE

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_NOT_SHOWN: Final = frozenset({"user_id", "project_id", "version", "updated_ms", "lines"})


def profile_lines(connection: Connection, user_id: str, project_id: str | None) -> list[str]:
    """The user's profile and the project's, one ``name: value`` per line; what is not known is left out."""
    return [
        *_lines(connection, USER_PROFILE, "user_id", user_id),
        *(_lines(connection, PROJECT_PROFILE, "project_id", project_id) if project_id else ()),
    ]


def _lines(connection: Connection, table: Table, key: str, value: str) -> Iterator[str]:
    row = connection.execute(select(table).where(table.c[key] == value)).first()
    if row is None:
        return
    values = row._mapping
    for name, text in values.items():
        if name not in _NOT_SHOWN and (shown := _shown(text)):
            yield f"{name}: {shown}"


def _shown(text: str) -> str:
    if not text.startswith("["):
        return " ".join(text.split())
    return "; ".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in json.loads(text)
    )
