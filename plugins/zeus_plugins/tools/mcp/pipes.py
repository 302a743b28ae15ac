"""A server's process and the messages on its pipes, on POSIX systems.

The SDK's own transport copies what it has of a line with each piece that comes, holds lines of any length, and drops a
message that it cannot read.
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
"""Lines in a row that are no message; a server that logs to its output has fewer between two answers."""
_LEAVE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.01


@asynccontextmanager
async def piped(server: StdioServerParameters, errlog: Any) -> AsyncIterator[Any]:
    """A server in a process and a session of its own.

    Args:
        errlog: the file that its standard error is written to.

    Yields:
        its read and write streams, as the SDK's transports have them.

    Raises:
        OSError: it cannot be started.
        TalkError: it wrote a message without an end, or nothing but noise.
    """
    import anyio

    process = await _started(server, errlog)
    heard, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, said = anyio.create_memory_object_stream[Any](0)
    pipes = _Pipes(process, heard, said, anyio.Event())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.read)
        tasks.start_soon(pipes.write)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                with anyio.move_on_after(_LEAVE_SECONDS / 4):
                    await pipes.written.wait()
                await _ended(process)
            tasks.cancel_scope.cancel()


@dataclass(frozen=True)
class _Pipes:
    """What goes between a process and the streams of the SDK.

    Args:
        heard: gets what the server says.
        said: has what is said to it.
        written: set when nothing more will be.
    """

    process: asyncio.subprocess.Process
    heard: Any
    said: Any
    written: Any

    async def read(self) -> None:
        """Pass on what the server says, until it ends or nobody listens."""
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
        """Pass on what is said to the server, until there is no more or it takes no more."""
        assert self.process.stdin is not None
        try:
            async with self.said:
                async for item in self.said:
                    self.process.stdin.write(_line(item.message))
                    await self.process.stdin.drain()
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
    """What may be messages; whoever waits beside this gets their turn however much comes.

    Raises:
        TalkError: a line does not end, or none is a message.
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
        if line.lstrip()[:1] in (b"{", b"["):
            noise = 0
            yield line
        elif (noise := noise + 1) > _MAX_NOISE:
            raise TalkError("it writes what are no messages to its standard output")
        await asyncio.sleep(0)


def _line(message: Any) -> bytes:
    """A message as it is sent; of half an emoji a question mark is."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        plain = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = json.dumps(plain, ensure_ascii=False)
    return f"{text}\n".encode(errors="replace")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let a server end when its input does, else end it with all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _gone(process):
        for deed in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, deed)
            if await _gone(process):
                break
    # A grandchild may hold the pipes open: they are ours no more. Nothing public closes them.
    with suppress(PermissionError):
        process._transport.close()  # type: ignore[attr-defined]


async def _gone(process: asyncio.subprocess.Process) -> bool:
    """Whether it ends soon; ``wait`` would also wait for grandchildren that have its pipes."""
    deadline = asyncio.get_running_loop().time() + _LEAVE_SECONDS
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
