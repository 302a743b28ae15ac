"""Any model litellm can reach, as a Zeus ``Model``: one streaming call, errors classified, the connection closed.

Every command that reads a config creates the model, few call it: what a call needs is imported by the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.models.litellm.options import Options
from zeus_runtime import OptionsError, PictureSight, most_picture_bytes

if TYPE_CHECKING:
    from zeus_runtime import Build, ModelError, ModelPiece, ModelProfile, ModelRequest, Usage

_OURS: Final = {
    "model": "model",
    "api_key": "api_key",
    "api_base": "api_base",
    "base_url": "api_base",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "timeout": "timeout_seconds",
    "extra_headers": "headers",
    "stream": "stream",
    "messages": None,
    "tools": None,
    "stream_options": None,
    "num_retries": None,
    "max_retries": None,
    "drop_params": None,
}
"""Arguments of litellm that ``extra`` may not set, with the option that does."""


def create(options: Options, build: Build) -> LitellmModel:
    """The model the YAML chose. Nothing is imported or checked before its first call.

    Raises:
        OptionsError: ``extra`` sets what has an option of its own.
    """
    for key in options.extra:
        if key in _OURS:
            own = _OURS[key]
            raise OptionsError(
                f"model.litellm.extra may not set {key!r}",
                remedy=f"Use model.litellm.{own}" if own else "Zeus sets it itself: remove it",
            )
    return LitellmModel(options, build.environ, build.profile, partial(_sight, options, build))


def _sight(options: Options, build: Build) -> PictureSight:
    profile = build.profile
    if profile.name != options.model and build.profile_of is not None:
        profile = build.profile_of(options.model)
    return PictureSight(
        profile,
        lambda path: build.workspace.runtime.read(path, max_bytes=most_picture_bytes()),
        write=lambda path, data: build.workspace.runtime.write(path, data),
    )


class LitellmModel:
    """A model called through ``litellm.acompletion``.

    Args:
        options: what the YAML says.
        environ: the process environment with ``.env`` beneath it.
        profile: the model's prices.
        sight: makes what it sees of pictures.
    """

    def __init__(
        self,
        options: Options,
        environ: Mapping[str, str],
        profile: ModelProfile,
        sight: Callable[[], PictureSight],
    ) -> None:
        self._options = options
        self._environ = environ
        self._profile = profile
        self._open_sight = sight

    @cached_property
    def _sight(self) -> PictureSight:
        return self._open_sight()

    @property
    def name(self) -> str:
        return self._options.model

    async def check(self) -> None:
        """See whether a call could be made at all, without making one.

        Raises:
            ModelError: (auth) a key is missing.
        """
        from zeus_plugins.models.litellm.credentials import credentials
        from zeus_plugins.models.litellm.library import library

        credentials(await library(), self._options, self._environ)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        from zeus_plugins.models.litellm.assembly import Assembly, call_ids, seed_of
        from zeus_plugins.models.litellm.credentials import credentials, refused_key
        from zeus_plugins.models.litellm.library import library
        from zeus_runtime import ModelError, ModelResponse, cost_usd

        litellm = await library()
        request = await self._sight.request(request)
        arguments = {**credentials(litellm, self._options, self._environ), **self._arguments(request)}
        assembly = Assembly(taken=call_ids(request.messages), seed=seed_of(request.messages))
        finish_reason, model, usage = "stop", "", None
        try:
            async with aclosing(self._chunks(litellm, arguments)) as chunks:
                async for chunk in chunks:
                    for piece in assembly.add(chunk.get("delta") or {}):
                        yield piece
                    finish_reason = chunk.get("finish_reason") or finish_reason
                    model = chunk.get("model") or model
                    usage = chunk.get("usage") or usage
        except ModelError as error:
            if error.kind == "auth":
                error.remedy = refused_key(litellm, self._options, self._environ)
            raise
        yield ModelResponse(
            message=assembly.message(),
            usage=usage,
            finish_reason="tool_calls" if finish_reason == "stop" and assembly.has_calls else finish_reason,
            model=model,
            cost_usd=None if usage is None else cost_usd(self._profile, usage),
        )

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        from zeus_plugins.models.litellm.caching import marked
        from zeus_runtime import to_chat

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
            "max_tokens": options.max_tokens,
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
        # litellm's own retries are off: retrying is the runtime's. One stays that no argument turns off: its HTTP
        # handler (Anthropic and others, not OpenAI) sends a request again, once, when it is reset before any
        # response. Its MCP gateway, which it enters for any tools, would need the `mcp` package.
        return {**given, "num_retries": 0, "max_retries": 0, "_skip_mcp_handler": True}

    async def _chunks(
        self, litellm: Any, arguments: Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The answer's chunks as plain data: delta, finish_reason, model, usage. Every failure is a ModelError."""
        from zeus_runtime import ModelError

        patience = _Patience(self._options)
        try:
            answer = await patience.wait(litellm.acompletion(**arguments))
        except ModelError:
            raise
        except Exception as error:
            raise _classified(error) from error
        if not self._options.stream:
            yield _whole(answer)
            return
        try:
            while True:
                try:
                    chunk = await patience.wait(anext(answer))
                except StopAsyncIteration:
                    break
                except ModelError:
                    raise
                except Exception as error:
                    raise _classified(error) from error
                yield _plain(chunk)
        finally:
            await answer.aclose()
        if answer.received_finish_reason is None and answer.intermittent_finish_reason is None:
            # litellm invents a "stop" for a stream that was cut off.
            raise ModelError("the provider's stream ended before the answer was complete", kind="network")
        yield {"usage": _usage(chunk.usage for chunk in answer.chunks if getattr(chunk, "usage", None))}


class _Patience:
    """How long the provider may still take, in all and in silence."""

    def __init__(self, options: Options) -> None:
        from asyncio import get_running_loop

        self._options = options
        self._clock = get_running_loop().time
        self._end = self._clock() + options.timeout_seconds

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        """The result; a ModelError (timeout) when it comes too late."""
        import asyncio

        from zeus_runtime import ModelError

        left = self._end - self._clock()
        silent = self._options.idle_seconds if self._options.stream else left
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

    from zeus_runtime import model_error

    return model_error(error, now=datetime.now(UTC))


def _plain(chunk: Any) -> dict[str, Any]:
    if not chunk.choices:
        return {"model": chunk.model}
    choice = chunk.choices[0]
    return {
        "delta": choice.delta.model_dump(exclude_none=True),
        "finish_reason": choice.finish_reason,
        "model": chunk.model,
    }


def _whole(answer: Any) -> dict[str, Any]:
    from zeus_runtime import ModelError

    if not answer.choices:
        raise ModelError("the provider's answer holds no message", kind="server")
    choice = answer.choices[0]
    return {
        "delta": choice.message.model_dump(exclude_none=True),
        "finish_reason": choice.finish_reason,
        "model": answer.model,
        "usage": _usage([answer.usage] if getattr(answer, "usage", None) else ()),
    }


def _usage(reports: Iterable[Any]) -> Usage | None:
    """The provider's own counts. Reports within one stream are cumulative, so the greatest of each is the last."""
    from zeus_runtime import Usage

    counts = [0] * 6
    for report in reports:
        inner = getattr(report, "prompt_tokens_details", None)
        outer = getattr(report, "completion_tokens_details", None)
        found = (
            getattr(report, "prompt_tokens", 0),
            getattr(report, "completion_tokens", 0),
            getattr(report, "cache_read_input_tokens", 0) or getattr(inner, "cached_tokens", 0),
            getattr(report, "cache_creation_input_tokens", 0) or getattr(inner, "cache_creation_tokens", 0),
            getattr(outer, "reasoning_tokens", 0),
            getattr(getattr(inner, "cache_creation_token_details", None), "ephemeral_1h_input_tokens", 0),
        )
        counts = [max(old, int(new or 0)) for old, new in zip(counts, found, strict=True)]
    return Usage(*counts) if any(counts[:2]) else None
