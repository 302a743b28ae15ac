"""A server's process and the messages on its pipes, on POSIX systems.

It replaces the SDK's own transport, which copies the line so far for each piece that arrives, keeps lines of any length
in memory, and drops messages that it cannot read.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from codecs import BOM_UTF8
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import TalkError
from zeus_plugins.tools.mcp.reading import messages
from zeus_plugins.tools.mcp.sdk import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from mcp.client.stdio import StdioServerParameters

_MAX_NOISE: Final = 100_000
"""Most lines in a row that are not messages; a server that logs to its output has fewer between two answers."""
_LEAVE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.01


@asynccontextmanager
async def piped(server: StdioServerParameters, errlog: Any) -> AsyncIterator[Any]:
    """Run a server in a new process, which leads a new session.

    Args:
        errlog: the file for its standard error.

    Yields:
        its read and write streams, like those of the SDK's transports.

    Raises:
        OSError: the process cannot be started.
        TalkError: it wrote a message without an end, or nothing but lines that are not messages.
    """
    import anyio

    process = await _started(server, errlog)
    # No buffer: a server that writes faster than the SDK reads has to wait.
    heard, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, said = anyio.create_memory_object_stream[Any](0)
    pipes = _Pipes(process, heard, said, anyio.Event())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.read)
        tasks.start_soon(pipes.write)
        try:
            yield incoming, outgoing
        finally:
            # A cancelled run must not leave the server's process behind.
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                with anyio.move_on_after(_LEAVE_SECONDS / 4):
                    await pipes.written.wait()
                await _ended(process)
            tasks.cancel_scope.cancel()


@dataclass(frozen=True)
class _Pipes:
    """The transfer of messages between a process and the SDK's streams.

    Args:
        heard: the stream that gets the server's messages.
        said: the stream of messages to the server.
        written: set when no more messages will be written to the server.
    """

    process: asyncio.subprocess.Process
    heard: Any
    said: Any
    written: Any

    async def read(self) -> None:
        """Forward the server's messages until it ends or the receiving stream is closed."""
        import anyio

        assert self.process.stdout is not None
        async with self.heard:
            async for line in lines(self.process.stdout):
                for message in messages(line):
                    try:
                        await self.heard.send(message)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

    async def write(self) -> None:
        """Forward messages to the server until there are no more or it closes its input."""
        assert self.process.stdin is not None
        try:
            async with self.said:
                async for item in self.said:
                    # Of a program that has ended: uvloop's `write` would raise a RuntimeError.
                    if self.process.stdin.is_closing():
                        raise BrokenPipeError
                    self.process.stdin.write(_line(item.message))
                    await self.process.stdin.drain()
        # The server closed its input, so no answer will come: `read` ends, and with it the SDK's requests.
        except OSError:
            self.heard.close()
        finally:
            self.written.set()


async def _started(server: StdioServerParameters, errlog: Any) -> asyncio.subprocess.Process:
    from mcp.client.stdio import get_default_environment

    return await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errlog,
        env=get_default_environment() | (server.env or {}),
        cwd=server.cwd,
        start_new_session=True,
        limit=MAX_MESSAGE_BYTES,
    )


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines that may be messages. Other tasks get to run between two lines, however much the server writes.

    Raises:
        TalkError: a line does not end, or too many lines in a row are not messages.
    """
    noise = 0
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            raise TalkError(
                f"it wrote a message of more than {MAX_MESSAGE_BYTES // 1_000_000} MB to its standard output"
            ) from None
        # Servers on .NET write a byte order mark before their first message.
        line = line.removeprefix(BOM_UTF8)
        # Anything else is a log line: servers print to standard output although the protocol forbids it.
        if line.lstrip()[:1] in (b"{", b"["):
            noise = 0
            yield line
        elif (noise := noise + 1) > _MAX_NOISE:
            raise TalkError("it writes text that is not a message to its standard output")
        await asyncio.sleep(0)


def _line(message: Any) -> bytes:
    """A message as a line of JSON; a lone surrogate becomes a question mark."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        plain = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = json.dumps(plain, ensure_ascii=False)
    return f"{text}\n".encode(errors="replace")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Close the server's input and wait for it to end; if it does not, kill it and all processes that it started."""
    assert process.stdin is not None
    process.stdin.close()
    # Most servers end when their input does; a signal at once would cut off what they still write.
    if not await _gone(process):
        for deed in (signal.SIGTERM, signal.SIGKILL):
            # The whole group, which the server leads: `npx` and `uvx` start the real server as a child.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, deed)
            if await _gone(process):
                break
    # A grandchild may keep the pipes open, but Zeus needs them no longer. No public method closes them.
    with suppress(PermissionError):
        process._transport.close()  # type: ignore[attr-defined]


async def _gone(process: asyncio.subprocess.Process) -> bool:
    """Whether the process ends soon. ``wait`` would also wait for grandchildren that keep its pipes open."""
    deadline = asyncio.get_running_loop().time() + _LEAVE_SECONDS
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
