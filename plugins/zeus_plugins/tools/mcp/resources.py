"""Two tools for the resources of servers: one lists them, the other reads one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.plugin.tool import Tool, ToolResult, has_connectors

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.connection import Link
    from zeus_runtime.plugin.tool import ToolRun


RESOURCE_TOOLS: Final = ("mcp_list_resources", "mcp_read_resource")


def resource_tools(links: Sequence[Link], setting: str) -> Sequence[Tool]:
    """``mcp_list_resources`` and ``mcp_read_resource``.

    Args:
        links: the servers that have resources.
        setting: that of all servers of the toolset: a call may reach each of them.
    """
    by_name = {link.server.name: link for link in links}
    facts = (f"of the MCP server{'s' if len(by_name) > 1 else ''} {', '.join(by_name)}",)
    server: dict[str, Any] = {"type": "string", "enum": list(by_name), "description": "The server's name."}

    async def list_them(run: ToolRun, server: str | None = None) -> ToolResult:
        chosen = [link for name, link in by_name.items() if server in (None, "", name)]
        there = [link for link in chosen if _is_there(link, run)]
        if not there:
            return ToolResult(f"In {run.mode} mode no server with resources is available.", is_error=True)
        return ToolResult(
            "\n\n".join([f"{link.server.name}:\n{await link.calls.resources()}" for link in there])
        )

    async def read(run: ToolRun, server: str, uri: str) -> ToolResult:
        if not _is_there(by_name[server], run):
            return ToolResult(f"The server {server!r} is not available in {run.mode} mode.", is_error=True)
        return await by_name[server].calls.read_resource(uri, run)

    return (
        Tool(
            name=RESOURCE_TOOLS[0],
            description="List the resources (documents, records, files) of MCP servers with their addresses.",
            parameters={"type": "object", "properties": {"server": server}, "additionalProperties": False},
            function=list_them,
            category="mcp",
            access="read",
            replayable_result=True,
            takes_run=True,
            timeout_seconds=_longest(links),
            setting=setting,
            facts=facts,
        ),
        Tool(
            name=RESOURCE_TOOLS[1],
            description="Read one resource of an MCP server.",
            parameters={
                "type": "object",
                "properties": {
                    "server": server,
                    "uri": {
                        "type": "string",
                        "description": "The resource's address as listed, with a template's {placeholders} filled in.",
                    },
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            function=read,
            category="mcp",
            access="read",
            replayable_result=True,
            takes_run=True,
            timeout_seconds=_longest(links),
            setting=setting,
            facts=facts,
        ),
    )


def _is_there(link: Link, run: ToolRun) -> bool:
    return not link.server.drives or has_connectors(run.mode)


def _longest(links: Sequence[Link]) -> float:
    return max(link.server.spec.timeout_seconds for link in links)
