"""Live stored events for the readers of a session; one that is slow or late reads from the database."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Final

from zeus_runtime.store.event_log import StoredEvent

RECENT: Final = 256
"""Events of a session that are kept in memory for its readers."""
AT_ONCE: Final = 500

Read = Callable[[int, int], Awaitable[Sequence[StoredEvent]]]
"""Reads stored events: those after a number, at most so many."""


class _Channel:
    """The recent events of one session, while it has readers."""

    def __init__(self) -> None:
        self.recent: deque[StoredEvent] = deque(maxlen=RECENT)
        self.readers = 0
        self.news = asyncio.Event()

        self.last = 0

    def add(self, rows: Sequence[StoredEvent]) -> None:
        if self.recent and rows and rows[0].seq != self.recent[-1].seq + 1:
            self.recent.clear()
        self.recent.extend(rows)
        if rows:
            self.last = rows[-1].seq
        self._wake()

    def hear(self, last: int) -> None:
        """Note that the database has events up to ``last``, perhaps another process's."""
        if last > self.last:
            self.last = last
            self.recent.clear()
            self._wake()

    def _wake(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    def after(self, seq: int) -> list[StoredEvent] | None:
        """The events after ``seq``; None if the database has to say."""
        if not self.recent or self.recent[0].seq > seq + 1:
            return None
        first = self.recent[0].seq
        return [self.recent[place] for place in range(max(0, seq + 1 - first), len(self.recent))]


class Hub:
    """Passes new stored events of sessions to their readers in this process."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}

    def stored(self, session: str, rows: Sequence[StoredEvent]) -> None:
        """Tell the session's readers of new events."""
        channel = self._channels.get(session)
        if channel is not None:
            channel.add(rows)

    @property
    def sessions(self) -> Collection[str]:
        """The sessions that have readers."""
        return self._channels.keys()

    def hear(self, session: str, last: int) -> None:
        """Tell the session's readers that the database has events up to the number ``last``."""
        channel = self._channels.get(session)
        if channel is not None:
            channel.hear(last)

    async def follow(
        self, session: str, after: int, read: Read, *, pause_seconds: float
    ) -> AsyncGenerator[Sequence[StoredEvent], None]:
        """Yield the events after ``after`` for ever, in order and without gap; an empty list after each pause.

        Args:
            read: reads the session's stored events.
            pause_seconds: how long to wait for an event. Events that another process stored are found after a pause,
                or when ``hear`` tells of them.
        """
        channel = self._channels.setdefault(session, _Channel())
        channel.readers += 1
        try:
            while True:
                # Taken before anything is read, so that no event slips in between.
                news = channel.news
                rows: Sequence[StoredEvent] | None = channel.after(after)
                if rows is None:
                    rows = await read(after, AT_ONCE)
                if not rows:
                    try:
                        async with asyncio.timeout(pause_seconds):
                            await news.wait()
                        continue
                    except TimeoutError:
                        rows = await read(after, AT_ONCE)
                yield rows
                if rows:
                    after = rows[-1].seq
        finally:
            channel.readers -= 1
            if not channel.readers:
                self._channels.pop(session, None)
