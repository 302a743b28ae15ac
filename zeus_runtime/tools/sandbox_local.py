"""Sandboxes whose files are folders on this machine: such a backend only implements how a program runs on a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from zeus_runtime.tools.own_folders import own_path
from zeus_runtime.tools.sandbox import Outcome, Program, SandboxFile, SandboxLimits
from zeus_runtime.tools.sandbox_files import SandboxFiles
from zeus_runtime.tools.sandbox_folders import remove_folder, remove_older, session_folder
from zeus_runtime.tools.sandbox_sessions import Containment, SandboxSessions

P = ParamSpec("P")
T = TypeVar("T")


class FolderContainment(Containment, Protocol):
    """The isolation of programs that run on a folder of this machine."""

    async def run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
        /,
    ) -> Outcome:
        """Run a program on a session's folder: its files are copied in, and changed files are copied back.

        Raises:
            SandboxError: the program could not be run.
        """
        ...


def folder_sandboxes(
    containment: FolderContainment, root: Path, *, keep_days: float | None
) -> SandboxSessions:
    """Return a backend whose sessions are folders below ``root``.

    Args:
        containment: runs a program on one of them.
        root: the folder that contains them.
        keep_days: folders of sessions that ran no program for this many days are removed; None: never.

    Raises:
        LinkedFolderError: ``root`` is in ``.zeus``, and a link leads there.
    """
    return SandboxSessions(containment, _LocalFolders(containment, own_path(root), keep_days))


class _LocalFolders:
    def __init__(self, containment: FolderContainment, root: Path, keep_days: float | None) -> None:
        self._containment = containment
        self._root = root
        self._keep_days = keep_days

    def at(self, session: str) -> _LocalFolder:
        return _LocalFolder(self._containment, SandboxFiles(session_folder(self._root, session)))

    async def remove(self, session: str) -> None:
        await _in_thread(remove_folder, self._root, session)

    async def remove_older(self, *, spare: str) -> None:
        if self._keep_days is not None:
            await _in_thread(remove_older, self._root, max_age_days=self._keep_days, spare=spare)

    async def aclose(self) -> None:
        """Nothing is held open."""


class _LocalFolder:
    def __init__(self, containment: FolderContainment, files: SandboxFiles) -> None:
        self._containment = containment
        self._files = files

    async def run(
        self, program: Program, limits: SandboxLimits, on_output: Callable[[bytes], None] | None
    ) -> Outcome:
        folder = self._files.make()
        # What tells how old a session's files are: a program need not change any.
        os.utime(folder)
        return await self._containment.run(folder, program, limits, on_output)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await _in_thread(self._files.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        await _in_thread(self._files.write, path, data)

    async def list(self, path: str, *, max_files: int) -> Sequence[SandboxFile]:
        return await _in_thread(self._files.list, path, max_files=max_files)


async def _in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    # Backends are made while planning, which imports no asyncio.
    import asyncio

    return await asyncio.to_thread(work, *given, **named)
