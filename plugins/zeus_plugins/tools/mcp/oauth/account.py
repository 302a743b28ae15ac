"""The user's actions on a server's account: authorise it, show it, revoke it."""

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
from zeus_runtime.plugin.tool import Account, LoginPage

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.servers import PlannedServer
    from zeus_runtime.plugin import PlanContext

_SECONDS: Final = 120
"""Time limit of a login, in seconds, without the time that the user takes to answer."""


def account_of(server: PlannedServer, context: PlanContext) -> Account:
    """The state of a server's account."""
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
    """A time in words. A server may set an expiry that is too far in the future for a date."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "a time too far in the future for a date"


async def log_in(server: PlannedServer, context: PlanContext, show: Callable[[LoginPage], None]) -> int:
    """Let the user authorise a server's account.

    Args:
        show: shows the user the page to open.

    Returns:
        the number of tools that the server offers to this account.

    Raises:
        RunError: the account was not authorised, or the server cannot be reached.
        OptionsError: the account could not be stored.
    """
    from mcp import Client

    from zeus_plugins.tools.mcp.capabilities import read_offer
    from zeus_plugins.tools.mcp.failures import explained
    from zeus_plugins.tools.mcp.oauth.browser import PATIENCE_SECONDS, browser
    from zeus_plugins.tools.mcp.oauth.provider import AccountProvider
    from zeus_plugins.tools.mcp.sdk import quieten
    from zeus_plugins.tools.mcp.tool_filter import ToolFilter
    from zeus_plugins.tools.mcp.transports import address

    quieten()
    store = account_store(server, context.process_environ, context.learn)
    store.check()

    def shown(page: LoginPage) -> None:
        # From the moment on at which the user can act: discovery and registration have their own time before.
        late.reschedule(asyncio.get_running_loop().time() + PATIENCE_SECONDS + _SECONDS)
        show(page)

    provider: AccountProvider | None = None
    try:
        async with (
            asyncio.timeout(_SECONDS) as late,
            browser(server.spec.oauth.redirect_port, shown) as person,
        ):
            provider = AccountProvider(server, store, person)
            mode: Any = "legacy" if server.spec.type == "sse" else "auto"
            tool_filter = ToolFilter()
            transport = tool_filter.over(address(server, context.permit, provider))
            async with Client(transport, cache=None, mode=mode) as client:
                return len((await read_offer(client, server, tool_filter)).tools)
    except Exception as error:
        failure = explained((provider and provider.failure) or error)
        raise RunError(
            f"the account of {server.name!r} was not authorised: {failure.message}",
            remedy=_remedy(server, error, failure.message),
        ) from error


def _remedy(server: PlannedServer, error: Exception, why: str) -> str:
    from zeus_plugins.tools.mcp.oauth.provider import NOBODY_ASKS, OWN_PARAMETERS

    if server.spec.issuer is not None and "issuer" in why:
        return (
            "If the provider's own documentation names that other issuer, write it as"
            f" mcpServers.{server.name}.oauth.issuer."
        )
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"Another program uses that port: end it, or change mcpServers.{server.name}.oauth.redirect_port."
        )
    if "egistration" in why and server.spec.oauth.client_id is None:
        return (
            "This provider does not let Zeus register itself: create an OAuth client there and write its id under"
            f" mcpServers.{server.name}.oauth.client_id."
        )
    if why.startswith(OWN_PARAMETERS):
        return (
            f"If you know the provider, write its issuer as mcpServers.{server.name}.oauth.issuer: then the page is the"
            " provider's own."
        )
    if why == NOBODY_ASKS:
        return f"Remove auth from mcpServers.{server.name}, or give the address that requires an account."
    return "Try again; --no-browser only prints the address."


async def log_out(server: PlannedServer, context: PlanContext) -> bool:
    """Revoke an account's tokens at its server, if the server supports that, and delete the account here.

    Returns:
        whether there was an account.

    Raises:
        RunError: the account is deleted here, but its tokens were not revoked at the server.
        OptionsError: the account cannot be deleted here.
    """
    from zeus_plugins.tools.mcp.oauth.asking import refused_issuer

    store = account_store(server, context.process_environ, context.learn)
    # Without the lock, a process that renews the account now would write it again.
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
        raise _forgotten_only_here(server, "its provider has no revocation endpoint")
    why = refused_issuer(kept["metadata"]["issuer"], server.spec.issuer)
    why = why or await _take_back(kept, endpoint, server.spec.address or "")
    if why:
        raise _forgotten_only_here(server, why)
    return True


async def _take_back(kept: Mapping[str, Any], endpoint: str, address: str) -> str:
    """Revoke the tokens at the server; returns the reason for a failure, empty for success."""
    import httpx2
    from mcp.client.auth import OAuthFlowError

    from zeus_plugins.tools.mcp.oauth.asking import asked

    client = kept.get("client") or {}
    # An empty secret is equivalent to none (RFC 6749, 2.3.1), and some servers require the field.
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
        f"the account of {server.name!r} is deleted here, but was not revoked at its server: {why}",
        remedy="Revoke the access on the provider's website.",
    )
