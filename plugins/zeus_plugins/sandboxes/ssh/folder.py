"""One session's folder on the other machine: runs programs there, and transfers files over SFTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeVar, get_args

import asyncssh

from zeus_plugins.sandboxes.ssh.files import FarFiles, explained
from zeus_runtime.plugin.sandbox import (
    Outcome,
    Program,
    SandboxError,
    SandboxFile,
    SandboxLimit,
    SandboxLimits,
)

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.asking import Far
    from zeus_plugins.sandboxes.ssh.connection import SshConnection

T = TypeVar("T")

_LOST: Final = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)


class FarFolder:
    """A session's folder.

    Args:
        far: the machine.
        line: the connection to it.
        session: the session's id.
        path: the folder's absolute path there.
    """

    def __init__(self, far: Far, line: SshConnection, session: str, path: str) -> None:
        self._far = far
        self._line = line
        self._session = session
        self._path = path

    async def run(
        self, program: Program, limits: SandboxLimits, on_output: Callable[[bytes], None] | None
    ) -> Outcome:
        kept = bytearray()

        def hear(data: bytes) -> None:
            if len(kept) + len(data) > limits.output_bytes:
                raise SandboxError(f"{self._line.name} sent more output than the program may print")
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
        answer = await self._far.ask(question, program.files, hear, seconds=limits.seconds)
        try:
            code, killed_by, seconds, lost = answer
            if killed_by not in (None, *get_args(SandboxLimit)):
                raise ValueError(killed_by)
            return Outcome(int(code), killed_by, bytes(kept), float(seconds), tuple(map(str, lost)))
        except (ValueError, TypeError):
            from zeus_plugins.sandboxes.ssh.asking import unreadable

            raise unreadable(self._line.name) from None

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._with_files(path, lambda files: files.read(path, max_bytes=max_bytes))

    async def write(self, path: str, data: bytes) -> None:
        # SFTP could create the folder too, but without the mark of Zeus, so it would never be removed.
        await self._far.ask({"do": "make", "session": self._session})
        await self._with_files(path, lambda files: files.write(path, data))

    async def list(self, path: str, *, max_files: int) -> Sequence[SandboxFile]:
        return await self._with_files(path, lambda files: files.list(path, max_files=max_files))

    async def _with_files(self, path: str, work: Callable[[FarFiles], Awaitable[T]]) -> T:
        connection = await self._line.open()
        try:
            return await work(FarFiles(await self._line.files(), self._path))
        except (asyncssh.Error, OSError) as error:
            if isinstance(error, asyncssh.SFTPError) and not isinstance(error, _LOST):
                # The connection is intact, and other sessions' programs run over it.
                raise explained(path, error) from None
            self._line.drop(connection)
            raise SandboxError(
                f"the connection to {self._line.name} was lost ({getattr(error, 'reason', error)})",
                remedy="Try again: a new connection is made.",
            ) from None
