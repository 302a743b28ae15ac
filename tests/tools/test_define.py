"""`tool`: a function's signature and docstring become a Tool."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from zeus_runtime.plugin import Doc, Maximum, Minimum
from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, tool
from zeus_runtime.tools import invoke, validate_arguments


class FakeRun:
    session = "session_0123456789ab"
    call_id = "call_1"
    mode = "agent"

    def state(self, name: str) -> Any:
        return f"state of {name}"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


async def call(which: Tool, **arguments: Any) -> ToolResult:
    checked = validate_arguments(which, arguments)
    assert not isinstance(checked, str), checked
    return await invoke(which, checked, FakeRun())


def test_name_description_and_parameters_come_from_the_function() -> None:
    @tool
    async def find(
        query: str,
        k: Annotated[int, Doc("How many."), Minimum(1), Maximum(9)] = 5,
        order: Literal["a", "b"] = "a",
    ) -> str:
        """Find things.

        Everywhere.

        Args:
            query: What to find.
        """
        return query

    assert find.name == "find"
    assert find.description == "Find things.\n\nEverywhere."
    assert find.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find."},
            "k": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many.", "default": 5},
            "order": {"enum": ["a", "b"], "type": "string", "default": "a"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert (find.category, find.access, find.takes_run, find.timeout_seconds) == (
        "custom",
        "write",
        False,
        None,
    )


def test_everything_can_be_said_instead() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    @tool(
        name="say_it",
        description="Says.",
        parameters=schema,
        category="web",
        access="read",
        replayable_arguments=["text"],
        replayable_result=True,
        timeout_seconds=2,
    )
    async def say(**arguments: Any) -> str:
        return str(arguments["text"])

    assert (say.name, say.description, say.parameters) == ("say_it", "Says.", schema)
    assert (say.category, say.access, say.timeout_seconds) == ("web", "read", 2)
    assert say.replayable_arguments == {"text"}
    assert say.replayable_result


async def test_the_run_is_given_to_who_asks_for_it_and_not_shown_to_the_model() -> None:
    @tool
    async def who(run: ToolRun) -> str:
        """Who."""
        return f"{run.session} {run.state('x')}"

    assert who.takes_run
    assert who.parameters["properties"] == {}
    assert (await call(who)).content == "session_0123456789ab state of x"


async def test_arguments_arrive_as_annotated_defaults_filled_in() -> None:
    seen: list[Any] = []

    @tool
    async def draw(points: list[Point], label: str = "none") -> str:
        """Draw."""
        seen.extend([points, label])
        return ""

    await call(draw, points='[{"x": "1"}]')
    assert seen == [[Point(1, 0)], "none"]


async def test_a_sync_function_runs_in_another_thread_with_the_callers_context() -> None:
    import contextvars

    where = contextvars.ContextVar[str]("where")
    where.set("outside")

    @tool
    def work(n: int) -> str:
        """Work."""
        return f"{threading.current_thread() is threading.main_thread()} {where.get()} {n}"

    assert (await call(work, n="3")).content == "False outside 3"


async def test_a_callable_object_and_a_bound_method_are_tools_too() -> None:
    class Greeter:
        async def __call__(self, name: str) -> str:
            """Greet."""
            return f"hello {name}"

        def greet(self, name: str) -> str:
            """Greet."""
            return f"hi {name}"

    assert (await call(tool(Greeter().greet), name="Ada")).content == "hi Ada"
    assert (
        await call(tool(name="greeter", description="Greet.")(Greeter()), name="Ada")
    ).content == "hello Ada"


def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    async def silent(x: int) -> str:
        return ""

    with pytest.raises(TypeError, match="no description"):
        tool(silent)

    async def untyped(x) -> str:  # type: ignore[no-untyped-def]
        """Untyped."""
        return ""

    with pytest.raises(TypeError, match="no annotation"):
        tool(untyped)

    async def stream(x: int) -> Any:
        """Streams."""
        yield x

    with pytest.raises(TypeError, match="generator"):
        tool(stream)

    async def fine(x: int) -> str:
        """Fine."""
        return ""

    with pytest.raises(TypeError, match="names no parameter: y"):
        tool(replayable_arguments=["y"])(fine)
