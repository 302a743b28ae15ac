"""Toolsets that are only listed: in a simulation, the tools that servers offer count as if they were there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from zeus_runtime.tools import Tool, Toolset
from zeus_runtime.tools.tool import Access, Category

if TYPE_CHECKING:
    from zeus_runtime.models.interface import ToolSchema
    from zeus_runtime.plan.plan import Plan


class ListedTools(Toolset):
    """Provides tools that are never called.

    Args:
        tools: the listed tools.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools


def listed_toolsets(plan: Plan, tools: Sequence[Tool]) -> Mapping[str, Toolset]:
    """``tools`` assigned to the plan's toolsets that may have them, by component; the rest is left out."""
    own = {each.tool.name for each in plan.tools}
    left = [tool for tool in tools if tool.name not in own]
    found: dict[str, Toolset] = {}
    for planned, made in zip(plan.opens, plan.unopened, strict=True):
        mine = [tool for tool in left if made.may_have(tool.name)]
        # Each tool goes to one toolset, the first that may have it.
        left = [tool for tool in left if tool not in mine]
        if mine:
            found[planned.name] = ListedTools(mine)
    return found


def recorded_tools(schemas: Sequence[ToolSchema]) -> Sequence[Tool]:
    """The tools of a recorded request; every mode shows them unchanged."""
    return [
        Tool(each.name, each.description, each.parameters, _never, category="custom", access="read")
        for each in schemas
    ]


def tools_of_listing(value: Any) -> Sequence[Tool]:
    """The tools in the output of `zeus tools list --connect --json`.

    Raises:
        ValueError: it is something else; the message says what is wrong.
    """
    entries = value.get("tools") if isinstance(value, Mapping) else value
    if not isinstance(entries, list):
        raise ValueError("it has no list `tools`")
    return [_tool(place, each) for place, each in enumerate(entries)]


def _tool(place: int, entry: Any) -> Tool:
    def part(key: str, kind: type, default: Any = None) -> Any:
        value = entry.get(key, default) if isinstance(entry, Mapping) else None
        if not isinstance(value, kind):
            raise ValueError(f"tools[{place}] has no {key}")
        return value

    category, access = part("category", str), part("access", str)
    if category not in get_args(Category) or access not in get_args(Access):
        raise ValueError(f"tools[{place}]: {category!r}, {access!r} are not a category and an access class")
    return Tool(
        part("name", str),
        part("description", str),
        part("parameters", dict),
        _never,
        category=category,
        access=access,
        deferred=part("deferred", bool, default=False),
    )


async def _never() -> str:
    raise AssertionError("nothing is called in a simulation")
