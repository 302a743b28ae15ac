"""A LangChain tool as a Zeus tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.bridges.langchain.fitness import injected, refuse_tool, taken_names
from zeus_runtime.config.schema.forms import is_pydantic
from zeus_runtime.config.schema.model_names import computed_names, second_names
from zeus_runtime.config.schema.types import closed
from zeus_runtime.models.content import text_of
from zeus_runtime.tools import Tool, ToolResult, ToolRun

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from zeus_runtime.tools.tool import Access, Category


def from_langchain_tool(
    given: BaseTool,
    *,
    access: Access = "write",
    category: Category = "custom",
    replayable_result: bool = False,
    timeout_seconds: float | None = None,
) -> Tool:
    """A Zeus tool that calls a LangChain tool: its name, description and schema, its errors as error results.

    Args:
        given: any ``BaseTool``; ``InjectedToolCallId`` is supported, other injected arguments are not.
        access: ``read`` if it changes nothing outside the thread.
        category: the row of the approval mode table that applies to it.
        replayable_result: the same call fetches the same result again.
        timeout_seconds: the limit of one call.

    Raises:
        UnsupportedError: it relies on LangGraph's state, store or runtime, or ends the run with its result.
    """
    from langchain_core.utils.function_calling import convert_to_openai_tool

    refuse_tool(given)
    shown = convert_to_openai_tool(given)["function"]
    parameters = _parameters(given, shown.get("parameters", {"type": "object", "properties": {}}))
    model = given.args_schema if is_pydantic(given.args_schema) else None

    async def call(arguments: Mapping[str, Any], run: ToolRun) -> ToolResult:
        from langgraph.errors import GraphBubbleUp

        own = parameters.get("properties", {})
        if model is not None and (second := second_names(model, arguments, own)):
            return ToolResult(
                f"{given.name} was not called: use the names of its schema instead of {', '.join(second)}.",
                is_error=True,
            )
        try:
            answer = await given.ainvoke(
                {"type": "tool_call", "id": run.call_id, "name": given.name, "args": dict(arguments)}
            )
        except GraphBubbleUp:
            return ToolResult(
                f"{given.name} wanted to interrupt the graph, which it cannot do here; nothing more was done.",
                is_error=True,
            )
        return result_of(given.name, answer)

    return Tool(
        name=shown["name"],
        description=shown.get("description", ""),
        parameters=parameters,
        function=call,
        category=category,
        access=access,
        replayable_result=replayable_result,
        takes_whole=True,
        timeout_seconds=timeout_seconds,
        past_workspace=True,
        computed=frozenset() if model is None else computed_names(model) - injected(given).keys(),
    )


def _parameters(given: BaseTool, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that reach the tool, by the names that it takes.

    LangChain shows a field by its own name, and pydantic takes it by its alias and drops what it does not know: the
    tool would get a default instead of the argument that a person approved.
    """
    model = given.args_schema
    # A JSON Schema drops nothing.
    if isinstance(model, dict):
        return dict(shown)
    names = taken_names(given)
    parameters = {
        **shown,
        "properties": {names.get(name, name): each for name, each in shown.get("properties", {}).items()},
    }
    if "required" in shown:
        parameters["required"] = [names.get(name, name) for name in shown["required"]]
    is_open = getattr(model, "model_config", {}).get("extra") == "allow"
    return closed({**parameters, "additionalProperties": True} if is_open else parameters)


def result_of(name: str, answer: Any) -> ToolResult:
    """A LangChain tool's return value as a Zeus result; an artifact that is not JSON becomes its text."""
    from langchain_core.messages import ToolMessage
    from pydantic_core import to_jsonable_python

    if not isinstance(answer, ToolMessage):
        return ToolResult(
            f"{name} returned a {type(answer).__name__}, which changes a LangGraph state that Zeus does not have.",
            is_error=True,
        )
    return ToolResult(
        content=text_of(answer, name_others=True),
        is_error=answer.status == "error",
        artifact=None if answer.artifact is None else to_jsonable_python(answer.artifact, fallback=str),
    )
