"""Section 3's list."""

from __future__ import annotations

from typing import Any

from zeus_runtime.plugin.tool import Tool
from zeus_runtime.prompt import tools_description
from zeus_runtime.tools import visible


async def _function() -> str:
    return ""


def a_tool(
    name: str = "t", access: Any = "read", description: str = "Does it.\n\nMore.", **properties: Any
) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key.startswith("r")],
    }
    return Tool(name, description, schema, _function, "filesystem", access)


def full(*tools: Tool, mode: Any = "agent") -> str:
    return tools_description(visible(tools, mode), "full")


def test_full_gives_description_and_parameters() -> None:
    listed = full(
        a_tool(
            required={"type": "string", "description": "A\n  path."},
            count={"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
            kind={"enum": ["a", "b"]},
            items={"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            either={"anyOf": [{"type": "string"}, {"type": "null"}]},
            many={"type": ["integer", "null"], "default": None},
            free={},
            fixed={"const": 1},
        )
    )
    assert listed == (
        "### t\nDoes it.\n\nMore.\n"
        "- required (string, required): A path.\n"
        "- count (integer >= 1 <= 9, default 5)\n"
        '- kind ("a" | "b")\n'
        "- items (list of {n: integer})\n"
        "- either (string | null)\n"
        "- many (integer | null)\n"
        "- free (any)\n"
        "- fixed (1)"
    )


def test_references_are_followed_and_recursion_ends() -> None:
    node = {"type": "object", "description": "A node.", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    recursive = Tool(
        "t",
        "T.",
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}},
        _function,
    )
    assert full(recursive) == "### t\nT.\n- x ({next: {next: {next: {next: ...}}}}): A node."
    definitions = {"A": {"$ref": "#/$defs/A"}}
    looping = Tool("t", "T.", {"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": definitions}, _function)
    assert full(looping) == "### t\nT.\n- x (any)"
    dangling = Tool("t", "T.", {"properties": {"x": {"$ref": "#/$defs/Gone"}}}, _function)
    assert full(dangling) == "### t\nT.\n- x (any)"


def test_schemas_that_are_true_or_false_are_described() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "number"}, True], "items": False}
    parts = {
        "x": True,
        "none": False,
        "at": pair,
        "u": {"anyOf": [{"type": "string"}, True]},
        "r": {"$ref": "#/$defs/T"},
    }
    parts["o"] = {"type": "object", "properties": {"y": True, "z": False}, "additionalProperties": True}
    tool = Tool("t", "T.", {"type": "object", "properties": parts, "$defs": {"T": True}}, _function)
    assert full(tool) == (
        "### t\nT.\n- x (any)\n- none (nothing)\n- at (list)\n- u (string | any)\n- r (any)\n- o ({y: any, z: nothing})"
    )


def test_brief_gives_names_and_first_lines() -> None:
    shown = visible([a_tool("a"), a_tool("b", description="\n  Does b.  \nMore")], "agent")
    assert tools_description(shown, "brief") == "- a: Does it.\n- b: Does b."


def test_placeholders_come_last_and_say_what_to_do() -> None:
    listed = full(a_tool("change", "write"), a_tool("look"), mode="ask")
    assert listed == (
        "### look\nDoes it.\n\nMore.\n\n"
        "These tools exist and cannot be called in ask mode. When the user's request needs one, say so and tell the "
        "user to switch to agent mode:\n- change: Does it."
    )


def test_hidden_tools_are_not_mentioned() -> None:
    assert "change" not in full(a_tool("change", "write"), a_tool("look"), mode="plan")


def test_without_tools_the_list_says_so() -> None:
    assert full() == tools_description([], "brief") == "There are no tools you can call now."
