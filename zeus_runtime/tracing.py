"""OpenTelemetry's spans and metrics, by its API alone: nothing is measured unless the program has set up an SDK.

Names follow the conventions for generative AI. Texts of users, models and tools are left out, unless the variable
``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` asks for them. The API is not imported here: where nothing has
imported it, there is no SDK either, and a run does not pay for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.strict_json import well_formed
from zeus_runtime.version import __version__

Value: TypeAlias = str | bool | int | float | Sequence[str] | None
"""Of an attribute; None leaves it out."""

SpanKind: TypeAlias = Literal["INTERNAL", "CLIENT"]

_NUMBERS: Final = frozenset({bool, int, float})
_NAME: Final = "zeus_runtime"
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""The convention's names of providers, where they are not the prefix of the model's name."""

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = (
    1,
    4,
    16,
    64,
    256,
    1024,
    4096,
    16384,
    65536,
    262144,
    1048576,
    4194304,
    16777216,
    67108864,
)
"""The convention's buckets."""


class TraceSpan:
    """A span that ends with its ``with`` block; without an SDK it does nothing.

    Args:
        name: such as ``execute_tool read_file``.
        attributes: those that are known at its start.
        kind: ``CLIENT`` for a call to another process.
        is_current: whether it is the parent of the spans that begin inside. False inside an async generator: its
            context is its caller's, where the span would stay the parent between two pieces.
        start_ns: when it began, in nanoseconds since 1970; now by default.
    """

    __slots__ = (
        "_attributes",
        "_error",
        "_is_current",
        "_kind",
        "_name",
        "_sdk",
        "_span",
        "_start_ns",
        "_token",
    )

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, Value],
        kind: SpanKind = "INTERNAL",
        *,
        is_current: bool = True,
        start_ns: int | None = None,
    ) -> None:
        self._name = name
        self._attributes = attributes
        self._kind = kind
        self._is_current = is_current
        self._start_ns = start_ns
        self._sdk: _Sdk | None = None
        self._span: Any = None
        self._token: Any = None
        self._error = ""

    @property
    def is_recording(self) -> bool:
        """Whether attributes are kept, so that it is worth computing them."""
        return self._span is not None and self._span.is_recording()

    @property
    def shows_content(self) -> bool:
        """Whether texts of users, models and tools belong in it."""
        return self._sdk is not None and self._sdk.shows_content and self.is_recording

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes."""
        if self.is_recording:
            self._span.set_attributes(_clean(attributes))

    def rename(self, name: str) -> None:
        """Give the span another name than at its start."""
        if self.is_recording:
            self._span.update_name(well_formed(name))

    def fail(self, error: str) -> None:
        """Mark the span as failed; the error is a code, since a message may quote what was said.

        Args:
            error: such as ``model_rate_limit``.
        """
        self._error = error

    def __enter__(self) -> TraceSpan:
        sdk = _sdk()
        if sdk is None:
            return self
        around = sdk.context.get_current()  # looked up once: the SDK would do it for each of its questions
        span = sdk.tracer.start_span(
            well_formed(self._name),
            around,
            sdk.kinds[self._kind],
            _clean(self._attributes),
            start_time=self._start_ns,
        )
        if not span.is_recording() and not span.get_span_context().is_valid:
            return self
        if self._is_current:
            # Also one that is not sampled: its children, here and in other processes, must not be sampled either.
            self._token = sdk.context.attach(sdk.api.set_span_in_context(span, around))
        self._sdk, self._span = sdk, span
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        sdk, span = self._sdk, self._span
        if sdk is None:
            return
        if self._token is not None:
            sdk.context.detach(self._token)
        failed = self._error or error_type(error)
        if failed and span.is_recording():
            span.set_attribute("error.type", failed)
            span.set_status(sdk.api.StatusCode.ERROR)
        span.end()


class _Sdk(NamedTuple):
    """The parts that spans need of the SDK that the program has set up.

    Args:
        api, context: the modules ``opentelemetry.trace`` and ``opentelemetry.context``.
        tracer: of Zeus.
        kinds: the API's value for each kind of span.
        shows_content: whether texts of users, models and tools belong in spans.
    """

    api: Any
    context: Any
    tracer: Any
    kinds: Mapping[SpanKind, Any]
    shows_content: bool


def _sdk() -> _Sdk | None:
    """The SDK that the program has set up; else None."""
    api = sys.modules.get("opentelemetry.trace")
    # Another thread may be importing it just now.
    if api is None or getattr(api.__spec__, "_initializing", False):
        return None
    return _sdk_of(api.get_tracer_provider())


@lru_cache(maxsize=1)
def _sdk_of(provider: Any) -> _Sdk | None:
    """The SDK of a provider, None for the API's own; the environment is read once, as the SDK does."""
    from opentelemetry import context, trace

    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    asked = os.environ.get(_CONTENT, "").strip().lower()
    return _Sdk(
        trace,
        context,
        provider.get_tracer(_NAME, __version__),
        {"INTERNAL": trace.SpanKind.INTERNAL, "CLIENT": trace.SpanKind.CLIENT},
        shows_content=asked in ("true", "1", "span_only", "span_and_event"),
    )


def retrieval_span(source: str) -> TraceSpan:
    """The span of a search.

    Args:
        source: such as ``memory``, or the name of a knowledge base.
    """
    about = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": source}
    return TraceSpan(f"retrieval {source}", about)


def error_type(error: BaseException | None) -> str:
    """The code of one of Zeus's errors, or the class of another; empty for none, and for one that is not a failure."""
    if error is None or not getattr(error, "is_failure", True):
        return ""
    from asyncio import CancelledError

    if isinstance(error, CancelledError | GeneratorExit):
        return "cancelled"
    return str(getattr(error, "code", "") or type(error).__qualname__)


def model_attributes(name: str) -> dict[str, Value]:
    """The provider and the model of a name such as ``openai/gpt-5.2``."""
    provider, _, model = name.partition("/")
    if not model:
        return {"gen_ai.request.model": name}
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }


def record_model_call(
    model: str,
    seconds: float,
    *,
    input_tokens: int,
    output_tokens: int,
    cost_usd: float | None,
    error: str,
) -> None:
    """Add a finished model call to the metrics: its duration and, unless it failed, its tokens and its cost."""
    if "opentelemetry.metrics" not in sys.modules:
        return
    seconds_taken = _histogram("gen_ai.client.operation.duration", "s", _SECONDS)
    seconds_taken.record(seconds, _measured("chat", model, "error.type", error))
    if error:
        return
    tokens = _histogram("gen_ai.client.token.usage", "{token}", _TOKENS)
    tokens.record(input_tokens, _measured("chat", model, "gen_ai.token.type", "input"))
    tokens.record(output_tokens, _measured("chat", model, "gen_ai.token.type", "output"))
    if cost_usd is not None:
        _cost().add(cost_usd, _measured("chat", model))


def record_tool_call(tool: str, seconds: float, error: str) -> None:
    """Add a finished tool call to the metrics."""
    if "opentelemetry.metrics" not in sys.modules:
        return
    attributes = _measured("execute_tool", tool, "error.type", error)
    _histogram("gen_ai.client.operation.duration", "s", _SECONDS).record(seconds, attributes)


@lru_cache(maxsize=512)
def _measured(
    operation: Literal["chat", "execute_tool"], name: str, more: str = "", value: str = ""
) -> Mapping[str, Any]:
    """The attributes of a measurement, made once, since each call of a model or a tool has the same.

    Args:
        name: the model's or the tool's.
        more, value: one more attribute; an empty value leaves it out.
    """
    about = model_attributes(name) if operation == "chat" else {"gen_ai.tool.name": name}
    return _clean({"gen_ai.operation.name": operation, **about, more: value or None})


@cache
def _histogram(name: str, unit: str, buckets: tuple[float, ...]) -> Any:
    from opentelemetry import metrics

    meter = metrics.get_meter(_NAME, __version__)
    return meter.create_histogram(name, unit=unit, explicit_bucket_boundaries_advisory=list(buckets))


@cache
def _cost() -> Any:
    from opentelemetry import metrics

    return metrics.get_meter(_NAME, __version__).create_counter("zeus.model.cost", unit="USD")


def _clean(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """The attributes that an exporter can write: none of them None, and no lone surrogate."""
    # Each span passes here twice, so the usual values are not worth a call.
    return {
        name: value
        if (kind := type(value)) in _NUMBERS or (kind is str and value.isascii())  # type: ignore[union-attr]
        else _written(value)
        for name, value in attributes.items()
        if value is not None
    }


def _written(value: str | float | Sequence[str]) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    return value if isinstance(value, int | float) else [well_formed(each) for each in value]
