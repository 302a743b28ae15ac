"""Approval requests: the question to a person before an action, and the possible answers. Data only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.tools.preview import Preview
    from zeus_runtime.tools.tool import JSON, ToolCall

Answer: TypeAlias = Literal["approve", "reject"]

AskMode: TypeAlias = Literal["run_everything", "allowlist", "ask"]
"""How often a user is asked: never; but for what is on their allowlist; every time."""

STRICTNESS: Final[tuple[AskMode, ...]] = ("run_everything", "allowlist", "ask")
"""Each asks at least what those before it ask."""


@dataclass(frozen=True)
class AskModes:
    """How often a config asks, and what of it its user may choose (``ask_modes`` of a middleware's options).

    Args:
        configured: what holds without a choice.
        choices: what the user may choose.
    """

    configured: AskMode
    choices: tuple[AskMode, ...]

    @classmethod
    def of(cls, configured: AskMode, choices: Sequence[AskMode] | None) -> AskModes:
        """By default a user may choose what asks no less than the config."""
        if choices is None:
            choices = STRICTNESS[STRICTNESS.index(configured) :]
        return cls(configured, tuple(each for each in STRICTNESS if each == configured or each in choices))

    def in_force(self, chosen: str | None) -> AskMode:
        """What holds for a user who chose ``chosen``: their choice where they may, else the config's."""
        return next((each for each in self.choices if each == chosen), self.configured)


@dataclass(frozen=True)
class ApprovalRequest:
    """What is to be approved.

    Args:
        tool: what would be done: a tool's name.
        arguments: with what, as it would run.
        place: where in the run it stands, the same whenever the run is taken up: ``ToolCall.place`` and, where one
            call asks several things, something that tells them apart (``"17.elicitation-1"``).
        call_id: the tool call's id.
        reason: why it is asked, for the person.
        schema: the JSON Schema that changed arguments must fit; None: they cannot be changed.
        may_remember: whether "always allow this tool" may be offered.
        timeout_seconds: how long the answer may take, counted from the first asking; None: for ever.
        on_timeout: what holds after that.
        preview: what it would change, where the tool can tell.
    """

    tool: str
    arguments: Mapping[str, JSON]
    place: str
    call_id: str = ""
    reason: str = ""
    schema: Mapping[str, JSON] | None = None
    may_remember: bool = True
    timeout_seconds: float | None = None
    on_timeout: Answer = "reject"
    preview: Preview | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the tool and its arguments, and of a question's form: what an answer is bound to."""
        # An answer takes the form's defaults; a server may ask with another one when its call is made again.
        form = [self.schema] if "." in self.place else []
        text = json.dumps([self.tool, self.arguments, *form], sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Decision:
    """What was answered.

    Args:
        answer: ``approve`` or ``reject``.
        reason: of a rejection, for the model.
        arguments: to run with instead.
        instruction: something more that the model is told.
        always: the user never wants to be asked about this tool again.
        by: ``user``; ``timeout``; ``earlier``: the user rejected the same call before.
    """

    answer: Answer
    reason: str = ""
    arguments: Mapping[str, JSON] | None = None
    instruction: str = ""
    always: bool = False
    by: Literal["user", "timeout", "earlier"] = "user"


@dataclass(frozen=True)
class PendingApproval:
    """A question as it is stored and shown; known secrets in it are masked.

    Args:
        id: what a decision names it by.
        session: the session that waits for it, which may be a sub-agent's.
        run_id, place: where it stands.
        digest: what the decision is bound to.
        tool, arguments, call_id, reason, schema, may_remember, on_timeout: of the ``ApprovalRequest``.
        created_ms, expires_ms: UTC milliseconds; no ``expires_ms``: it waits for ever.
        decision: None while nobody decided.
        decided_ms: UTC milliseconds.
        withdrawn: the conversation went on without it.
        shown: ``Preview.digest`` of the change that was shown last, which the decision is bound to as well; empty where
            the arguments were shown instead, None for a question from before there were digests.
        preview: what the call would change now, for whoever is asked while the run waits; not stored.
    """

    id: str
    session: str
    run_id: str
    place: str
    digest: str
    tool: str
    arguments: Mapping[str, JSON]
    call_id: str = ""
    reason: str = ""
    schema: Mapping[str, JSON] | None = field(default=None, repr=False)
    may_remember: bool = True
    on_timeout: Answer = "reject"
    created_ms: int = 0
    expires_ms: int | None = None
    decision: Decision | None = None
    decided_ms: int | None = None
    withdrawn: bool = False
    shown: str | None = None
    preview: Preview | None = field(default=None, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether it can still be decided, its time aside."""
        return self.decision is None and not self.withdrawn

    @property
    def is_question(self) -> bool:
        """Whether it was asked in the middle of a call; the answer is arguments that fit ``schema``."""
        return "." in self.place

    def problem_of(self, arguments: JSON) -> str | None:
        """Why ``arguments`` cannot be run instead, or are no answer to the question; None if they can."""
        if self.schema is None:
            return f"the arguments of {self.tool} cannot be changed"
        checked = fitted(self.tool, self.schema, arguments, fill=self.is_question)
        return checked if isinstance(checked, str) else None

    def problem_with(self, decision: Decision) -> str | None:
        """Why it cannot be decided so; None if it can. A question is approved with an answer, not without one."""
        if decision.answer != "approve" or (decision.arguments is None and not self.is_question):
            return None
        return self.problem_of(decision.arguments or {})

    def as_json(self) -> dict[str, Any]:
        """What whoever decides needs to know."""
        return {
            "id": self.id,
            "session": self.session,
            "call_id": self.call_id,
            "tool_name": self.tool,
            "parameters": dict(self.arguments),
            "reason": self.reason,
            **({"answer_schema": dict(self.schema)} if self.is_question and self.schema is not None else {}),
            "created_ms": self.created_ms,
            "expires_ms": self.expires_ms,
        }


def fitted(tool: str, schema: Mapping[str, JSON], arguments: JSON, *, fill: bool) -> dict[str, JSON] | str:
    """What a person wrote as ``schema`` wants it, or what is wrong with it.

    Args:
        fill: whether what is missing is what the schema names as its default.
    """
    from zeus_runtime.tools.dispatch import validate_arguments
    from zeus_runtime.tools.tool import Tool

    async def unused() -> str:
        raise AssertionError

    if fill and isinstance(arguments, dict):
        fields: Mapping[str, Any] = schema.get("properties") or {}
        defaults = {
            name: each["default"]
            for name, each in fields.items()
            if isinstance(each, dict) and "default" in each
        }
        arguments = {**defaults, **arguments}
    return validate_arguments(Tool(tool, "", schema, unused), arguments)


class ApprovalChannel(Protocol):
    """A person, or a program in a person's place, who can be asked while a run waits."""

    async def ask(self, pending: PendingApproval) -> Decision | None:
        """The answer; None leaves the question open, and the run ends until it is decided.

        Several questions may be asked at the same time.
        """
        ...


Judge: TypeAlias = "Callable[[ToolCall], Awaitable[bool]]"
"""Whether a call needs somebody's approval."""


class Approvals(Protocol):
    """How a component asks the user (``RunContext.approvals``, ``ToolRun.approvals``): one way for all."""

    async def ask(self, request: ApprovalRequest) -> Decision:
        """The decision: the stored one where there is one, else what is answered now.

        Where nobody can answer now, the call ends here with ``ApprovalPending``, which must not be caught: the run's
        other calls finish, the run ends with ``approval_needed``, and whoever takes it up makes the call again.
        """
        ...

    async def is_allowed(self, tool: str) -> bool:
        """Whether the user's stored allowlist has the tool."""
        ...

    async def mode(self, modes: AskModes) -> AskMode:
        """How often the user is asked: the stored choice where the config lets them choose it, else the config's."""
        ...

    async def settled(self, request: ApprovalRequest, *, waits_on: bool = False) -> Decision | None:
        """What was decided on a call that needs no approval now, or no more; None if nothing was.

        What the user decided of a call holds, whatever the rules, the allowlist or the mode have become since. A
        question about it that is still open is withdrawn.

        Args:
            waits_on: it is not withdrawn but asked, as ``ask`` does: no word of the user's made it needless.
        """
        ...

    def judged_by(self, judge: Judge) -> None:
        """Let ``judge`` say of each call, before it is made, whether it needs approval (the event ``tool_call``)."""
        ...


class ApprovalPending(BaseException):
    """Nobody has decided yet: no error, the call waits. Like a cancellation it passes through ``except Exception``.

    Args:
        pending: what waits for a decision.
    """

    def __init__(self, pending: Sequence[PendingApproval]) -> None:
        super().__init__(", ".join(each.id for each in pending))
        self.pending = tuple(pending)
