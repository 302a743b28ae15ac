"""One session's sandbox on the other machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import asyncssh

from zeus_plugins.sandboxes.ssh.files import FarFiles
from zeus_runtime import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxError,
    SandboxFile,
    SandboxLimits,
    refuse_unrunnable,
)

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.asking import Far
    from zeus_plugins.sandboxes.ssh.connection import Line

T = TypeVar("T")


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
