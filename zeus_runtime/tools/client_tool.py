"""Tools that the program which asked for a turn runs itself: a call waits for the program's result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import json_shown
from zeus_runtime.tools.dispatch import check_tools
from zeus_runtime.tools.tool import JSON, Tool, ToolResult, ToolRun

RESULT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "result": {"type": "string", "description": "The result of the call."},
        "is_error": {"type": "boolean", "description": "Whether the call failed.", "default": False},
    },
    "required": ["result"],
}
"""The form of the answer to a call."""


@dataclass(frozen=True)
class ClientTool:
    """A tool that the client runs.

    Args:
        name: the name that the model calls.
        description: the text for the model.
        parameters: JSON Schema of the arguments, an object schema.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] | None = None

    def as_json(self) -> dict[str, JSON]:
        """The tool as JSON, for ``from_json``."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ClientTool:
        """The tool that ``as_json`` gave."""
        return cls(stored["name"], stored["description"], stored["parameters"])


def tools_of_client(given: Sequence[ClientTool], taken: Sequence[str]) -> list[Tool]:
    """The tools that stand for those of the client in a run.

    Args:
        taken: the names of the agent's own tools.

    Raises:
        UsageError: a name, a schema or a combination of names is not possible.
    """
    tools = [_tool(each) for each in given]
    problems = check_tools(tools)
    problems += [
        f"tool {each.name!r}: the agent has a tool of this name" for each in tools if each.name in taken
    ]
    problems += [problem for each in tools if (problem := _schema_problem(each))]
    if problems:
        raise UsageError("; ".join(problems), remedy="Correct the tools of the request.")
    return tools


def _tool(given: ClientTool) -> Tool:
    async def wait(arguments: Mapping[str, JSON], run: ToolRun) -> ToolResult:
        # The arguments are in the question, so an answer is bound to them.
        question = f"{_runs(given.name)}{json_shown(dict(arguments))}"
        answer = await run.ask(question, RESULT_SCHEMA)
        if answer is None:
            return ToolResult("The client did not run this call.", is_error=True)
        return ToolResult(str(answer["result"]), is_error=bool(answer.get("is_error")))

    return Tool(
        given.name,
        given.description,
        # OpenAI's form of a function without parameters has no schema.
        {"type": "object", "properties": {}} if not given.parameters else given.parameters,
        wait,
        # The client decides what its own tools may do; here the call changes nothing.
        access="read",
        takes_run=True,
        takes_whole=True,
    )


def _runs(name: str) -> str:
    return f"The client runs {name} with "


def client_arguments(name: str, asked: Mapping[str, Any]) -> str:
    """The arguments with which the client runs its tool, as JSON: as decided, perhaps not as the model wrote them.

    Args:
        name: the tool's name.
        asked: the ``arguments`` of the question that waits for the result.
    """
    shown = str(asked["question"]).removeprefix(_runs(name))
    try:
        return json.dumps(json.loads(shown), ensure_ascii=False)
    except ValueError:
        # A number that is a secret is masked in the question, and so no JSON any more.
        return shown


def _schema_problem(tool: Tool) -> str:
    from jsonschema import SchemaError

    try:
        _ = tool.problems_of
    except SchemaError as error:
        return f"tool {tool.name!r}: its parameters are not a JSON Schema: {error.message}"
    return ""
