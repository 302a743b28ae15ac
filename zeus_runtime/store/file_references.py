"""The files that a session names, even if archived, and which of them other sessions name too.

Edits name archived originals; messages name attachments, pictures and files that tools saved.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, select, text

from zeus_runtime.store.compression import packed_rows
from zeus_runtime.store.row_security import for_everyone
from zeus_runtime.store.tables import ARCHIVE, EDIT, HANDLE, THREAD
from zeus_runtime.store.threads import Owner, key_of, owned
from zeus_runtime.tools.own_folders import SANDBOXES

_AT_ONCE: Final = 500
_NOTE: Final = text(
    "INSERT INTO original_handle (handle, thread) VALUES (:handle, :thread) ON CONFLICT DO NOTHING"
)


def edits_with_handles(connection: Connection, thread: int) -> list[Mapping[str, Any]]:
    """The session's edits that name an original, as JSON objects.

    Raises:
        RunError: the session's archive is damaged.
    """
    rows = connection.execute(select(EDIT.c.payload).where(EDIT.c.thread == thread)).scalars()
    packed = select(ARCHIVE.c.rows, ARCHIVE.c.digest).where(ARCHIVE.c.thread == thread)
    return list(_naming([*rows, *_unpacked(connection.execute(packed))]))


def named_elsewhere(connection: Connection, thread: int, handles: Collection[str]) -> set[str]:
    """Those of ``handles`` that another session names: two may archive the same text or attach the same file."""
    wanted, found = sorted(handles), set[str]()
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        query = select(HANDLE.c.handle).where(HANDLE.c.handle.in_(some), HANDLE.c.thread != thread)
        # Another user's session may name it too.
        with for_everyone(connection):
            found.update(connection.execute(query).scalars())
    return found


def named_by_own(connection: Connection, owner: Owner, paths: Collection[str]) -> set[str]:
    """Those of ``paths`` that a session of the owner names, or that are in the sandbox of one."""
    wanted = sorted(paths)
    found = {path for path in wanted if _is_in_sandbox(connection, owner, path)}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        query = select(HANDLE.c.handle).join(THREAD, THREAD.c.key == HANDLE.c.thread)
        found.update(connection.execute(query.where(HANDLE.c.handle.in_(some), owned(owner))).scalars())
    return found


def _is_in_sandbox(connection: Connection, owner: Owner, path: str) -> bool:
    _, folder, session, *inside = *path.split("/"), ""
    is_inside = folder == SANDBOXES and bool(inside)
    return is_inside and key_of(connection, session, archived=True, owner=owner) is not None


def note_files(connection: Connection, thread: int, payloads: Iterable[str]) -> None:
    """Record the files that new edits or messages of the session name, in the transaction that writes them."""
    for handle in {each for payload in payloads for each in files_named(payload)}:
        connection.execute(_NOTE, {"handle": handle, "thread": thread})


def files_named(payload: str) -> set[str]:
    """The files in an edit or a message: an archived original, a copy of an attachment, a picture."""
    # Most payloads name no file, and need not be parsed.
    if not any(sign in payload for sign in _SIGNS):
        return set()
    value = json.loads(payload)
    if not isinstance(value, dict):
        return set()
    more = value.get("additional_kwargs") or {}
    named = [value.get("handle")]
    named += [each.get("copy") for each in more.get("references") or ()]
    named += [each.get("path") for each in more.get("pictures") or ()]
    named += more.get(SAVED) or ()
    return {each for each in named if each and isinstance(each, str)}


SAVED: Final = "files"
"""The key of a tool message's files, beside ``pictures``."""
_SIGNS: Final = ('"handle"', '"references"', '"pictures"', f'"{SAVED}"')


def noted(connection: Connection, thread: int) -> set[str]:
    """The files that the session's edits and messages name."""
    return set(connection.execute(select(HANDLE.c.handle).where(HANDLE.c.thread == thread)).scalars())


def _unpacked(rows: Iterable[Any]) -> Iterator[str]:
    for data, digest in rows:
        yield from (row["payload"] for row in packed_rows(bytes(data), digest, "context_edit"))


def _naming(payloads: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    edits = (json.loads(payload) for payload in payloads if '"handle"' in payload)
    return (edit for edit in edits if isinstance(edit, dict) and edit.get("handle"))
