"""The Model interface: one streaming call, its request and the pieces that come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from zeus_runtime.frozen import copied, dataclass

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


@dataclass(frozen=True)
class ToolSchema:
    """A tool as the provider sees it: name, description and JSON Schema of its parameters."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class CachePoints:
    """The places where a request's prefix should be cached, for providers that cache only on request.

    Args:
        tools: after the last tool schema.
        system: after the first ``stable_system_length`` characters of ``system``.
        messages: after these messages, by their index.
        lifetime: how long the provider keeps it: ``5m`` or ``1h``.
    """

    tools: bool = False
    system: bool = False
    messages: tuple[int, ...] = ()
    lifetime: str = "5m"


@dataclass(frozen=True)
class ModelRequest:
    """One call to a model.

    Args:
        system: the assembled system prompt, its sections joined; sections 1-6 come first and stay
            byte-identical.
        messages: the conversation, LangChain messages, without the system prompt.
        tools: the tools that the model may call.
        stable_system_length: how many leading characters of ``system`` are sections 1-6 (for prompt caching).
        settings: per-call provider settings (temperature, max_tokens, ...), over the model's options.
        purpose: ``turn`` for the agent's calls; a policy's calls have another name (``summary``).
        cache_points: the places to cache; None for none.
    """

    system: str
    messages: Sequence[BaseMessage]
    tools: Sequence[ToolSchema] = ()
    stable_system_length: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    purpose: str = "turn"
    cache_points: CachePoints | None = None

    def override(self, **changes: Any) -> ModelRequest:
        """A copy with ``changes``; the request itself never changes."""
        return copied(self, **changes)


@dataclass(frozen=True)
class Usage:
    """Tokens of one call as the provider reports them.

    ``input_tokens`` includes the cached ones, ``cache_write_tokens`` those of ``cache_write_1h_tokens``, which are kept
    for
    an hour at a separate price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True)
class ToolCallDelta:
    """A piece of a tool call. ``index`` tells parallel calls apart; the first piece brings ``id`` and ``name``."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True)
class Retrying:
    """The call starts again: pieces received so far are void."""

    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class ModelResponse:
    """The finished answer: always the last piece of a stream, exactly once.

    Args:
        message: text and tool calls (ids unique within the message; unparsable calls in ``invalid_tool_calls``). A
            call whose arguments are not JSON, or are nested in more than 100 levels, becomes an unparsable one, whoever
            made the answer.
        usage: None when the provider reported none.
        finish_reason: ``stop``, ``tool_calls``, ``length``, ``content_filter`` or the provider's own word.
        model: the name the provider answered under.
        cost_usd: None when no price is known.
    """

    message: AIMessage
    usage: Usage | None = None
    finish_reason: str = "stop"
    model: str = ""
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        # Here, so that every walk over arguments may be recursive: models, middlewares and bridges make answers.
        if self.message.tool_calls:
            from zeus_runtime.models.messages import with_readable_calls

            object.__setattr__(self, "message", with_readable_calls(self.message))


ModelPiece: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | Retrying | ModelResponse


class Model(Protocol):
    """A chat model. Third parties satisfy this; ``zeus_runtime.testing`` has its conformance class.

    ``stream`` is called for every request and may run concurrently. It closes its connection when the iterator is
    closed or its task is cancelled, and raises only ``ModelError`` for failures of the provider.

    A model may also have ``async check() -> None``. It raises a ``ModelError`` if no call could succeed (a key is
    missing), without sending a request; ``zeus doctor`` calls it. The options of its
    component may have ``notes(context: PlanContext) -> Sequence[str]``, which ``zeus plan`` shows beside the model.
    """

    @property
    def name(self) -> str:
        """The model's name as a profile lookup knows it, with its provider prefix."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]: ...
