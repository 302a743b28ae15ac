"""A server's process and the messages on its pipes, on POSIX systems.

The SDK's own transport copies what it has of a line with each piece that comes, holds lines of any length, and drops a
message that it cannot read, so that a call waits for its answer until its time is over. JavaScript servers that cut a
text in the middle of an emoji send such messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import TalkError

if TYPE_CHECKING:
    from mcp.client.stdio import StdioServerParameters

_MAX_MESSAGE_BYTES: Final = 64_000_000
_MAX_NOISE: Final = 100_000
"""Lines in a row that are no message; a server that logs to its output has fewer between two answers."""
_LEAVE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.01
_ID: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)')
_PARSE_ERROR: Final = -32700


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
    from mcp.client.stdio import get_default_environment

    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errlog,
        env=get_default_environment() | (server.env or {}),
        cwd=server.cwd,
        start_new_session=True,
        limit=_MAX_MESSAGE_BYTES,
    )
    heard, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, said = anyio.create_memory_object_stream[Any](0)
    reading = Reading()
    written = anyio.Event()

    async def read() -> None:
        assert process.stdout is not None
        async with heard:
            async for line in lines(process.stdout):
                for message in reading.messages(line):
                    try:
                        await heard.send(message)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

    async def write() -> None:
        assert process.stdin is not None
        try:
            async with said:
                async for item in said:
                    reading.expects(item.message)
                    process.stdin.write(_line(item.message))
                    await process.stdin.drain()
        except OSError:
            heard.close()
        finally:
            written.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                with anyio.move_on_after(_LEAVE_SECONDS / 4):
                    await written.wait()
                await _ended(process)
            tasks.cancel_scope.cancel()


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
                f"it wrote a message of more than {_MAX_MESSAGE_BYTES // 1_000_000} MB to its standard output"
            ) from None
        if line.lstrip()[:1] in (b"{", b"["):
            noise = 0
            yield line
        elif (noise := noise + 1) > _MAX_NOISE:
            raise TalkError("it writes what are no messages to its standard output")
        await asyncio.sleep(0)


@dataclass
class Reading:
    """Reads messages, and knows which answers are waited for.

    A message that does not hold to the protocol's text is read as far as it can be; an answer that cannot be read at
    all becomes an error of the call that waits for it.
    """

    _waiting: set[Any] = field(default_factory=set)

    def expects(self, message: Any) -> None:
        """Note what is said to the server."""
        if (
            getattr(message, "method", None) is not None
            and (name := getattr(message, "id", None)) is not None
        ):
            self._waiting.add(name)

    def messages(self, line: bytes) -> list[Any]:
        """What a line says."""
        from mcp.shared.message import SessionMessage

        try:
            message = _message(line)
        except (ValueError, RecursionError) as error:
            return self._unreadable(line, error)
        if getattr(message, "method", None) is None:
            self._waiting.discard(getattr(message, "id", None))
        return [SessionMessage(message)]

    def _unreadable(self, line: bytes, error: Exception) -> list[Any]:
        from mcp.shared.message import SessionMessage
        from mcp.types import ErrorData, JSONRPCError

        for found in (*_ID.findall(line[:1_000]), *_ID.findall(line[-1_000:])):
            with suppress(ValueError):
                name = json.loads(found)
                if name in self._waiting:
                    self._waiting.discard(name)
                    why = " ".join(str(error).split())[:200]
                    said = ErrorData(code=_PARSE_ERROR, message=f"its answer cannot be read: {why}")
                    return [SessionMessage(JSONRPCError(jsonrpc="2.0", id=name, error=said))]
        return []


def _message(line: bytes) -> Any:
    from mcp.types import jsonrpc_message_adapter

    text = line.decode(errors="replace")
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        # Half a surrogate pair: what JavaScript makes of a text that was cut in the middle of an emoji.
        whole = json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace")
        return jsonrpc_message_adapter.validate_json(whole, by_name=False)


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
