"""Sandboxes whose sessions are folders on this machine: what such backends share, whatever runs the programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from zeus_runtime.tools.sandbox import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxFile,
    SandboxLimits,
    refuse_unrunnable,
)
from zeus_runtime.tools.sandbox_files import SandboxFiles
from zeus_runtime.tools.sandbox_folders import remove_folder, remove_older, session_folder

P = ParamSpec("P")
T = TypeVar("T")


class RunInFolder(Protocol):
    """Runs a program over a session's folder: its files go in, and what became of them comes back."""

    def __call__(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
        /,
    ) -> Awaitable[Outcome]: ...


class FolderSandbox:
    """One session's sandbox: the files stay in its folder, and each program that works on them is run anew.

    Args:
        files: the session's folder.
        run: runs a program over it.
        forget: called when it is closed.
    """

    def __init__(self, files: SandboxFiles, run: RunInFolder, forget: Callable[[], object]) -> None:
        self._files = files
        self._run = run
        self._forget = forget
        import asyncio

        self._turn = asyncio.Lock()

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        refuse_unrunnable(program)
        async with self._turn:
            return await self._run(self._files.make(), program, limits, on_output)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        async with self._turn:
            return await _in_thread(self._files.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        async with self._turn:
            await _in_thread(self._files.write, path, data)

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        async with self._turn:
            return await _in_thread(self._files.list, path, max_files=max_files)

    async def close(self) -> None:
        async with self._turn:
            self._forget()


class FolderSandboxes:
    """A backend's sandboxes by session.

    Args:
        root: where the sessions' folders are.
        run: runs a program over one of them.
        keep_days: folders of sessions that ran no program for longer are removed; None keeps any age.
    """

    def __init__(self, root: Path, run: RunInFolder, *, keep_days: float | None) -> None:
        self._root = root
        self._run = run
        self._keep_days = keep_days
        self._open: dict[str, FolderSandbox] = {}

    async def create(self, session: str) -> FolderSandbox:
        """The session's sandbox, with the files it had before."""
        if session not in self._open:
            if not self._open and self._keep_days is not None:
                await _in_thread(remove_older, self._root, max_age_days=self._keep_days, spare=session)
            files = SandboxFiles(session_folder(self._root, session))
            self._open[session] = FolderSandbox(files, self._run, lambda: self._open.pop(session, None))
        return self._open[session]

    async def remove(self, session: str) -> None:
        """Remove a session's sandbox with all its files; one that is not there is no error."""
        await self._close(session)
        await _in_thread(remove_folder, self._root, session)

    async def aclose(self) -> None:
        """Close every sandbox that is open."""
        for session in list(self._open):
            await self._close(session)

    async def _close(self, session: str) -> None:
        box = self._open.get(session)
        if box is not None:
            await box.close()


async def _in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    # Backends are made while planning, which imports no asyncio.
    import asyncio

    return await asyncio.to_thread(work, *given, **named)
