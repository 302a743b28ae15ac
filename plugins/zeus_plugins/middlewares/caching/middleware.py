"""Asks the provider to cache the stable prefix, if it caches only on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.model import CachePoints

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_plugins.middlewares.caching.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import View
    from zeus_runtime.plugin.middleware import CallModel
    from zeus_runtime.plugin.model import ModelRequest, ModelResponse


class Caching(Middleware):
    """Sets at most four cache points per request: tools, sections 1-6, last message, end of the previous request.

    Args:
        options: the places, and how long the cache is kept.
        context: the model's profile, whose cache rules say whether there is anything to do, and its counter.
    """

    finishes_request = True
    judges = False

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._stable: tuple[object, object, str, tuple[int, int]] | None = None

    @property
    def _minimum(self) -> int | None:
        """The shortest prefix that is worth a point, in tokens; None if the model wants none."""
        from zeus_plugins.middlewares.caching.providers import minimum_tokens

        least, own = minimum_tokens(self._context.profile), self._options.minimum_tokens
        return least if least is None or own is None else own

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        minimum = self._minimum
        if minimum is None or request.purpose != "turn":
            return await call_next(request)
        return await call_next(request.override(cache_points=self._points(request, minimum)))

    def _points(self, request: ModelRequest, minimum: int) -> CachePoints:
        places = self._options.places
        tools, stable = self._sizes(request)
        # A middleware may have put a list in the view's place: it counts as long enough.
        whole = stable + getattr(request.messages, "tokens", minimum)
        return CachePoints(
            tools="tools" in places and bool(request.tools) and tools >= minimum,
            system="system" in places and request.stable_system_length > 0 and stable >= minimum,
            messages=stable_ends(request.messages) if "messages" in places and whole >= minimum else (),
            lifetime=self._options.lifetime,
        )

    def _sizes(self, request: ModelRequest) -> tuple[int, int]:
        """Return the tokens of the tools, and of the tools with sections 1-6; counted only after a change."""
        text, counter = request.system[: request.stable_system_length], self._context.counter
        known = self._stable
        # By identity: the tools and the counter are the same objects until another model or tool comes.
        if known is None or known[0] is not counter or known[1] is not request.tools or known[2] != text:
            tools = counter.tools(request.tools) if request.tools else 0
            known = self._stable = counter, request.tools, text, (tools, tools + counter.text(text))
        return known[3]


def stable_ends(messages: Sequence[BaseMessage] | View) -> tuple[int, ...]:
    """Return the places of the last message and of the last one before the last answer, where the last request ended.

    The second keeps the cache within reach after many parallel calls, because the provider looks back 20 blocks.
    """
    last = len(messages) - 1
    before = last
    while before >= 0 and messages[before].type != "ai":
        before -= 1
    while before >= 0 and messages[before].type == "ai":
        before -= 1
    return tuple(place for place in (before, last) if place >= 0)
