"""Connecting only to addresses that were looked at: the name is resolved once, and what was checked is what is dialled.

A check of the URL alone would not do. Who owns a name can let it point to a public address when it is checked and to
the metadata service when it is connected to; here there is one answer for both.
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
"""How long one address is dialled while there is another."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses."""


async def system_addresses(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Dials a host only when every address it has may be connected to.

    Args:
        allowed: addresses that may be though they are not public.
        resolve: who knows addresses.
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
        for address in addresses:
            why = refusal(address, port, self._allowed)
            if why is not None:
                raise WebError(
                    f"{host} is not fetched from: {why}" if address != host else f"not fetched: {why}",
                    remedy="Only public addresses are; the user can allow others under allow_private.",
                )
        failure: Exception = WebError(f"there is no host {host}")
        for address in addresses:
            # Where IPv6 leads nowhere, its silence must not take the time of the address that answers.
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
        raise WebError("a socket of this machine is not fetched from")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
