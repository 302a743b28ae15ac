"""Remote MCP servers, and their accounts: real servers of the SDK on loopback ports."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull
from zeus_plugins.tools.mcp.oauth.store import account_store

from tests.support.agents import call, calling, play, script, write_agent
from tests.support.hand_time import moved_by_hand
from tests.support.mcp_http import Authority, Served, answering, serving
from tests.support.ports import unused_port
from zeus_runtime import Agent, RunError
from zeus_runtime.events import Event, Notice
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.tool import LoginPage


def agent(folder: Path, model: Any, server: Mapping[str, Any], yaml: str = "") -> Agent:
    tools = "[{mcp: {restart_seconds: 0.01, max_restarts: 3}}, probe]"
    servers = {"far": {"start_timeout_seconds": 60, **server}}
    config = write_agent(folder, f"mcpServers: {json.dumps(servers)}\n{yaml}", tools=tools)
    environ = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    return Agent.from_config(config, directory=folder, model=model, environ=environ)


def oauth(served: Served, **keys: Any) -> dict[str, Any]:
    return {"url": served.url, "auth": "oauth", "start_timeout_seconds": 60, **keys}


def results(events: list[Event]) -> list[str]:
    return [event.content for event in events if event.type == "tool_call_result"]


def adding() -> Any:
    return script(
        calling(call("far__add", "1", left=2, right=3)),
        "done",
        calling(call("far__add", "2", left=4, right=5)),
        "done",
    )


async def running_call(running: Agent, name: str) -> None:
    """A call of a tool beside any run."""
    tool = next(tool for tool in await running.tools() if tool.name == name)
    await tool.function({}, SimpleNamespace(unanswered=[], secrets=Redactor()))


async def log_in(running: Agent, seen: list[LoginPage] | None = None) -> int:
    """What `zeus auth login` does, by a person whose browser follows every redirect.

    Args:
        seen: gets the page that the person sees.
    """
    (planned,) = running.plan.opens
    opened: list[asyncio.Task[Any]] = []

    async def follow(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
            await browser.get(url)

    def show(page: LoginPage) -> None:
        if seen is not None:
            seen.append(page)
        opened.append(asyncio.create_task(follow(page.url)))

    tools: int = await planned.create(running.plan.context).log_in("far", show)
    await asyncio.gather(*opened)
    return tools


def expire(running: Agent) -> None:
    """Let time pass until the kept access token has expired."""
    (planned,) = running.plan.opens
    (server,) = planned.create(running.plan.context).servers
    store = account_store(server, running.plan.context.process_environ)
    store.write({**(store.read() or {}), "expires_at": 1.0})


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)


async def test_a_remote_servers_tools_are_called_with_the_headers_of_the_yaml(tmp_path: Path) -> None:
    async with serving() as served:
        server = {"type": "http", "url": served.url, "headers": {"X-Team": "blue"}}
        async with agent(tmp_path, adding(), server) as running:
            events = await play(running, "go")
            assert served.headers["x-team"] == "blue"
    assert results(events) == ["5"]


@pytest.mark.parametrize("sse", [False, True])
async def test_a_key_in_the_address_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, sse: bool
) -> None:
    monkeypatch.setattr(logging.getLogger("httpx2"), "filters", [])  # those of an earlier test
    key = "Dv7hT2pLq9VwZ3nB8mCs"
    async with serving(sse=sse) as served:
        server = {"type": "sse" if sse else "http", "url": f"{served.url}?exaApiKey={key}"}
        with caplog.at_level(logging.DEBUG):
            async with agent(tmp_path, adding(), server) as running:
                events = await play(running, "go")
    assert results(events) == ["5"]
    assert any(each.name == "httpx2" for each in caplog.records)
    assert key not in caplog.text


async def test_a_server_that_speaks_the_older_sse_is_called_with_the_headers_of_the_yaml(
    tmp_path: Path,
) -> None:
    async with serving(sse=True) as served:
        server = {"type": "sse", "url": served.url, "headers": {"X-Team": "blue"}}
        async with agent(tmp_path, adding(), server) as running:
            events = await play(running, "go")
            assert served.headers["x-team"] == "blue"
            later = await play(running, "go", events[-1].session)  # type: ignore[union-attr]
    assert results(events) == ["5"]
    assert results(later) == ["9"]


async def test_a_server_of_sse_that_is_silent_longer_than_a_call_may_take_is_still_there(
    tmp_path: Path,
) -> None:
    async with serving(sse=True) as served:
        server = {"type": "sse", "url": served.url, "timeout_seconds": 5}
        async with agent(tmp_path, adding(), server) as running:
            await running.connections()
            with moved_by_hand() as time:
                events = await play(running, "go")
                await time.passes(60)
                later = await play(running, "go", events[-1].session)  # type: ignore[union-attr]
    assert results(events) == ["5"]
    assert results(later) == ["9"]
    assert not [event for event in later if isinstance(event, Notice) and event.code != "usage_unknown"]


async def test_a_stream_of_sse_that_died_without_a_word_is_begun_anew_after_a_call_that_did_not_end(
    tmp_path: Path,
) -> None:
    model = script(
        *(each for n in range(8) for each in (calling(call("far__add", str(n), left=n, right=1)), "done"))
    )
    async with serving(sse=True) as served, silenced(served.url) as between:
        server = {"type": "sse", "url": between.url, "timeout_seconds": 60}
        async with agent(tmp_path, model, server) as running:
            events = await play(running, "go")
            assert results(events) == ["1"]
            between.silence()
            with moved_by_hand() as time:
                waiting = asyncio.create_task(play(running, "go", events[-1].session))  # type: ignore[union-attr]
                passing = asyncio.create_task(time.goes_on())
                await between.begun_anew.wait()
                passing.cancel()
            events = await waiting
            assert "did not finish" in results(events)[0]
            found = ""
            for _ in range(6):
                events = await play(running, "go", events[-1].session)  # type: ignore[union-attr]
                found = results(events)[0]
                if found.isdigit():
                    break
                assert "not connected" in found
    assert found.isdigit()


class Between:
    """What stands between a client and a server, as a load balancer does.

    Attributes:
        url: where the client finds the server's stream of events.
        begun_anew: set when it asks for another stream after the silence began.
    """

    def __init__(self, host: str, port: int) -> None:
        self.url = ""
        self.begun_anew = asyncio.Event()
        self._server = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self._dead: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()

    def silence(self) -> None:
        """Drop from now on what comes on all connections there are, without closing them."""
        self._dead.update(self._open)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client's connection."""
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        self._open.update((writer, far_writer))
        for passed in (self._pass_on(reader, far_writer, self._note), self._pass_on(far_reader, writer)):
            self._passing.add(asyncio.create_task(passed))

    def _note(self, sent: bytes) -> None:
        if self._dead and sent.startswith(b"GET "):
            self.begun_anew.set()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        note: Callable[[bytes], object] = len,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                note(data)
                if writer not in self._dead:
                    writer.write(data)
                    await writer.drain()

    async def aclose(self) -> None:
        """End everything."""
        for task in self._passing:
            task.cancel()
        for writer in self._open:
            writer.close()
        await asyncio.gather(*self._passing, return_exceptions=True)


@asynccontextmanager
async def silenced(url: str) -> AsyncIterator[Between]:
    """What stands before the server of SSE at this address."""
    host, port = url.split("/")[2].split(":")
    between = Between(host, int(port))
    listening = await asyncio.start_server(between.take, "127.0.0.1", 0)
    between.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/sse"
    try:
        yield between
    finally:
        listening.close()
        await between.aclose()


WAYS: dict[str, dict[str, bool]] = {
    "events": {},
    "JSON": {"json_response": True},
    "older SSE": {"sse": True},
}


async def answers_to_a_note(folder: Path, way: str, sent: bytes) -> tuple[str, str]:
    """What the model is told of an answer that has these bytes in its text, and of the next call."""
    word = "W" * len(sent)
    model = script(
        calling(call("far__note", "1", text=word)), calling(call("far__add", "2", left=2, right=3)), "done"
    )
    async with serving(**WAYS[way]) as served:
        served.said_otherwise[word.encode()] = sent
        server = {"url": served.url, **({"type": "sse"} if "SSE" in way else {})}
        async with agent(folder, model, server) as running:
            first, second = results(await play(running, "go"))
    return first, second


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (rb"half \ud83d an emoji", "noted half ? an emoji"),
        (rb"a whole \ud83d\ude00", "noted a whole \U0001f600"),
        (rb"escaped \\ud83d", r"noted escaped \ud83d"),
    ],
)
async def test_half_an_emoji_in_an_answer_becomes_a_question_mark(
    tmp_path: Path, way: str, sent: bytes, said: str
) -> None:
    assert await answers_to_a_note(tmp_path, way, sent) == (said, "5")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sent", [rb"\x", b'","'])
async def test_an_answer_that_is_no_json_is_an_error_of_its_call_at_once(
    tmp_path: Path, way: str, sent: bytes
) -> None:
    first, second = await answers_to_a_note(tmp_path, way, sent)
    assert "its answer cannot be read" in first
    assert "pydantic" not in first
    assert second == "5", "the connection is as good as before"


@pytest.mark.parametrize("way", ["events", "JSON"])
async def test_an_answer_of_some_megabytes_is_read_whole(tmp_path: Path, way: str) -> None:
    text = "0123456789" * 300_000
    async with serving(**WAYS[way]) as served:
        model = script(calling(call("far__note", "1", text=text)), "done")
        async with agent(tmp_path, model, {"url": served.url}) as running:
            assert results(await play(running, "go")) == [f"noted {text}"]


@pytest.mark.parametrize("way", ["events", "JSON"])
async def test_a_server_that_floods_is_left_and_connected_to_again(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("json_repair", "transports"):
        monkeypatch.setattr(f"zeus_plugins.tools.mcp.{module}.MAX_MESSAGE_BYTES", 1_000_000)
    async with serving(**WAYS[way]) as served:
        model = script(
            calling(call("far__note", "1", text="0" * 1_000_000)),
            calling(call("far__add", "2", left=2, right=3)),
            "done",
        )
        async with agent(tmp_path, model, {"url": served.url}) as running:
            flooded, added = results(await play(running, "go"))
    assert "Whether the call took effect is unknown" in flooded
    assert added == "5"


async def test_a_server_that_was_started_anew_is_connected_to_again(tmp_path: Path) -> None:
    port = unused_port()
    async with serving(port=port) as served:
        running = agent(tmp_path, adding(), {"url": served.url})
        events = await play(running, "go")
    async with serving(port=port):
        session = events[-1].session  # type: ignore[union-attr]
        later = await play(running, "go", session)
        await running.aclose()
    assert results(events) == ["5"]
    assert results(later) == ["9"]


async def test_an_account_is_authorised_used_and_kept(tmp_path: Path) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        assert await log_in(running) == 3
        async with running:
            events = await play(running, "go")
            assert next(tool.category for tool in await running.tools()) == "oauth"
        async with agent(tmp_path, adding(), oauth(served)) as another:
            assert results(await play(another, "go")) == ["5"]
    assert results(events) == ["5"]
    kept = list((tmp_path / "home/.config/zeus/accounts").iterdir())
    for file in kept:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert b"access_token" not in file.read_bytes()


async def test_without_an_account_the_run_goes_on_and_says_how_to_get_one(tmp_path: Path) -> None:
    async with serving(Authority()) as served, agent(tmp_path, script("done"), oauth(served)) as running:
        events = await play(running, "go")
        (connection,) = await running.connections()
    assert connection.state == "unauthorized"
    assert [each.message for each in events if isinstance(each, Notice) and each.code != "usage_unknown"] == [
        "The account of the MCP server 'far' is not authorised. Authorise it: zeus auth login far"
    ]
    assert events[-1].type == "complete"


@pytest.mark.parametrize(
    ("way", "form_of"),
    [
        (
            "client_secret_post",
            lambda text: json.dumps({"error": "invalid_client", "error_description": text}),
        ),
        ("client_secret_post", lambda text: json.dumps([f"invalid_client: {text}"])),
        ("client_secret_basic", "invalid_client: {}".format),
    ],
)
async def test_what_a_provider_repeats_of_a_login_is_masked(
    tmp_path: Path, way: str, form_of: Callable[[str], str]
) -> None:
    """A client that registers itself gets its secret before anything is stored, and the login may fail then."""
    authority, secret, rights = Authority(), "dyn-S3cret-9fQ2kLm8Zx71", "reg-T0ken-77aaQQwwEErr"
    repeated: list[str] = []

    async def registering(_scope: Any, receive: Any, send: Any) -> None:
        given = json.loads((await receive())["body"])
        given |= {"client_id": "client-1", "client_secret": secret, "token_endpoint_auth_method": way}
        await authority.register_client(OAuthClientInformationFull.model_validate(given))
        given["registration_access_token"] = rights
        await answering(201, json.dumps(given).encode())(_scope, receive, send)

    async def repeating(scope: Any, receive: Any, send: Any) -> None:
        form = {name: each for name, (each,) in parse_qs((await receive())["body"].decode()).items()}
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        held = form["client_secret"] if way.endswith("post") else headers["authorization"].split()[1]
        repeated[:] = [held, form["code"], form["code_verifier"], rights]
        await answering(400, form_of(f"I got {' '.join(repeated)}").encode())(scope, receive, send)

    async with serving(authority) as served:
        served.instead |= {"/register": registering, "/token": repeating}
        running = agent(tmp_path, adding(), oauth(served))
        with pytest.raises(RunError, match="was not authorised") as refused:
            await log_in(running)
    told = str(refused.value)
    assert len(repeated) == 4
    assert told.count("<secret:") == 4, "the error does quote the answer"
    assert not [each for each in repeated if each in told], told
    assert "invalid_client" in told


async def test_a_login_meanwhile_is_used_by_the_next_run(tmp_path: Path) -> None:
    async with serving(Authority()) as served, agent(tmp_path, adding(), oauth(served)) as running:
        first = await play(running, "go")
        await log_in(running)
        second = await play(running, "go", first[-1].session)  # type: ignore[union-attr]
    assert "far__add is not there now." in results(first)[0]
    assert "Authorise it: zeus auth login far. Nothing was done." in results(first)[0]
    assert results(second) == ["9"]


async def test_a_server_that_nobody_serves_is_told(tmp_path: Path) -> None:
    server = {"url": "http://127.0.0.1:1/mcp"}
    async with agent(tmp_path, script("done"), server) as running:
        events = await play(running, "go")
    told = [each.message for each in events if isinstance(each, Notice)]
    assert "'far' is not available: All connection attempts failed. It is restarted" in told[0]
    assert events[-1].type == "complete"


async def test_a_server_of_the_newest_protocol_tells_of_new_tools(tmp_path: Path) -> None:
    async with serving() as served, agent(tmp_path, script("done", "again"), {"url": served.url}) as running:
        first = await play(running, "go")
        await running_call(running, "far__more")
        while "far__late" not in {tool.name for tool in await running.tools()}:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert first[-1].type == "complete"


async def test_a_revoked_right_ends_the_category_and_not_the_run(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        async with running:
            first = await play(running, "go")
            authority.revoke_all()
            second = await play(running, "go", first[-1].session)  # type: ignore[union-attr]
            assert (await running.connections())[0].state == "unauthorized"
            assert not [tool for tool in await running.tools() if tool.category == "oauth"]
    (told,) = results(second)
    assert "was revoked or has expired. Authorise it: zeus auth login far" in told
    assert second[-1].type == "complete"


async def test_an_expired_token_is_renewed_before_it_is_used(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        async with running:
            assert results(await play(running, "go")) == ["5"]
    assert authority.refreshes == 1


async def test_a_token_that_the_server_no_longer_takes_is_renewed(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        authority.expire_all()
        async with running:
            assert results(await play(running, "go")) == ["5"]
    assert authority.refreshes == 1


async def test_agents_that_renew_at_once_use_each_refresh_token_once(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        many = [agent(tmp_path, adding(), oauth(served)) for _ in range(4)]
        ended = await asyncio.gather(*(play(each, "go") for each in many))
        for each in many:
            await each.aclose()
    assert [results(events) for events in ended] == [["5"]] * 4
    assert (authority.refreshes, authority.reused) == (1, 0)


async def test_a_key_that_others_can_read_ends_the_category_and_not_the_run(tmp_path: Path) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        (tmp_path / "home/.config/zeus/accounts/key").chmod(0o644)
        async with running:
            events = await play(running, "go")
            assert (await running.connections())[0].state == "unauthorized"
    (told,) = [each.message for each in events if isinstance(each, Notice) and each.code != "usage_unknown"]
    assert "can be read by other users" in told
    assert "chmod 600" in told


@pytest.mark.parametrize(("status", "state"), [(429, "connecting"), (400, "unauthorized")])
async def test_a_renewal_that_is_refused_for_now_is_no_revocation(
    tmp_path: Path, status: int, state: str
) -> None:
    async with serving(Authority()) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        expire(running)
        served.token_status = status
        async with running:
            events = await play(running, "go")
    assert any("zeus auth login" in str(event) for event in events) == (state == "unauthorized")


async def test_a_person_who_refuses_ends_the_login_with_the_servers_words(tmp_path: Path) -> None:
    async with serving(Authority(refuse=True)) as served:
        with pytest.raises(RunError, match="the server refused: access_denied"):
            await log_in(agent(tmp_path, adding(), oauth(served)))


async def test_logging_out_takes_the_right_back_and_forgets_it(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority) as served:
        running = agent(tmp_path, adding(), oauth(served))
        await log_in(running)
        toolset = running.plan.opens[0].create(running.plan.context)
        assert [each.authorised for each in toolset.accounts()] == [True]
        assert await toolset.log_out("far")
        assert [each.authorised for each in toolset.accounts()] == [False]
        assert not await toolset.log_out("far")
    assert not authority.refresh


async def test_a_header_of_ones_own_goes_before_oauth(tmp_path: Path) -> None:
    async with serving() as served:
        server = oauth(served, headers={"Authorization": "Bearer mine"})
        async with agent(tmp_path, adding(), server) as running:
            assert results(await play(running, "go")) == ["5"]
            assert served.headers["authorization"] == "Bearer mine"
