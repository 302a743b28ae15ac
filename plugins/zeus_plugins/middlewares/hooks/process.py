"""A hook's process: its input, its output, its time limit, and that none of its process group is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from zeus_plugins.middlewares.hooks.answers import MOST_BYTES, HookFailedError
from zeus_runtime.plugin import last_words, spare
from zeus_runtime.plugin.tool import finished

_DETAIL_BYTES: Final = 1_000
"""Of standard error."""


async def answer_from(
    words: Sequence[str], given: bytes, *, seconds: float, directory: Path, environ: Mapping[str, str]
) -> bytes:
    """Start a hook and return what it wrote to its standard output, once it and all that share its output have ended.

    Args:
        given: its standard input.
        seconds: its time limit.
        environ: all its variables.

    Raises:
        HookFailedError: it could not be started, did not end in time, ended with an error, or wrote too much.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, talk = await loop.subprocess_exec(
            _HookProcess, *words, cwd=directory, env=environ, start_new_session=True
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise HookFailedError(f"could not be started ({why})") from None
    try:
        async with asyncio.timeout(seconds):
            # uvloop's is of no class of asyncio.
            entry = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
            # asyncio keeps what the pipe does not take, so a hook that reads late or never blocks nothing.
            # A hook that has ended, or closed its input, needs none: uvloop's pipe is closed then, and raises.
            if not entry.is_closing():
                entry.write(given)
                entry.close()
            await talk.ended
    except TimeoutError:
        raise HookFailedError(f"did not end within {seconds:g} seconds", talk.detail) from None
    finally:
        # The whole group, also after a good end: a hook may have left programs behind.
        with suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        transport.close()
        # Waits on after a cancellation too, so that no process is left when the run has ended.
        await finished(talk.exited)
    if talk.has_too_much:
        raise HookFailedError(f"wrote more than {MOST_BYTES >> 20} MB", talk.detail)
    code = transport.get_returncode()
    if code:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise HookFailedError(how, talk.detail)
    return bytes(talk.output)


class _HookProcess(asyncio.SubprocessProtocol):
    """Collects a process's output.

    Attributes:
        output: its standard output.
        has_too_much: whether it wrote more than an answer may have.
        exited: done when the process has ended.
        ended: done when its output is closed, or it wrote too much.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.output = bytearray()
        self.has_too_much = False
        self.exited: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._errors = bytearray()

    @property
    def detail(self) -> str:
        """The end of its standard error."""
        return last_words(bytes(self._errors), _DETAIL_BYTES)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._errors += data
            del self._errors[: -_DETAIL_BYTES - spare()]
        elif len(self.output) + len(data) > MOST_BYTES:
            self.has_too_much = True
            _settle(self.ended)
        else:
            self.output += data

    def process_exited(self) -> None:
        _settle(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self.ended)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
