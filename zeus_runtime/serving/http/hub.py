"""Live stored events for the readers of a session; one that is slow or late reads from the database."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Final

from zeus_runtime.errors import ZeusError
from zeus_runtime.store.event_log import StoredEvent

RECENT: Final = 256
"""Events of a session that are kept in memory for its readers."""
AT_ONCE: Final = 500
PAUSE_SECONDS: Final = 10.0
"""After so long without an event a reader sends a ping: one of the usual proxies cuts a silent connection after 16."""

Read = Callable[[int, int], Awaitable[Sequence[StoredEvent]]]
"""Reads stored events: those after a number, at most so many."""


class StoppingError(ZeusError):
    """The service stops, so nothing can be waited for in this process any more (exit 1)."""

    code = "stopping"


class _Channel:
    """The recent events of one session, while it has readers.

    One timer wakes all of them after a pause: a timer for each reader and event would take as much CPU as sending it.
    """

    def __init__(self) -> None:
        self.recent: deque[StoredEvent] = deque(maxlen=RECENT)
        self.readers = 0
        self.news = asyncio.Event()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self.wake)
        self.last = 0

    def add(self, rows: Sequence[StoredEvent]) -> None:
        # Readers are served from `recent` alone, so it must not have a gap.
        if self.recent and rows and rows[0].seq != self.recent[-1].seq + 1:
            self.recent.clear()
        self.recent.extend(rows)
        if rows:
            # Not lowered: a notice may have told of later ones, which are in the database.
            self.last = max(self.last, rows[-1].seq)
        self.wake()

    def hear(self, last: int) -> None:
        """Note that the database has events up to ``last``, perhaps another process's."""
        # The events in memory end before `last`, so readers go to the database.
        if last > self.last:
            self.last = last
            self.recent.clear()
            self.wake()

    def wake(self) -> None:
        """Make all readers look."""
        # A new event instead of `clear`: a reader that took the old one before it read still finds it set.
        news, self.news = self.news, asyncio.Event()
        news.set()
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self.wake)

    def close(self) -> None:
        self._timer.cancel()

    async def after(self, seq: int, read: Read, *, is_first: bool) -> Sequence[StoredEvent]:
        """The events after ``seq``; from the database if it has some that are not here.

        Args:
            is_first: whether the reader has not looked before, so what the database has is not known.
        """
        rows = self._recent_after(seq)
        # A pause reads nothing: without a first look or a notice, the database has nothing new.
        if (rows is None and is_first) or (not rows and self.last > seq):
            rows = await read(seq, AT_ONCE)
            if rows:
                self.hear(rows[-1].seq)
        return rows or ()

    def _recent_after(self, seq: int) -> Sequence[StoredEvent] | None:
        if not self.recent or self.recent[0].seq > seq + 1:
            return None
        # The numbers have no gap, so an event's place follows from its number.
        first = self.recent[0].seq
        return [self.recent[place] for place in range(max(0, seq + 1 - first), len(self.recent))]


class EndWithoutEvent:
    """When to ask whether a run is over: one that is cancelled while it waits has no event that says so.

    Asked in a pause, and when another run begins, after which there may be no pause for long.
    """

    def __init__(self, run: str) -> None:
        self._run = self._last = run

    def is_due(self, rows: Sequence[StoredEvent]) -> bool:
        """Whether to ask now that ``rows`` came."""
        before = self._last
        if rows:
            self._last = rows[-1].run
        return not rows or self._last not in (self._run, before)


class Hub:
    """Passes new stored events of sessions to their readers in this process."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._is_stopping = False
        self.announce: Callable[[str, int], None] = lambda _session, _last: None
        """Tells other processes of a session's last event."""

    def stored(self, session: str, rows: Sequence[StoredEvent]) -> None:
        """Tell the session's readers of new events."""
        if rows:
            # Also without readers here: another process may have some.
            self.announce(session, rows[-1].seq)
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

    def wake(self, session: str) -> None:
        """Make the session's readers look whether their run is over: one that never began has no event that says so."""
        channel = self._channels.get(session)
        if channel is not None:
            channel.wake()

    def stop(self) -> None:
        """End the waiting of all readers, and of those who come from now on: the service stops."""
        self._is_stopping = True
        for each in self._channels.values():
            each.wake()

    async def follow(
        self, session: str, after: int, read: Read
    ) -> AsyncGenerator[Sequence[StoredEvent], None]:
        """Yield the events after ``after`` for ever, in order and without gap; an empty list after each pause.

        Events that another process stored are found when ``hear`` tells of them; a pause alone reads nothing.

        Args:
            read: reads the session's stored events.

        Raises:
            StoppingError: the service stops.
        """
        channel = self._channels.get(session)
        if channel is None:
            channel = self._channels[session] = _Channel()
        channel.readers += 1
        is_first = True
        try:
            while True:
                # Taken before anything is read, so that no event slips in between.
                news = channel.news
                rows = await channel.after(after, read, is_first=is_first)
                is_first = False
                # A stop that came before `news` was taken woke the former event, which this reader does not hold.
                if not rows and not self._is_stopping:
                    await news.wait()
                    rows = await channel.after(after, read, is_first=False)
                if not rows and self._is_stopping:
                    raise StoppingError("the service stops", remedy="Ask the next process.")
                yield rows
                if rows:
                    after = rows[-1].seq
        finally:
            channel.readers -= 1
            if not channel.readers:
                channel.close()
                self._channels.pop(session, None)
