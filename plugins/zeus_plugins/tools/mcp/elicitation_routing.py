"""Which of the calls that run at one server a question of its belongs to.

Over HTTP, and in the newest protocol, the question comes with the call. Over pipes nothing tells: where several calls
run, the one that asks waits for the answer and the others end, so what is left is who asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zeus_plugins.tools.mcp.transports import quiet

if TYPE_CHECKING:
    from zeus_runtime.plugin.tool import ToolRun

_PATIENCE_SECONDS: Final = 10.0
"""How long the other calls may take to end. A server that does one thing after another never ends them before."""
_ATTENDED_SECONDS: Final = 2.0
"""The same where somebody is there: what they answer reaches the server whichever call it is asked for, and only what
they leave for later waits at that call."""

_CALL: Final[ContextVar[ToolRun | None]] = ContextVar("the call that is being made", default=None)
"""The SDK answers a question in the context of the call that it came with, where the transport knows it."""


@dataclass(eq=False)
class _Question:
    """What a server asks.

    Attributes:
        calls: those that may have asked it: they ran when it came, and were not answered since.
        run: the call that it belongs to, once that is clear; None where none can be meant.
    """

    calls: Sequence[ToolRun]
    run: ToolRun | None = None
    is_clear: asyncio.Event = field(default_factory=asyncio.Event)

    def belongs_to(self, run: ToolRun | None) -> None:
        self.run = run
        self.is_clear.set()


class Askers:
    """The calls that run at a server, and which of them wait for an answer."""

    def __init__(self) -> None:
        self._running: Sequence[ToolRun] = ()
        self._questions: list[_Question] = []

    @property
    def all(self) -> Sequence[ToolRun]:
        """The calls that run."""
        return self._running

    @contextmanager
    def running(self, run: ToolRun) -> Iterator[None]:
        """While inside, the call runs, and what comes with it is its own."""
        self._running = (*self._running, run)
        before = _CALL.set(run)
        try:
            yield
            # One that is cut off instead may be the one that asked.
            for question in self._questions:
                question.calls = _without(question.calls, run)
        finally:
            _CALL.reset(before)
            self._running = _without(self._running, run)
            self._settle()

    @asynccontextmanager
    async def asker(self) -> AsyncIterator[ToolRun | None]:
        """The call that a question belongs to, which asks while inside; None where none can be meant."""
        question = _Question(self._running)
        self._questions.append(question)
        try:
            own = _CALL.get()
            if own is not None and _has(self._running, own):
                question.belongs_to(own)
            else:
                await self._clear(question)
            yield question.run
        finally:
            self._questions.remove(question)

    async def _clear(self, question: _Question) -> None:
        self._settle()
        possible = self._possible(question)
        is_alike = all(run.is_attended for run in possible) and _is_one_person(possible)
        await quiet(_ATTENDED_SECONDS if is_alike else _PATIENCE_SECONDS, question.is_clear)
        if not question.is_clear.is_set():
            question.belongs_to(self._meant(question))

    def _settle(self) -> None:
        """Say whose the open questions are, if the calls that may be meant are no more than they."""
        unclear = [question for question in self._questions if not question.is_clear.is_set()]
        free = {id(run) for each in unclear for run in each.calls if self._is_there(run)}
        free -= {id(run) for run in self._asking}
        if len(free) <= len(unclear):
            for question in unclear:
                question.belongs_to(self._meant(question))

    def _meant(self, question: _Question) -> ToolRun | None:
        """Questions come in the order of their calls, and so does what a server does one after another."""
        possible = self._possible(question)
        there = [run for run in possible if self._is_there(run)]
        if not there or not _is_one_person(possible):
            # Nobody is asked what another one's call wants to know.
            return None
        # One that was told that its answer waits has little left to ask.
        return next((run for run in there if run.waits is None and not run.unanswered), there[0])

    def _possible(self, question: _Question) -> Sequence[ToolRun]:
        """The calls that may have asked: those that do not wait for an answer, unless all do."""
        asking = self._asking
        return [run for run in question.calls if not _has(asking, run)] or question.calls

    @property
    def _asking(self) -> Sequence[ToolRun]:
        return [question.run for question in self._questions if question.run is not None]

    def _is_there(self, run: ToolRun) -> bool:
        return _has(self._running, run)


def _has(runs: Sequence[ToolRun], run: ToolRun) -> bool:
    return any(each is run for each in runs)


def _without(runs: Sequence[ToolRun], run: ToolRun) -> Sequence[ToolRun]:
    return tuple(each for each in runs if each is not run)


def _is_one_person(runs: Sequence[ToolRun]) -> bool:
    return all(run.person is runs[0].person for run in runs)
