"""Sends questions to the other machine, and starts the Python processes that answer them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import asyncssh

from zeus_plugins.sandboxes.ssh.bootstrap import command, parcel
from zeus_plugins.sandboxes.ssh.framing import (
    ALIVE,
    ALIVE_SECONDS,
    ASKED,
    DONE,
    FAILED,
    FILE,
    OUTPUT,
    frame,
    next_frame,
    said,
)
from zeus_runtime.plugin import last_words, spare
from zeus_runtime.plugin.sandbox import SandboxError, SandboxUnavailableError
from zeus_runtime.plugin.tool import finished

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.connection import SshConnection
    from zeus_plugins.sandboxes.ssh.options import Options

_MOST_AT_ONCE: Final = 8
"""Questions at once; by default OpenSSH's server allows ten channels per connection, and one is for files."""
_END_SECONDS: Final = 20.0
_CLOSING_SECONDS: Final = 10.0
"""How long to wait for a process's exit code after its last output."""
GRACE_SECONDS: Final = 300.0
"""The time that an answer may take besides the program's time: files are copied there, and removed."""
_LONGEST_ANSWER: Final = 2**24
_REASON_BYTES: Final = 2_000
_CHUNK: Final = 2**16


class Far:
    """The other machine, which answers questions: each goes to a Python process there that was sent its code.

    A process stays for the next question, because starting one costs more than most questions do.

    Args:
        line: the connection.
        options: the options from the YAML.
    """

    def __init__(self, line: SshConnection, options: Options) -> None:
        self._line = line
        self._options = options
        self._idle: list[_Watcher] = []
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)

    async def look(self) -> Mapping[str, Any]:
        """Return what the machine offers: ``root``, the folder of the sessions; ``python``, whether programs have it.

        Raises:
            SandboxUnavailableError: the machine cannot be reached, or lacks something that is needed.
        """
        found: Mapping[str, Any] = await self.ask({"do": "look"})
        return found

    async def ask(
        self,
        question: Mapping[str, Any],
        files: Mapping[str, bytes] | None = None,
        on_output: Callable[[bytes], None] | None = None,
        *,
        seconds: float = 0,
    ) -> Any:
        """Return the answer to a question. After a failure or a cancellation, nothing of it still runs there.

        Only a few questions are answered at once; others wait.

        Args:
            seconds: the time limit of the program that the question runs.

        Raises:
            SandboxUnavailableError: the machine cannot be reached, or lacks something that is needed.
            SandboxError: the machine could not do it, or the connection was lost.
        """
        options, given = self._options, files or {}
        whole = {
            "folder": options.folder,
            "wrap": options.wrap,
            "bwrap": options.bwrap,
            "files": list(given),
            **question,
        }
        async with self._room:
            frames = [said(ASKED, whole), *_files(given)]
            kind, data = await self._asked(frames, on_output, seconds + GRACE_SECONDS)
        try:
            told = json.loads(data)
            if kind == DONE:
                return told
            failure = SandboxUnavailableError if told["unavailable"] else SandboxError
            message, remedy = f"on {self._line.name}: {told['message']}", told["remedy"]
        except (ValueError, TypeError, KeyError):
            raise unreadable(self._line.name) from None
        raise failure(message, remedy=remedy)

    async def _asked(
        self, frames: Sequence[bytes], on_output: Callable[[bytes], None] | None, seconds: float
    ) -> tuple[bytes, bytes]:
        watcher = await self._watcher()
        try:
            watcher.process.stdin.writelines(frames)
            answer = await _answered(watcher.process, on_output, seconds)
        except (EOFError, asyncssh.Error, OSError) as error:
            raise await self._broken(watcher, getattr(error, "reason", None) or str(error)) from None
        except BaseException:
            # Most often a cancellation: the program there has to be gone before the caller goes on.
            await finished(watcher.end())
            raise
        # Only after a whole answer: after any other end, frames of it may still arrive.
        self._idle.append(watcher)
        return answer

    async def close(self) -> None:
        """End the processes that wait for questions."""
        idle, self._idle = self._idle, []
        for each in idle:
            await each.end()

    async def _watcher(self) -> _Watcher:
        while self._idle:
            idle = self._idle.pop()
            if idle.lives:
                return idle
        connection = await self._line.open()
        try:
            process = await connection.create_process(
                command(self._options.python), encoding=None, stderr=asyncssh.PIPE
            )
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed():
                raise self._lost(error.reason) from None
            raise SandboxError(
                f"{self._line.name} runs no further program over this connection: {error.reason}",
                remedy="Raise MaxSessions in its sshd_config, or run fewer programs at once.",
            ) from None
        except (asyncssh.Error, OSError) as error:
            self._line.drop(connection)
            raise self._lost(getattr(error, "reason", None) or str(error)) from None
        with suppress(OSError):  # it has already ended; the question will find that and report the reason
            process.stdin.write(parcel())
        return _Watcher(process, connection)

    async def _broken(self, watcher: _Watcher, reason: str) -> Exception:
        """Return why there is no answer: the Python there could not start, or the connection was lost."""
        process = watcher.process
        with suppress(TimeoutError, asyncssh.Error, OSError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await process.wait_closed()
        code = process.exit_status
        if code is None and process.exit_signal is None:
            self._line.drop(watcher.connection)
            return self._lost(reason)
        if not code or process.exit_signal is not None:
            how = (
                f"was killed ({process.exit_signal[0]})"
                if process.exit_signal
                else "received nothing for too long"
            )
            return SandboxError(
                f"the process that watches the program on {self._line.name} {how}, so the program was killed",
                remedy="Try again.",
            )
        told = (await _last_words(process.stderr)).split("\n")
        return SandboxUnavailableError(
            f"{self._options.python} on {self._line.name} cannot run programs: "
            f"{told[-1] if told[-1] else f'it ended with {code}'}",
            remedy="Install Python 3.11 or newer there, or set `python` to its path.",
        )

    def _lost(self, reason: str) -> SandboxError:
        return SandboxError(
            f"the connection to {self._line.name} was lost ({reason}); the programs there were killed",
            remedy="Try again: a new connection is made.",
        )


async def _last_words(errors: asyncssh.SSHReader[bytes]) -> str:
    """The end of what a program wrote that has ended; "" if the connection breaks, maybe within a secret."""
    end = b""
    with suppress(TimeoutError, asyncssh.Error, OSError):
        async with asyncio.timeout(_CLOSING_SECONDS):
            while data := await errors.read(_CHUNK):
                end = (end + data)[-_REASON_BYTES - spare() :]
            return last_words(end, _REASON_BYTES)
    return ""


class _Watcher:
    """A Python process there that answers questions; it gets a sign of life from here every few seconds."""

    def __init__(
        self, process: asyncssh.SSHClientProcess[bytes], connection: asyncssh.SSHClientConnection
    ) -> None:
        self.process = process
        self.connection = connection
        self._telling = asyncio.ensure_future(self._tell())

    @property
    def lives(self) -> bool:
        return self.process.exit_status is None and not self.process.is_closing()

    async def end(self) -> None:
        """Wait until it has ended; when it gets no more signs of life, it kills its program and ends."""
        self._telling.cancel()
        process = self.process
        with suppress(TimeoutError, asyncssh.Error, OSError):
            async with asyncio.timeout(_END_SECONDS):
                process.stdin.write_eof()
                # Unread output would prevent the channel from closing.
                while await process.stdout.read(2**16):
                    pass
                await process.wait_closed()
        process.close()

    async def _tell(self) -> None:
        with suppress(asyncssh.Error, OSError):
            while self.lives:
                await asyncio.sleep(ALIVE_SECONDS)
                self.process.stdin.write(frame(ALIVE))


def _files(given: Mapping[str, bytes]) -> list[bytes]:
    return [frame(FILE, data) for data in given.values()]


async def _answered(
    process: asyncssh.SSHClientProcess[bytes], on_output: Callable[[bytes], None] | None, seconds: float
) -> tuple[bytes, bytes]:
    """Return the frame that ends an answer; the output before it is passed on as it arrives."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                kind, data = await next_frame(process.stdout, longest=_LONGEST_ANSWER)
                if kind in (DONE, FAILED):
                    return kind, data
                if kind == OUTPUT and on_output is not None:
                    on_output(data)
    except TimeoutError:
        raise EOFError("it did not end in time") from None


def unreadable(machine: str) -> SandboxError:
    """Return the error for an invalid answer."""
    return SandboxError(f"{machine} sent an answer that cannot be read")
