"""What the YAML can say of all MCP servers together; of each by itself, ``mcpServers`` says it."""

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
        Doc(
            "Files in other clients' form to take servers from, such as .mcp.json; relative to this YAML file."
        ),
    ] = ()
    schema_share: Annotated[
        float,
        Doc(
            "Share of the model's input window that the servers' tool schemas may take together; beyond it they are"
            " listed by name and loaded on demand (discoverable)."
        ),
        Minimum(0),
        Maximum(1),
    ] = 0.1
    max_restarts: Annotated[
        int, Doc("How often in a row a server that died or would not start is started again."), Minimum(0)
    ] = 5
    restart_seconds: Annotated[
        float, Doc("The wait before the first restart; it doubles, up to 60 seconds."), Minimum(0)
    ] = 1.0
    log_kilobytes: Annotated[
        int,
        Doc("What a server may write to its log in .zeus/mcp before the log begins anew."),
        Minimum(1),
    ] = 1_000
