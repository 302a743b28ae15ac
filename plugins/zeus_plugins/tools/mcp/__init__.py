"""The registration of the tool component `mcp`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `mcp`."""
    return [
        Component(
            "mcp",
            create="zeus_plugins.tools.mcp.toolset:create",
            options="zeus_plugins.tools.mcp.options:Options",
            summary="The tools of MCP servers (mcpServers, connectors).",
            gives={
                "mcp": "a server under `mcpServers`",
                "oauth": "a server under `mcpServers` that uses OAuth, and `zeus auth login NAME`",
                "browser": "`browser` under `connectors`",
                "desktop": "`desktop` under `connectors`",
            },
        )
    ]
