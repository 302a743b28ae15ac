"""A config's MCP servers and connectors: what is wrong with them, and the tool component that they bring along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_runtime.agent.components import planned_component
from zeus_runtime.config import ConfigError
from zeus_runtime.config.mcp import Connectors, server_problems

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.agent.components import PlannedComponent

IMPLIED: Final = "mcp"
"""The tool component that ``mcpServers`` and ``connectors`` bring along."""


def implied_component(checked: Checked) -> tuple[PlannedComponent, ...]:
    """The component of the MCP servers, where there are some and ``tools`` does not place it.

    Raises:
        ConfigError: something is wrong with the servers.
    """
    from zeus_runtime.config import Ref

    config = checked.config
    if not (config.mcp_servers or config.connectors != Connectors()):
        return ()
    _refuse_servers(checked)
    if any(ref.name == IMPLIED for ref in config.tools):
        return ()
    return (planned_component(checked, "tool", Ref(IMPLIED), ("mcpServers",)),)


def _refuse_servers(checked: Checked) -> None:
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
