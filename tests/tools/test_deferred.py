"""What the model asks of tools that are listed by name only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zeus_runtime.tools import Tool, ToolResult
from zeus_runtime.tools.deferred import is_loaded, loader
from zeus_runtime.tools.tool import Access


async def nothing() -> str:
    return ""


def listed(name: str, access: Access = "read", *, deferred: bool = True) -> Tool:
    return Tool(
        name=name,
        description=f"It is {name}.",
        parameters={"type": "object"},
        function=nothing,
        category="mcp",
        access=access,
        deferred=deferred,
    )


TOOLS = [listed("look"), listed("store", "write"), listed("here", deferred=False)]


async def loaded(*names: str, mode: str = "agent") -> ToolResult:
    given: Any = await loader(lambda: TOOLS).function(list(names), SimpleNamespace(mode=mode))
    assert isinstance(given, ToolResult)
    return given


def may_be_called(result: ToolResult) -> list[str]:
    return [tool.name for tool in TOOLS if tool.deferred and is_loaded(tool, result.state.get)]


async def test_what_is_asked_for_is_loaded_once() -> None:
    result = await loaded("look", "store", "look")
    assert not result.is_error
    assert result.content.count("It is look.") == 1
    assert may_be_called(result) == ["look", "store"]


async def test_a_wrong_name_among_them_is_told_and_keeps_none_of_the_others() -> None:
    result = await loaded("loook", "look", "here")
    assert not result.is_error
    assert result.content.startswith(
        "loook is not a tool with a deferred schema.\n\nhere is not a tool with a deferred schema.\n\nFrom your next"
    )
    assert may_be_called(result) == ["look"]


@pytest.mark.parametrize(("names", "mode"), [(["loook"], "agent"), (["store"], "ask")])
async def test_where_nothing_can_be_loaded_it_is_an_error(names: list[str], mode: str) -> None:
    result = await loaded(*names, mode=mode)
    assert result.is_error
    assert result.content.endswith("Nothing was loaded.")
    assert names[0] in result.content
    assert not may_be_called(result)
