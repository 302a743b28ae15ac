"""Which files a session names, archived sessions included, and which of them others name too.

Its edits name archived originals; its messages name what they brought along and the pictures that they have.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select

from zeus_runtime.store.packing import packed_rows
from zeus_runtime.store.tables import ArchiveRow, EditRow, MessageRow

_message = MessageRow.__table__  # type: ignore[attr-defined]
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


def attached(connection: Connection, thread: int, route: str) -> set[str]:
    """The files below ``route`` that messages of the thread name.

    Raises:
        RunError: the session's archive is damaged.
    """
    rows = connection.execute(
        select(_message.c.payload).where(_message.c.thread == thread, _message.c.payload.contains(route))
    ).scalars()
    packed = select(_archive.c.rows, _archive.c.digest).where(_archive.c.thread == thread)
    return _attached([*rows, *_unpacked(connection.execute(packed), "message")], route)


def attached_elsewhere(connection: Connection, thread: int, paths: Collection[str], route: str) -> set[str]:
    """Those of ``paths`` that a message of another session names too.

    Raises:
        RunError: the archive of another session is damaged.
    """
    if not paths:
        return set()
    rows = connection.execute(
        select(_message.c.payload).where(_message.c.thread != thread, _message.c.payload.contains(route))
    ).scalars()
    packed = select(_archive.c.rows, _archive.c.digest).where(_archive.c.thread != thread)
    found = _attached(rows, route) | _attached(_unpacked(connection.execute(packed), "message"), route)
    return found.intersection(paths)


def _attached(payloads: Iterable[str], route: str) -> set[str]:
    named: set[str] = set()
    for payload in payloads:
        more = json.loads(payload).get("additional_kwargs") or {} if route in payload else {}
        named |= {each.get("copy", "") for each in more.get("references") or ()}
        named |= {each.get("path", "") for each in more.get("pictures") or ()}
    return {path for path in named if path.startswith(route)}


def _unpacked(rows: Iterable[Any], table: str = "context_edit") -> Iterator[str]:
    for data, digest in rows:
        yield from (row["payload"] for row in packed_rows(bytes(data), digest, table))


def _naming(payloads: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    return (edit for edit in map(json.loads, payloads) if edit.get("handle"))
