"""A backend's sandboxes by session, wherever their files are: each is opened once and runs one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from zeus_runtime.tools.run_to_completion import all_tried
from zeus_runtime.tools.sandbox import (
    WORKING_FOLDER,
    Outcome,
    Program,
    Sandbox,
    SandboxCapabilities,
    SandboxError,
    SandboxFile,
    SandboxLimits,
    refuse_unrunnable,
)

if TYPE_CHECKING:
    import asyncio


class Containment(Protocol):
    """The isolation of programs, and a check whether this machine supports it."""

    @property
    def capabilities(self) -> SandboxCapabilities: ...

    def check(self) -> None:
        """As ``SandboxBackend.check``."""
        ...


class SessionFolder(Protocol):
    """One session's files, and programs that use them: the methods of ``Sandbox``, with the same errors.

    It gets one call at a time, and no program that ``refuse_unrunnable`` refuses.
    """

    async def run(
        self, program: Program, limits: SandboxLimits, on_output: Callable[[bytes], None] | None
    ) -> Outcome: ...

    async def read(self, path: str, *, max_bytes: int) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def list(self, path: str, *, max_files: int) -> Sequence[SandboxFile]: ...


class SessionFolders(Protocol):
    """The folders with the sessions' files."""

    def at(self, session: str) -> SessionFolder:
        """Return a session's folder, whether or not it exists; nothing is created."""
        ...

    async def remove(self, session: str) -> None:
        """Remove a session's sandbox; a missing one is not an error."""
        ...

    async def remove_older(self, *, spare: str) -> None:
        """Remove folders of sessions that ran no program for too long, except that of ``spare``."""
        ...

    async def aclose(self) -> None:
        """Release open resources."""
        ...


class SandboxSessions:
    """A ``SandboxBackend`` that is composed of two parts.

    Args:
        containment: the isolation of programs.
        folders: the sessions' files.
    """

    def __init__(self, containment: Containment, folders: SessionFolders) -> None:
        self.containment = containment
        self._folders = folders
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, _TakingTurns] = {}

    @property
    def capabilities(self) -> SandboxCapabilities:
        return self.containment.capabilities

    def check(self) -> None:
        self.containment.check()

    async def create(self, session: str) -> Sandbox:
        self.check()
        opened = self._opened()
        async with self._opening:
            if session not in opened:
                if not opened:
                    await self._folders.remove_older(spare=session)
                folder, turn = self._folders.at(session), self._turn(session)
                opened[session] = _TakingTurns(
                    folder,
                    turn,
                    lambda box: _forget(opened, session, box),
                    shares_workspace=self.capabilities.workspace is not None,
                )
            return opened[session]

    async def remove(self, session: str) -> None:
        opened = self._opened()
        async with self._turn(session):
            opened.pop(session, None)
            await self._folders.remove(session)

    async def aclose(self) -> None:
        await all_tried(*(box.close for box in self._opened().values()), self._folders.aclose)

    def _opened(self) -> dict[str, _TakingTurns]:
        """The sandboxes that are open in the running event loop; those of another loop ended with it."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._opening, self._open = loop, asyncio.Lock(), {}
            # A lock lives as long as an open sandbox or a running operation refers to it.
            self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        return self._open

    def _turn(self, session: str) -> asyncio.Lock:
        """Return the lock for exclusive use of the session's files; it belongs to the running event loop."""
        import asyncio

        return self._turns.setdefault(session, asyncio.Lock())


def _forget(opened: dict[str, _TakingTurns], session: str, box: _TakingTurns) -> None:
    """Remove ``box`` from the open ones, but not a newer sandbox of the same session."""
    if opened.get(session) is box:
        del opened[session]


class _TakingTurns:
    """One session's sandbox; while a program uses its files, no other operation does.

    Args:
        folder: the session's files.
        turn: the lock that is held during an operation on them.
        forget: called when the sandbox is closed.
        shares_workspace: whether its programs may use the workspace.
    """

    def __init__(
        self,
        folder: SessionFolder,
        turn: asyncio.Lock,
        forget: Callable[[_TakingTurns], object],
        *,
        shares_workspace: bool,
    ) -> None:
        self._shares_workspace = shares_workspace
        self._folder = folder
        self._forget = forget
        self._turn = turn

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        refuse_unrunnable(program)
        if program.workspace is not None and not self._shares_workspace:
            raise SandboxError("this backend cannot show the workspace to programs")
        async with self._turn:
            return await self._folder.run(program, limits, on_output)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        async with self._turn:
            return await self._folder.read(path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        async with self._turn:
            await self._folder.write(path, data)

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        async with self._turn:
            return await self._folder.list(path, max_files=max_files)

    async def close(self) -> None:
        async with self._turn:
            self._forget(self)
