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
PAUSE_SECONDS: Final = 10.0
"""After so long without an event a reader sends a ping: one of the usual proxies cuts a silent connection after 16."""

Read = Callable[[int, int], Awaitable[Sequence[StoredEvent]]]
"""Reads stored events: those after a number, at most so many."""


class _Channel:
    """The recent events of one session, while it has readers.

    One timer wakes all of them after a pause: a timer for each reader and event would take as much CPU as sending it.
    """

    def __init__(self) -> None:
        self.recent: deque[StoredEvent] = deque(maxlen=RECENT)
        self.readers = 0
        self.news = asyncio.Event()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._wake)
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
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._wake)

    def close(self) -> None:
        self._timer.cancel()

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
        self, session: str, after: int, read: Read
    ) -> AsyncGenerator[Sequence[StoredEvent], None]:
        """Yield the events after ``after`` for ever, in order and without gap; an empty list after each pause.

        Events that another process stored are found after a pause, or when ``hear`` tells of them.

        Args:
            read: reads the session's stored events.
        """
        channel = self._channels.get(session)
        if channel is None:
            channel = self._channels[session] = _Channel()
        channel.readers += 1
        try:
            while True:
                # Taken before anything is read, so that no event slips in between.
                news = channel.news
                rows: Sequence[StoredEvent] | None = channel.after(after)
                if rows is None:
                    rows = await read(after, AT_ONCE)
                if not rows:
                    await news.wait()
                    rows = channel.after(after) or await read(after, AT_ONCE)
                yield rows
                if rows:
                    after = rows[-1].seq
        finally:
            channel.readers -= 1
            if not channel.readers:
                channel.close()
                self._channels.pop(session, None)
