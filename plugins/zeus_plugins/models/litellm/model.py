"""Makes any model that litellm supports a Zeus ``Model``: one streaming call, classified errors, a closed connection.

Every command that reads a config creates the model, but few call it. So the imports for a call happen in the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from zeus_plugins.models.litellm.options import Options, process_first
from zeus_runtime.plugin.files import WorkspaceError
from zeus_runtime.plugin.model import PictureSight, most_picture_bytes

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.credentials import KnownProvider
    from zeus_plugins.models.litellm.native.choice import Served, Wire
    from zeus_plugins.models.litellm.native.servers import ModelServer
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.model import ModelPiece, ModelProfile, ModelRequest, ToolSchema


def create(options: Options, context: PlanContext) -> LitellmModel:
    """Create the model. Nothing is imported or checked before its first call, except ``extra`` and ``wire: native``.

    Raises:
        OptionsError: ``extra`` has a key that has an option, or that is not part of the provider's request; or the
            model cannot be called without litellm, and the options demand it.
    """
    if options.extra:
        from zeus_plugins.models.litellm.extra import check_extra

        check_extra(options.extra)
    if options.wire == "native":
        options.wire_for(options.profile_in(context), process_first(context.environ))
    return LitellmModel(
        options,
        context.environ,
        partial(options.profile_in, context),
        partial(_sight, options, context),
        dotenv=context.environ.keys() - context.process_environ.keys(),
    )


def _sight(options: Options, context: PlanContext) -> PictureSight:
    def read(path: str) -> bytes:
        data = context.workspace.runtime.read(path, max_bytes=most_picture_bytes())
        # When it was kept, the secret was perhaps not known yet.
        if context.hides(data):
            raise WorkspaceError("the picture holds a secret")
        return data

    return PictureSight(
        options.profile_in(context),
        read,
        write=lambda path, data: context.workspace.runtime.write(path, data),
    )


class LitellmModel:
    """A model of any provider that litellm supports, called through litellm or, where it sends the same, over HTTP.

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
        self._variables = process_first(environ)
        self._open_profile = profile
        self._open_sight = sight
        self._tools: tuple[Sequence[ToolSchema], str | None] = ((), None)

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

        served = self._wire.served
        provider = await self._provider(served and served.server)
        credentials(provider, self._options, self._environ, self._dotenv)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        from zeus_plugins.models.litellm.assembly import Assembly, call_ids, seed_of
        from zeus_plugins.models.litellm.credentials import credentials, refused_key
        from zeus_plugins.models.litellm.reading import delta_of
        from zeus_runtime.plugin.model import ModelError, ModelResponse, cost_usd

        request = await self._sight.request(request)
        # For each request: one picture or setting may need litellm, and the next request goes over HTTP again.
        served = self._native_for(request)
        provider = await self._provider(served and served.server)
        found = credentials(provider, self._options, self._environ, self._dotenv)
        assembly = Assembly(taken=call_ids(request.messages), seed=seed_of(request.messages))
        finish_reason, model, usage, refused = "stop", "", None, False
        try:
            async with aclosing(await self._chunks(request, found, served)) as chunks:
                async for chunk in chunks:
                    delta = chunk.get("delta") or {}
                    for piece in assembly.add(delta):
                        yield piece
                    # Later chunks leave it out, or have an empty text.
                    finish_reason = chunk.get("finish_reason") or finish_reason
                    refused = refused or "refused" in delta
                    model = chunk.get("model") or model
                    usage = chunk.get("usage") or usage
        except ModelError as error:
            if error.kind == "auth":
                error.remedy = refused_key(provider, self._options, self._environ)
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

    @cached_property
    def _wire(self) -> Wire:
        """How the requests are sent, unless one of them has something that only litellm can send."""
        return self._options.wire_for(self._profile, self._variables)

    def _native_for(self, request: ModelRequest) -> Served | None:
        """Return the model and its server for a request that is sent without litellm; None for one that is not."""
        from zeus_plugins.models.litellm.native.choice import base_of, only_by_litellm, unsendable_tool
        from zeus_runtime.plugin.model import ModelError

        served = self._wire.served
        if served is None:
            return None
        # By identity: the tools of a run stay one object, and a comparison would read every schema at each step.
        if request.tools is not self._tools[0]:
            base = base_of(served.server, self._options, self._variables)
            self._tools = (request.tools, unsendable_tool(served, request.tools, base))
        tool = self._tools[1]
        other = (
            only_by_litellm(request, served)
            if tool is None
            else f"the tool {tool!r}, for its name or parameters,"
        )
        if other is None:
            return served
        if self._options.wire == "native":
            raise ModelError(
                f"{other} cannot be sent without litellm",
                kind="bad_request",
                remedy="Use model.litellm.wire: auto",
            )
        return None

    async def _provider(self, server: ModelServer | None) -> KnownProvider:
        from zeus_plugins.models.litellm.credentials import litellms_provider, servers_provider
        from zeus_plugins.models.litellm.library import library

        if server is not None:
            return servers_provider(server, self._variables)
        return litellms_provider(await library(), self._options)

    async def _chunks(
        self, request: ModelRequest, found: Mapping[str, Any], served: Served | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        from zeus_plugins.models.litellm.timeouts import Timeouts

        options, arguments, timeouts = self._options, self._arguments(request), Timeouts(self._options)
        if served is not None:
            from zeus_plugins.models.litellm.native import call

            return call.chunks(served, options, self._variables, found, arguments, timeouts)
        from zeus_plugins.models.litellm import by_litellm
        from zeus_plugins.models.litellm.library import library

        return by_litellm.chunks(await library(), options, found, arguments, timeouts)

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return messages, tools and settings."""
        from zeus_plugins.models.litellm.caching import marked
        from zeus_runtime.plugin.model import to_chat

        options = self._options
        system = [{"role": "system", "content": request.system}] if request.system else []
        provider = self._profile.provider
        messages = (to_chat(message, portable=True, provider=provider) for message in request.messages)
        chat = [*system, *messages]
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
            **marked(request, chat, tools),
            "stream": options.stream,
            "stream_options": {"include_usage": True} if options.stream else None,
        }
        if "thinking" in arguments and _goes_on_without_thinking(chat):
            del arguments["thinking"]
        return {key: value for key, value in arguments.items() if value not in (None, [], {})}


def _goes_on_without_thinking(chat: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the request goes on after calls of a model that did not think, which Anthropic refuses with thinking."""
    last = next((each for each in reversed(chat) if each["role"] != "tool"), None)
    return last is not None and last["role"] == "assistant" and not last.get("thinking_blocks")
