"""The server of a service: uvicorn with its settings, which ends streams and waiting requests when it is to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from zeus_runtime.serving.http.app import app_of
from zeus_runtime.serving.http.heads import bounded_http

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service


def server_config(
    service: Service, protocols: Sequence[ServedProtocol] = (), *, host: str, port: int, prefix: str = ""
) -> uvicorn.Config:
    """What uvicorn is told for a service, by its settings.

    Args:
        protocols: further forms in which clients use it.
        host: the address to listen on.
        port: 0 chooses one.
        prefix: the path under which a proxy offers it.

    Raises:
        UsageError: a protocol has a path of the service itself.
    """
    settings = service.settings
    return uvicorn.Config(
        app_of(service, protocols, prefix=prefix),
        host=host,
        port=port,
        log_config=None,
        access_log=False,  # the access line is the app's own, with the caller
        timeout_graceful_shutdown=10,
        ssl_certfile=None if settings.tls is None else settings.tls.certificate,
        ssl_keyfile=None if settings.tls is None else settings.tls.key,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        http=bounded_http(settings.limits.header_bytes),
        h11_max_incomplete_event_size=settings.limits.header_bytes,
        limit_concurrency=settings.limits.connections,
    )


class ServiceServer(uvicorn.Server):
    """uvicorn, with the service's own beginning and end: uvicorn hides the errors of the one, and waits with the other
    for open responses, which may wait for a turn's end.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the service, then do what uvicorn does.

        Raises:
            ZeusError: the service cannot start, such as for a database that cannot be opened.
        """
        # Of an error in the app's lifespan, uvicorn would print the traceback, and end the process with its own code.
        await self._service.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams and what waits for turns, then do what uvicorn does."""
        # First: otherwise uvicorn waits `timeout_graceful_shutdown` for streams that never end by themselves.
        self._service.stop()
        await super().shutdown(sockets)
