"""A tool function's view of the run that calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.tools.approval import ApprovalPending, ApprovalRequest, fitted, require_form

if TYPE_CHECKING:
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.tools import ToolResult
    from zeus_runtime.tools.approval import Approvals

M = TypeVar("M")


async def _none(_: Mapping[str, Any]) -> None:
    """No objection, where nobody judges calls."""


@dataclass
class ToolRunView:
    """The ``ToolRun`` that a tool function gets.

    Attributes:
        setting: ``Tool.setting`` of ``tool``: an answer is for a question of the tool with this setting.
        person: the person who gets its questions.
        is_attended: whether a user can answer now.
        waits: the question that the user has not answered; the call then waits too.
        unanswered: unanswered questions of calls that do not wait.
    """

    session: str
    tool: str
    setting: str = field(repr=False)
    call_id: str
    mode: str
    run_id: str
    user_text: str = field(repr=False)
    place: int
    answer: int
    approvals: Approvals = field(repr=False)
    _state: Mapping[str, Any] = field(repr=False)
    _send: Callable[[str, str, str, Sequence[str]], Awaitable[ToolResult]] = field(repr=False)
    _progress: Callable[[str, float | None, float | None], None] = field(repr=False)
    _objection: Callable[[Mapping[str, Any]], Awaitable[str | None]] = field(default=_none, repr=False)
    _waiting: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, repr=False)
    _giver: Middleware | None = field(default=None, repr=False)
    _results: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, repr=False)
    person: object = field(default=None, repr=False)
    is_attended: bool = False
    secrets: Redactor = field(default_factory=Redactor)
    known: Redactor = field(default_factory=Redactor)
    _questions: int = 0
    waits: ApprovalPending | None = None
    unanswered: list[str] = field(default_factory=list)

    @property
    def results(self) -> Sequence[tuple[str, str]]:
        return self._results()

    def state(self, name: str) -> Any:
        # As a result stores it, with the secrets in its names masked.
        return self._state.get(self.secrets.text(name))

    def middleware(self, kind: type[M]) -> M:
        if not isinstance(self._giver, kind):
            raise LookupError(f"the tool {self.tool!r} was not given by a {kind.__name__}")
        return self._giver

    async def delegate(
        self, agent: str, prompt: str, *, description: str = "", handles: Sequence[str] = ()
    ) -> ToolResult:
        return await self._send(agent, prompt, description, handles)

    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        self._progress(message, done, total)

    async def objection(self, arguments: Mapping[str, Any]) -> str | None:
        return await self._objection(arguments)

    def waiting(self) -> AbstractContextManager[None]:
        return self._waiting()

    async def ask(
        self, question: str, schema: Mapping[str, Any], *, may_wait: bool = True
    ) -> Mapping[str, Any] | None:
        # One broken form would also keep its user from all other calls that wait.
        require_form(self.tool, schema)
        # Counted in the order of asking: a call that runs again after a resume asks in the same order, and each
        # question finds its decision by its number.
        self._questions += 1
        request = ApprovalRequest(
            tool=self.tool,
            arguments={"question": question},
            place=f"{self.place}.{self._questions}",
            call_id=self.call_id,
            reason=question,
            schema=schema,
            may_remember=False,
            setting=self.setting,
        )
        try:
            decision = await self.approvals.ask(request)
        except ApprovalPending as waits:
            if not may_wait:
                await self.approvals.settled(request)  # withdraws the question
                self.unanswered.append(question)
                return None
            # A foreign client may be asking, which must get a reply: the call ends first, and then it waits.
            self.waits = waits
            return None
        if decision.answer != "approve":
            return None
        answer = fitted(self.tool, schema, dict(decision.arguments or {}), fill=True)
        return None if isinstance(answer, str) else answer
