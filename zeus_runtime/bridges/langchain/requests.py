"""Convert requests and responses for a LangChain middleware, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from zeus_runtime.bridges.langchain.fitness import unsupported
from zeus_runtime.bridges.langchain.tools import result_of

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware import ModelRequest as LangchainRequest
    from langchain.agents.middleware import ModelResponse as LangchainResponse
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langchain_core.tools import BaseTool

    from zeus_runtime.middleware.protocol import CallModel, CallTool
    from zeus_runtime.models import ModelRequest, ModelResponse
    from zeus_runtime.models.interface import CachePoints, ToolSchema
    from zeus_runtime.tools import ToolCall, ToolResult


def identified(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with ids, so that an update can name them; one without an id gets its position, on a copy."""
    return [
        each if each.id is not None else each.model_copy(update={"id": f"place_{index}"})
        for index, each in enumerate(messages)
    ]


def updated(
    messages: Sequence[BaseMessage], shown: Sequence[BaseMessage], update: Mapping[str, Any]
) -> list[BaseMessage]:
    """The messages after a hook's update, by LangGraph's rule: same id replaces, ``RemoveMessage`` removes.

    Args:
        messages: before the update.
        shown: the same with ids, as the hook saw them.
        update: the hook's return value.
    """
    from langgraph.graph.message import add_messages

    changed = update.get("messages")
    if changed is None:
        return list(messages)
    present: Any = list(shown)
    former = {id(copy): each for copy, each in zip(shown, messages, strict=True)}
    merged: Any = add_messages(present, changed)
    return [former.get(id(each), each) for each in merged]


class ModelCalls:
    """One wrapped model call: the middleware's input and its handler.

    Args:
        given: the middleware.
        request: as it came in.
        call_next: calls the next layer.
    """

    def __init__(
        self, given: AgentMiddleware[Any, Any, Any], request: ModelRequest, call_next: CallModel
    ) -> None:
        self._given = given
        self._former = request
        self._call_next = call_next
        self._answers: list[ModelResponse] = []
        self._tools = {schema.name: _stand_in(schema) for schema in request.tools}
        self._model = _model_stand_in()
        self.request = self._shown()

    def _shown(self) -> LangchainRequest[Any]:
        from langchain.agents.middleware import ModelRequest as LangchainRequest
        from langchain_core.messages import SystemMessage
        from langgraph.runtime import Runtime

        messages: list[Any] = list(self._former.messages)
        settings = dict(self._former.settings)
        return LangchainRequest(
            model=self._model,
            messages=messages,
            system_message=SystemMessage(self._former.system),
            tool_choice=settings.pop("tool_choice", None),
            tools=list(self._tools.values()),
            state={"messages": messages},
            runtime=Runtime(),
            model_settings=settings,
        )

    async def handle(self, changed: LangchainRequest[Any]) -> LangchainResponse[Any]:
        """Call the model with the request as the middleware changed it."""
        from langchain.agents.middleware import ModelResponse as LangchainResponse

        response = await self._call_next(self._request(changed))
        self._answers.append(response)
        return LangchainResponse(result=[response.message])

    def _request(self, changed: LangchainRequest[Any]) -> ModelRequest:
        if changed.model is not self._model:
            raise self._unsupported("it asks another model; the YAML's `model:` says which one runs")
        if changed.response_format is not None:
            raise self._unsupported("it asks for a structured response")
        system = "" if changed.system_message is None else str(changed.system_message.text)
        messages: Sequence[BaseMessage] = changed.messages
        if list(messages) == list(self._former.messages):
            messages = self._former.messages
        settings = {
            **changed.model_settings,
            **({} if changed.tool_choice is None else {"tool_choice": changed.tool_choice}),
        }
        stable = self._former.stable_system_length
        return self._former.override(
            system=system,
            stable_system_length=stable if system[:stable] == self._former.system[:stable] else 0,
            messages=messages,
            tools=tuple(self._schema(each) for each in changed.tools),
            settings=settings,
            cache_points=_kept_points(self._former.cache_points, self._former.messages, messages),
        )

    def _schema(self, tool: BaseTool | Mapping[str, Any]) -> ToolSchema:
        from langchain_core.utils.function_calling import convert_to_openai_tool

        from zeus_runtime.models.interface import ToolSchema

        for schema in self._former.tools:
            if tool is self._tools[schema.name]:
                return schema
        shown = convert_to_openai_tool(tool).get("function", {})
        name = shown.get("name", "")
        if name not in self._tools:
            raise self._unsupported(f"it adds the tool {name!r} to a request; give it in `tools`")
        return ToolSchema(name, shown.get("description", ""), shown.get("parameters", {"type": "object"}))

    def response(self, answer: Any) -> ModelResponse:
        """The middleware's response, with the usage of all calls that it made."""
        from zeus_runtime.models import ModelResponse

        message = self._message(answer)
        for former in self._answers:
            if former.message is message:
                return former
        if self._answers:
            return replace(self._answers[-1], message=message)
        return ModelResponse(message)

    def _message(self, answer: Any) -> AIMessage:
        from langchain.agents.middleware import ExtendedModelResponse
        from langchain.agents.middleware import ModelResponse as LangchainResponse
        from langchain_core.messages import AIMessage

        if isinstance(answer, ExtendedModelResponse):
            if answer.command is not None:
                raise self._unsupported("it returned a LangGraph Command")
            answer = answer.model_response
        if isinstance(answer, LangchainResponse):
            if answer.structured_response is not None:
                raise self._unsupported("it returned a structured response")
            if len(answer.result) != 1:
                raise self._unsupported(f"it returned {len(answer.result)} messages instead of one answer")
            answer = answer.result[0]
        if not isinstance(answer, AIMessage):
            raise self._unsupported(f"it returned a {type(answer).__name__} instead of an answer")
        return answer

    def _unsupported(self, what: str) -> Exception:
        return unsupported(self._given, what)


class FailedCallError(Exception):
    """A failed tool call, for a middleware that expects exceptions; the model reads the text."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.content)
        self.result = result


class ToolCalls:
    """One wrapped tool call: the middleware's input and its handler.

    Args:
        given: the middleware.
        call: as it came in.
        call_next: calls the next layer.
        seen: the messages of the step's model call.
        raises: the handler raises an exception for a failed call.
    """

    def __init__(
        self,
        given: AgentMiddleware[Any, Any, Any],
        call: ToolCall,
        call_next: CallTool,
        seen: Sequence[BaseMessage],
        *,
        raises: bool,
    ) -> None:
        self._given = given
        self._former = call
        self._call_next = call_next
        self._raises = raises
        self._results: list[tuple[ToolMessage, ToolResult]] = []
        self.request = self._shown(seen)

    def _shown(self, seen: Sequence[BaseMessage]) -> ToolCallRequest:
        from langchain.agents.middleware.types import ToolCallRequest
        from langgraph.prebuilt import ToolRuntime

        call, state = self._former, {"messages": list(seen)}
        own = {tool.name: tool for tool in getattr(self._given, "tools", ())}
        return ToolCallRequest(
            tool_call={
                "name": call.name,
                "args": dict(call.arguments),
                "id": call.id,
                "type": "tool_call",
            },
            tool=own.get(call.name),
            state=state,
            runtime=ToolRuntime(
                state=state,
                context=None,
                config={},
                stream_writer=lambda _chunk: None,
                tool_call_id=call.id,
                store=None,
            ),
        )

    async def handle(self, changed: ToolCallRequest) -> ToolMessage:
        """Run the tool with the call as the middleware changed it."""
        from langchain_core.messages import ToolMessage

        wanted = changed.tool_call
        call = replace(self._former, name=wanted["name"], arguments=wanted["args"])
        result = await self._call_next(call)
        if result.is_error and self._raises:
            raise FailedCallError(result)
        message = ToolMessage(
            result.content,
            tool_call_id=self._former.id,
            name=call.name,
            status="error" if result.is_error else "success",
        )
        self._results.append((message, result))
        return message

    def result(self, answer: Any) -> ToolResult:
        """The middleware's result. The tool's stored data and images are kept with it."""
        given = result_of(self._former.name, answer)
        passed_on = [result for message, result in self._results if message is answer]
        former = (passed_on or [result for _, result in self._results])[-1:]
        if not former:
            return given
        artifact = former[0].artifact if given.artifact is None else given.artifact
        return replace(former[0], content=given.content, is_error=given.is_error, artifact=artifact)


def _kept_points(
    points: CachePoints | None, former: Sequence[BaseMessage], messages: Sequence[BaseMessage]
) -> CachePoints | None:
    """The cache points that are still after the same messages."""
    if points is None or messages is former:
        return points
    same = 0
    for old, new in zip(former, messages, strict=False):
        if old is not new and old != new:
            break
        same += 1
    return replace(points, messages=tuple(each for each in points.messages if each < same))


def _stand_in(schema: ToolSchema) -> BaseTool:
    from langchain_core.tools import StructuredTool

    async def call(**_arguments: Any) -> str:
        raise NotImplementedError(f"{schema.name} is called by Zeus, not by a middleware")

    return StructuredTool(
        name=schema.name,
        description=schema.description,
        args_schema=dict(schema.parameters),
        coroutine=call,
    )


@cache
def _model_stand_in() -> BaseChatModel:
    from langchain_core.language_models import BaseChatModel

    class ZeusModel(BaseChatModel):
        """The running model; a middleware calls it through its handler."""

        @property
        def _llm_type(self) -> str:
            return "zeus"

        def _generate(self, *_arguments: Any, **_more: Any) -> Any:
            raise NotImplementedError("ask the running model through the handler")

    return ZeusModel()
