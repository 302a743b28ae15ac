"""A person at a browser: the address is printed and opened, the answer comes back to a port of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

PATIENCE_SECONDS: Final = 300
_MAX_LINE_BYTES: Final = 16_384


class Browser:
    """A person whom an address is shown to, and the port on which their browser comes back.

    Args:
        port: of the loopback address.
        show: gives them an address.
    """

    def __init__(self, port: int, show: Callable[[str], None]) -> None:
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        self._show = show
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._waiting: set[asyncio.Task[object]] = set()

    async def show(self, url: str) -> None:
        self._state = _query(url).get("state")
        self._show(url)

    async def answer(self) -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError(f"nobody authorised it within {PATIENCE_SECONDS} seconds") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of the browser, or a connection that it opened in case there will be one."""
        waiting = asyncio.current_task()
        assert waiting is not None
        self._waiting.add(waiting)
        try:
            line = (await reader.readline()).decode("latin-1", "replace")
            target = line.split(" ")[1] if line.count(" ") >= 2 else ""
            is_answer = urlsplit(target).path == "/callback"
        except ValueError:  # a line without end, or no address
            is_answer = False
        except (OSError, asyncio.CancelledError):  # nothing came
            writer.transport.abort()
            return
        finally:
            self._waiting.discard(waiting)
        if is_answer:
            status, text = self._take(_query(target))
        else:
            status, text = "404 Not Found", "There is nothing here."
        body = f"<!doctype html><meta charset=utf-8><title>Zeus</title><p>{text}</p>".encode()
        head = [
            f"HTTP/1.1 {status}",
            "Content-Type: text/html",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        with suppress(OSError):
            await writer.drain()
        writer.close()

    def leave(self) -> None:
        """Close the connections on which nothing has come: browsers open some in advance and keep them."""
        for each in self._waiting:
            each.cancel()

    def _take(self, query: dict[str, str]) -> tuple[str, str]:
        """The answer, if it is one to what was asked: any page that the user has open can come to this port."""
        if self._state is None or query.get("state") != self._state:
            return "400 Bad Request", "This is no answer to what Zeus asked. Go on in the other window."
        if self._answer.done():
            return "200 OK", "This was answered already. You can close the window."
        if "error" in query:
            self._answer.set_exception(
                OAuthFlowError(f"the server refused: {query.get('error_description') or query['error']}")
            )
            return "200 OK", "It was not authorised. You can close the window."
        self._answer.set_result(
            AuthorizationCodeResult(
                code=query.get("code", ""), state=query.get("state"), iss=query.get("iss")
            )
        )
        return "200 OK", "Zeus has your answer; its terminal says whether it worked. You can close this."


def _query(url: str) -> dict[str, str]:
    return {key: each[0] for key, each in parse_qs(urlsplit(url).query).items()}


@asynccontextmanager
async def browser(port: int | None, show: Callable[[str], None]) -> AsyncIterator[Browser]:
    """A browser that comes back to ``port``, or to any that is free.

    Raises:
        OSError: the port is taken.
    """
    made: list[Browser] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", port or 0, limit=_MAX_LINE_BYTES)
    async with server:
        made.append(Browser(server.sockets[0].getsockname()[1], show))
        try:
            yield made[0]
        finally:
            made[0].leave()
