"""The YAML options of all MCP servers together; the options of each server are under ``mcpServers``."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Executes, FileRelative, Maximum, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``mcp``."""

    files: Annotated[
        tuple[str, ...],
        FileRelative(holds_secrets=True),
        Executes(servers=True),
        Doc("Files of other clients that list servers, such as .mcp.json; relative to this YAML file."),
    ] = ()
    schema_share: Annotated[
        float,
        Doc(
            "Share of the model's input window that the servers' tool schemas may take together; if they take more, the"
            " tools are listed by name and their schemas are loaded on demand (discoverable)."
        ),
        Minimum(0),
        Maximum(1),
    ] = 0.1
    max_restarts: Annotated[
        int, Doc("How often in a row a server that died or did not start is restarted."), Minimum(0)
    ] = 5
    restart_seconds: Annotated[
        float, Doc("The wait before the first restart; it doubles each time, up to 60 seconds."), Minimum(0)
    ] = 1.0
    log_kilobytes: Annotated[
        int,
        Doc("Size of a server's log in .zeus/mcp at which the log is emptied."),
        Minimum(1),
    ] = 1_000
