"""OAuth 2.1 for remote servers: accounts kept encrypted, authorised once by a person, renewed by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.servers import PlannedServer


def uses_oauth(server: PlannedServer) -> bool:
    """Whether a server's requests are authorised by OAuth; a header of the user's own goes before."""
    return server.spec.authorised and not any(name.lower() == "authorization" for name in server.spec.headers)


def written_at(server: PlannedServer, environ: Mapping[str, str]) -> float | None:
    """When a server's account was last written, in seconds since the epoch; None if there is none."""
    if not uses_oauth(server):
        return None
    from zeus_plugins.tools.mcp.oauth.store import account_store

    return account_store(server, environ).written_at


def provider_of(server: PlannedServer, environ: Mapping[str, str], learn: Callable[[str, str], None]) -> Any:
    """What authorises a run's requests to a server; None where it needs none. It asks nobody: a missing right is an
    error that says how to get it."""
    if not uses_oauth(server):
        return None
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.oauth.store import account_store

    return AccountProvider(server, account_store(server, environ, learn))
