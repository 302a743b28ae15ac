"""Makes any model that litellm supports a Zeus ``Model``: one streaming call, classified errors, a closed connection.

Every command that reads a config creates the model, but few call it. So the imports for a call happen in the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Set
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from zeus_plugins.models.litellm.options import Options
from zeus_runtime.plugin.model import PictureSight, most_picture_bytes

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.model import ModelError, ModelPiece, ModelProfile, ModelRequest


def create(options: Options, context: PlanContext) -> LitellmModel:
    """Create the model. Nothing is imported or checked before its first call, except ``extra``.

    Raises:
        OptionsError: ``extra`` has a key that has an option, or that is not part of the provider's request.
    """
    if options.extra:
        from zeus_plugins.models.litellm.extra import check_extra

        check_extra(options.extra)
    return LitellmModel(
        options,
        context.environ,
        partial(_profile, options, context),
        partial(_sight, options, context),
        dotenv=context.environ.keys() - context.process_environ.keys(),
    )


def _profile(options: Options, context: PlanContext) -> ModelProfile:
    """Return the profile of this model, which may differ from the agent's model."""
    if context.profile.name == options.model:
        return context.profile
    return context.profile_of(options.model)


def _sight(options: Options, context: PlanContext) -> PictureSight:
    return PictureSight(
        _profile(options, context),
        lambda path: context.workspace.runtime.read(path, max_bytes=most_picture_bytes()),
        write=lambda path, data: context.workspace.runtime.write(path, data),
    )


class LitellmModel:
    """A model called through ``litellm.acompletion``.

    Args:
        options: the options from the YAML.
        environ: the process environment, with ``.env`` for names that it lacks.
        profile: returns the model's limits and prices.
        sight: returns the conversion of pictures for this model.
        dotenv: the names in ``environ`` that are only in ``.env``.
    """

    def __init__(
        self,
        options: Options,
        environ: Mapping[str, str],
        profile: Callable[[], ModelProfile],
        sight: Callable[[], PictureSight],
        *,
        dotenv: Set[str] = frozenset(),
    ) -> None:
        self._options = options
        self._dotenv = dotenv
        self._environ = environ
        self._open_profile = profile
        self._open_sight = sight

    @cached_property
    def _profile(self) -> ModelProfile:
        return self._open_profile()

    @cached_property
    def _sight(self) -> PictureSight:
        return self._open_sight()

    @property
    def name(self) -> str:
        return self._options.model

    async def check(self) -> None:
        """Check, without a call, whether the model can be called.

        Raises:
            ModelError: (auth) a key is missing.
        """
        from zeus_plugins.models.litellm.credentials import credentials
        from zeus_plugins.models.litellm.library import library

        credentials(await library(), self._options, self._environ, self._dotenv)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        from zeus_plugins.models.litellm.assembly import Assembly, call_ids, seed_of
        from zeus_plugins.models.litellm.credentials import credentials, refused_key
        from zeus_plugins.models.litellm.library import library
        from zeus_plugins.models.litellm.reading import delta_of
        from zeus_runtime.plugin.model import ModelError, ModelResponse, cost_usd

        litellm = await library()
        request = await self._sight.request(request)
        arguments = {
            **credentials(litellm, self._options, self._environ, self._dotenv),
            **self._arguments(request),
        }
        assembly = Assembly(taken=call_ids(request.messages), seed=seed_of(request.messages))
        finish_reason, model, usage, refused = "stop", "", None, False
        try:
            async with aclosing(self._chunks(litellm, arguments)) as chunks:
                async for chunk in chunks:
                    delta = chunk.get("delta") or {}
                    for piece in assembly.add(delta):
                        yield piece
                    finish_reason = chunk.get("finish_reason") or finish_reason
                    refused = refused or "refused" in delta
                    model = chunk.get("model") or model
                    usage = chunk.get("usage") or usage
        except ModelError as error:
            if error.kind == "auth":
                error.remedy = refused_key(litellm, self._options, self._environ)
            raise
        if finish_reason == "tool_calls" and not assembly.has_calls:
            # litellm drops a call without a function from a stream; only this finish reason reaches us. We make it a
            # call without a name, as in an answer that is not streamed, so that the model gets an error for it. If the
            # answer also has a valid call, the dropped one cannot be detected: a missing index proves nothing.
            for piece in assembly.add(delta_of({"tool_calls": [{}]})):
                yield piece
        if refused:
            finish_reason = "content_filter"
        yield ModelResponse(
            message=assembly.message(is_cut=finish_reason == "length"),
            usage=usage,
            finish_reason="tool_calls" if finish_reason == "stop" and assembly.has_calls else finish_reason,
            model=model,
            cost_usd=None if usage is None else cost_usd(self._profile, usage),
        )

    @cached_property
    def _max_tokens(self) -> int | None:
        """Return the output limit set in the YAML; the limit in the model tables is not sent."""
        options, profile = self._options, self._profile
        if options.max_tokens is not None or "max_completion_tokens" in options.extra:
            return options.max_tokens
        is_written = profile.sources.get("max_output_tokens", "").startswith("profiles.models")
        return profile.max_output_tokens if is_written else None

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        from zeus_plugins.models.litellm.caching import marked
        from zeus_runtime.plugin.model import to_chat

        options = self._options
        system = [{"role": "system", "content": request.system}] if request.system else []
        chat = [*system, *(to_chat(message, portable=True) for message in request.messages)]
        tools: list[dict[str, Any]] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
        arguments: dict[str, Any] = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_tokens": self._max_tokens,
            **options.extra,
            **request.settings,
            "model": options.model,
            **marked(request, chat, tools),
            "extra_headers": dict(options.headers),
            "timeout": options.timeout_seconds,
            "stream": options.stream,
            "stream_options": {"include_usage": True} if options.stream else None,
        }
        given = {key: value for key, value in arguments.items() if value not in (None, [], {})}
        # litellm's retries are off, because the runtime retries. One retry cannot be turned off: litellm's HTTP handler
        # (for Anthropic and others, not OpenAI) repeats a request once if the connection is reset before a response.
        # litellm calls its MCP gateway for any tools, which would need the `mcp` package.
        return {**given, "num_retries": 0, "max_retries": 0, "_skip_mcp_handler": True}

    async def _chunks(
        self, litellm: Any, arguments: Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the answer's chunks as plain data: delta, finish_reason, model, usage. All failures are ModelErrors."""
        patience = _Patience(self._options)
        if not self._options.stream:
            yield await self._unstreamed(litellm, arguments, patience)
            return
        try:
            answer = await patience.wait(litellm.acompletion(**arguments))
        except Exception as error:
            raise _classified(error) from error
        try:
            async for chunk in _streamed(answer, patience):
                yield chunk
        finally:
            await answer.aclose()

    async def _unstreamed(
        self, litellm: Any, arguments: Mapping[str, Any], patience: _Patience
    ) -> dict[str, Any]:
        """Return the whole answer, read by litellm or, if that fails, from the response body."""
        from zeus_plugins.models.litellm.reading import whole_answer

        bodies: list[Any] = []

        def got(details: Mapping[str, Any]) -> None:
            if "original_response" in details:
                bodies.append(details["original_response"])

        try:
            return _whole(await patience.wait(litellm.acompletion(**arguments, logger_fn=got)))
        except Exception as error:
            told = _classified(error)
            read = whole_answer(bodies[-1]) if bodies and told.kind == "server" else None
            if read is None:
                raise told from error
            return read


async def _streamed(answer: Any, patience: _Patience) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pieces of litellm's stream. A failure after the end of the answer only loses its usage."""
    from litellm.litellm_core_utils.core_helpers import map_finish_reason

    from zeus_plugins.models.litellm.reading import reason_of, usage_of
    from zeus_runtime.plugin.model import ModelError

    whole = True
    while whole:
        try:
            chunk = _plain(await patience.wait(anext(answer)))
        except StopAsyncIteration:
            break
        except Exception as error:
            if _ending(answer) is None:
                raise _classified(error) from error
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


class _Patience:
    """The timeouts of one call: for the whole call, and for the silence between pieces."""

    def __init__(self, options: Options) -> None:
        from asyncio import get_running_loop

        self._options = options
        self._clock = get_running_loop().time
        self._end = self._clock() + options.timeout_seconds

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        """Return the result, or raise a ModelError (timeout) if it comes too late."""
        import asyncio

        from zeus_runtime.plugin.model import ModelError

        left = self._end - self._clock()
        silent = self._options.idle_seconds
        try:
            async with asyncio.timeout(max(0.0, min(left, silent))) as limit:
                return await awaitable
        except TimeoutError:
            if not limit.expired():
                raise
        if silent < left:
            raise ModelError(f"the provider was silent for {silent:g} s (idle_seconds)", kind="timeout")
        seconds = self._options.timeout_seconds
        raise ModelError(f"the call took longer than {seconds:g} s (timeout_seconds)", kind="timeout")


def _classified(error: Exception) -> ModelError:
    from datetime import UTC, datetime

    from zeus_plugins.models.litellm.reading import unreadable
    from zeus_runtime.plugin.model import ModelError, model_error

    if isinstance(error, ModelError):
        return error
    return unreadable(error) or model_error(error, now=datetime.now(UTC))


def _plain(chunk: Any) -> dict[str, Any]:
    from zeus_plugins.models.litellm.reading import delta_of, reason_of

    if not chunk.choices:
        return {"model": chunk.model}
    choice = chunk.choices[0]
    return {
        "delta": delta_of(choice.delta.model_dump(exclude_none=True, warnings=False)),
        "finish_reason": reason_of(choice.finish_reason),
        "model": chunk.model,
    }


def _whole(answer: Any) -> dict[str, Any]:
    from zeus_plugins.models.litellm.reading import reason_of, usage_of, whole_delta
    from zeus_runtime.plugin.model import ModelError

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
