"""Authorisation in the user's browser: the user opens an address, and the answer arrives at a local port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

if TYPE_CHECKING:
    from zeus_runtime.plugin.tool import LoginPage

PATIENCE_SECONDS: Final = 300
_MAX_LINE_BYTES: Final = 16_384


class Browser:
    """A user at a browser, and the local port that the browser is redirected to.

    Args:
        port: the port on the loopback address.
        show: shows the user a page.
    """

    def __init__(self, port: int, show: Callable[[LoginPage], None]) -> None:
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        self._show = show
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._waiting: set[asyncio.Task[object]] = set()

    async def show(self, page: LoginPage) -> None:
        self._state = _query(page.url).get("state")
        self._show(page)

    async def answer(self) -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError(f"it was not authorised within {PATIENCE_SECONDS} seconds") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser: a request, or a connection that it opened in advance."""
        waiting = asyncio.current_task()
        assert waiting is not None
        self._waiting.add(waiting)
        try:
            line = (await reader.readline()).decode("latin-1", "replace")
            target = line.split(" ")[1] if line.count(" ") >= 2 else ""
            is_answer = urlsplit(target).path == "/callback"
        except ValueError:  # a line that is too long, or an invalid address
            is_answer = False
        except (OSError, asyncio.CancelledError):  # no request arrived
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
        """Close the connections without a request: browsers open some in advance and keep them open."""
        for each in self._waiting:
            each.cancel()

    def _take(self, query: dict[str, str]) -> tuple[str, str]:
        """Accept the answer if its state is ours: any web page that the user has open can send requests to this port.

        Returns:
            the HTTP status and the text for the user.
        """
        if self._state is None or query.get("state") != self._state:
            return "400 Bad Request", "This is not an answer to Zeus. Continue in the other window."
        if self._answer.done():
            return "200 OK", "Zeus already has an answer. You can close the window."
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
        return (
            "200 OK",
            "Zeus has your answer; its terminal shows whether it worked. You can close the window.",
        )


def _query(url: str) -> dict[str, str]:
    return {key: each[0] for key, each in parse_qs(urlsplit(url).query).items()}


@asynccontextmanager
async def browser(port: int | None, show: Callable[[LoginPage], None]) -> AsyncIterator[Browser]:
    """A browser whose redirects are received on ``port``, or on any free port.

    Raises:
        OSError: the port is in use.
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
