"""Connections to checked addresses only: a name is resolved once, and the checked address is the one that is dialled.

Checking the URL alone is not enough. The owner of a name can let it resolve to a public address for the check, and to
the metadata service for the connection. Here, one answer of the resolver serves both.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpcore

from zeus_plugins.tools.web.addresses import Allowed, refusal
from zeus_plugins.tools.web.urls import WebError

if TYPE_CHECKING:
    from httpcore import AsyncNetworkStream

_SILENCE_SECONDS: Final = 3.0
"""Time limit for connecting to an address if another one is left to try."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""An asynchronous function from host and port to addresses."""


async def system_addresses(host: str, port: int) -> Sequence[str]:
    """The host's addresses, from the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to a host only if connections to all of its addresses are permitted.

    Args:
        allowed: addresses that are permitted although they are not public.
        resolve: the resolver for host names.
    """

    def __init__(self, allowed: Sequence[Allowed], resolve: Resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._dial = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            raise WebError(f"there is no host {host}") from None
        if not addresses:
            raise WebError(f"there is no host {host}")
        # All of them before one is dialled: a name with one private address is refused, in whatever order they come.
        for address in addresses:
            why = refusal(address, port, self._allowed)
            if why is not None:
                raise WebError(
                    f"cannot fetch from {host}: {why}" if address != host else f"cannot fetch: {why}",
                    remedy="Only public addresses are allowed; the user can allow others under allow_private.",
                )
        failure: Exception = WebError(f"there is no host {host}")
        for address in addresses:
            # If IPv6 leads nowhere, waiting for it must not use up the time of the address that answers.
            seconds = timeout if address == addresses[-1] else _SILENCE_SECONDS
            try:
                return await self._dial.connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        raise WebError("cannot fetch from a Unix socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
