"""Which tools a mode shows, and which it lets be called (SPEC section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from zeus_runtime.config.model import Mode
    from zeus_runtime.tools.tool import Category, Tool

Permission: TypeAlias = Literal["none", "read", "write"]
Showing: TypeAlias = Literal["callable", "placeholder", "hidden"]


def _row(agent: Permission, ask: Permission, plan: Permission) -> Mapping[Mode, Permission]:
    return {"agent": agent, "ask": ask, "plan": plan}


MODE_TABLE: Mapping[Category, Mapping[Mode, Permission]] = {
    "builtin": _row("write", "write", "write"),
    "filesystem": _row("write", "read", "read"),
    "todos": _row("write", "write", "write"),
    "memory": _row("write", "none", "read"),
    "rag": _row("write", "read", "write"),
    "sandbox": _row("write", "none", "none"),
    "web": _row("write", "write", "write"),
    "skills": _row("write", "write", "write"),
    "mcp": _row("write", "read", "read"),
    "oauth": _row("write", "read", "read"),
    "browser": _row("write", "none", "none"),
    "desktop": _row("write", "none", "none"),
    "custom": _row("write", "read", "read"),
}
"""Category to mode to what its tools may do; ``write`` includes ``read``. ``custom`` follows ``mcp``."""


@dataclass(frozen=True)
class ShownTool:
    """A tool as a mode shows it: callable, a placeholder (named, not callable) or hidden (the model never sees it)."""

    tool: Tool
    showing: Showing


def visible(tools: Iterable[Tool], mode: Mode) -> list[ShownTool]:
    """How ``mode`` shows each tool, in the order given; hidden ones are in the list and say so.

    Ask mode shows write tools of a readable category as placeholders, so that the model can tell the user to switch.
    """
    return [ShownTool(tool, _showing(tool, mode)) for tool in tools]


def permitted(tool: Tool, mode: Mode) -> str | None:
    """None when ``mode`` lets ``tool`` be called, else the refusal the model reads. Asked again at dispatch."""
    if _showing(tool, mode) == "callable":
        return None
    return (
        f"{tool.name} cannot be called in {mode} mode. Do not call it again in this conversation's {mode} mode; "
        "if the task needs it, tell the user to switch to agent mode."
    )


def _showing(tool: Tool, mode: Mode) -> Showing:
    permission = MODE_TABLE[tool.category][mode]
    if permission == "write" or permission == tool.access:
        return "callable"
    return "placeholder" if permission == "read" and mode == "ask" else "hidden"
