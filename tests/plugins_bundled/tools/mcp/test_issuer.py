"""Who gets an account: the authorisation server of the config, or one that the person at the login was told of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl

from tests.plugins_bundled.tools.mcp.test_http import (
    adding,
    agent,
    expire,
    log_in,
    no_keyring,
    oauth,
    results,
)
from tests.plugins_bundled.tools.mcp.test_rights import notices, store_of, toolset_of
from tests.support.agents import play
from tests.support.mcp_http import Authority, Served, answering, serving
from tests.support.ports import unused_port
from zeus_runtime import Agent, RunError
from zeus_runtime.plugin.tool import LoginPage

__all__ = ["no_keyring"]
SECRET = "s3cret of ours"
METADATA, RESOURCE = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"


@dataclass
class Pair:
    """A real server with its authorisation server, and a stranger's host that keeps what it gets.

    Args:
        got: the paths that the stranger was sent something to.
    """

    authority: Authority
    served: Served
    stranger: Served
    port: int
    got: list[str] = field(default_factory=list)

    @property
    def real(self) -> str:
        return self.served.url.removesuffix("/mcp")

    @property
    def other(self) -> str:
        return self.stranger.url.removesuffix("/mcp")

    def names(self, *issuers: str) -> None:
        """Let the real MCP server name other authorisation servers."""
        told = {"resource": self.served.url, "authorization_servers": issuers, "scopes_supported": ["notes"]}
        self.served.instead[RESOURCE] = answering(200, json.dumps(told).encode())

    def metadata(self, issuer: str, token: str, revocation: str = "") -> dict[str, Any]:
        """Those of an authorisation server with the real page, and with the endpoints of other hosts."""
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{self.real}/authorize",
            "token_endpoint": f"{token}/token",
            "revocation_endpoint": f"{revocation or token}/revoke",
            "response_types_supported": ["code"],
        }

    def agent(self, folder: Path, **client: Any) -> Agent:
        client = {"client_id": "ours", "redirect_port": self.port, **client}
        return agent(folder, adding(), oauth(self.served, oauth=client))


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        authority = Authority()
        served = await stack.enter_async_context(serving(authority))
        stranger = await stack.enter_async_context(serving())
        found = Pair(authority, served, stranger, unused_port())
        authority.clients["ours"] = OAuthClientInformationFull(
            client_id="ours",
            client_secret=SECRET,
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{found.port}/callback")],
            token_endpoint_auth_method="client_secret_post",
            scope="notes",
        )
        for path in ("/token", "/revoke", "/register", "/authorize"):
            stranger.instead[path] = noting(found.got, path)
        yield found


def tell(whom: Served, metadata: dict[str, Any]) -> None:
    whom.instead[METADATA] = answering(200, json.dumps(metadata).encode())


def noting(got: list[str], path: str) -> Any:
    async def note(scope: Any, receive: Any, send: Any) -> None:
        got.append(path)
        await answering(400, b"{}")(scope, receive, send)

    return note


@pytest.mark.parametrize("claimed", ["its own", "the real one"])
async def test_a_secret_goes_to_the_issuer_of_the_config_alone(
    tmp_path: Path, pair: Pair, claimed: str
) -> None:
    pair.names(pair.other)
    tell(pair.stranger, pair.metadata(pair.other if claimed == "its own" else f"{pair.real}/", pair.other))
    seen: list[LoginPage] = []
    with pytest.raises(RunError) as refused:
        await log_in(pair.agent(tmp_path, client_secret=SECRET, issuer=f"{pair.real}/"), seen)
    assert f"its authorisation server is {pair.other}, but the issuer in the config is {pair.real}/" in str(
        refused.value
    )
    assert "mcpServers.far.oauth.issuer" in (refused.value.remedy or "")
    assert (seen, pair.got) == ([], [])


async def test_an_issuer_without_metadata_is_not_replaced_by_the_mcp_server(
    tmp_path: Path, pair: Pair
) -> None:
    """Without metadata, the endpoints would be those of the MCP server: `/authorize` and `/token`."""
    pair.names(pair.other)
    pair.stranger.instead |= {
        each: answering(404, b"") for each in (METADATA, "/.well-known/openid-configuration")
    }
    seen: list[LoginPage] = []
    with pytest.raises(RunError, match="its authorisation server is http"):
        await log_in(pair.agent(tmp_path, client_secret=SECRET, issuer=pair.other), seen)
    assert seen == []


async def test_the_issuer_of_the_config_is_found_among_several_and_by_another_slash(
    tmp_path: Path, pair: Pair
) -> None:
    """Google's MCP servers advertise their issuer with a slash, which its metadata does not have."""
    issuer = pair.real
    pair.names(pair.other, f"{pair.real}/")
    tell(pair.served, pair.metadata(issuer, pair.real))
    running = pair.agent(tmp_path, client_secret=SECRET, issuer=issuer)
    seen: list[LoginPage] = []
    assert await log_in(running, seen) == 3
    assert [(page.receivers, page.is_vouched) for page in seen] == [((), True)]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("endpoint", ["token", "revocation"])
async def test_a_person_is_told_who_gets_the_answer_to_the_page(
    tmp_path: Path, pair: Pair, named: bool, endpoint: str
) -> None:
    pair.names(pair.other)
    hosts = {"token": pair.real, "revocation": pair.real}
    # A user in an address looks like a host.
    hosts[endpoint] = pair.other.replace("//", f"//{pair.real.removeprefix('http://')}@")
    tell(pair.stranger, pair.metadata(pair.other, **hosts))
    seen: list[LoginPage] = []
    with suppress(RunError):
        await log_in(pair.agent(tmp_path, **({"issuer": pair.other} if named else {})), seen)
    (page,) = seen
    assert page.url.startswith(f"{pair.real}/authorize?")
    assert (page.receivers, page.is_vouched) == ((pair.other.removeprefix("http://"),), named)


@pytest.mark.parametrize(
    ("behind", "is_named", "why"),
    [
        ("#", True, r"the address of its login page has a #: http://[^?]*/authorize\n"),
        ("?client_id=pub&redirect_uri=http://other/cb#", False, "has a #"),
        ("?response_type=code&redirect_uri=http://other/cb", False, "parameters of its own"),
        ("?request_uri=urn:prepared", False, r"parameters of its own, .*: http://[^?]*/authorize\n"),
    ],
)
async def test_no_page_is_shown_that_may_have_another_login_prepared(
    tmp_path: Path, pair: Pair, behind: str, is_named: bool, why: str
) -> None:
    metadata = pair.metadata(f"{pair.real}/", pair.real)
    tell(pair.served, {**metadata, "authorization_endpoint": f"{pair.real}/authorize{behind}"})
    seen: list[LoginPage] = []
    running = pair.agent(tmp_path, **({"issuer": f"{pair.real}/"} if is_named else {}))
    # A login whose page is shown would wait for an answer that never comes.
    with pytest.raises(RunError, match=why) as refused:
        await asyncio.wait_for(log_in(running, seen), 10)
    assert seen == []
    assert ("mcpServers.far.oauth.issuer" in (refused.value.remedy or "")) == ("parameters" in why)


async def test_the_page_of_the_configs_issuer_keeps_its_own_parameters(tmp_path: Path, pair: Pair) -> None:
    """A tenant's login page has them, such as ``?p=sign-in``; a second ``?`` would hide ``response_type``."""
    metadata = pair.metadata(f"{pair.real}/", pair.real)
    tell(pair.served, {**metadata, "authorization_endpoint": f"{pair.real}/authorize?p=sign-in"})
    seen: list[LoginPage] = []
    named = {"client_secret": SECRET, "issuer": f"{pair.real}/"}
    assert await log_in(pair.agent(tmp_path, **named), seen) == 3
    asked = parse_qs(urlsplit(seen[0].url).query, strict_parsing=True)
    assert (asked["p"], asked["response_type"], asked["client_id"]) == (["sign-in"], ["code"], ["ours"])


async def test_a_kept_account_is_renewed_and_revoked_at_its_issuer_alone(tmp_path: Path, pair: Pair) -> None:
    assert await log_in(pair.agent(tmp_path, client_secret=SECRET, issuer=f"{pair.real}/")) == 3
    changed = pair.agent(tmp_path, client_secret=SECRET, issuer=pair.other)
    expire(changed)
    async with changed:
        (told,) = notices(await play(changed, "go"))
    assert f"is not renewed: its authorisation server is {pair.real}/" in told
    assert "zeus auth login far" in told
    assert pair.authority.refreshes == 0
    async with pair.agent(tmp_path, client_secret=SECRET, issuer=f"{pair.real}/") as right:
        assert results(await play(right, "go")) == ["5"]
    assert pair.authority.refreshes == 1
    with pytest.raises(RunError, match=f"its authorisation server is {pair.real}/"):
        await toolset_of(changed).log_out("far")
    assert pair.authority.refresh, "it was not revoked there"


async def test_a_login_uses_no_endpoint_of_an_earlier_one(tmp_path: Path, pair: Pair) -> None:
    running = pair.agent(tmp_path)
    kept = pair.metadata(f"{pair.real}/", pair.other)
    store_of(running).write({"tokens": {"access_token": "a", "token_type": "Bearer"}, "metadata": kept})
    pair.served.instead[METADATA] = answering(404, b"")
    seen: list[LoginPage] = []
    with suppress(RunError):
        await log_in(running, seen)
    assert (seen[0].receivers, pair.got) == ((), [])
