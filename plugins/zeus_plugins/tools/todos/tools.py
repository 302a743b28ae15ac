"""The agent's task list: always written as a whole, stored with the thread, allowed in every mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from zeus_plugins.tools.todos.options import Options
from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext

STATE = "todos"
"""The name under which the list, a list of Todo, is stored (``ToolResult.state``, ``ToolRun.state``)."""

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Todo(TypedDict):
    """One task."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


def create(options: Options | None, context: PlanContext) -> Sequence[Tool]:
    """``write_todos read_todos``."""
    return [_write_todos(options or Options()), _read_todos()]


def _write_todos(options: Options) -> Tool:
    @tool(category="todos", access="read")
    async def write_todos(todos: list[Todo]) -> ToolResult:
        """Replace your task list with this one; for work of three or more steps.

        Give all tasks, also unchanged ones. Mark a task in_progress when you start it, completed as soon as it is
        done.

        Args:
            todos: The whole list, in the order of the work; empty clears it.
        """
        problems = _problems(todos, options)
        if problems:
            return ToolResult("\n".join(["The list was not changed.", *problems]), is_error=True)
        kept = [{"content": todo["content"].strip(), "status": todo["status"]} for todo in todos]
        return ToolResult(_summary(kept), state={STATE: kept})

    return write_todos


def _read_todos() -> Tool:
    @tool(category="todos", access="read", replayable_result=True)
    async def read_todos(run: ToolRun) -> str:
        """Show your task list as it is now: [ ] pending, [>] in progress, [x] completed."""
        todos = run.state(STATE) or []
        if not todos:
            return "The task list is empty."
        return "\n".join(
            f"{number}. {_BOXES[todo['status']]} {todo['content']}" for number, todo in enumerate(todos, 1)
        )

    return read_todos


def _problems(todos: Sequence[Todo], options: Options) -> list[str]:
    problems = []
    if len(todos) > options.max_items:
        problems.append(
            f"- {len(todos)} tasks are too many (at most {options.max_items}): combine small ones."
        )
    for number, todo in enumerate(todos, 1):
        if not todo["content"].strip():
            problems.append(f"- Task {number} is empty.")
        if len(todo["content"]) > options.max_chars:
            problems.append(
                f"- Task {number} has {len(todo['content'])} characters (at most {options.max_chars}): shorten it."
            )
    return problems


def _summary(todos: Sequence[dict[str, Any]]) -> str:
    if not todos:
        return "The task list is empty now."
    counts = Counter(todo["status"] for todo in todos)
    listed = ", ".join(f"{counts[status]} {status}" for status in _BOXES if counts[status])
    return f"Task list updated: {listed}."
