"""The protocol's stream of changes to a server's tools and prompts; older servers send plain notifications instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp import Client


@asynccontextmanager
async def listening(client: Client, changed: Callable[[], None]) -> AsyncIterator[None]:
    """Call ``changed`` whenever the server reports changed tools or prompts, while the context is open."""
    import anyio

    async with anyio.create_task_group() as tasks:
        if _has_stream(client):
            tasks.start_soon(_listen, client, changed)
        try:
            yield
        finally:
            # The subscription lasts as long as the connection, which could not close without this.
            tasks.cancel_scope.cancel()


def _has_stream(client: Client) -> bool:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    offered = client.server_capabilities
    changes = (offered.tools and offered.tools.list_changed) or (
        offered.prompts and offered.prompts.list_changed
    )
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS and bool(changes)


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    from mcp.client.subscriptions import SubscriptionLost
    from mcp.shared.exceptions import MCPError

    while True:
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as subscription:
                async for _event in subscription:
                    changed()
            return
        except SubscriptionLost:
            changed()  # events may have been missed, so the list must be read again
        except MCPError:
            return  # the server has no such stream after all; later changes are not noticed
