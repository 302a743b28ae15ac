"""Sends requests over HTTP: one client for each event loop, whose connections all agents of a process share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from json import dumps, loads
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.request import getproxies
from weakref import WeakKeyDictionary

from zeus_plugins.models.litellm.addressing import header_fault
from zeus_plugins.models.litellm.failures import redirected
from zeus_plugins.models.litellm.native.chat import answer_of
from zeus_plugins.models.litellm.native.quick_httpx import httpx
from zeus_plugins.models.litellm.native.sse import ServerSentEvents
from zeus_runtime.plugin.model import ModelError

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.timeouts import Timeouts

CONNECT_SECONDS: Final = 30.0
MOST_BYTES: Final = 64 << 20
"""Bytes of an answer after decompression; ``gzip`` can make a thousand times as many as were sent."""
_MOST_ERROR_BYTES: Final = 1 << 20
_KEPT_SECONDS: Final = 60.0
"""How long an unused connection is kept: tools run between two calls."""
_AFTER_THE_END_SECONDS: Final = 0.25
"""How long to wait, after the answer is complete, for the end of the response that frees the connection."""


class Reading(Protocol):
    """Reads the events of one streamed answer."""

    def chunk(self, data: str) -> dict[str, Any] | None:
        """Return the delta, finish reason and model in the data of one event; None for the last event."""

    def usage(self) -> Any:
        """Return the usage that the events so far report."""


class RefusedError(Exception):
    """The provider answered with another status than 200. ``model_error`` reads its attributes."""

    def __init__(self, response: httpx.Response, text: str) -> None:
        self.status_code = response.status_code
        self.response = response
        self.message = text or f"HTTP {response.status_code}"
        try:
            self.body = loads(text)
        except (ValueError, RecursionError):
            self.body = None
        super().__init__(self.message)


async def streamed(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any], timeouts: Timeouts, reading: Reading
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the chunks of a streamed answer, the last with its usage.

    Raises:
        ModelError: (network) the stream ended before the answer was complete.
        Exception: httpx's or ``RefusedError``; before the answer was complete.
    """
    ended = False
    async with _response(url, headers, body, timeouts) as response:
        if _is_json(response):
            # A server that does not stream answers as a whole.
            yield answer_of(await _text(response, timeouts, MOST_BYTES))
            return
        pieces = response.aiter_bytes()
        try:
            async with aclosing(_events(pieces, timeouts)) as events:
                async for data in events:
                    chunk = reading.chunk(data)
                    if chunk is None:
                        await _rest(pieces)
                        break
                    ended = ended or bool(chunk.get("finish_reason"))
                    yield chunk
        except Exception:
            # A failure after the end of the answer only loses its usage.
            if not ended:
                raise
            return
    if not ended:
        raise ModelError("the provider's stream ended before the answer was complete", kind="network")
    yield {"usage": reading.usage()}


async def whole(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any], timeouts: Timeouts
) -> dict[str, Any]:
    """Return an answer that is not streamed.

    Raises:
        ModelError: (server) it contains no message.
        Exception: httpx's, ``RefusedError``, or ``ValueError`` for an answer that is not JSON.
    """
    async with _response(url, headers, body, timeouts) as response:
        return answer_of(await _text(response, timeouts, MOST_BYTES))


@asynccontextmanager
async def _response(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any], timeouts: Timeouts
) -> AsyncIterator[httpx.Response]:
    client = await _client(url)
    request = _request(client, url, headers, body)
    response = await timeouts.wait(client.send(request, stream=True))
    try:
        if response.is_redirect:
            raise redirected(response.headers.get("location"))
        if response.status_code != httpx.codes.OK:
            raise RefusedError(response, await _text(response, timeouts, _MOST_ERROR_BYTES))
        yield response
    finally:
        await response.aclose()


def _request(
    client: httpx.AsyncClient, url: str, headers: Mapping[str, str], body: Mapping[str, Any]
) -> httpx.Request:
    for name, value in headers.items():
        if why := header_fault(name, value):
            raise ModelError(
                f"the header {name!r} of the request cannot be sent: {why}",
                kind="bad_request",
                remedy="Correct headers, or the key in api_key or its variable",
            )
    content = dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    return client.build_request("POST", url, content=content, headers=dict(headers))


async def _events(pieces: AsyncIterator[bytes], timeouts: Timeouts) -> AsyncGenerator[str, None]:
    """Yield the data of the events."""
    reader, count = ServerSentEvents(), 0
    while True:
        try:
            piece = await timeouts.wait(anext(pieces))
        except StopAsyncIteration:
            break
        count = _counted(count, piece, MOST_BYTES)
        for data in reader.add(piece):
            yield data
    for data in reader.end():
        yield data


async def _rest(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of the response, if it comes at once: then the connection can be used again."""
    try:
        async with asyncio.timeout(_AFTER_THE_END_SECONDS):
            async for _ in pieces:
                pass
    # The answer is complete, so the connection is all that is lost.
    except (TimeoutError, httpx.HTTPError):
        pass


async def _text(response: httpx.Response, timeouts: Timeouts, most: int) -> str:
    parts: list[bytes] = []
    count, pieces = 0, response.aiter_bytes()
    while True:
        try:
            piece = await timeouts.wait(anext(pieces))
        except StopAsyncIteration:
            return b"".join(parts).decode("utf-8", "replace")
        count = _counted(count, piece, most)
        parts.append(piece)


def _counted(count: int, piece: bytes, most: int) -> int:
    if count + len(piece) > most:
        raise ModelError(f"the provider's answer has more than {most:,} bytes", kind="server")
    return count + len(piece)


def _is_json(response: httpx.Response) -> bool:
    return bool(
        response.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    )


_Kept = tuple[httpx.AsyncClient, AsyncGenerator[None, None]]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Kept]] = WeakKeyDictionary()


async def _client(url: str) -> httpx.AsyncClient:
    """Return the running event loop's client for the address."""
    # A proxy may itself be called over TLS.
    is_secure = not url.startswith("http://") or bool(getproxies())
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    # No await up to the entry, so two first calls at once make one client.
    if is_secure not in clients:
        client = _made(is_secure=is_secure)
        # `asyncio.run` closes open generators before the loop, and with this one the client.
        closing = _closing(client)
        clients[is_secure] = (client, closing)
        # The loop knows, and closes, only generators that have begun.
        await anext(closing)
    return clients[is_secure][0]


def _made(*, is_secure: bool) -> httpx.AsyncClient:
    import ssl

    return httpx.AsyncClient(
        # Without certificates, which take 20 ms to load, no secure connection is made; none is needed.
        verify=True if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx.Limits(
            max_connections=1_000, max_keepalive_connections=100, keepalive_expiry=_KEPT_SECONDS
        ),
        # No limit for reading: agents share the client, and `Timeouts.wait` keeps the limit of each.
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        follow_redirects=False,
    )


async def _closing(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()
