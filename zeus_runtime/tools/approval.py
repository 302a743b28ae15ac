"""Approval requests: the question to a person before an action, and the possible answers. Data only."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

from zeus_runtime.errors import UsageError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.tools.preview import Preview
    from zeus_runtime.tools.tool import JSON, Tool, ToolCall
    from zeus_runtime.tools.workspace import WorkspaceFiles

Answer: TypeAlias = Literal["approve", "reject"]

AskMode: TypeAlias = Literal["run_everything", "allowlist", "ask"]
"""How often a user is asked: never; unless the tool is on their allowlist; every time."""

Listing: TypeAlias = Literal["allowed", "changed", "absent"]
"""What a user's allowlist says of a tool: it runs; it is there with another setting; it is not there."""

Kind: TypeAlias = Literal["call", "file", "question"]
"""What a request is about: a call; a file that a call reached while it ran; what a tool asked during its call."""

STRICTNESS: Final[tuple[AskMode, ...]] = ("run_everything", "allowlist", "ask")
"""Ordered: each mode asks at least as often as the ones before it."""


@dataclass(frozen=True)
class CallJudgement:
    """What a config's rules say of a call outside a run, which the options of a middleware may give (``judged``).

    Args:
        action: what happens if the call is made.
        reason: why.
        needs_person: whether only a person may approve it.
    """

    action: Literal["allow", "ask", "deny"]
    reason: str
    needs_person: bool = False


@dataclass(frozen=True)
class AskModes:
    """How often a config asks, and the modes that its user may choose (``ask_modes`` of a middleware's options).

    Args:
        configured: the mode if the user made no choice.
        choices: the modes that the user may choose.
    """

    configured: AskMode
    choices: tuple[AskMode, ...]

    @classmethod
    def of(cls, configured: AskMode, choices: Sequence[AskMode] | None) -> AskModes:
        """By default a user may choose any mode that asks at least as often as the config's."""
        if choices is None:
            choices = STRICTNESS[STRICTNESS.index(configured) :]
        return cls(configured, tuple(each for each in STRICTNESS if each == configured or each in choices))

    def in_force(self, chosen: str | None) -> AskMode:
        """Return the mode for a user who chose ``chosen``: their choice if it is allowed, else the config's."""
        return next((each for each in self.choices if each == chosen), self.configured)


@dataclass(frozen=True)
class ApprovalRequest:
    """A request for a person's approval.

    Args:
        tool: the name of the tool that would run.
        arguments: the arguments that would run.
        place: the request's place in the run, the same after every resume: ``ToolCall.place``, with a suffix if one
            call asks several questions (``"17.elicitation-1"``).
        call_id: the tool call's id.
        reason: the reason for the question, shown to the person.
        schema: the JSON Schema for changed arguments; None: they cannot be changed.
        may_remember: whether "always allow this tool" may be offered.
        needs_person: whether only a person may approve it: no ``--yes``, no timeout, no allowlist.
        timeout_seconds: how long the answer may take, from the first question on; None: for ever.
        on_timeout: the decision after a timeout.
        preview: the change that the call would make, if the tool can compute it.
        setting, facts: of the ``Tool``.
        written: the arguments as the model wrote them, if the tool takes them for ``arguments``; Zeus sets it.
    """

    tool: str
    arguments: Mapping[str, JSON]
    place: str
    call_id: str = ""
    reason: str = ""
    schema: Mapping[str, JSON] | None = None
    may_remember: bool = True
    needs_person: bool = False
    timeout_seconds: float | None = None
    on_timeout: Answer = "reject"
    preview: Preview | None = None
    setting: str = field(default="", repr=False)
    facts: tuple[str, ...] = ()
    written: Mapping[str, JSON] | None = field(default=None, repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the tool, its setting and arguments, and a question's form; an approval is bound to it."""
        # An answer uses the form's defaults, and a server may send another form when its call is repeated.
        form = [self.schema] if "." in self.place else []
        setting = [{"setting": self.setting}] if self.setting else []
        text = json.dumps(
            [self.tool, self.arguments, *form, *setting], sort_keys=True, ensure_ascii=False, default=str
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_SEEN_DIGITS: Final = 16


def short_seen(shown: str | None) -> str:
    """``PendingApproval.shown`` so short that a person can copy it; empty if no change was shown."""
    return hashlib.sha256(shown.encode()).hexdigest()[:_SEEN_DIGITS] if shown else ""


def setting_digest(setting: str, workspace: str) -> str:
    """SHA-256 of a tool's setting, whose text may have secrets, and of the workspace that it works in; never empty.

    Args:
        workspace: SHA-256 of its place. A sub-agent's may be another one than that of the agent above it.
    """
    text = json.dumps([setting, workspace])
    return hashlib.sha256(text.encode()).hexdigest()


_OF_DECISION: Final[Mapping[str, tuple[type, ...]]] = {
    "reason": (str,),
    "arguments": (Mapping, type(None)),
    "instruction": (str,),
    "always": (bool,),
}


@dataclass(frozen=True)
class Decision:
    """The answer to an approval request.

    Args:
        answer: ``approve`` or ``reject``.
        reason: the reason for a rejection, shown to the model.
        arguments: arguments to run instead.
        instruction: a further text for the model.
        always: the user does not want to be asked again about this tool with this setting (``Tool.setting``) in this
            workspace.
        by: ``user``; ``timeout``; ``earlier``: the user rejected the same call before; ``automatic``: a program that
            looks at no call, such as ``--yes``.

    Raises:
        UsageError: it is neither of these answers, or another value has the wrong type.
    """

    answer: Answer
    reason: str = ""
    arguments: Mapping[str, JSON] | None = None
    instruction: str = ""
    always: bool = False
    by: Literal["user", "timeout", "earlier", "automatic"] = "user"

    def __post_init__(self) -> None:
        # A host may pass on the word of its own form: only an approval may run a call.
        if self.answer not in get_args(Answer):
            raise UsageError(f"{self.answer!r} is not a decision", remedy="Answer `approve` or `reject`.")
        for name, kinds in _OF_DECISION.items():
            if not isinstance(getattr(self, name), kinds):
                raise UsageError(
                    f"`{name}` of a decision is {type(getattr(self, name)).__name__}",
                    remedy=f"It is {' or '.join(each.__name__ for each in kinds)}.",
                )

    @property
    def verb(self) -> str:
        """``approved`` or ``rejected``."""
        return "approved" if self.answer == "approve" else "rejected"

    def in_result(self, content: str, changed: Mapping[str, JSON] | None) -> str:
        """Return a call's result for the model, with the user's changed arguments and instruction."""
        parts = [content]
        if changed is not None:
            shown = json.dumps(dict(changed), ensure_ascii=False, default=str)
            parts.insert(0, f"The user changed the arguments of this call to: {shown}")
        if self.instruction:
            parts.append(f"The user adds: {self.instruction}")
        return "\n\n".join(parts)

    @property
    def by_words(self) -> str:
        """Who or what made it, for a person."""
        words = {"timeout": "by timeout", "earlier": "as before", "automatic": "automatically"}
        return words.get(self.by, "by the user")


def required_decision(given: object) -> Decision:
    """Return what a channel or a host gave as a decision.

    Raises:
        UsageError: it is something else.
    """
    if isinstance(given, Decision):
        return given
    raise UsageError(
        f"{type(given).__name__} is not a decision",
        remedy='Give `Decision("approve")` or `Decision("reject")`.',
    )


@dataclass(frozen=True)
class PendingApproval:
    """A request as it is stored and shown, with known secrets masked.

    Args:
        id: its id, which a decision names.
        session: the session that waits for it, which may be a sub-agent's.
        run_id, place: the run, and the place in it.
        digest: the decision is bound to this digest.
        tool, arguments, call_id, reason, schema, may_remember, needs_person, on_timeout, facts, written: of the
            ``ApprovalRequest``.
        created_ms, expires_ms: UTC milliseconds; without ``expires_ms`` it waits for ever.
        decision: None until there is a decision.
        decided_ms: UTC milliseconds, and later than that of each decision of the run before this one.
        withdrawn: the conversation continued without it.
        shown: ``Preview.digest`` of the change that was shown last; the decision is bound to it too. Empty for
            a tool without previews, None for a request that is older than these digests.
        workspace: SHA-256 of the place of the agent's workspace; empty for a request that is older than this.
        remembered_as: ``setting_digest`` of the tool and ``workspace``, to which "always" is bound; empty for a request
            that is older than this.
        told: the arguments for a person, who is told which text only looks like the placeholder of a secret; None if
            none does.
        interrupted: a run began the call before it was interrupted or stopped to ask: it is asked about anew, because
            whether it took effect is unknown.
        begun_with: the arguments with which it was begun, once each, if any of them are not ``arguments``; else empty.
        outdated: the present config gives the tool another setting or workspace than it had when it was asked about,
            so an approval will not hold; not stored.
        approved_before: the same call was approved in this run, when its tool had another setting.
        approved_with: the arguments that a person wrote when approving the call, while it had other arguments or its
            tool another setting; None if that was not the last approval of the call.
        made_beside: a middleware made the call at the place of another one, after it.
        preview: the change that the call would make now, for a person who is asked while the run waits; not stored.
        agent: the sub-agent that calls, as its session is listed (``tester/helper``); empty for the outermost agent.
        session_agent: the outermost agent.
        user, project: the user of a service, and their project, for whom it works; empty elsewhere.
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
    needs_person: bool = False
    on_timeout: Answer = "reject"
    created_ms: int = 0
    expires_ms: int | None = None
    decision: Decision | None = None
    decided_ms: int | None = None
    withdrawn: bool = False
    shown: str | None = None
    workspace: str = field(default="", repr=False)
    remembered_as: str = field(default="", repr=False)
    told: Mapping[str, JSON] | None = field(default=None, repr=False)
    interrupted: bool = False
    begun_with: Sequence[Mapping[str, JSON]] = ()
    outdated: bool = False
    facts: Sequence[str] = ()
    approved_before: bool = False
    approved_with: Mapping[str, JSON] | None = None
    written: Mapping[str, JSON] | None = field(default=None, repr=False)
    made_beside: bool = False
    preview: Preview | None = field(default=None, compare=False, repr=False)
    agent: str = ""
    session_agent: str = ""
    user: str = ""
    project: str = ""

    @property
    def seal(self) -> str:
        """The id, and after ``@`` 16 hexadecimal digits of the change that was shown, if one was.

        A decision under this name is about that change and no other.
        """
        return f"{self.id}@{short_seen(self.shown)}" if self.shown else self.id

    @property
    def is_open(self) -> bool:
        """Whether it can still be decided, regardless of its timeout."""
        return self.decision is None and not self.withdrawn

    @property
    def kind(self) -> Kind:
        """What it is about."""
        return "question" if self.is_question else "file" if self.is_about_file else "call"

    def is_of(self, run_id: str, place: int, call_id: str) -> bool:
        """Whether it is about the call whose result has ``place`` in this run, or was asked while that call ran.

        The call's id alone does not say so, because a provider may use it again. It counts where a plugin gave the
        request a place that is no call's.
        """
        here = re.match(r"\d+(?=[.:]|$)", self.place)
        return self.run_id == run_id and (self.call_id == call_id if here is None else int(here[0]) == place)

    @property
    def is_question(self) -> bool:
        """Whether a tool asked it during its call; the answer is then arguments that fit ``schema``."""
        return "." in self.place

    @property
    def is_about_file(self) -> bool:
        """Whether a call that runs reached a file that needs an approval of its own, which ``reason`` names."""
        return not self.is_question and ":" in self.place

    def problem_of(self, arguments: JSON) -> str | None:
        """Return why ``arguments`` cannot be run instead or do not answer the question; None if they are valid."""
        if self.schema is None:
            return f"the arguments of {self.tool} cannot be changed"
        try:
            json.dumps(arguments, allow_nan=False, default=str)
        except ValueError:
            return "a number is too large, or none"
        checked = fitted(self.tool, self.schema, arguments, fill=self.is_question)
        return checked if isinstance(checked, str) else None

    def problem_with(self, decision: Decision) -> str | None:
        """Return why the decision is not possible; None if it is.

        Approving a question needs an answer. ``always`` goes with approving a call that may be remembered.
        """
        if self.is_refused_to(decision):
            return "only a person may approve it"
        if decision.always and decision.answer != "approve":
            return "`always` goes with an approval"
        if decision.always and not self.may_remember:
            return "`always` cannot be remembered for it: approve it once"
        if decision.answer != "approve" or (decision.arguments is None and not self.is_question):
            return None
        return self.problem_of(decision.arguments or {})

    def is_refused_to(self, decision: Decision) -> bool:
        """Whether the decision approves what only a person may approve."""
        return self.needs_person and decision.answer == "approve" and decision.by == "automatic"

    def judged(self, judgement: CallJudgement | None) -> PendingApproval:
        """Return the request by the stricter of the judgement that is stored and a present one.

        Args:
            judgement: the present one; None if the present rules say nothing.
        """
        if judgement is None or judgement.action == "allow":
            return self
        if judgement.action == "deny":
            refused = f"{judgement.reason}: if it is approved, it is still not run"
            return replace(self, reason=refused, may_remember=False, on_timeout="reject")
        if self.needs_person and not judgement.needs_person:
            return self
        # The present rules judge the call, and do not know the file that it reached.
        reason = self.reason if self.is_about_file else judgement.reason
        if judgement.needs_person:
            return replace(self, reason=reason, needs_person=True, may_remember=False, on_timeout="reject")
        return replace(self, reason=reason)

    def counting(self, decision: Decision) -> Decision:
        """Return the decision as it counts: a program's approval of what only a person may approve is a rejection."""
        if not self.is_refused_to(decision):
            return decision
        return Decision("reject", f"only a person may approve it: {self.reason}", by="automatic")

    def fitting(self, decision: Decision) -> Decision:
        """Return the decision with its arguments as they will run: converted to the types of ``schema``."""
        if self.schema is None or decision.arguments is None:
            return decision
        checked = fitted(self.tool, self.schema, decision.arguments, fill=self.is_question)
        return decision if isinstance(checked, str) else replace(decision, arguments=checked)

    def beside(self, setting: str, workspace: str) -> PendingApproval:
        """Return the request as it is while the present config gives its tool this setting and this workspace."""
        # What a tool asks names no file, so its answer is for any workspace.
        place = self.workspace if self.is_question else workspace
        is_same = self.remembered_as in ("", setting_digest(setting, place))
        return replace(self, outdated=not is_same)

    def was_seen(self, seen: str | None) -> bool:
        """Whether ``seen`` names the change that was shown last: ``shown`` itself, or the end of ``seal``."""
        return seen == self.shown or (bool(self.shown) and seen == short_seen(self.shown))

    def as_json(self) -> dict[str, Any]:
        """Return the data that a person or a program needs for the decision."""
        return {
            "id": self.id,
            "session": self.session,
            "call_id": self.call_id,
            "kind": self.kind,
            "tool_name": self.tool,
            "parameters": dict(self.arguments),
            **({} if self.told is None else {"parameters_told": dict(self.told)}),
            "reason": self.reason,
            "interrupted": self.interrupted,
            **({"begun_with": [dict(each) for each in self.begun_with]} if self.begun_with else {}),
            **({"outdated": True} if self.outdated else {}),
            **({"tool_facts": list(self.facts)} if self.facts else {}),
            **({"approved_before": True} if self.approved_before else {}),
            **({} if self.approved_with is None else {"approved_with": dict(self.approved_with)}),
            **({"answer_schema": dict(self.schema)} if self.is_question and self.schema is not None else {}),
            "created_ms": self.created_ms,
            "expires_ms": self.expires_ms,
            "on_timeout": self.on_timeout,
            "needs_person": self.needs_person,
        }

    def listed_json(self) -> dict[str, Any]:
        """Return ``as_json``, and who calls: for a list of the calls of several agents and users."""
        return {
            **self.as_json(),
            "agent": self.session_agent,
            "subagent": self.agent,
            "user": self.user,
            "project": self.project,
        }


def fitted(tool: str, schema: Mapping[str, JSON], arguments: JSON, *, fill: bool) -> dict[str, JSON] | str:
    """Convert a person's arguments to the types of ``schema``, or return a text with their problems.

    Args:
        fill: whether missing arguments get the schema's defaults.
    """
    from zeus_runtime.tools.dispatch import validate_arguments

    if fill and isinstance(arguments, dict):
        fields: Mapping[str, Any] = schema.get("properties") or {}
        defaults = {
            name: each["default"]
            for name, each in fields.items()
            if isinstance(each, dict) and "default" in each
        }
        arguments = {**defaults, **arguments}
    return validate_arguments(_with_parameters(tool, schema), arguments)


def require_form(tool: str, schema: Mapping[str, JSON]) -> None:
    """Ensure that a person can answer a question with this form.

    Raises:
        ValueError: it is not a JSON Schema.
    """
    from jsonschema import SchemaError

    try:
        _ = _with_parameters(tool, schema).problems_of
    except SchemaError as error:
        raise ValueError(f"the form of a question is not a JSON Schema: {error.message}") from None


def _with_parameters(name: str, schema: Mapping[str, JSON]) -> Tool:
    from zeus_runtime.tools.tool import Tool

    async def unused() -> str:
        raise AssertionError

    return Tool(name, "", schema, unused)


class ApprovalChannel(Protocol):
    """A person, or a program acting for a person, that can be asked while a run waits."""

    async def ask(self, pending: PendingApproval) -> Decision | None:
        """Return the answer. None leaves the request open: the run ends, and can be resumed after a decision.

        Several requests may be asked at the same time.
        """
        ...


Judge: TypeAlias = "Callable[[ToolCall], Awaitable[bool]]"
"""Whether a call needs approval."""

Refuses: TypeAlias = "Callable[[Tool, Mapping[str, JSON], WorkspaceFiles], str | None]"
"""Returns why a tool may not be called with these arguments by an agent with this workspace; None if it may."""

Check: TypeAlias = "Callable[[ToolCall], Awaitable[str | None]]"
"""Returns why a call may not run with the arguments that it would now run with; None if it may."""


class Approvals(Protocol):
    """Asks the user; the one way for all components (``RunContext.approvals``, ``ToolRun.approvals``)."""

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Return the stored decision if there is one, else ask now.

        If no person can answer now, this raises ``ApprovalPending``, which must not be caught. The run's other calls
        finish, the run ends with ``approval_needed``, and a resumed run makes the call again.
        """
        ...

    async def listing(self, tool: Tool) -> Listing:
        """Return what the user's stored allowlist says of the tool with its present setting."""
        ...

    async def mode(self, modes: AskModes) -> AskMode:
        """Return how often the user is asked: their stored choice if the config allows it, else the config's mode."""
        ...

    async def settled(self, request: ApprovalRequest, *, waits_on: bool = False) -> Decision | None:
        """Return the stored decision about a call that does not need approval now; None if there is none.

        A user's decision stays valid, even if the rules, the allowlist or the mode have changed since. A request for
        the call that is still open is withdrawn.

        Args:
            waits_on: ask an open request, as ``ask`` does, instead of withdrawing it; for a call that needs no approval
                although no rule or choice of the user allows it.
        """
        ...

    def judged_by(self, judge: Judge) -> None:
        """Use ``judge`` to find out before each call whether it needs approval (for the event ``tool_call``)."""
        ...

    def refused_by(self, refuses: Refuses, *, of_person: Refuses | None = None) -> None:
        """Use ``refuses`` for each call of the run's sub-agents, at any depth, whatever their own rules say.

        Args:
            of_person: judges arguments that a person wrote where this config asked about nothing, and the run resumes a
                question; without it, ``refuses`` does.
        """
        ...

    def checked_by(self, check: Check) -> None:
        """Use ``check`` just before each tool runs: after ``wrap_tool_call``, a person may have changed the arguments.

        The text that it returns is the call's result, and the tool does not run.
        """
        ...


class ApprovalPending(BaseException):
    """The call waits for a decision. Not an error: like a cancellation, it passes through ``except Exception``.

    Args:
        pending: the requests that wait for a decision.
    """

    is_failure = False

    def __init__(self, pending: Sequence[PendingApproval]) -> None:
        super().__init__(", ".join(each.id for each in pending))
        self.pending = tuple(pending)
