"""Which tools a mode shows, and which it lets be called (SPEC section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from zeus_runtime.cutting import first_line
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config.model import Mode
    from zeus_runtime.tools.tool import JSON, Category, Tool

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
    "shell": _row("write", "none", "none"),
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
    """A tool as a mode shows it to the model: callable, or a placeholder that is named and cannot be called."""

    tool: Tool
    mode: Mode
    callable: bool

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        """The tool's own, or for a placeholder its first line and what to do instead."""
        if self.callable:
            return self.tool.description
        return f"{first_line(self.tool.description)} {_refusal(self.tool, self.mode)}"

    @property
    def parameters(self) -> Mapping[str, JSON]:
        """The tool's own, or for a placeholder none."""
        return self.tool.parameters if self.callable else {"type": "object", "properties": {}}


def visible(tools: Iterable[Tool], mode: Mode) -> list[ShownTool]:
    """What ``mode`` shows the model, in the order given; hidden tools are left out.

    Ask mode shows write tools of a readable category as placeholders, so that the model can tell the user to switch.
    """
    shown = ((tool, showing(tool, mode)) for tool in tools)
    return [ShownTool(tool, mode, how == "callable") for tool, how in shown if how != "hidden"]


def permitted(tool: Tool, mode: Mode) -> str | None:
    """None when ``mode`` lets ``tool`` be called, else the refusal the model reads. Asked again at dispatch."""
    return None if showing(tool, mode) == "callable" else _refusal(tool, mode)


def showing(tool: Tool, mode: Mode) -> Showing:
    """How ``mode`` shows one tool: the cell of the table that its category and access class meet in."""
    permission = MODE_TABLE[tool.category][mode]
    if permission in ("write", tool.access):
        return "callable"
    return "placeholder" if permission == "read" and mode == "ask" else "hidden"


def has_connectors(mode: str) -> bool:
    """Whether a mode lets anything be driven, a browser or a desktop: in others nothing tells the model of them."""
    rows = (MODE_TABLE["browser"], MODE_TABLE["desktop"])
    return mode in {name for row in rows for name, permission in row.items() if permission != "none"}


def _refusal(tool: Tool, mode: Mode) -> str:
    return (
        f"{tool.name} cannot be called in {mode} mode. Do not call it; "
        "if the task needs it, tell the user to switch to agent mode."
    )
