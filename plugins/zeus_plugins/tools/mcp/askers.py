"""Which of the calls that run at one server a question of its belongs to.

Over HTTP, and in the newest protocol, the question comes with the call. Over pipes nothing tells: where several calls
run, the one that asks waits for the answer and the others end, so what is left is who asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime import ToolRun

_PATIENCE_SECONDS: Final = 10.0
"""How long the other calls may take to end. A server that does one thing after another never ends them before."""

_CALL: Final[ContextVar[ToolRun | None]] = ContextVar("the call that is being made", default=None)
"""The SDK answers a question in the context of the call that it came with, where the transport knows it."""


class Askers:
    """The calls that run at a server, and which of them wait for an answer."""

    def __init__(self) -> None:
        self._running: list[ToolRun] = []
        self._asking: list[ToolRun] = []
        self._unclear: list[asyncio.Future[ToolRun | None]] = []

    @property
    def all(self) -> Sequence[ToolRun]:
        """The calls that run."""
        return tuple(self._running)

    @contextmanager
    def running(self, run: ToolRun) -> Iterator[None]:
        """While inside, the call runs, and what comes with it is its own."""
        self._running.append(run)
        before = _CALL.set(run)
        try:
            yield
        finally:
            _CALL.reset(before)
            self._running = _without(self._running, run)
            self._settle()

    @asynccontextmanager
    async def asker(self) -> AsyncIterator[ToolRun | None]:
        """The call that a question belongs to, which asks while inside; None where none can be meant."""
        run = _CALL.get()
        if run is None or not _has(self._running, run):
            run = await self._found()
        if run is None:
            yield None
            return
        self._asking.append(run)
        try:
            yield run
        finally:
            self._asking = _without(self._asking, run)

    async def _found(self) -> ToolRun | None:
        question: asyncio.Future[ToolRun | None] = asyncio.get_running_loop().create_future()
        self._unclear.append(question)
        try:
            self._settle()
            await asyncio.wait([question], timeout=_PATIENCE_SECONDS)
            return question.result() if question.done() else self._meant(self._unclear.index(question))
        finally:
            if question in self._unclear:
                self._unclear.remove(question)

    def _settle(self) -> None:
        """Say whose the open questions are, if the calls that may be meant are no more than they, or if it is the same
        to whoever is there."""
        free = self._free()
        is_alike = bool(free) and free[0].is_attended and _is_one_person(free)
        if self._unclear and (len(free) <= len(self._unclear) or is_alike):
            for place, question in enumerate(self._unclear):
                question.set_result(self._meant(place))
            self._unclear = []

    def _meant(self, place: int) -> ToolRun | None:
        """Questions come in the order of their calls, and so does what a server does one after another."""
        free = self._free() or self._running[-1:]
        # Nobody is asked what another one's call wants to know.
        return free[min(place, len(free) - 1)] if free and _is_one_person(free) else None

    def _free(self) -> list[ToolRun]:
        """The calls that may have asked: those that are not known to wait for an answer."""
        return [run for run in self._running if run.waits is None and not _has(self._asking, run)]


def _has(runs: Sequence[ToolRun], run: ToolRun) -> bool:
    return any(each is run for each in runs)


def _without(runs: Sequence[ToolRun], run: ToolRun) -> list[ToolRun]:
    return [each for each in runs if each is not run]


def _is_one_person(runs: Sequence[ToolRun]) -> bool:
    return all(run.person is runs[0].person for run in runs)
