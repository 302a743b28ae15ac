"""One session's sandbox: files in, a program in namespaces of its own, files out."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Sequence
from typing import TypeVar

from zeus_plugins.sandboxes.bubblewrap.command import Root
from zeus_plugins.sandboxes.bubblewrap.identity import fresh_identity
from zeus_plugins.sandboxes.bubblewrap.process import standing
from zeus_plugins.sandboxes.bubblewrap.seccomp import filter_program
from zeus_plugins.sandboxes.bubblewrap.staging import Staged, copy_in, copy_out, put_files
from zeus_runtime import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxError,
    SandboxFile,
    SandboxFiles,
    SandboxLimits,
)

T = TypeVar("T")


class Box:
    """One session's sandbox: namespaces are made for each program anew, the files stay in its folder.

    Args:
        files: the session's folder.
        root: what programs see as ``/``.
        bwrap: the program.
        forget: called when it is closed.
    """

    def __init__(self, files: SandboxFiles, root: Root, bwrap: str, forget: Callable[[], object]) -> None:
        self._files = files
        self._root = root
        self._bwrap = bwrap
        self._forget = forget
        self._turn = asyncio.Lock()

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        _refuse_nul(program)
        async with self._turn:
            identity = fresh_identity()
            owner = identity.uid if identity.changed else None
            kept = os.open(self._files.make(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                async with standing(
                    self._bwrap,
                    self._root,
                    identity,
                    limits,
                    program,
                    filter_program=filter_program(platform.machine()),
                ) as stands:
                    work, scratch = stands.folders[:2]
                    staged = await _finished(_staged_in, kept, work, owner)
                    put_files(scratch, program.files, owner)
                    try:
                        ended = await stands.run(limits, on_output)
                    except asyncio.CancelledError:
                        stands.kill()
                        await _finished(_staged_out, work, kept, staged)
                        raise
                    stands.kill()
                    lost = await _finished(_staged_out, work, kept, staged)
            finally:
                os.close(kept)
        return Outcome(ended.exit_code, ended.killed_by, ended.output, ended.seconds, lost)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        async with self._turn:
            return await asyncio.to_thread(self._files.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        async with self._turn:
            await asyncio.to_thread(self._files.write, path, data)

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        async with self._turn:
            return await asyncio.to_thread(self._files.list, path, max_files=max_files)

    async def close(self) -> None:
        async with self._turn:
            self._forget()


def _refuse_nul(program: Program) -> None:
    texts = (*program.arguments, *program.environ, *program.environ.values())
    if any("\0" in each for each in texts):
        raise SandboxError("a command, its arguments and its variables cannot hold a NUL character")
    if any("=" in name for name in program.environ):
        raise SandboxError("the name of a variable cannot hold a =")
    if any("/" in name or name in ("", ".", "..") for name in program.files):
        raise SandboxError("a program's own files have plain names, without folders")


def _staged_in(kept: int, work: int, owner: int | None) -> Staged:
    try:
        return copy_in(kept, work, owner)
    except OSError as error:
        raise SandboxError(
            f"the session's files cannot be put into the sandbox: {error.strerror}",
            remedy="Remove some of them, or raise disk_mb.",
        ) from None


def _staged_out(work: int, kept: int, staged: Staged) -> tuple[str, ...]:
    return copy_out(work, kept, staged)


async def _finished(function: Callable[..., T], *arguments: object) -> T:
    """What a function says that works on files in a thread; cancelled, it is waited for all the same."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
