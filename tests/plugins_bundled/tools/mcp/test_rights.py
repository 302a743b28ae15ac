"""Accounts of remote MCP servers where something is not as it should be: answers that are wrong, late or for others."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from zeus_plugins.tools.mcp.oauth import account, asking
from zeus_plugins.tools.mcp.oauth.store import AccountStore, account_store

from tests.plugins_bundled.tools.mcp.test_http import adding, agent, expire, log_in, oauth, results
from tests.support.agents import call, calling, play, script
from tests.support.mcp_http import Authority, answering, serving
from tests.support.ports import unused_port
from zeus_runtime import Agent, RunError
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.events import Event, Notice
from zeus_runtime.plugin import Redactor


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)


def notices(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Notice) and event.code != "usage_unknown"]


def toolset_of(running: Agent) -> Any:
    (planned,) = running.plan.opens
    return planned.create(running.plan.context)


def store_of(running: Agent) -> AccountStore:
    (server,) = toolset_of(running).servers
    return account_store(server, running.plan.context.process_environ)


async def never(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that does not answer before the other side has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SECONDS", 0.3)


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource/mcp", "/register", "/token"])
@pytest.mark.usefixtures("hurried")
async def test_an_authorisation_server_that_does_not_answer_ends_the_login(tmp_path: Path, path: str) -> None:
    async with serving(Authority()) as served:
        served.instead[path] = never
        with pytest.raises(RunError, match=r"127.0.0.1 did not answer within"):
            await log_in(agent(tmp_path, adding(), oauth(served)))


@pytest.mark.parametrize("sse", [False, True])
async def test_a_server_that_does_not_answer_ends_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sse: bool
) -> None:
    monkeypatch.setattr(account, "_SECONDS", 0.3)
    async with serving(Authority(), sse=sse) as served:
        served.instead["/sse" if sse else "/mcp"] = never
        with pytest.raises(RunError, match="it did not answer in time"):
            await log_in(agent(tmp_path, adding(), oauth(served, **({"type": "sse"} if sse else {}))))


async def test_a_renewal_that_is_not_answered_lets_go_of_the_account(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        request.getfixturevalue("hurried")
        expire(running)
        served.instead["/token"] = never
        async with running:
            assert any("did not answer within" in each for each in notices(await play(running, "go")))
        async with asyncio.timeout(60), store_of(running).locked():
            pass


async def test_an_answer_that_does_not_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    async with serving(Authority()) as served:
        served.instead["/register"] = answering(201, b" " * 2_000_000)
        with pytest.raises(RunError, match="more than 1,000,000 bytes"):
            await log_in(agent(tmp_path, adding(), oauth(served)))


async def test_what_an_https_server_names_is_asked_over_https_only() -> None:
    for url in ("http://169.254.169.254/token", "http://far.example/token", "http://127.0.0.1:1/"):
        with pytest.raises(OAuthFlowError, match="is not https"):
            await asking.asked(httpx2.Request("GET", url), "https://far.example/mcp")


async def test_an_address_that_is_a_secret_as_a_whole_is_not_told_in_part() -> None:
    url = "http://far.example/part-of-it?key=x"
    known = Redactor().adding({url: "ADDRESS"})
    mask_before_cutting(known)
    with pytest.raises(OAuthFlowError, match=r"is not https: <secret:ADDRESS>$"):
        await asking.asked(httpx2.Request("GET", url), "https://far.example/mcp")


async def test_agents_whose_token_is_no_longer_taken_renew_it_once(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        one, other = (agent(tmp_path, adding(), oauth(served)) for _ in range(2))
        await log_in(one)
        async with one, other:
            sessions = [(await play(each, "go"))[-1].session for each in (one, other)]  # type: ignore[union-attr]
            authority.expire_all()
            later = [await play(each, "go", at) for each, at in zip((one, other), sessions, strict=True)]
    assert [results(events) for events in later] == [["9"], ["9"]]
    assert (authority.refreshes, authority.reused) == (1, 0)


async def test_calls_with_an_account_run_at_the_same_time(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)
    async with serving(Authority(), json_response=True) as served:

        async def meet() -> str:
            await both.wait()
            return "met"

        served.app.add_tool(meet, name="meet", description="Waits for another call.")
        model = script(calling(call("far__meet", "1"), call("far__meet", "2")), "done")
        running = agent(tmp_path, model, oauth(served, timeout_seconds=60))
        await log_in(running)
        async with running:
            assert results(await play(running, "go")) == ["met", "met"]


async def test_a_token_endpoint_that_speaks_json_only_when_asked_is_understood(tmp_path: Path) -> None:
    async def like_github(scope: Any, receive: Any, send: Any) -> None:
        accepts = dict(scope["headers"]).get(b"accept", b"")
        if accepts == b"application/json":
            await served.pass_on(scope, receive, send)
        else:
            await answering(200, b"access_token=gho_1&scope=notes&token_type=bearer")(scope, receive, send)

    async with serving(Authority()) as served:
        served.instead["/token"] = like_github
        running = agent(tmp_path, adding(), oauth(served))
        assert await log_in(running) == 3
        expire(running)
        async with running:
            assert results(await play(running, "go")) == ["5"]


@pytest.mark.parametrize(
    ("status", "said", "is_refused"),
    [
        (200, b'{"error": "bad_refresh_token"}', True),
        (401, b'{"error": "invalid_client"}', True),
        (400, b"{}", True),
        (200, b"access_token=x", False),
        (403, b"<html>the proxy refuses", False),
        (404, b"", False),
        (400, b'{"error": "temporarily_unavailable"}', False),
        (500, b'{"error": "server_error"}', False),
        pytest.param(429, b"[" * 100_000, False, id="too deep to be read"),
    ],
)
async def test_what_says_that_a_right_has_ended_and_what_does_not(
    tmp_path: Path, status: int, said: bytes, is_refused: bool
) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        served.instead["/token"] = answering(status, said)
        async with running:
            told = notices(await play(running, "go"))
    assert any("zeus auth login far" in each for each in told) == is_refused
    assert any("could not be renewed" in each for each in told) != is_refused


async def test_what_a_server_names_is_told_no_longer_than_it_is_of_use(tmp_path: Path) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        served.instead["/token"] = answering(400, json.dumps({"error": "x" * 100_000}).encode())
        async with running:
            (told,) = notices(await play(running, "go"))
    assert "zeus auth login far" in told
    assert len(told) < 500


async def test_a_renewal_that_failed_for_now_is_tried_again(tmp_path: Path) -> None:
    authority = Authority()
    rounds = ((calling(call("far__add", str(n), left=n, right=1)), "done") for n in range(3))
    async with serving(authority) as served:
        running = agent(tmp_path, script(*(each for one in rounds for each in one)), oauth(served))
        await log_in(running)
        async with running:
            first = await play(running, "go")
            authority.expire_all()
            served.token_status = 500
            broken = await play(running, "go", first[-1].session)  # type: ignore[union-attr]
            served.token_status = None
            mended = await play(running, "go", first[-1].session)  # type: ignore[union-attr]
            assert (await running.connections())[0].state == "connected"
    assert not any("zeus auth login" in each for each in notices(broken))
    assert results(mended) == ["3"]


async def test_a_disk_that_is_full_costs_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh token is good for one use: it is not used when what comes for it cannot be kept."""

    def full(_file: Path, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_bytes", full)
            async with running:
                told = notices(await play(running, "go"))
        assert any("cannot be read or written: No space left on device" in each for each in told)
        assert authority.refreshes == 0
        async with agent(tmp_path, adding(), oauth(served)) as later:
            assert results(await play(later, "go")) == ["5"]


async def test_an_agent_that_is_closed_while_it_renews_keeps_what_comes(tmp_path: Path) -> None:
    authority = Authority()
    renewing, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        answer: list[Any] = []

        async def keep(event: Any) -> None:
            answer.append(event)

        await served.pass_on(scope, receive, keep)
        renewing.set()
        await go_on.wait()
        for event in answer:
            await send(event)

    async with serving(authority) as served:
        running = agent(tmp_path, script("done"), oauth(served, start_timeout_seconds=0))
        await log_in(running)
        expire(running)
        served.instead["/token"] = slow
        await play(running, "go")
        await renewing.wait()
        closing = asyncio.create_task(running.aclose())
        await asyncio.wait([closing], timeout=0.2)
        go_on.set()
        await closing
        async with agent(tmp_path, adding(), oauth(served)) as later:
            assert results(await play(later, "go")) == ["5"]
    assert (authority.refreshes, authority.reused) == (1, 0)


async def test_an_agent_that_is_closed_while_it_stores_an_account_stores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyring may ask its user meanwhile: other runs go on, so it is asked in a thread."""
    authority, loop = Authority(), asyncio.get_running_loop()
    storing, answered = asyncio.Event(), threading.Event()
    write, key, asked_in = AccountStore.write, AccountStore._key, []

    def asked(store: AccountStore) -> bytes:
        asked_in.append(threading.current_thread())
        return key(store)

    def slow(store: AccountStore, account: Any) -> None:
        loop.call_soon_threadsafe(storing.set)
        assert answered.wait(60)
        write(store, account)

    async with serving(authority) as served:
        running = agent(tmp_path, script("done"), oauth(served, start_timeout_seconds=0))
        await log_in(running)
        expire(running)
        monkeypatch.setattr(AccountStore, "_key", asked)
        monkeypatch.setattr(AccountStore, "write", slow)
        await play(running, "go")
        await storing.wait()
        closing = asyncio.create_task(running.aclose())
        done, _ = await asyncio.wait([closing], timeout=0.2)
        assert not done, "it lets go of the account's lock before the tokens are stored"
        answered.set()
        await closing
        async with agent(tmp_path, adding(), oauth(served)) as later:
            assert results(await play(later, "go")) == ["5"]
    assert (authority.refreshes, authority.reused) == (1, 0)
    assert len(asked_in) == 2, "before the renewal and after it"
    assert threading.main_thread() not in asked_in


async def test_a_right_that_does_not_reach_far_enough_is_named_and_not_renewed(tmp_path: Path) -> None:
    authority = Authority()
    challenge = 'Bearer error="insufficient_scope", scope="notes write"'
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        async with running:
            first = await play(running, "go")
            served.instead["/mcp"] = answering(403, b"", {"WWW-Authenticate": challenge})
            later = await play(running, "go", first[-1].session)  # type: ignore[union-attr]
            assert (await running.connections())[0].state == "connected"
    (told,) = results(later)
    assert "its account lacks the scope 'notes write'" in told
    assert "mcpServers.far.oauth.scopes" in told
    assert "zeus auth login far" in told
    assert authority.refreshes == 0


async def test_a_server_of_the_older_sse_is_authorised_and_used(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority, sse=True) as served:
        running = agent(tmp_path, adding(), oauth(served, type="sse"))
        assert await log_in(running) == 3
        expire(running)
        async with running:
            assert results(await play(running, "go")) == ["5"]
    assert authority.refreshes == 1


@pytest.mark.parametrize("sse", [False, True])
async def test_a_server_that_asks_nobody_has_no_account_to_authorise(tmp_path: Path, sse: bool) -> None:
    async with serving(sse=sse) as served:
        running = agent(tmp_path, adding(), oauth(served, **({"type": "sse"} if sse else {})))
        with pytest.raises(RunError, match="it requires no account") as refused:
            await log_in(running)
    assert "Remove auth from mcpServers.far" in str(refused.value)
    assert not [each.authorised for each in toolset_of(running).accounts() if each.authorised]


async def test_a_server_that_tells_everybody_its_tools_is_authorised_all_the_same(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as gate, serving() as served:
        named = {"resource": served.url, "authorization_servers": [gate.url.removesuffix("mcp")]}
        at = "/.well-known/oauth-protected-resource/mcp"
        served.instead[at] = answering(200, json.dumps(named).encode())
        running = agent(tmp_path, adding(), oauth(served))
        assert await log_in(running) == 3
        assert [each.authorised for each in toolset_of(running).accounts()] == [True]
        async with running:
            assert results(await play(running, "go")) == ["5"]
            assert served.headers["authorization"].removeprefix("Bearer ") in authority.access


async def test_a_port_that_is_taken_is_said_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with serving(Authority()) as served:
            server = oauth(served, oauth={"redirect_port": taken.getsockname()[1]})
            with pytest.raises(RunError, match=r"change mcpServers\.far\.oauth\.redirect_port"):
                await log_in(agent(tmp_path, adding(), server))


async def test_the_scopes_of_the_yaml_are_those_that_a_client_is_registered_for(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority, valid_scopes=("notes", "write")) as served:
        server = oauth(served, oauth={"scopes": ["notes", "write"]})
        assert await log_in(agent(tmp_path, adding(), server)) == 3
    assert [client.scope for client in authority.clients.values()] == ["notes write"]


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
async def test_a_client_of_ones_own_shows_its_secret_as_the_server_wants_it(tmp_path: Path, way: str) -> None:
    """The server knows the client for that way alone."""
    authority = Authority()
    port = unused_port()
    async with serving(authority) as served:
        base = served.url.removesuffix("/mcp")
        metadata = {
            "issuer": f"{base}/",
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "revocation_endpoint": f"{base}/revoke",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": [way],
        }
        served.instead["/.well-known/oauth-authorization-server"] = answering(
            200, json.dumps(metadata).encode()
        )
        authority.clients["ours"] = OAuthClientInformationFull(
            client_id="ours",
            client_secret="s3cret of ours",
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
            token_endpoint_auth_method=way,
            scope="notes",
        )
        client = {
            "client_id": "ours",
            "client_secret": "s3cret of ours",
            "issuer": f"{base}/",
            "redirect_port": port,
        }
        running = agent(tmp_path, adding(), oauth(served, oauth=client))
        assert await log_in(running) == 3
        expire(running)
        async with running:
            assert results(await play(running, "go")) == ["5"]
        assert await toolset_of(running).log_out("far")
    assert authority.refreshes == 1
    assert not authority.refresh


async def test_a_token_answer_that_is_none_is_told_without_what_it_holds(tmp_path: Path) -> None:
    async with serving(Authority()) as served:
        served.instead["/token"] = answering(200, b'{"refresh_token": "very-secret", "token_type": "Bearer"}')
        with pytest.raises(RunError, match="access_token: Field required") as refused:
            await log_in(agent(tmp_path, adding(), oauth(served)))
    assert "very-secret" not in str(refused.value)


async def test_a_logout_waits_for_a_renewal_and_undoes_it(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        store = store_of(running)
        async with store.locked():
            leaving = asyncio.create_task(toolset_of(running).log_out("far"))
            done, _ = await asyncio.wait([leaving], timeout=0.2)
            assert not done
            store.write({**(store.read() or {}), "expires_at": 1.0})
        assert await leaving
    assert store.read() is None


@pytest.mark.parametrize("way", ["no address", "an error", "another key"])
async def test_a_logout_that_its_server_does_not_learn_of_says_so(tmp_path: Path, way: str) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        store = store_of(running)
        kept = dict(store.read() or {})
        if way == "no address":
            del kept["metadata"]["revocation_endpoint"]
            store.write(kept)
        elif way == "an error":
            served.instead["/revoke"] = answering(503, b"")
        else:
            (tmp_path / "home/.config/zeus/accounts/key").unlink()
        with pytest.raises(RunError, match="is deleted here, but was not revoked at its server") as told:
            await toolset_of(running).log_out("far")
    assert "the provider's website" in str(told.value)
    assert store.read() is None


async def test_a_right_for_longer_than_calendars_go_is_shown_and_taken_back(tmp_path: Path) -> None:
    async with serving(Authority(lifetime_seconds=10**13)) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        assert [each.authorised for each in toolset_of(running).accounts()] == [True]
        assert await toolset_of(running).log_out("far")
