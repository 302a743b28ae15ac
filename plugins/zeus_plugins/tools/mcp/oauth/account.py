"""What a person does with a server's account: authorise it, look at it, take it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zeus_plugins.tools.mcp.oauth.store import account_store
from zeus_runtime import Account, OptionsError, RunError

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.servers import Server


def account_of(server: Server, environ: Mapping[str, str]) -> Account:
    """How it is with a server's account."""
    from zeus_plugins.tools.mcp.oauth.provider import scopes_of

    try:
        kept = account_store(server, environ).read()
    except OptionsError as error:
        return Account(server.name, server.spec.address or "", authorised=False, detail=error.message)
    if kept is None:
        return Account(server.name, server.spec.address or "", authorised=False)
    details = [f"scopes: {scopes_of(kept)}" if scopes_of(kept) else ""]
    if kept.get("expires_at"):
        until = datetime.fromtimestamp(kept["expires_at"], UTC)
        renewed = ", then renewed" if kept["tokens"].get("refresh_token") else ""
        details.append(f"until {until:%Y-%m-%d %H:%M} UTC{renewed}")
    return Account(
        server.name,
        server.spec.address or "",
        authorised=True,
        detail="; ".join(each for each in details if each),
    )


async def log_in(server: Server, environ: Mapping[str, str], show: Callable[[str], None]) -> int:
    """Let a person authorise a server's account.

    Args:
        show: gives them the address to open.

    Returns:
        how many tools the server has for this account.

    Raises:
        RunError: it was not authorised, or the server cannot be reached.
        OptionsError: it could not be kept.
    """
    from mcp import Client

    from zeus_plugins.tools.mcp.failures import explained
    from zeus_plugins.tools.mcp.oauth.browser import browser
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.offer import read_offer
    from zeus_plugins.tools.mcp.transports import address

    store = account_store(server, environ)
    store.check()
    provider: AccountProvider | None = None
    try:
        async with browser(server.spec.oauth.redirect_port, show) as person:
            provider = AccountProvider(server, store, person)
            async with Client(address(server, provider), cache=None) as client:
                return len((await read_offer(client, server)).tools)
    except Exception as error:
        raise RunError(
            f"the account of {server.name!r} was not authorised: {explained(error).message}",
            remedy=_remedy(server, error),
        ) from error


def _remedy(server: Server, error: BaseException) -> str:
    from zeus_plugins.tools.mcp.failures import explained

    if "egistration" in explained(error).message and server.spec.oauth.client_id is None:
        return (
            "This provider does not let Zeus register itself: make an OAuth client there and write its id under"
            f" mcpServers.{server.name}.oauth.client_id."
        )
    return "Try again; --no-browser only prints the address."


async def log_out(server: Server, environ: Mapping[str, str]) -> bool:
    """Take an account's right back at its server, as far as it has a way for that, and forget it.

    Returns:
        whether there was one.
    """
    import httpx2

    store = account_store(server, environ)
    try:
        kept = store.read()
    except OptionsError:
        return store.delete()
    endpoint = ((kept or {}).get("metadata") or {}).get("revocation_endpoint")
    if kept is not None and endpoint:
        client = kept.get("client") or {}
        token = kept["tokens"].get("refresh_token") or kept["tokens"]["access_token"]
        # An empty secret is as good as none (RFC 6749, 2.3.1), and some servers want the field.
        form = {
            "token": token,
            "client_id": client.get("client_id", ""),
            "client_secret": client.get("client_secret", ""),
        }
        try:
            async with httpx2.AsyncClient() as http:
                (await http.post(endpoint, data=form)).raise_for_status()
        except httpx2.HTTPError:
            store.delete()
            raise RunError(
                f"the account of {server.name!r} is forgotten here; its server could not be told",
                remedy="Take the right back on the provider's own page.",
            ) from None
    return store.delete()
