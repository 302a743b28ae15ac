"""The transports to a server: a local process, or a remote address."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools import PASSED_ON
from zeus_plugins.tools.mcp.names import log_name
from zeus_plugins.tools.mcp.sdk import MAX_MESSAGE_BYTES, http_client
from zeus_plugins.tools.mcp.stderr import ErrorLog, error_log
from zeus_runtime.plugin import Command, Remote, compiled_apart

if TYPE_CHECKING:
    import httpx2

    from zeus_plugins.tools.mcp.servers import PlannedServer

_HTTP_SECONDS: Final = 30


@dataclass
class StartPlace:
    """The directory and environment in which servers are started, and the check for the user's permission.

    Args:
        directory: the working directory.
        environ: the environment that PATH, HOME, LANG and TMPDIR are taken from.
        log_bytes: size at which a server's log is emptied.
        permit: raises unless the user allowed the process or the address.
    """

    directory: Path
    environ: Mapping[str, str] = field(repr=False)
    log_bytes: int
    permit: Callable[[Command | Remote], None] = field(repr=False)


@asynccontextmanager
async def process(
    server: PlannedServer, place: StartPlace, gone: Callable[[], None], heard: Callable[[ErrorLog], None]
) -> AsyncIterator[Any]:
    """Run a server in a new process.

    Args:
        gone: called when the process has closed its output.
        heard: called with the log of the server's standard error.

    Yields:
        its read and write streams.

    Raises:
        OSError: the process cannot be started.
        UntrustedError: the user did not allow the process, or its files have changed since.
    """
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from zeus_plugins.tools.mcp.pipes import piped

    spec = server.spec
    assert spec.command is not None
    words = (spec.command, *spec.args)
    place.permit(Command(server.name, words, dict(spec.env), spec.cwd or ".", spec.data, sent=spec.sent))
    cwd = place.directory / (spec.cwd or ".")
    if server.root is not None:
        cwd.mkdir(parents=True, exist_ok=True)
        # Also one that is there already: what others write in it would be executed.
        cwd.chmod(0o700)
    base = {name: place.environ[name] for name in PASSED_ON if name in place.environ}
    parameters = StdioServerParameters(
        command=spec.command,
        args=list(spec.args),
        env={**base, **compiled_apart(place.environ), **spec.env},
        cwd=cwd,
        encoding_error_handler="replace",
    )
    path = place.directory / ".zeus" / "mcp" / log_name(server.name)
    async with error_log(path, place.log_bytes) as (log, writer):
        heard(log)
        # On Windows the SDK's transport starts and ends the process correctly.
        talk = stdio_client if sys.platform == "win32" else piped
        async with talk(parameters, writer) as (read, write):  # type: ignore[arg-type]
            # The server has its own copy: with this one open, the log would never see its end.
            writer.close()
            async with _passed_on(read, lambda message: [message], gone) as received:
                yield received, write


@asynccontextmanager
async def address(
    server: PlannedServer,
    permit: Callable[[Command | Remote], None],
    auth: httpx2.Auth | None,
    refused: Callable[[int], None] = lambda _status: None,
) -> AsyncIterator[Any]:
    """Connect to a remote server by streamable HTTP, or by the older SSE if the config says so.

    Args:
        permit: raises unless the user allowed the address.
        refused: called with the HTTP status of each request that the server refuses.

    Yields:
        its read and write streams.

    Raises:
        UntrustedError: the user did not allow the address.
    """
    import httpx2

    from zeus_plugins.tools.mcp.json_repair import mend
    from zeus_plugins.tools.mcp.reading import read_again

    spec = server.spec
    url = spec.address
    assert url is not None
    permit(Remote(server.name, url, dict(spec.headers), spec.sent))
    timeout = httpx2.Timeout(_HTTP_SECONDS, read=spec.timeout_seconds)

    async def unhurried(request: httpx2.Request) -> None:
        # A server sends nothing while it waits for a user's answer. The call's own time limit is paused meanwhile.
        given = request.extensions.get("timeout")
        if request.method == "POST" and given is not None:
            request.extensions["timeout"] = {**given, "read": None}

    async def noted(response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.status_code >= 400:
            refused(response.status_code)

    headers = dict(spec.headers)
    if spec.type == "sse":
        from mcp.client.sse import sse_client

        # Its one stream is silent between calls, and each call has its own time limit.
        async with (
            sse_client(
                url, headers, _HTTP_SECONDS, math.inf, httpx_client_factory=http_client, auth=auth
            ) as (read, write),
            _passed_on(read, read_again) as received,
        ):
            yield received, write
        return
    from mcp.client.streamable_http import streamable_http_client

    hooks: dict[str, list[Callable[..., Any]]] = {"request": [unhurried], "response": [mend, noted]}
    async with (
        http_client(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


@asynccontextmanager
async def _passed_on(
    source: Any, each: Callable[[Any], Iterable[Any]], ended: Callable[[], None] = lambda: None
) -> AsyncIterator[Any]:
    """A stream of the converted messages of another stream.

    Args:
        source: the stream to read.
        each: converts an item of ``source`` to messages.
        ended: called when ``source`` has ended.
    """
    import anyio

    forward, received = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with forward:
            async for heard in source:
                for message in each(heard):
                    try:
                        await forward.send(message)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return  # the receiving stream is closed: the connection is being closed
        ended()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on)
        try:
            yield received
        finally:
            tasks.cancel_scope.cancel()
            await received.aclose()


async def quiet(seconds: float, woken: asyncio.Event) -> None:
    """Wait until ``woken`` is set, for at most ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
