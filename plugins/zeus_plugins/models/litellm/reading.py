"""Reads a provider's answer defensively: any field may be missing or have another type than documented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from zeus_runtime.plugin import cut_text, first_line
from zeus_runtime.plugin.model import ModelError, Usage

MOST_TOKENS: Final = 10**9
"""No call uses more tokens: a larger number is a mistake of the server."""

_INVALID: Final = -1
"""A number of tokens that is none."""

_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
"""Anthropic's and older finish reasons to those of chat completions; litellm maps the others."""


def delta_of(holder: Any) -> dict[str, Any]:
    """Return a chat-completions message or delta that has only the readable fields, with the right types.

    An unreadable tool call becomes a call without a name, so that the model gets an error for it.
    """
    said = _mapping(holder)
    fields = _mapping(said.get("provider_specific_fields"))
    refusal = _text(said.get("refusal")) or _text(fields.get("refusal"))
    content = _text(said.get("content"))
    delta = {
        "content": content or refusal,
        "reasoning_content": _text(said.get("reasoning_content")),
        "thinking_blocks": [_strings(each) for each in _list(said.get("thinking_blocks"))],
        "provider_specific_fields": fields,
        "tool_calls": [_call(each) for each in _list(said.get("tool_calls"))],
    }
    return {**delta, "refused": True} if refusal and not content else delta


def whole_delta(message: Any) -> dict[str, Any]:
    """Return ``delta_of`` a whole message; two calls with the same id stay two calls."""
    delta = delta_of(message)
    return {
        **delta,
        "tool_calls": [{**call, "index": place} for place, call in enumerate(delta["tool_calls"])],
    }


def reason_of(value: Any) -> str:
    """Return the finish reason: ``stop``, ``tool_calls``, ``length``, ``content_filter`` or the provider's word."""
    reason = value if isinstance(value, str) else ""
    return _REASONS.get(reason, reason)


def usage_of(reports: Iterable[Any]) -> Usage | None:
    """Return the usage that the provider reports; None if a number is invalid.

    Reports within one stream are cumulative, so the greatest value of each number is the last one.

    Args:
        reports: objects or mappings with the fields of a chat-completions usage.
    """
    counts = [0] * 6
    for report in reports:
        inner, outer = _get(report, "prompt_tokens_details"), _get(report, "completion_tokens_details")
        found = (
            _get(report, "prompt_tokens"),
            _get(report, "completion_tokens"),
            _get(report, "cache_read_input_tokens") or _get(inner, "cached_tokens"),
            _get(report, "cache_creation_input_tokens") or _get(inner, "cache_creation_tokens"),
            _get(outer, "reasoning_tokens"),
            _get(_get(inner, "cache_creation_token_details"), "ephemeral_1h_input_tokens"),
        )
        numbers = [_count(each) for each in found]
        if None in numbers:
            return None
        counts = [max(old, new or 0) for old, new in zip(counts, numbers, strict=True)]
    return Usage(*counts) if counts[0] else None


def whole_answer(raw: Any) -> dict[str, Any] | None:
    """Read an answer that litellm could not read from the response body; None if the body has no message.

    Args:
        raw: the body as JSON text, in the form of chat completions or of Anthropic's messages.
    """
    from json import loads

    try:
        return answer_in(_mapping(loads(raw)))
    except (TypeError, ValueError, RecursionError):
        return None


def answer_in(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read a whole answer, in the form of chat completions or of Anthropic's messages; None if it has no message."""
    if _list(body.get("choices")):
        choice = _mapping(body["choices"][0])
        message, reason = choice.get("message"), choice.get("finish_reason") or "stop"
        usage = body.get("usage")
    elif isinstance(body.get("content"), list):
        message, reason = _from_anthropic(body["content"]), body.get("stop_reason") or "stop"
        usage = body.get("usage")
        usage = anthropics_usage(usage) if isinstance(usage, Mapping) else None
    else:
        return None
    if not isinstance(message, Mapping):
        return None
    model = body.get("model")
    return {
        "delta": whole_delta(message),
        "finish_reason": reason_of(reason),
        "model": model if isinstance(model, str) else "",
        "usage": usage_of([usage]) if isinstance(usage, Mapping) else None,
    }


def _from_anthropic(blocks: Sequence[Any]) -> dict[str, Any]:
    """Convert Anthropic's content blocks to a chat-completions message."""
    from json import dumps

    known = [_mapping(block) for block in blocks]
    thoughts = [each for each in known if each.get("type") in ("thinking", "redacted_thinking")]
    return {
        "content": "".join(_text(each.get("text")) for each in known if each.get("type") == "text"),
        "reasoning_content": "".join(_text(each.get("thinking")) for each in thoughts),
        "thinking_blocks": thoughts,
        "tool_calls": [
            {
                "id": each.get("id"),
                "function": {"name": each.get("name"), "arguments": dumps(each.get("input", {}))},
            }
            for each in known
            if each.get("type") in ("tool_use", "server_tool_use")
        ],
    }


def anthropics_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return Anthropic's usage in the form of chat completions, where tokens of the cache are part of the input.

    Args:
        usage: all that the answer reports. If it has ``iterations``, their sums are the true numbers.
    """
    parts = [each for each in _list(usage.get("iterations")) if isinstance(each, Mapping)] or [usage]
    fresh, written, read, out = (
        _sum(part.get(f"{name}_tokens") for part in parts)
        for name in ("input", "cache_creation_input", "cache_read_input", "output")
    )
    hour = _sum(_get(part.get("cache_creation"), "ephemeral_1h_input_tokens") for part in parts)
    thought = _count(_get(usage.get("output_tokens_details"), "thinking_tokens"))
    return {
        "prompt_tokens": _INVALID if _INVALID in (fresh, written, read) else fresh + written + read,
        "completion_tokens": out,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "prompt_tokens_details": {"cache_creation_token_details": {"ephemeral_1h_input_tokens": hour}},
        "completion_tokens_details": {"reasoning_tokens": min(thought or 0, max(out, 0))},
    }


def _sum(counts: Iterable[Any]) -> int:
    numbers = [_count(each) for each in counts]
    return _INVALID if None in numbers else sum(each or 0 for each in numbers)


def unreadable(error: BaseException) -> ModelError | None:
    """Return an error if litellm failed to parse the provider's response; None if the request itself failed."""
    if getattr(error, "status_code", None) not in (None, 500):
        return None
    causes = list(_causes(error))
    if any(type(each).__name__ in _ON_THE_WAY or isinstance(each, OSError) for each in causes):
        return None
    cause = next((each for each in causes if isinstance(each, _MISREAD)), None)
    if cause is None:
        return None
    why = cut_text(first_line(str(cause)), 200)
    return ModelError(f"the provider's answer cannot be read ({type(cause).__name__}: {why})", kind="server")


_MISREAD: Final = (TypeError, AttributeError, ValueError, LookupError, RecursionError)
_ON_THE_WAY: Final = frozenset(
    {"ConnectError", "ReadError", "RemoteProtocolError", "TimeoutException", "ReadTimeout", "ConnectTimeout"}
)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and all its causes."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        above = (each.__cause__, each.__context__, getattr(each, "original_exception", None))
        waiting += [cause for cause in above if isinstance(cause, BaseException)]


def _call(part: Any) -> dict[str, Any]:
    part = _mapping(part)
    function = _mapping(part.get("function"))
    index, call_id, name = part.get("index"), part.get("id"), function.get("name")
    return {
        "index": index if isinstance(index, int) else None,
        "id": call_id if isinstance(call_id, str) else None if call_id is None else str(call_id),
        "function": {
            "name": name if isinstance(name, str) else None,
            "arguments": _arguments(function.get("arguments")),
            "provider_specific_fields": _mapping(function.get("provider_specific_fields")),
        },
        "provider_specific_fields": _mapping(part.get("provider_specific_fields")),
    }


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    from json import dumps

    try:
        return dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _text(value: Any) -> str:
    """Return a text, or the joined texts of content blocks."""
    if isinstance(value, list):
        return "".join(_text(_mapping(block).get("text")) for block in value)
    return value if isinstance(value, str) else ""


def _strings(block: Any) -> dict[str, str]:
    return {key: value for key, value in _mapping(block).items() if isinstance(value, str)}


def _mapping(value: Any) -> Mapping[str, Any]:
    # JSON objects are dicts, which are recognized at once.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _count(value: Any) -> int | None:
    """Return a number of tokens; 0 for a missing value, None for an invalid one."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    # Some servers write a whole number as 12.0.
    return int(value) if value == int(value) else None
