"""The events of a run: one stream of frozen events, exactly one of them terminal.

The wire names are those of SPEC section 12: ``text``, ``tool_call_chunk``, ``tool_call``, ``tool_call_result``,
``token_usage``, ``complete``, ``error``. Zeus adds ``run_started``, ``reasoning``, ``tool_progress``, ``model_retry``,
``notice``, ``approval_requested``, ``approval_decided``, ``subagent``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from zeus_runtime.frozen import dataclass
from zeus_runtime.notice import EventData
from zeus_runtime.notice import Notice as Notice


@dataclass(frozen=True)
class RunStarted(EventData):
    """A run begins, or is resumed (``resumed``)."""

    type: ClassVar[str] = "run_started"
    session: str
    model: str
    mode: str
    resumed: bool = False


@dataclass(frozen=True)
class Text(EventData):
    """A piece of the assistant's answer, as it streams."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Reasoning(EventData):
    """A piece of the model's visible reasoning, if the provider sends it."""

    type: ClassVar[str] = "reasoning"
    text: str


@dataclass(frozen=True)
class ToolCallChunk(EventData):
    """A piece of a tool call while the model still writes it. ``index`` tells parallel calls apart."""

    type: ClassVar[str] = "tool_call_chunk"
    index: int
    call_id: str | None
    tool_name: str | None
    arguments: str


@dataclass(frozen=True)
class ToolCallStarted(EventData):
    """A complete tool call, before it is dispatched."""

    type: ClassVar[str] = "tool_call"
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    requires_approval: bool = False


@dataclass(frozen=True)
class ToolProgress(EventData):
    """The progress of a call, reported by its tool: ``done`` of ``total`` in the tool's unit, if known."""

    type: ClassVar[str] = "tool_progress"
    call_id: str
    tool_name: str
    message: str
    done: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class ToolCallResult(EventData):
    """The result of a call; ``call_id`` alone pairs it with the call."""

    type: ClassVar[str] = "tool_call_result"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False


@dataclass(frozen=True)
class TokenUsage(EventData):
    """The usage of one model call, in tokens, as the provider reports it; cost in US dollars if the price is known.

    ``estimated``: the provider's report is missing or unreadable, so Zeus counted.
    """

    type: ClassVar[str] = "token_usage"
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False


@dataclass(frozen=True)
class ModelRetry(EventData):
    """A model call is repeated: the pieces of this call that streamed so far are void."""

    type: ClassVar[str] = "model_retry"
    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class ApprovalRequested(EventData):
    """A call waits for a decision. ``id`` names the request; the event is repeated when its run is resumed undecided.

    ``session`` may be a sub-agent's. ``expires_ms`` is UTC milliseconds; None: it waits for ever.
    """

    type: ClassVar[str] = "approval_requested"
    id: str
    session: str
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    reason: str = ""
    expires_ms: int | None = None


@dataclass(frozen=True)
class ApprovalDecided(EventData):
    """The decision on a call, ``approve`` or ``reject``, by ``user``, ``timeout`` or an ``earlier`` rejection.

    ``changed`` are the arguments that it runs with instead of ``parameters``.
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


@dataclass(frozen=True)
class SubAgentEvent(EventData):
    """An event of a sub-agent; ``event`` is its JSON object. Terminal events of sub-agents are included.

    A sub-agent's approval requests and decisions come unwrapped instead, with the sub-agent's session. The usage of its
    model calls comes unwrapped too.
    """

    type: ClassVar[str] = "subagent"
    session: str
    agent: str
    call_id: str
    event: Mapping[str, Any]


@dataclass(frozen=True)
class RunCompleted(EventData):
    """The run completed. Terminal.

    ``finish_reason`` is ``length`` if the answer was cut at the model's output limit.
    """

    type: ClassVar[str] = "complete"
    session: str
    answer: str
    steps: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    finish_reason: str = "stop"


@dataclass(frozen=True)
class RunFailed(EventData):
    """The run failed, reached a limit or was cancelled. Terminal; ``exit_code`` is the command's."""

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
    | TokenUsage
    | ModelRetry
    | Notice
    | ApprovalRequested
    | ApprovalDecided
    | SubAgentEvent
    | RunCompleted
    | RunFailed
)
