"""The way out of a run for its events: each is masked, gets its origin, and is passed on in order."""

from __future__ import annotations

import time
from collections.abc import Callable

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.notice import EventOrigin
from zeus_runtime.plan.redaction import redacted
from zeus_runtime.registry import Observers


class Emitter:
    """Emits the events of one run. Events from before the run has an id wait for it.

    Args:
        put: receives each event.
        redactor: the known secrets; they are masked once, before any reader, and no observer sees them.
        session: the run's session.
        parent: the run that gave a sub-agent its task; None for a user's run.
        observers: receive each event after ``put``.

    Attributes:
        run: the run's id; empty until ``begin``.
    """

    def __init__(
        self,
        put: Callable[[Event], None],
        redactor: Redactor,
        session: str,
        *,
        parent: str | None = None,
        observers: Observers | None = None,
    ) -> None:
        self.run = ""
        self._put = put
        self._redactor = redactor
        self._session = session
        self._parent = parent
        self._observers = observers or Observers(())
        self._waiting: list[tuple[Event, int]] = []

    def begin(self, run: str) -> None:
        """Set the run's id, and emit the events that wait for it."""
        self.run = run
        self._flush()

    def __call__(self, event: Event) -> None:
        """Emit ``event``; one of a sub-agent keeps its origin."""
        # Its own time, also if it has to wait for the run's id.
        self._waiting.append((event, time.time_ns() // 1_000_000))
        # A run that cannot begin ends without an id.
        if self.run or isinstance(event, RunCompleted | RunFailed):
            self._flush()

    def _flush(self) -> None:
        # Taken first, so that no event goes out twice if its receiver emits another.
        waiting, self._waiting = self._waiting, []
        for event, time_ms in waiting:
            shown = self._shown(event, time_ms)
            self._put(shown)
            for notice in self._observers.notify(shown):
                self._put(self._shown(notice, time_ms))

    def _shown(self, event: Event, time_ms: int) -> Event:
        origin = event.origin or EventOrigin(self._session, self.run, self._parent, time_ms)
        return redacted(event, self._redactor).coming_from(origin)
