"""OAuth 2.1 for remote servers: accounts are stored encrypted, authorised once by a user, and renewed automatically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.servers import PlannedServer


def uses_oauth(server: PlannedServer) -> bool:
    """Whether a server's requests are authorised by OAuth; an Authorization header in the config takes precedence."""
    return server.spec.authorised and not any(name.lower() == "authorization" for name in server.spec.headers)


def written_at(server: PlannedServer, environ: Mapping[str, str]) -> float | None:
    """The time at which a server's account was last written, in seconds since the epoch; None without an account."""
    if not uses_oauth(server):
        return None
    from zeus_plugins.tools.mcp.oauth.store import account_store

    return account_store(server, environ).written_at


def provider_of(server: PlannedServer, environ: Mapping[str, str], learn: Callable[[str, str], None]) -> Any:
    """The provider that authorises a run's requests to a server; None if the server needs none.

    The provider never asks the user. If the account is not authorised, the request fails with an error that says how to
    authorise it.
    """
    if not uses_oauth(server):
        return None
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.oauth.store import account_store

    return AccountProvider(server, account_store(server, environ, learn))
