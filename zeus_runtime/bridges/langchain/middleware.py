"""A LangChain ``AgentMiddleware`` as a Zeus middleware: its four hooks around model and tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from zeus_runtime.bridges.langchain.fitness import (
    UnsupportedError,
    has,
    overrides,
    refuse_middleware,
    unsupported,
)
from zeus_runtime.bridges.langchain.requests import (
    FailedCallError,
    ModelCalls,
    ToolCalls,
    identified,
    updated,
)
from zeus_runtime.bridges.langchain.tools import from_langchain_tool
from zeus_runtime.errors import MissingError
from zeus_runtime.middleware.protocol import CallModel, CallTool, Middleware
from zeus_runtime.tools.worker_threads import in_thread

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import BaseMessage

    from zeus_runtime.middleware.contexts import PlanContext, RunContext
    from zeus_runtime.models import ModelRequest, ModelResponse
    from zeus_runtime.tools import Tool, ToolCall, ToolResult, ToolRun
    from zeus_runtime.tools.tool import Access

Errors: TypeAlias = Literal["message", "raise"]
Make: TypeAlias = "Callable[[Any, PlanContext], AgentMiddleware[Any, Any, Any]]"
T = TypeVar("T")

_INSTALL: Final = "pip install 'zeus-runtime[langchain]'"


def from_langchain_middleware(
    kind: type[AgentMiddleware[Any, Any, Any]],
    make: Make | None = None,
    *,
    tool_access: Access | Mapping[str, Access] = "write",
    tool_errors: Errors = "message",
) -> type[Middleware]:
    """A Zeus middleware that calls a LangChain middleware's hooks, at its position in the YAML.

    ``before_model`` and ``after_model`` run around this middleware's own ``wrap_model_call``. Changes to the messages
    apply to that one request: the thread's history is append-only. ``state`` is the messages of the request (in
    ``wrap_tool_call``: of the step's model call), ``runtime`` has neither context nor store.

    The result is a component's ``create``. An instance that has a hook, state or jump that Zeus does not support is
    refused with an ``UnsupportedError`` when the config is read.

    Args:
        kind: the LangChain middleware's class.
        make: ``make(options, context)`` makes an instance of ``kind``; without it, ``kind`` is called without
            arguments. It is called once for each run, and for the tools of a plan: LangChain keeps them in instances.
        tool_access: the access class of the tools that it adds, for all or by name (``write`` for names not given).
        tool_errors: how ``wrap_tool_call`` receives a failed call: as a ``ToolMessage`` with status ``error``, or as
            an exception of the handler, which LangChain's retry middleware expects.

    Raises:
        MissingError: langchain is not installed.
    """
    try:
        import langchain.agents.middleware  # noqa: F401 - whether it is there
    except ImportError as error:
        raise MissingError("langchain is not installed", remedy=_INSTALL) from error
    # Only a class that overrides `wrap_tool_call` may be refused for its place below approvals.
    base = _BridgedWithToolCalls if has(kind, "wrap_tool_call") else _Bridged
    members = {
        "_make": staticmethod(make or _unconfigured(kind)),
        "_access": tool_access,
        "_errors": tool_errors,
    }
    return type(kind.__name__, (base,), members)


def _unconfigured(kind: type[AgentMiddleware[Any, Any, Any]]) -> Make:
    return lambda options, context: kind()


class _Bridged(Middleware):
    _make: ClassVar[Make]
    _access: ClassVar[Access | Mapping[str, Access]]
    _errors: ClassVar[Errors]

    def __init__(self, options: Any, context: RunContext) -> None:
        self._given = self._made(options, context)
        self._own = {each.name: each for each in self._offered(self._given)}
        self._seen: Sequence[BaseMessage] = ()

    @classmethod
    def tools(cls, options: Any, context: PlanContext) -> Sequence[Tool]:
        given = cls._made(options, context)
        return [replace(each, function=cls._calling(each.name)) for each in cls._offered(given)]

    @classmethod
    def _made(cls, options: Any, context: PlanContext) -> AgentMiddleware[Any, Any, Any]:
        given = cls._make(options, context)
        refuse_middleware(given)
        return given

    @classmethod
    def _offered(cls, given: AgentMiddleware[Any, Any, Any]) -> Sequence[Tool]:
        return [
            from_langchain_tool(each, access=cls._access_of(each.name))
            for each in getattr(given, "tools", ())
        ]

    @classmethod
    def _access_of(cls, name: str) -> Access:
        return cls._access if isinstance(cls._access, str) else cls._access.get(name, "write")

    @classmethod
    def _calling(cls, name: str) -> Callable[..., Awaitable[ToolResult | str]]:
        """Calls the tool of the run's own instance, which may share state with its hooks."""

        async def call(arguments: Mapping[str, Any], run: ToolRun) -> ToolResult | str:
            return await run.middleware(cls)._own[name].function(arguments, run)

        return call

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        if request.purpose != "turn":
            return await call_next(request)
        request, ended = await self._before(request)
        response = ended or await self._around_model(request, call_next)
        self._seen = (*request.messages, response.message)
        return await self._after(request, response)

    async def _around_model(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        if not has(type(self._given), "wrap_model_call"):
            return await call_next(request)
        calls = ModelCalls(self._given, request, call_next)
        answer = await self._wrapped("wrap_model_call", calls.request, calls.handle)
        return calls.response(answer)

    async def _before(self, request: ModelRequest) -> tuple[ModelRequest, ModelResponse | None]:
        if not has(type(self._given), "before_model"):
            return request, None
        from langchain_core.messages import AIMessage

        from zeus_runtime.models import ModelResponse

        shown = identified(request.messages)
        update = await self._hook("before_model", shown)
        if not update:
            return request, None
        messages = updated(request.messages, shown, update)
        if update.get("jump_to") == "end":
            answer = messages[-1] if messages else None
            if not isinstance(answer, AIMessage) or answer.tool_calls:
                raise self._unsupported(
                    "before_model jumped to the end without an answer as its last message"
                )
            return request, ModelResponse(answer)
        return request.override(messages=messages), None

    async def _after(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        if not has(type(self._given), "after_model"):
            return response
        from langchain_core.messages import AIMessage

        before = identified([*request.messages, response.message])
        update = await self._hook("after_model", before)
        if not update:
            return response
        messages = updated(before, before, update)
        if len(messages) != len(before) or any(
            new.id != old.id for new, old in zip(messages, before, strict=True)
        ):
            raise self._unsupported("after_model added or removed messages; it may only replace the answer")
        answer = messages[-1]
        if not isinstance(answer, AIMessage):
            raise self._unsupported("after_model replaced the answer with a message of another kind")
        return replace(response, message=answer.model_copy(update={"id": response.message.id}))

    async def _hook(self, name: str, messages: Sequence[BaseMessage]) -> Mapping[str, Any] | None:
        from langgraph.runtime import Runtime

        state: dict[str, Any] = {"messages": list(messages)}
        if overrides(type(self._given), f"a{name}"):
            update = await getattr(self._given, f"a{name}")(state, Runtime())
        else:
            update = await in_thread(partial(getattr(self._given, name), state, Runtime()))
        if update is None:
            return None
        if not isinstance(update, Mapping) or update.keys() - {"messages", "jump_to"}:
            raise self._unsupported(f"{name} returned more than messages and a jump")
        return update

    async def _wrapped(self, name: str, request: Any, handle: Callable[[Any], Awaitable[T]]) -> Any:
        if overrides(type(self._given), f"a{name}"):
            return await getattr(self._given, f"a{name}")(request, handle)
        loop = asyncio.get_running_loop()
        asked: list[Future[T]] = []
        over = Event()

        async def call(changed: Any) -> T:
            return await handle(changed)

        def from_its_thread(changed: Any) -> T:
            future = asyncio.run_coroutine_threadsafe(call(changed), loop)
            asked.append(future)
            # The run may have ended between these two lines, or before a retry.
            if over.is_set():
                future.cancel()
            return future.result()

        try:
            return await in_thread(partial(getattr(self._given, name), request, from_its_thread))
        finally:
            over.set()
            for future in asked:
                future.cancel()

    def _unsupported(self, what: str) -> UnsupportedError:
        return unsupported(self._given, what)


class _BridgedWithToolCalls(_Bridged):
    async def wrap_tool_call(self, call: ToolCall, call_next: CallTool) -> ToolResult:
        raises = self._errors == "raise"
        calls = ToolCalls(self._given, call, call_next, self._seen, raises=raises)
        try:
            answer = await self._wrapped("wrap_tool_call", calls.request, calls.handle)
        except FailedCallError as error:
            return error.result
        return calls.result(answer)
