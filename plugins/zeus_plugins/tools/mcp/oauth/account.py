"""What a person does with a server's account: authorise it, look at it, take it back."""

from __future__ import annotations

import asyncio
import errno
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from zeus_plugins.tools.mcp.oauth.store import account_store
from zeus_runtime.plugin import OptionsError, RunError
from zeus_runtime.plugin.tool import Account

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.servers import PlannedServer
    from zeus_runtime.plugin import PlanContext

_SECONDS: Final = 120
"""How long a login may take beside the time that a person has."""


def account_of(server: PlannedServer, context: PlanContext) -> Account:
    """How it is with a server's account."""
    from zeus_plugins.tools.mcp.oauth.provider import scopes_of

    try:
        kept = account_store(server, context.process_environ, context.learn).read()
    except OptionsError as error:
        return Account(server.name, server.spec.address or "", authorised=False, detail=error.message)
    if kept is None:
        return Account(server.name, server.spec.address or "", authorised=False)
    details = [f"scopes: {scopes_of(kept)}" if scopes_of(kept) else ""]
    if kept.get("expires_at"):
        renewed = ", then renewed" if kept["tokens"].get("refresh_token") else ""
        details.append(f"until {_moment(kept['expires_at'])}{renewed}")
    return Account(
        server.name,
        server.spec.address or "",
        authorised=True,
        detail="; ".join(each for each in details if each),
    )


def _moment(seconds: float) -> str:
    """When that is, in words; a server may give a right for longer than calendars go."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "further than a calendar goes"


async def log_in(server: PlannedServer, context: PlanContext, show: Callable[[str], None]) -> int:
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

    from zeus_plugins.tools.mcp.capabilities import read_offer
    from zeus_plugins.tools.mcp.failures import explained
    from zeus_plugins.tools.mcp.oauth.browser import PATIENCE_SECONDS, browser
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.sdk import quieten
    from zeus_plugins.tools.mcp.sieve import Sieve
    from zeus_plugins.tools.mcp.transports import address

    quieten()
    store = account_store(server, context.process_environ, context.learn)
    store.check()

    def shown(url: str) -> None:
        late.reschedule(asyncio.get_running_loop().time() + PATIENCE_SECONDS + _SECONDS)
        show(url)

    provider: AccountProvider | None = None
    try:
        async with (
            asyncio.timeout(_SECONDS) as late,
            browser(server.spec.oauth.redirect_port, shown) as person,
        ):
            provider = AccountProvider(server, store, person)
            mode: Any = "legacy" if server.spec.type == "sse" else "auto"
            sieve = Sieve()
            transport = sieve.over(address(server, context.permit, provider))
            async with Client(transport, cache=None, mode=mode) as client:
                return len((await read_offer(client, server, sieve)).tools)
    except Exception as error:
        failure = explained((provider and provider.failure) or error)
        raise RunError(
            f"the account of {server.name!r} was not authorised: {failure.message}",
            remedy=_remedy(server, error, failure.message),
        ) from error


def _remedy(server: PlannedServer, error: Exception, why: str) -> str:
    from zeus_plugins.tools.mcp.oauth.provider import NOBODY_ASKS

    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"Another program has that port: end it, or change mcpServers.{server.name}.oauth.redirect_port."
        )
    if "egistration" in why and server.spec.oauth.client_id is None:
        return (
            "This provider does not let Zeus register itself: make an OAuth client there and write its id under"
            f" mcpServers.{server.name}.oauth.client_id."
        )
    if why == NOBODY_ASKS:
        return f"Remove auth from mcpServers.{server.name}, or name the address that asks for it."
    return "Try again; --no-browser only prints the address."


async def log_out(server: PlannedServer, context: PlanContext) -> bool:
    """Take an account's right back at its server, as far as it has a way for that, and forget it.

    Returns:
        whether there was one.

    Raises:
        RunError: it is forgotten, and its server still has it.
        OptionsError: it cannot be forgotten.
    """
    store = account_store(server, context.process_environ, context.learn)
    # Whoever renews it at this moment would write it anew.
    async with store.locked():
        try:
            kept = store.read()
        except OptionsError as error:
            store.delete()
            raise _forgotten_only_here(server, error.message) from None
        store.delete()
    if kept is None:
        return False
    endpoint = (kept.get("metadata") or {}).get("revocation_endpoint")
    if not endpoint:
        raise _forgotten_only_here(server, "its provider has no address for that")
    why = await _take_back(kept, endpoint, server.spec.address or "")
    if why:
        raise _forgotten_only_here(server, why)
    return True


async def _take_back(kept: Mapping[str, Any], endpoint: str, address: str) -> str:
    """Tell a server that a right is not wanted any more; why that failed, empty if it did not."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    from zeus_plugins.tools.mcp.oauth.asking import asked

    client = kept.get("client") or {}
    # An empty secret is as good as none (RFC 6749, 2.3.1), and some servers want the field.
    form = {
        "token": kept["tokens"].get("refresh_token") or kept["tokens"]["access_token"],
        "client_id": client.get("client_id", ""),
        "client_secret": client.get("client_secret", ""),
    }
    headers = {}
    if client.get("token_endpoint_auth_method") == "client_secret_basic":
        pair = ":".join(quote(form[key], safe="") for key in ("client_id", "client_secret"))
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        form["client_secret"] = ""
    try:
        answer = await asked(httpx2.Request("POST", endpoint, data=form, headers=headers), address)
    except (OAuthFlowError, httpx2.HTTPError) as error:
        return str(error) or type(error).__name__
    return "" if answer.is_success else f"it answers HTTP {answer.status_code}"


def _forgotten_only_here(server: PlannedServer, why: str) -> RunError:
    return RunError(
        f"the account of {server.name!r} is forgotten here; its server could not be told: {why}",
        remedy="Take the right back on the provider's own page.",
    )
