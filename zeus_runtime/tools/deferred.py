"""Deferred tools: they are listed by name and one line, and the model loads the schemas of those it wants to call.

The loaded schemas are in the results of ``load_tool_schema``, so in the thread's log. A resumed run and the next run
read them there and need no further state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zeus_runtime.tools.tool import JSON, Tool, ToolResult, ToolRun

LOADER: Final = "load_tool_schema"
"""The tool that returns a deferred tool's schema."""

_STATE: Final = "loaded_tool:"


def is_loaded(tool: Tool, state: Callable[[str], JSON]) -> bool:
    """Whether the model may call ``tool``: it is not deferred, or the thread has its schema.

    Args:
        state: returns the values that tools keep with the thread, by name.
    """
    return not tool.deferred or bool(state(_STATE + tool.name))


def schema_result(tools: Sequence[Tool]) -> ToolResult:
    """Return the schemas of ``tools`` as text for the model; from the next model call on it may call them."""
    parts = ["From your next answer on you can call:"]
    for tool in tools:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        parts.append(f"{tool.name}: {tool.description.strip()}\nParameters: {schema}")
    return ToolResult("\n\n".join(parts), state={_STATE + tool.name: True for tool in tools})


def not_called(schema: ToolResult) -> ToolResult:
    """Return the result for a call of a tool whose schema the model had not loaded; it contains the schema."""
    said = "Nothing was done: here are the parameters; call it again."
    return replace(schema, content=f"{said}\n\n{schema.content}", is_error=True)


def loader(available: Callable[[], Sequence[Tool]]) -> Tool:
    """Return the tool ``load_tool_schema``.

    Args:
        available: returns the agent's current tools.
    """

    async def load_tool_schema(names: Sequence[str], run: ToolRun) -> ToolResult:
        from zeus_runtime.tools.modes import permitted

        deferred = {tool.name: tool for tool in available() if tool.deferred}
        found: list[Tool] = []
        problems: list[str] = []
        for name in dict.fromkeys(names):
            tool = deferred.get(name)
            if tool is None:
                problems.append(f"{name} is not a tool with a deferred schema.")
            elif refusal := permitted(tool, run.mode):  # type: ignore[arg-type]
                problems.append(refusal)
            else:
                found.append(tool)
        if not found:
            return ToolResult("\n".join([*problems, "Nothing was loaded."]), is_error=True)
        loaded = schema_result(found)
        return replace(loaded, content="\n\n".join([*problems, loaded.content]))

    return Tool(
        name=LOADER,
        description=(
            "Get the full description and parameters of tools that are listed by name only. Call it before you use"
            " one of them; ask for all that you need at once."
        ),
        parameters=_LOADER_PARAMETERS,
        function=load_tool_schema,
        category="builtin",
        access="read",
        takes_run=True,
    )


_LOADER_PARAMETERS: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 20,
            "description": "The tools' names, exactly as listed.",
        }
    },
    "required": ["names"],
    "additionalProperties": False,
}
