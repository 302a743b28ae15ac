"""Limits for requests while they arrive, before an app sees them: the bytes of a head, and how slowly they come."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any, Final, Literal

SLOW_SECONDS: Final = 30.0
"""How long a request may arrive at any rate: a client that never ends one would keep its connection for ever."""
LEAST_BYTES_PER_SECOND: Final = 500
"""The slowest rate of a request that takes longer."""


def bounded_http(
    most_bytes: int, slow_seconds: float = SLOW_SECONDS
) -> type[asyncio.Protocol] | Literal["h11"]:
    """uvicorn's protocol with those limits; ``h11`` has one of its own (``h11_max_incomplete_event_size``).

    Args:
        most_bytes: of a head.
        slow_seconds: how often the rate of an unfinished request is looked at.
    """
    if find_spec("httptools") is None:
        return "h11"
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttp(HttpToolsProtocol):
        """Ends a connection whose request's head is too large; a piece of the body that came along counts too."""

        _head_bytes: int | None = 0
        _is_arriving = True
        _arrived = 0
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._watch_no_more()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._head_bytes is not None:
                # A client may send small requests without waiting: each begins anew, below.
                self._head_bytes += min(len(data), data.find(b"\r\n\r\n") + 1 or len(data))
                if self._head_bytes > most_bytes:
                    self.send_400_response("The head of the request is too large.")
                    return
            # Set before the parser runs: `on_message_complete` in it says that nothing is unfinished.
            self._is_arriving = True
            self._arrived += len(data)
            super().data_received(data)
            if not self._is_arriving:
                self._watch_no_more()
            elif self._timer is None:
                self._watch()

        def on_headers_complete(self) -> None:
            # `Boundary` limits the body.
            self._head_bytes = None
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._head_bytes = 0
            self._is_arriving = False
            super().on_message_complete()

        def _watch(self) -> None:
            self._arrived = 0
            self._timer = self.loop.call_later(slow_seconds, self._look)

        def _watch_no_more(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _look(self) -> None:
            is_slow = self._arrived < slow_seconds * LEAST_BYTES_PER_SECOND
            # A client cannot send what the app does not read.
            if is_slow and not self.flow.read_paused:
                self._timer = None
                self.transport.close()
            else:
                self._watch()

    protocol: Any = BoundedHttp
    return protocol  # type: ignore[no-any-return]
