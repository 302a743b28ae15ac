"""Two tools for the resources of servers: what there is, and what one holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime import Tool, ToolResult

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.link import Link


RESOURCE_TOOLS: Final = ("mcp_list_resources", "mcp_read_resource")


def resource_tools(links: Sequence[Link]) -> Sequence[Tool]:
    """``mcp_list_resources`` and ``mcp_read_resource``.

    Args:
        links: the servers that have resources.
    """
    by_name = {link.server.name: link for link in links}
    server: dict[str, Any] = {"type": "string", "enum": list(by_name), "description": "The server's name."}

    async def list_them(server: str | None = None) -> ToolResult:
        chosen = [by_name[server]] if server else list(by_name.values())
        return ToolResult(
            "\n\n".join([f"{link.server.name}:\n{await link.calls.resources()}" for link in chosen])
        )

    async def read(server: str, uri: str) -> ToolResult:
        return await by_name[server].calls.read_resource(uri)

    return (
        Tool(
            name=RESOURCE_TOOLS[0],
            description="List the resources (documents, records, files) that MCP servers have, with their addresses.",
            parameters={"type": "object", "properties": {"server": server}, "additionalProperties": False},
            function=list_them,
            category="mcp",
            access="read",
            replayable_result=True,
            timeout_seconds=_longest(links),
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
                        "description": "Its address as listed; a template's {placeholders} filled in.",
                    },
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            function=read,
            category="mcp",
            access="read",
            replayable_result=True,
            timeout_seconds=_longest(links),
        ),
    )


def _longest(links: Sequence[Link]) -> float:
    return max(link.server.spec.timeout_seconds for link in links)
