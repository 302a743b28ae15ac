"""The task list: written whole, kept with the thread, bounded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from zeus_plugins.tools.todos.options import Options
from zeus_plugins.tools.todos.tools import create

from tests.support.golden import assert_golden
from zeus_runtime.plugin.tool import Tool, ToolResult
from zeus_runtime.tools import invoke, permitted, validate_arguments

GOLDEN = Path(__file__).parent / "golden"


class Thread:
    """A run whose state is what results kept."""

    session = "session_0123456789ab"
    call_id = "call_1"
    mode = "agent"

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def state(self, name: str) -> Any:
        return self.kept.get(name)

    async def call(self, name: str, options: Options | None = None, **arguments: Any) -> ToolResult:
        tool = tools(options)[name]
        checked = validate_arguments(tool, arguments)
        if isinstance(checked, str):
            return ToolResult(checked, is_error=True)
        result = await invoke(tool, checked, self)
        self.kept.update(json.loads(json.dumps(dict(result.state))))
        return result


def tools(options: Options | None = None) -> dict[str, Tool]:
    return {tool.name: tool for tool in create(options or Options(), cast(Any, None))}


def todo(content: str, status: str = "pending") -> dict[str, str]:
    return {"content": content, "status": status}


def test_the_tools_are_the_golden_ones() -> None:
    shown = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools().values()
    ]
    assert_golden(GOLDEN / "todos.json", json.dumps(shown, indent=2, ensure_ascii=False) + "\n")


async def test_what_is_written_is_kept_with_the_thread_and_read_back() -> None:
    thread = Thread()
    written = await thread.call(
        "write_todos", todos=[todo(" a ", "completed"), todo("b", "in_progress"), todo("c")]
    )
    assert written.content == "Task list updated: 1 pending, 1 in_progress, 1 completed."
    assert thread.kept["todos"][0] == todo("a", "completed")
    assert (await thread.call("read_todos")).content == "1. [x] a\n2. [>] b\n3. [ ] c"


async def test_a_thread_without_a_list_and_a_cleared_list_are_empty() -> None:
    thread = Thread()
    assert (await thread.call("read_todos")).content == "The task list is empty."
    await thread.call("write_todos", todos=[todo("a")])
    assert (await thread.call("write_todos", todos=[])).content == "The task list is empty now."
    assert (await thread.call("read_todos")).content == "The task list is empty."


async def test_a_list_sent_as_json_text_is_accepted() -> None:
    thread = Thread()
    await thread.call("write_todos", todos='[{"content": "a", "status": "pending"}]')
    assert thread.kept["todos"] == [todo("a")]


@pytest.mark.parametrize(
    ("todos", "reason"),
    [
        ([todo("x")] * 51, "51 tasks are too many (at most 50)"),
        ([todo("x" * 501)], "Task 1 has 501 characters (at most 500)"),
        ([todo("ok"), todo("  ")], "Task 2 is empty"),
        (
            [todo("x", "done")],
            'todos[0].status: must be one of "pending", "in_progress", "completed", not "done"',
        ),
        ([{"content": "x"}], "todos[0]: missing: status"),
    ],
)
async def test_a_list_that_does_not_fit_leaves_the_old_one(todos: Any, reason: str) -> None:
    thread = Thread()
    await thread.call("write_todos", todos=[todo("old")])
    result = await thread.call("write_todos", todos=todos)
    assert result.is_error
    assert reason in result.content
    assert thread.kept["todos"] == [todo("old")]


async def test_the_limits_are_options() -> None:
    options = Options(max_items=1, max_chars=3)
    thread = Thread()
    assert (await thread.call("write_todos", options, todos=[todo("a"), todo("b")])).is_error
    assert (await thread.call("write_todos", options, todos=[todo("abcd")])).is_error
    assert not (await thread.call("write_todos", options, todos=[todo("abc")])).is_error


@pytest.mark.parametrize("mode", ["agent", "ask", "plan"])
def test_the_list_is_allowed_in_every_mode(mode: Any) -> None:
    assert [permitted(tool, mode) for tool in tools().values()] == [None, None]
