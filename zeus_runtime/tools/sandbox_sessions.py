"""A backend's sandboxes by session, wherever their files are: each is opened once, and takes one order at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from zeus_runtime.tools.sandbox import (
    WORKING_FOLDER,
    Outcome,
    Program,
    Sandbox,
    SandboxCapabilities,
    SandboxFile,
    SandboxLimits,
    refuse_unrunnable,
)

if TYPE_CHECKING:
    import asyncio


class Containment(Protocol):
    """What programs are contained by, and whether that can be had here."""

    @property
    def capabilities(self) -> SandboxCapabilities: ...

    def check(self) -> None:
        """As ``SandboxBackend.check``."""
        ...


class SessionFolder(Protocol):
    """One session's files, and programs over them: the methods of ``Sandbox``, with the same errors.

    It is asked for one thing at a time, and never to run what no system can.
    """

    async def run(
        self, program: Program, limits: SandboxLimits, on_output: Callable[[bytes], None] | None
    ) -> Outcome: ...

    async def read(self, path: str, *, max_bytes: int) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def list(self, path: str, *, max_files: int) -> Sequence[SandboxFile]: ...


class SessionFolders(Protocol):
    """Where the sessions' files are."""

    def at(self, session: str) -> SessionFolder:
        """A session's, whether it has files yet or not; nothing is made."""
        ...

    async def remove(self, session: str) -> None:
        """Remove a session's sandbox; a missing one is not an error."""
        ...

    async def remove_older(self, *, spare: str) -> None:
        """Remove those of sessions that ran nothing for longer than is wanted, but not that of ``spare``."""
        ...

    async def aclose(self) -> None:
        """Give up what is held open."""
        ...


class SandboxSessions:
    """A ``SandboxBackend`` of two parts.

    Args:
        containment: what programs are contained by.
        folders: where the sessions' files are.
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
                opened[session] = _TakingTurns(folder, turn, lambda box: _forget(opened, session, box))
            return opened[session]

    async def remove(self, session: str) -> None:
        opened = self._opened()
        async with self._turn(session):
            opened.pop(session, None)
            await self._folders.remove(session)

    async def aclose(self) -> None:
        for box in list(self._opened().values()):
            await box.close()
        await self._folders.aclose()

    def _opened(self) -> dict[str, _TakingTurns]:
        """Those that are open in the event loop that runs; what was open in another one ended with it."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._opening, self._open = loop, asyncio.Lock(), {}
            self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        return self._open

    def _turn(self, session: str) -> asyncio.Lock:
        """Who holds it has the session's files for itself; of the event loop that runs."""
        import asyncio

        return self._turns.setdefault(session, asyncio.Lock())


def _forget(opened: dict[str, _TakingTurns], session: str, box: _TakingTurns) -> None:
    """That ``box`` is open, and not another one that was made for its session since."""
    if opened.get(session) is box:
        del opened[session]


class _TakingTurns:
    """One session's sandbox: while a program works on its files nothing else does.

    Args:
        folder: the session's files.
        turn: held while something is done with them.
        forget: called when it is closed.
    """

    def __init__(
        self, folder: SessionFolder, turn: asyncio.Lock, forget: Callable[[_TakingTurns], object]
    ) -> None:
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
