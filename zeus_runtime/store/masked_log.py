"""A log whose readers see no known secret, not even one that was stored before it was known."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from zeus_runtime.cutting import cut_words
from zeus_runtime.events import PIECES, ModelCallStarted, SubAgentEvent
from zeus_runtime.store.thread_log import TITLE_CHARACTERS, LogEntry, StepEntry, ThreadLog

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.event_log import StoredEvent
    from zeus_runtime.store.listing import SessionInfo, SessionPlace
    from zeus_runtime.store.threads import Owner, Thread


class MaskedLog(ThreadLog):
    """A ``ThreadLog`` for data that leaves the process.

    Args:
        secrets: masked in everything that is read; the stored data stays unchanged.
        look_at: lets ``secrets`` know what the folders of a session hold; called before its rows are read.
    """

    def __init__(
        self,
        database: Database,
        secrets: Redactor,
        *,
        owner: Owner | None = None,
        look_at: Callable[[ThreadLog, str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(database, owner=owner)
        self.secrets = secrets
        self._look_at = look_at

    async def look(self, session: str) -> None:
        if self._look_at is not None:
            await self._look_at(self, session)

    def shown(self, payload: str) -> str:
        return masked_json(payload, self.secrets)

    def shown_events(self, events: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        found = [each._replace(payload=self.shown(each.payload)) for each in events]
        for pieces in _texts_in_pieces(events) if self.secrets.forms else ():
            # The stream did not wait for the end of a secret that was not known: it may be in several pieces.
            whole = self.secrets.text("".join(pieces.values()))
            if whole != "".join(self.secrets.text(each) for each in pieces.values()):
                for place, text in zip(pieces, chain((whole,), repeat(""))):  # noqa: B905 - `repeat` has no end
                    found[place] = _with_text(found[place], text)
        return found

    async def read(self, thread: Thread, *, after: int = 0, limit: int | None = None) -> Sequence[LogEntry]:
        found = await super().read(thread, after=after, limit=limit)
        return [replace(each, payload=masked_json(each.payload, self.secrets)) for each in found]

    async def read_edits(self, thread: Thread) -> Sequence[str]:
        return [masked_json(each, self.secrets) for each in await super().read_edits(thread)]

    async def edit_entries(self, thread: Thread) -> Sequence[tuple[int, int, str]]:
        found = await super().edit_entries(thread)
        return [(number, at_seq, masked_json(payload, self.secrets)) for number, at_seq, payload in found]

    async def steps(self, thread: Thread, *, last: bool = False) -> Sequence[StepEntry]:
        found = await super().steps(thread, last=last)
        return [replace(each, payload=masked_json(each.payload, self.secrets)) for each in found]

    async def texts(self, thread: Thread, digests: Sequence[str] | None = None) -> Mapping[str, str]:
        found = await super().texts(thread, digests)
        return {digest: masked_json(text, self.secrets) for digest, text in found.items()}

    async def sessions(
        self,
        *,
        agent: str | None = None,
        limit: int | None = None,
        archived: bool = False,
        after: SessionPlace | None = None,
        only_own: bool = False,
    ) -> Sequence[SessionInfo]:
        found = await super().sessions(
            agent=agent, limit=limit, archived=archived, after=after, only_own=only_own
        )
        return [self._titled(each) for each in found]

    async def children(self, session: str, *, archived: bool = False) -> Sequence[SessionInfo]:
        return [self._titled(each) for each in await super().children(session, archived=archived)]

    async def info(self, thread: Thread) -> SessionInfo:
        return self._titled(await super().info(thread))

    async def opened(self, session: str, *, agent: str, title: str = "") -> SessionInfo:
        return self._titled(await super().opened(session, agent=agent, title=title))

    async def seek(self, session: str) -> SessionInfo | None:
        found = await super().seek(session)
        return None if found is None else self._titled(found)

    def _titled(self, info: SessionInfo) -> SessionInfo:
        title = self.secrets.text(info.title)
        if len(info.title) == TITLE_CHARACTERS:
            # Older titles were cut in the middle of words, and half of a secret cannot be recognised.
            title = cut_words(title, min(len(title), TITLE_CHARACTERS) - 1)
        return replace(info, title=title)


def _texts_in_pieces(events: Sequence[StoredEvent]) -> Iterator[Mapping[int, str]]:
    """The texts that several of the events have: each piece by the place of its event."""
    texts: dict[tuple[str, str, int], dict[int, str]] = {}
    for place, stored in enumerate(events):
        event = json.loads(stored.payload)
        piece = _innermost(event)
        if (name := PIECES.get(piece["type"])) is not None:
            of = event["session"], piece["type"], piece.get("index", 0)
            # Only the first piece of a call has its id; another id begins another call.
            if piece.get("call_id") is not None:
                yield texts.pop(of, {})
            texts.setdefault(of, {})[place] = piece[name]
        elif piece["type"] == ModelCallStarted.type:
            for of in [each for each in texts if each[0] == event["session"]]:
                yield texts.pop(of)
    yield from texts.values()


def _innermost(event: dict[str, Any]) -> dict[str, Any]:
    """An event as JSON, or the sub-agent's that it passes on."""
    passed: dict[str, Any] = event["event"] if event["type"] == SubAgentEvent.type else event
    return passed


def _with_text(stored: StoredEvent, text: str) -> StoredEvent:
    event = json.loads(stored.payload)
    piece = _innermost(event)
    piece[PIECES[piece["type"]]] = text
    return stored._replace(payload=json.dumps(event, ensure_ascii=False))


def masked_json(text: str, secrets: Redactor) -> str:
    """JSON or other text with known secrets masked; in JSON, also inside its strings."""
    masked = secrets.text(text)
    if masked == text:
        return text
    try:
        # Each string by itself: a placeholder for a secret that JSON escapes could leave a text that is not JSON.
        return json.dumps(secrets.masked(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return masked
