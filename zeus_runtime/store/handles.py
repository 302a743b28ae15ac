"""Which archived originals a session's edits name, archived sessions included, and which of them others name too."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select

from zeus_runtime.store.packing import packed_rows
from zeus_runtime.store.tables import ArchiveRow, EditRow

_edit = EditRow.__table__  # type: ignore[attr-defined]
_archive = ArchiveRow.__table__  # type: ignore[attr-defined]


def edits_with_handles(connection: Connection, thread: int) -> list[Mapping[str, Any]]:
    """The edits of the thread that name an original, as JSON.

    Raises:
        RunError: the session's archive is damaged.
    """
    rows = connection.execute(select(_edit.c.payload).where(_edit.c.thread == thread)).scalars()
    packed = select(_archive.c.rows, _archive.c.digest).where(_archive.c.thread == thread)
    return list(_naming([*rows, *_unpacked(connection.execute(packed))]))


def named_elsewhere(connection: Connection, thread: int, handles: Collection[str]) -> set[str]:
    """Those of ``handles`` that an edit of another session names: two sessions may have archived the same text.

    Raises:
        RunError: the archive of another session is damaged.
    """
    if not handles:
        return set()
    rows = connection.execute(select(_edit.c.payload).where(_edit.c.thread != thread)).scalars()
    packed = select(_archive.c.rows, _archive.c.digest).where(_archive.c.thread != thread)
    found = {each["handle"] for each in _naming(rows)}
    found |= {each["handle"] for each in _naming(_unpacked(connection.execute(packed)))}
    return found.intersection(handles)


def _unpacked(rows: Iterable[Any]) -> Iterator[str]:
    for data, digest in rows:
        yield from (row["payload"] for row in packed_rows(bytes(data), digest, "context_edit"))


def _naming(payloads: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    return (edit for edit in map(json.loads, payloads) if edit.get("handle"))
