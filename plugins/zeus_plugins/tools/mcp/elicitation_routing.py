"""The assignment of a server's questions to the calls that run on that server.

Over HTTP, and in the newest protocol, a question names its call. Over pipes it does not. If several calls run
concurrently, the call that asks waits for its answer while the others end, so the call that is left has asked.
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
"""How long to wait for the other calls to end. A server that runs one call after the other never ends them earlier."""
_ATTENDED_SECONDS: Final = 2.0
"""The same if a user is present. The user's answer reaches the server whichever call the question is assigned to; the
call matters only if the user answers later."""

_CALL: Final[ContextVar[ToolRun | None]] = ContextVar("the call that is being made", default=None)
"""The SDK answers a question in the context of the call that it came with, if the transport knows the call."""


@dataclass(eq=False)
class _Question:
    """A question of a server.

    Attributes:
        calls: the calls that may have asked it: they ran when it came, and have not been answered since.
        run: the call that it belongs to, once that is clear; None if it cannot be assigned to any call.
    """

    calls: Sequence[ToolRun]
    run: ToolRun | None = None
    is_clear: asyncio.Event = field(default_factory=asyncio.Event)

    def belongs_to(self, run: ToolRun | None) -> None:
        self.run = run
        self.is_clear.set()


class Askers:
    """The calls that run on a server, and those among them that wait for a user's answer."""

    def __init__(self) -> None:
        self._running: Sequence[ToolRun] = ()
        self._questions: list[_Question] = []

    @property
    def all(self) -> Sequence[ToolRun]:
        """The calls that are running."""
        return self._running

    @contextmanager
    def running(self, run: ToolRun) -> Iterator[None]:
        """Mark a call as running while the context is open; questions that name this call belong to it."""
        self._running = (*self._running, run)
        before = _CALL.set(run)
        try:
            yield
            # Only if the call ended normally: a cancelled call may still be the one that asked.
            for question in self._questions:
                question.calls = _without(question.calls, run)
        finally:
            _CALL.reset(before)
            self._running = _without(self._running, run)
            self._settle()

    @asynccontextmanager
    async def asker(self) -> AsyncIterator[ToolRun | None]:
        """The call that a new question belongs to; None if no call can be assigned.

        While the context is open, that call counts as waiting for an answer.
        """
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
        """Assign the open questions if there are at most as many possible calls as questions."""
        unclear = [question for question in self._questions if not question.is_clear.is_set()]
        free = {id(run) for each in unclear for run in each.calls if self._is_there(run)}
        free -= {id(run) for run in self._asking}
        # Each call waits for its own answer, so it has at most one open question: no more calls, no more choice.
        if len(free) <= len(unclear):
            for question in unclear:
                question.belongs_to(self._meant(question))

    def _meant(self, question: _Question) -> ToolRun | None:
        """The first call that may have asked; None if it cannot be assigned.

        Questions come in the order of their calls, and a server that runs one call after the other keeps that order.
        """
        possible = self._possible(question)
        there = [run for run in possible if self._is_there(run)]
        if not there or not _is_one_person(possible):
            # Never ask one user a question that belongs to another user's call.
            return None
        # Prefer a call without a pending or cancelled question: the others will hardly ask again.
        return next((run for run in there if run.waits is None and not run.unanswered), there[0])

    def _possible(self, question: _Question) -> Sequence[ToolRun]:
        """The calls that may have asked: those that do not wait for an answer yet, or all calls if all of them wait."""
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
