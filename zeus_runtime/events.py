"""The events of a run: one stream of frozen events, exactly one of them terminal.

The wire names are those of SPEC section 12: ``text``, ``tool_call_chunk``, ``tool_call``, ``tool_call_result``,
``token_usage``, ``complete``, ``error``. Zeus adds ``run_started``, ``reasoning``, ``tool_progress``, ``model_call``,
``model_call_ended``, ``model_retry``, ``notice``, ``output_partial``, ``approval_requested``, ``approval_decided``,
``reset``, ``subagent``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, TypeAlias

from zeus_runtime.frozen import dataclass
from zeus_runtime.notice import EventData
from zeus_runtime.notice import Notice as Notice


@dataclass(frozen=True)
class RunStarted(EventData):
    """A run begins or is resumed. Notices about the config may come before it.

    Args:
        session: the session's id, ``session_{12 hex}``.
        model: the model's name.
        mode: ``agent``, ``ask`` or ``plan``.
        resumed: whether this run resumes an interrupted one.
    """

    type: ClassVar[str] = "run_started"
    session: str
    model: str
    mode: str
    resumed: bool = False


@dataclass(frozen=True)
class Text(EventData):
    """A piece of the assistant's answer, sent as it streams. A resumed run sends a stored answer again, in one piece.

    Args:
        text: the piece; the pieces of an answer are joined without separator.
    """

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Reasoning(EventData):
    """A piece of the model's visible reasoning, sent as it streams, if the provider sends it.

    Args:
        text: the piece.
    """

    type: ClassVar[str] = "reasoning"
    text: str


@dataclass(frozen=True)
class ToolCallChunk(EventData):
    """A piece of a tool call, sent while the model still writes it.

    Args:
        index: tells parallel calls of one answer apart.
        call_id: the call's id; None after the call's first piece.
        tool_name: the tool's name; None after the call's first piece.
        arguments: a piece of the arguments' JSON text.
    """

    type: ClassVar[str] = "tool_call_chunk"
    index: int
    call_id: str | None
    tool_name: str | None
    arguments: str


@dataclass(frozen=True)
class ToolCallStarted(EventData):
    """A complete tool call, sent before it runs and before the user is asked about it.

    Args:
        call_id: the call's id, unique within the answer.
        tool_name: the tool's name.
        parameters: the arguments; ``{"_invalid": …}`` if the model wrote no JSON object.
        requires_approval: whether the call waits for a decision before it runs.
    """

    type: ClassVar[str] = "tool_call"
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    requires_approval: bool = False


@dataclass(frozen=True)
class ToolProgress(EventData):
    """The progress of a call, sent while its tool runs, if the tool reports it.

    Args:
        call_id: the call's id.
        tool_name: the tool's name.
        message: the tool's own words.
        done: the finished part, in the tool's unit; None if unknown.
        total: the whole, in the same unit; None if unknown.
    """

    type: ClassVar[str] = "tool_progress"
    call_id: str
    tool_name: str
    message: str
    done: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class ToolCallResult(EventData):
    """The result of a call, sent once it is stored. ``call_id`` pairs it with the last call of that id.

    A resumed run sends a stored result again.

    Args:
        call_id: the call's id.
        tool_name: the tool's name.
        content: the text that the model reads.
        is_error: whether the call failed or was not run.
        number: the place of the result's message in the conversation, from 1; 0 if unknown.
    """

    type: ClassVar[str] = "tool_call_result"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False
    number: int = 0


@dataclass(frozen=True)
class OutputPartial(EventData):
    """The answer's JSON value so far, sent while the model still writes it, if the config has ``output``.

    Each one replaces the one before. The value is not checked yet: the whole one is in ``complete``.

    Args:
        value: the value, without what has not arrived; a text may end early.
    """

    type: ClassVar[str] = "output_partial"
    value: Any


@dataclass(frozen=True)
class ModelCallStarted(EventData):
    """A model call begins, of the agent or of a context policy. Its attempts after a failure are one call.

    Args:
        call: the call's id, unique within the session.
        purpose: ``turn`` for a step of the agent; a policy's calls have another, such as ``summary``.
        model: the model's name.
    """

    type: ClassVar[str] = "model_call"
    call: str
    purpose: str
    model: str


@dataclass(frozen=True)
class ModelCallEnded(EventData):
    """The model call ended, after its ``token_usage``.

    Args:
        call: the call's id.
        purpose: as of ``model_call``.
        model: the model's name.
        seconds: the duration, waits before further attempts included.
        finish_reason: the answer's; empty for a failed call.
        error: the code of the error, such as ``model_rate_limit`` or ``cancelled``; empty if the model answered.
    """

    type: ClassVar[str] = "model_call_ended"
    call: str
    purpose: str
    model: str
    seconds: float
    finish_reason: str = ""
    error: str = ""


@dataclass(frozen=True)
class TokenUsage(EventData):
    """The usage of one model call, sent when the call ends, also for calls of context policies and sub-agents.

    Args:
        call: the id of the model call; of a sub-agent's call, that of the sub-agent's ``model_call``.
        prompt_tokens: tokens of the request, cached ones included.
        completion_tokens: tokens of the answer.
        cached_tokens: tokens of the request that the provider read from its cache.
        cache_write_tokens: tokens of the request that the provider wrote to its cache.
        cost_usd: US dollars; None if no price is known.
        estimated: whether Zeus counted, because the provider's report is missing or unreadable.
    """

    type: ClassVar[str] = "token_usage"
    call: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False


@dataclass(frozen=True)
class ModelRetry(EventData):
    """A model call failed and is repeated: the pieces of this call that streamed so far are void.

    Args:
        attempt: the number of the attempt that follows, from 2.
        reason: the error of the failed attempt.
        wait_seconds: seconds until the attempt.
    """

    type: ClassVar[str] = "model_retry"
    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class ModelChanged(EventData):
    """Another model of the chain is asked from now on: the pieces of this call that streamed so far are void.

    It stays until the turn ends, unless it fails too.

    Args:
        model: its name.
        former: the model that was asked before, or would have been.
        reason: why it does not answer.
    """

    type: ClassVar[str] = "model_changed"
    model: str
    former: str
    reason: str


@dataclass(frozen=True)
class ApprovalRequested(EventData):
    """A call waits for a decision. The event is repeated if its run is resumed while the call is undecided.

    Args:
        id: the request's id, as ``zeus approvals`` takes it.
        session: the session of the call; it may be a sub-agent's.
        call_id: the call's id.
        tool_name: the tool's name.
        parameters: the arguments, with known secrets masked.
        reason: why the call needs a decision.
        expires_ms: UTC milliseconds since 1970; None if the request never expires.
        kind: what it is about: ``call``, ``file`` (the call runs and reached a file about which Zeus asks)
            or ``question`` (of a tool or its server, during the call).
        interrupted: whether the call was begun before and did not finish, so that whether it took effect is unknown.
        subagent: the sub-agent that calls, such as ``tester/helper``; empty for the agent itself.
        begun_with: the arguments with which it was begun, once each, if any of them are not ``parameters``; a program
            may not approve it then.
    """

    type: ClassVar[str] = "approval_requested"
    id: str
    session: str
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    reason: str = ""
    expires_ms: int | None = None
    kind: str = "call"
    interrupted: bool = False
    subagent: str = ""
    begun_with: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ApprovalDecided(EventData):
    """The decision on a request: sent before the call runs or is refused, or while it runs (``kind``).

    Args:
        id: the request's id.
        session: the session of the call; it may be a sub-agent's.
        call_id: the call's id.
        tool_name: the tool's name.
        parameters: the arguments that the request showed, with known secrets masked.
        decision: ``approve`` or ``reject``.
        by: ``user``, ``timeout``, ``earlier`` (the user rejected the same call earlier in this run) or ``automatic``
            (``--yes``, an evaluation).
        reason: why the call needed a decision.
        changed: the arguments that the call runs with instead of ``parameters``; None if the user changed none. Of a
            question, the answer.
        kind: as of ``approval_requested``.
        former: whether it was made before this run asked, such as before the run was resumed.
    """

    type: ClassVar[str] = "approval_decided"
    id: str
    session: str
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    decision: str
    by: str
    reason: str = ""
    changed: Mapping[str, Any] | None = None
    kind: str = "call"
    former: bool = False


@dataclass(frozen=True)
class AnswerReset(EventData):
    """The pieces of an unfinished answer are void: its run was interrupted, and asks the model again.

    Only sessions whose events are stored have it, for the readers that have seen the pieces.

    Args:
        after: the number of the session's last event before the pieces.
    """

    type: ClassVar[str] = "reset"
    after: int


@dataclass(frozen=True)
class SubAgentEvent(EventData):
    """An event of a sub-agent, its terminal event included, sent as it happens.

    A sub-agent's approval requests and decisions come unwrapped instead, with the sub-agent's session. The usage of its
    model calls comes unwrapped too.

    Args:
        session: the sub-agent's session.
        agent: the sub-agent's name in the YAML.
        call_id: the parent's call that gave it the task.
        event: the event as a JSON object, with its ``type``.
    """

    type: ClassVar[str] = "subagent"
    session: str
    agent: str
    call_id: str
    event: Mapping[str, Any]


@dataclass(frozen=True)
class RunCompleted(EventData):
    """The run completed. Terminal: the stream's last event.

    Args:
        session: the session's id.
        answer: the text of the answer; the JSON text of ``output``, if the config has ``output``.
        steps: the model calls of this run, without those of policies and sub-agents.
        prompt_tokens: tokens of all requests of the run, those of policies and sub-agents included.
        completion_tokens: tokens of all answers of the run, likewise.
        cost_usd: US dollars of the calls with a known price; None if there are none.
        finish_reason: ``stop``, or ``length`` if the answer was cut at the model's output limit.
        output: the answer's JSON value, which fits the schema of ``output``; None without that key.
    """

    type: ClassVar[str] = "complete"
    session: str
    answer: str
    steps: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    finish_reason: str = "stop"
    output: Any = None


@dataclass(frozen=True)
class RunFailed(EventData):
    """The run failed, reached a limit, waits for a decision or was cancelled. Terminal: the stream's last event.

    Args:
        session: the session's id; empty if the run has none yet.
        code: the kind of error, such as ``limit``, ``approval_needed`` or ``cancelled``.
        message: the error and its remedy, for a person.
        exit_code: the exit code of ``zeus run``.
        details: ``steps``, ``prompt_tokens``, ``completion_tokens`` and ``cost_usd`` as of ``complete`` so far; also
            ``pending`` (the waiting requests), ``partial_answer`` or ``refused_answer``, where there are any, and
            ``provider_message``, if ``message`` has only the beginning of what a provider said.
    """

    type: ClassVar[str] = "error"
    session: str
    code: str
    message: str
    exit_code: int = 1
    details: Mapping[str, Any] = field(default_factory=dict)


Event: TypeAlias = (
    RunStarted
    | Text
    | Reasoning
    | ToolCallChunk
    | ToolCallStarted
    | ToolProgress
    | ToolCallResult
    | OutputPartial
    | ModelCallStarted
    | ModelCallEnded
    | TokenUsage
    | ModelRetry
    | ModelChanged
    | Notice
    | ApprovalRequested
    | ApprovalDecided
    | AnswerReset
    | SubAgentEvent
    | RunCompleted
    | RunFailed
)

PIECES: Final[Mapping[str, str]] = {
    Text.type: "text",
    Reasoning.type: "text",
    ToolCallChunk.type: "arguments",
}
"""The events with pieces of a text, which may divide a secret, and the field of the piece."""
