"""Calls a model through ``litellm.acompletion``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from zeus_plugins.models.litellm.addressing import sent_headers
from zeus_plugins.models.litellm.failures import classified
from zeus_plugins.models.litellm.reading import delta_of, reason_of, usage_of, whole_answer, whole_delta
from zeus_plugins.models.litellm.redirects import unredirected
from zeus_runtime.plugin.model import ModelError

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.options import Options
    from zeus_plugins.models.litellm.timeouts import Timeouts


async def chunks(
    litellm: Any,
    options: Options,
    found: Mapping[str, Any],
    request: Mapping[str, Any],
    timeouts: Timeouts,
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the answer's chunks as plain data: delta, finish_reason, model, usage. All failures are ModelErrors.

    Args:
        litellm: the library.
        found: the credentials and the address.
        request: messages, tools and settings.
    """
    arguments = {
        **found,
        **request,
        "model": options.model,
        **({"extra_headers": sent_headers(options.headers)} if options.headers else {}),
        "timeout": options.timeout_seconds,
        # litellm's retries are off, because the runtime retries. One retry cannot be turned off: litellm's HTTP handler
        # (for Anthropic and others, not OpenAI) repeats a request once if the connection is reset before a response.
        "num_retries": 0,
        "max_retries": 0,
        # litellm calls its MCP gateway for any tools, which would need the `mcp` package.
        "_skip_mcp_handler": True,
    }
    if not options.stream:
        yield await _unstreamed(litellm, arguments, timeouts)
        return
    try:
        answer = await timeouts.wait(unredirected(litellm.acompletion(**arguments)))
    except Exception as error:
        raise classified(error) from error
    try:
        async for chunk in _streamed(answer, timeouts):
            yield chunk
    finally:
        # litellm's stream holds a connection until it is closed.
        await answer.aclose()


async def _unstreamed(litellm: Any, arguments: Mapping[str, Any], timeouts: Timeouts) -> dict[str, Any]:
    """Return the whole answer, read by litellm or, if that fails, from the response body."""
    bodies: list[Any] = []

    def got(details: Mapping[str, Any]) -> None:
        if "original_response" in details:
            bodies.append(details["original_response"])

    try:
        return _whole(await timeouts.wait(unredirected(litellm.acompletion(**arguments, logger_fn=got))))
    except Exception as error:
        told = classified(error)
        read = whole_answer(bodies[-1]) if bodies and told.kind == "server" else None
        if read is None:
            raise told from error
        return read


async def _streamed(answer: Any, timeouts: Timeouts) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pieces of litellm's stream. A failure after the end of the answer only loses its usage."""
    from litellm.litellm_core_utils.core_helpers import map_finish_reason

    whole = True
    while whole:
        try:
            # Some of litellm's streams send the request only now.
            chunk = _plain(await timeouts.wait(unredirected(anext(answer))))
        except StopAsyncIteration:
            break
        except Exception as error:
            if _ending(answer) is None:
                raise classified(error) from error
            whole = False
        else:
            yield chunk
    ending = _ending(answer)
    if ending is None:
        # litellm invents a "stop" for a stream that was cut off.
        raise ModelError("the provider's stream ended before the answer was complete", kind="network")
    reports = [chunk.usage for chunk in answer.chunks if getattr(chunk, "usage", None)]
    yield {"usage": usage_of(reports)} if whole else {"finish_reason": reason_of(map_finish_reason(ending))}


def _ending(answer: Any) -> str | None:
    """Return the finish reason of a stream's answer; None before its end."""
    ending = answer.received_finish_reason or answer.intermittent_finish_reason
    return None if ending is None else str(ending)


def _plain(chunk: Any) -> dict[str, Any]:
    if not chunk.choices:
        return {"model": chunk.model}
    choice = chunk.choices[0]
    return {
        "delta": delta_of(choice.delta.model_dump(exclude_none=True, warnings=False)),
        "finish_reason": reason_of(choice.finish_reason),
        "model": chunk.model,
    }


def _whole(answer: Any) -> dict[str, Any]:
    if not answer.choices:
        raise ModelError("the provider's answer contains no message", kind="server")
    choice = answer.choices[0]
    usage = getattr(answer, "usage", None)
    return {
        "delta": whole_delta(choice.message.model_dump(exclude_none=True, warnings=False)),
        "finish_reason": reason_of(choice.finish_reason),
        "model": answer.model,
        "usage": usage_of([usage]) if usage else None,
    }
