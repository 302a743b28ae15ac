"""The server of a service: uvicorn, which ends streams as soon as it is to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket

    from zeus_runtime.serving.http.service import Service


class ServiceServer(uvicorn.Server):
    """uvicorn waits for open responses before it tells the app to stop; a stream would not end by itself."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then do what uvicorn does."""
        self._service.streams.stop()
        await super().shutdown(sockets)
