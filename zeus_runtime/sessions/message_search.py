"""Search the messages of sessions for a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, select

from zeus_runtime.cutting import unwrapped
from zeus_runtime.models.content import whole_text
from zeus_runtime.models.messages import from_payload
from zeus_runtime.store.branch import SessionBranch, line_of
from zeus_runtime.store.masked_log import masked_json
from zeus_runtime.store.rollbacks import rollbacks_in
from zeus_runtime.store.tables import ARCHIVE, MESSAGE, PARENT, THREAD
from zeus_runtime.store.threads import Thread, owned

if TYPE_CHECKING:
    from zeus_runtime.store.masked_log import MaskedLog

_AT_ONCE: Final = 200
MOST_CANDIDATES: Final = 10_000
"""Messages that are read for one search: the newest that the database finds."""
_BEFORE: Final = 60
_EXCERPT: Final = 240


@dataclass(frozen=True)
class FoundMessage:
    """A message that contains a text.

    Args:
        title: its session's.
        number: its place in the conversation, from 1.
        role: ``user``, ``assistant`` or ``tool``.
        excerpt: the text around the place.
        created_ms: when it was written, UTC milliseconds.
    """

    session: str
    title: str
    number: int
    role: str
    excerpt: str
    created_ms: int


async def search_messages(log: MaskedLog, text: str, *, agent: str, limit: int) -> Sequence[FoundMessage]:
    """The messages of an agent's sessions that contain ``text``, in any case of its letters; the newest first.

    Args:
        limit: the most messages to return.
    """
    wanted = text.casefold()
    if not wanted.strip():
        return []
    query = (
        select(
            THREAD.c.key,
            THREAD.c.session,
            THREAD.c.title,
            MESSAGE.c.seq,
            MESSAGE.c.payload,
            MESSAGE.c.created_ms,
        )
        .select_from(
            MESSAGE.join(THREAD).outerjoin(ARCHIVE).outerjoin(PARENT, PARENT.c.thread == THREAD.c.key)
        )
        .where(
            THREAD.c.agent == agent,
            owned(log.owner),
            ARCHIVE.c.thread.is_(None),
            PARENT.c.thread.is_(None),
            MESSAGE.c.payload.ilike(_pattern(text), escape="\\"),
        )
        .order_by(MESSAGE.c.created_ms.desc(), THREAD.c.key.desc(), MESSAGE.c.seq.desc())
    )

    def work(connection: Connection) -> list[FoundMessage]:
        found: list[FoundMessage] = []
        # By the session's key; only sessions with a match are asked for their rollbacks.
        lines: dict[int, SessionBranch] = {}
        for start in range(0, MOST_CANDIDATES, _AT_ONCE):
            # In parts, since most searches have found enough after the first.
            rows = connection.execute(query.limit(_AT_ONCE).offset(start)).all()
            for key, session, title, seq, payload, created_ms in rows:
                # Masked before the search: a search must not find out a secret letter by letter.
                message = from_payload(json.loads(masked_json(payload, log.secrets)))
                excerpt = _excerpt(whole_text(message), wanted)
                if excerpt is None:
                    continue
                if key not in lines:
                    lines[key] = line_of(rollbacks_in(connection, Thread(key, session)))
                if (number := lines[key].place(seq)) is None:
                    continue
                role = str(json.loads(payload)["role"])
                found.append(
                    FoundMessage(session, log.secrets.text(title), number, role, excerpt, created_ms)
                )
                if len(found) == limit:
                    return found
            if len(rows) < _AT_ONCE:
                break
        return found

    return await log.database.run(work)


def _pattern(text: str) -> str:
    """A pattern of SQL that all payloads with the text match, and few others.

    SQLite compares only ASCII letters in any case, and JSON writes some characters as escapes.
    """

    def sign(char: str) -> str:
        # JSON writes these in another way; `%` stands for any text, and `_excerpt` decides exactly.
        if char in '"\\' or not char.isprintable():
            return "%"
        if char in "%_":
            return f"\\{char}"
        return char if char.isascii() or char.upper() == char.lower() else "%"

    return f"%{''.join(map(sign, text))}%"


def _excerpt(text: str, wanted: str) -> str | None:
    """The text around the place, in one line; None if it is not there."""
    at = text.casefold().find(wanted)
    if at < 0:
        return None
    begins = max(0, at - _BEFORE)
    cut = text[begins : begins + _EXCERPT]
    return unwrapped(f"{'…' if begins else ''}{cut}{'…' if begins + _EXCERPT < len(text) else ''}")
