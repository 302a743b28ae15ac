"""A limit for the heads of requests while they arrive: before it is complete, no app sees a head."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any, Literal


def bounded_http(most_bytes: int) -> type[asyncio.Protocol] | Literal["h11"]:
    """uvicorn's protocol with that limit; ``h11`` has one of its own (``h11_max_incomplete_event_size``)."""
    if find_spec("httptools") is None:
        return "h11"
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttp(HttpToolsProtocol):
        """Ends a connection whose request's head is too large; a piece of the body that came along counts too."""

        _head_bytes: int | None = 0

        def data_received(self, data: bytes) -> None:
            if self._head_bytes is not None:
                # A client may send small requests without waiting: each begins anew, below.
                self._head_bytes += min(len(data), data.find(b"\r\n\r\n") + 1 or len(data))
                if self._head_bytes > most_bytes:
                    self.send_400_response("The head of the request is too large.")
                    return
            super().data_received(data)

        def on_headers_complete(self) -> None:
            self._head_bytes = None
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._head_bytes = 0
            super().on_message_complete()

    protocol: Any = BoundedHttp
    return protocol  # type: ignore[no-any-return]
