"""Which files a session names, archived sessions included, and which of them others name too.

Its edits name archived originals; its messages name what they brought along and the pictures that they have.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, select, text

from zeus_runtime.store.packing import packed_rows
from zeus_runtime.store.tables import ArchiveRow, EditRow, HandleRow, MessageRow

_message = MessageRow.__table__  # type: ignore[attr-defined]
_edit = EditRow.__table__  # type: ignore[attr-defined]
_archive = ArchiveRow.__table__  # type: ignore[attr-defined]
_handle = HandleRow.__table__  # type: ignore[attr-defined]

_AT_ONCE: Final = 500
_NOTE: Final = text(
    "INSERT INTO original_handle (handle, thread) VALUES (:handle, :thread) ON CONFLICT DO NOTHING"
)


def edits_with_handles(connection: Connection, thread: int) -> list[Mapping[str, Any]]:
    """The edits of the thread that name an original, as JSON.

    Raises:
        RunError: the session's archive is damaged.
    """
    rows = connection.execute(select(_edit.c.payload).where(_edit.c.thread == thread)).scalars()
    packed = select(_archive.c.rows, _archive.c.digest).where(_archive.c.thread == thread)
    return list(_naming([*rows, *_unpacked(connection.execute(packed))]))


def named_elsewhere(connection: Connection, thread: int, handles: Collection[str]) -> set[str]:
    """Those of ``handles`` that an edit of another session names: two sessions may have archived the same text."""
    wanted, found = sorted(handles), set[str]()
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        query = select(_handle.c.handle).where(_handle.c.handle.in_(some), _handle.c.thread != thread)
        found.update(connection.execute(query).scalars())
    return found


def note_handles(connection: Connection, thread: int, payloads: Iterable[str]) -> None:
    """Note which originals new edits of the thread name, in the transaction that writes them."""
    for handle in {each["handle"] for each in _naming(payloads)}:
        connection.execute(_NOTE, {"handle": handle, "thread": thread})


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
    edits = (json.loads(payload) for payload in payloads if '"handle"' in payload)
    return (edit for edit in edits if isinstance(edit, dict) and edit.get("handle"))
