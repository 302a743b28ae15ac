"""What a run tells the world: one stream of frozen events, exactly one of them terminal.

The wire names are those of SPEC section 12: ``text``, ``tool_call_chunk``, ``tool_call``, ``tool_call_result``,
``token_usage``, ``complete``, ``error``; ours besides: ``run_started``, ``reasoning``, ``tool_progress``,
``model_retry``, ``notice``, ``approval_requested``, ``approval_decided``, ``subagent``.
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
    """A run begins, or is taken up again (``resumed``)."""

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
    """A piece of the model's visible reasoning, where the provider gives it."""

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
    """A complete tool call, about to be dispatched."""

    type: ClassVar[str] = "tool_call"
    call_id: str
    tool_name: str
    parameters: Mapping[str, Any]
    requires_approval: bool = False


@dataclass(frozen=True)
class ToolProgress(EventData):
    """How far a call is, as its tool tells it: ``done`` of ``total`` in the tool's own unit, where it knows."""

    type: ClassVar[str] = "tool_progress"
    call_id: str
    tool_name: str
    message: str
    done: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class ToolCallResult(EventData):
    """The result of a call, paired with it by ``call_id`` and by nothing else."""

    type: ClassVar[str] = "tool_call_result"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False


@dataclass(frozen=True)
class TokenUsage(EventData):
    """What one model call used, in tokens, as the provider reports it; cost in US dollars where the price is known.

    ``estimated``: the provider reported nothing that can be read, so Zeus counted.
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
    """A model call is made again: what streamed of this call so far is void."""

    type: ClassVar[str] = "model_retry"
    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class ApprovalRequested(EventData):
    """A call waits until somebody decides. ``id`` names it; it comes again whenever its run is taken up undecided.

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
    """What was decided on a call, ``approve`` or ``reject``, by ``user``, ``timeout`` or an ``earlier`` rejection.

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
    """An event of a sub-agent: ``event`` is its JSON object, its terminal one included.

    What a sub-agent asks comes as it is, with the sub-agent's session; what its model calls used comes as it is too.
    """

    type: ClassVar[str] = "subagent"
    session: str
    agent: str
    call_id: str
    event: Mapping[str, Any]


@dataclass(frozen=True)
class RunCompleted(EventData):
    """The run ended well. Terminal.

    ``finish_reason`` is ``length`` where the answer was cut at the model's output limit.
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
    """The run ended otherwise: failed, limited or cancelled. Terminal; ``exit_code`` is the command's."""

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
