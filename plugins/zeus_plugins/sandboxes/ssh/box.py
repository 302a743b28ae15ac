"""One session's sandbox on the other machine, and the questions that are put to that machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncssh

from zeus_plugins.sandboxes.ssh.files import FarFiles
from zeus_plugins.sandboxes.ssh.parcel import command, parcel
from zeus_plugins.sandboxes.ssh.wire import (
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
from zeus_runtime import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxError,
    SandboxFile,
    SandboxLimits,
    SandboxUnavailableError,
    finished,
    refuse_unrunnable,
)

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.connection import Line
    from zeus_plugins.sandboxes.ssh.options import Options

T = TypeVar("T")

_END_SECONDS: Final = 20.0
_REASON_BYTES: Final = 2_000


class Far:
    """The other machine, which answers questions: each by a Python of its own, which ends with its question.

    Args:
        line: the connection.
        options: as the YAML has them.
    """

    def __init__(self, line: Line, options: Options) -> None:
        self._line = line
        self._options = options

    async def look(self) -> Mapping[str, Any]:
        """What the machine offers: ``root``, where sessions' folders are; ``python``, whether programs have one.

        Raises:
            SandboxUnavailableError: it cannot be reached, or has not what is needed.
        """
        found: Mapping[str, Any] = await self.ask({"do": "look"})
        return found

    async def ask(
        self,
        question: Mapping[str, Any],
        files: Mapping[str, bytes] | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Any:
        """The answer to a question; asked in vain or cancelled, nothing of it runs there any more.

        Raises:
            SandboxUnavailableError: the machine cannot be reached, or has not what is needed.
            SandboxError: it could not do it, or the connection was lost.
        """
        options, given = self._options, files or {}
        whole = {
            "folder": options.folder,
            "wrap": options.wrap,
            "bwrap": options.bwrap,
            "files": list(given),
            **question,
        }
        connection = await self._line.open()
        try:
            process = await connection.create_process(
                command(options.python), encoding=None, stderr=asyncssh.PIPE
            )
        except (asyncssh.Error, OSError) as error:
            self._line.drop()
            raise self._lost(getattr(error, "reason", None) or str(error)) from None
        try:
            process.stdin.write(parcel())
            process.stdin.write(said(ASKED, whole))
            for data in given.values():
                process.stdin.write(frame(FILE, data))
            return await self._answer(process, on_output)
        finally:
            await finished(_ended(process))

    async def _answer(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        on_output: Callable[[bytes], None] | None,
    ) -> Any:
        alive = asyncio.ensure_future(_tell(process))
        try:
            while True:
                kind, data = await next_frame(process.stdout)
                if kind == OUTPUT:
                    if on_output is not None:
                        on_output(data)
                elif kind == DONE:
                    return json.loads(data)
                elif kind == FAILED:
                    told = json.loads(data)
                    error = SandboxUnavailableError if told["unavailable"] else SandboxError
                    raise error(f"on {self._line.name}: {told['message']}", remedy=told["remedy"])
        except (EOFError, asyncssh.Error, OSError) as error:
            raise await self._broken(process, str(error)) from None
        finally:
            alive.cancel()

    async def _broken(self, process: asyncssh.SSHClientProcess[bytes], reason: str) -> Exception:
        """Why there is no answer: the Python there could not begin, or the connection was lost."""
        with suppress(TimeoutError, asyncssh.Error, OSError):
            async with asyncio.timeout(2.0):
                await process.wait_closed()
        code = process.exit_status
        if code is None and process.exit_signal is None:
            self._line.drop()
            return self._lost(reason)
        text = b""
        with suppress(asyncssh.Error, OSError):
            text = await process.stderr.read(_REASON_BYTES)
        said_there = text.decode(errors="replace").strip().splitlines()
        return SandboxUnavailableError(
            f"{self._options.python} on {self._line.name} cannot watch over programs: "
            f"{said_there[-1] if said_there else f'it ended with {code}'}",
            remedy="Install Python 3.11 or newer there, or name it with `python`.",
        )

    def _lost(self, reason: str) -> SandboxError:
        return SandboxError(
            f"the connection to {self._line.name} was lost ({reason}); what ran there is ended",
            remedy="Try again: the connection is made anew.",
        )


class Box:
    """One session's sandbox: its files stay in a folder on the other machine.

    Args:
        far: the machine.
        line: the connection to it.
        session: whose it is.
        folder: the session's folder there, absolute.
        forget: called when it is closed.
    """

    def __init__(self, far: Far, line: Line, session: str, folder: str, forget: Callable[[], object]) -> None:
        self._far = far
        self._line = line
        self._session = session
        self._folder = folder
        self._forget = forget
        self._turn = asyncio.Lock()

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        refuse_unrunnable(program)
        kept = bytearray()

        def hear(data: bytes) -> None:
            kept.extend(data)
            if on_output is not None:
                on_output(data)

        question = {
            "do": "run",
            "session": self._session,
            "arguments": program.arguments,
            "environ": dict(program.environ),
            "limits": asdict(limits),
        }
        async with self._turn:
            code, killed_by, seconds, lost = await self._far.ask(question, program.files, hear)
        return Outcome(code, killed_by, bytes(kept), seconds, tuple(lost))

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._with_files(lambda files: files.read(path, max_bytes=max_bytes))

    async def write(self, path: str, data: bytes) -> None:
        await self._with_files(lambda files: files.write(path, data))

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        return await self._with_files(lambda files: files.list(path, max_files=max_files))

    async def close(self) -> None:
        async with self._turn:
            self._forget()

    async def _with_files(self, work: Callable[[FarFiles], Awaitable[T]]) -> T:
        async with self._turn:
            try:
                return await work(FarFiles(await self._line.files(), self._folder))
            except (asyncssh.Error, OSError) as error:
                self._line.drop()
                raise SandboxError(
                    f"the connection to {self._line.name} was lost ({getattr(error, 'reason', error)})",
                    remedy="Try again: the connection is made anew.",
                ) from None


async def _tell(process: asyncssh.SSHClientProcess[bytes]) -> None:
    with suppress(asyncssh.Error, OSError):
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            process.stdin.write(frame(ALIVE))


async def _ended(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Wait until the Python there has ended, which ends its program first: it does when nobody listens any more."""
    with suppress(TimeoutError, asyncssh.Error, OSError):
        async with asyncio.timeout(_END_SECONDS):
            process.stdin.write_eof()
            # Not read, output would keep the channel from closing.
            while await process.stdout.read(2**16):
                pass
            await process.wait_closed()
    process.close()
