"""What is wrong with a config's MCP servers and connectors, each problem with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_runtime.config import ConfigError
from zeus_runtime.config.mcp import server_problems

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked

IMPLIED: Final = "mcp"
"""The tool component that ``mcpServers`` and ``connectors`` bring along."""


def refuse_servers(checked: Checked) -> None:
    """Check ``mcpServers`` and ``connectors``.

    Raises:
        ConfigError: with every problem.
    """
    config = checked.config
    problems = [
        checked.diagnostic(
            "mcp-server",
            each.message,
            ("mcpServers", name, *([each.key] if each.key else [])),
            hint=each.hint,
        )
        for name, server in config.mcp_servers.items()
        for each in server_problems(name, server)
    ]
    for kind, connector in (("browser", config.connectors.browser), ("desktop", config.connectors.desktop)):
        if connector is None:
            continue
        known = ", ".join(config.mcp_servers) or "there are none"
        if connector.server is None and kind == "desktop":
            message, hint = "no server is known that drives a desktop", f"name one of mcpServers: {known}"
        elif connector.server is not None and connector.server not in config.mcp_servers:
            message, hint = f"{connector.server!r} is none of mcpServers", f"its servers: {known}"
        else:
            continue
        problems.append(checked.diagnostic("mcp-server", message, ("connectors", kind, "server"), hint=hint))
    if problems:
        raise ConfigError(problems)
