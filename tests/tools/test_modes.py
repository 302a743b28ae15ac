"""The mode table of SPEC section 3, cell by cell, and what it does to lists and calls."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from zeus_runtime.tools.modes import MODE_TABLE, permitted, showing, visible
from zeus_runtime.tools.tool import Category, Tool

SPEC = """
            agent  ask    plan
filesystem  write  read   read
todos       write  write  write
memory      write  none   read
rag         write  read   write
sandbox     write  none   none
shell       write  none   none
web         write  write  write
mcp         write  read   read
oauth       write  read   read
browser     write  none   none
desktop     write  none   none
custom      write  read   read
builtin     write  write  write
skills      write  write  write
"""
CELLS = [
    (category, mode, permission)
    for line in SPEC.strip().splitlines()[1:]
    for category, *permissions in [line.split()]
    for mode, permission in zip(("agent", "ask", "plan"), permissions, strict=True)
]


def a_tool(category: Any = "filesystem", access: Any = "write", name: str = "change") -> Tool:
    async def function() -> str:
        return "done"

    return Tool(
        name,
        "Changes it.\n\nAt length.",
        {"type": "object", "properties": {"x": {}}},
        function,
        category,
        access,
    )


@pytest.mark.parametrize(("category", "mode", "permission"), CELLS)
def test_each_cell_is_the_specs(category: Any, mode: Any, permission: str) -> None:
    assert MODE_TABLE[category][mode] == permission


def test_the_table_has_every_category_and_no_other() -> None:
    assert set(MODE_TABLE) == set(get_args(Category)) == {category for category, _, _ in CELLS}


@pytest.mark.parametrize(("category", "mode", "permission"), CELLS)
@pytest.mark.parametrize("access", ["read", "write"])
def test_a_tool_is_callable_exactly_where_its_cell_allows_its_access(
    category: Any, mode: Any, permission: str, access: str
) -> None:
    tool = a_tool(category, access)
    allowed = permission == "write" or (permission == "read" and access == "read")
    assert (showing(tool, mode) == "callable") is allowed
    assert (permitted(tool, mode) is None) is allowed


@pytest.mark.parametrize(
    "category", [category for category, mode, p in CELLS if mode == "ask" and p == "read"]
)
def test_ask_mode_shows_write_tools_of_readable_categories_as_placeholders(category: Any) -> None:
    [shown] = visible([a_tool(category)], "ask")
    assert not shown.callable
    assert shown.name == "change"
    assert shown.description.startswith("Changes it. change cannot be called in ask mode.")
    assert "switch to agent mode" in shown.description
    assert shown.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "category", [category for category, mode, p in CELLS if mode == "plan" and p != "write"]
)
def test_plan_mode_hides_what_it_does_not_allow(category: Any) -> None:
    assert visible([a_tool(category)], "plan") == []


@pytest.mark.parametrize(("category", "mode"), [(c, m) for c, m, p in CELLS if p == "none"])
def test_none_hides_read_tools_too(category: Any, mode: Any) -> None:
    assert visible([a_tool(category, "read")], mode) == []


def test_the_order_of_tools_is_kept_and_callable_ones_show_as_they_are() -> None:
    tools = [a_tool("custom", "read", "b"), a_tool("custom", "write", "c"), a_tool("todos", "write", "a")]
    shown = visible(tools, "ask")
    assert [(each.name, each.callable) for each in shown] == [("b", True), ("c", False), ("a", True)]
    assert shown[0].description == tools[0].description
    assert shown[0].parameters == tools[0].parameters


def test_a_refusal_names_the_tool_the_mode_and_the_way_out() -> None:
    refusal = permitted(a_tool(), "plan")
    assert refusal is not None
    assert all(part in refusal for part in ("change", "plan mode", "tell the user to switch to agent mode"))
