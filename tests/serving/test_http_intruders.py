"""What an outsider tries: numbers and names of others, forged places, other sites, hosts and paths."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.serving.test_http_keys import URL, bearer, made
from tests.serving.test_http_users import OF_ONE, routes_of
from tests.support.agents import call, calling, script, write_agent
from tests.support.databases import SQLITE_URL, execute, storage
from tests.support.serving import begun, service_of, serving, told, until
from zeus_runtime.config.ref import Ref
from zeus_runtime.registry import discover
from zeus_runtime.serving.http.protocols import protocols_of
from zeus_runtime.serving.http.settings import Cors, Settings
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready

SCOPES = ("run", "approve", "read", "admin")
MARK = "needle-of-ann"
HUGE = "9" * 5000


class Scene(NamedTuple):
    """A service with two agents, on which ann has a turn of `test` that waits.

    Args:
        client: with ann's key.
        bob: the key of another user.
        scoped: a key of ann's that may use the agent `other` alone.
    """

    client: httpx.AsyncClient
    bob: str
    scoped: str
    session: str
    run: str
    approval: str
    folder: Path


@asynccontextmanager
async def scene(
    folder: Path, *, prefix: str = "", settings: Settings | None = None, url: str | None = None
) -> AsyncIterator[Scene]:
    write_agent(folder, (storage(url) if url else "") + "middlewares: [approve]\nmemory: {}\n")
    text = (folder / "zeus.yaml").read_text()
    (folder / "other.yaml").write_text(text.replace("name: test", "name: other"))
    database = Database(URL, directory=folder)
    await ready(database)
    model = script(calling(call("record", "a", text=MARK)), *["Done."] * 9)
    service = replace(
        service_of(folder, model, ("zeus.yaml", "other.yaml")),
        settings=settings or Settings(),
        database=database,
    )
    protocols = protocols_of(discover(environ={}), [Ref("openai"), Ref("mcp")], service)
    async with serving(service, protocols=protocols, prefix=prefix) as client:
        ann = await made(database, "ann", scopes=SCOPES)
        bob = await made(database, "bob", scopes=SCOPES)
        scoped = await made(database, "scoped", user="ann", agents=("other",), scopes=SCOPES)
        client.headers.update(bearer(ann))
        session = (await client.post("/v1/sessions", json={"agent": "test"})).json()["session"]
        _, run = await begun(client, f"Keep {MARK}", session)
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        yield Scene(client, bob, scoped, session, run, pending["id"], folder)


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as found:
        yield found


@pytest.fixture
async def stored(tmp_path: Path, database_url: str) -> AsyncIterator[Scene]:
    """The scene on each database."""
    if database_url != SQLITE_URL:
        execute(database_url, "CREATE EXTENSION vector")
    async with scene(tmp_path, url=database_url) as found:
        yield found


async def raw(client: httpx.AsyncClient, *lines: str, body: bytes = b"") -> str:
    """The answer to a request that no client library would send, until the connection ends."""
    assert client.base_url.port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    answer = bytearray()

    async def read() -> None:
        with suppress(ConnectionError):  # a service that refuses a body does not read all of it
            while piece := await reader.read(65_536):
                answer.extend(piece)

    reads = asyncio.create_task(read())
    with suppress(ConnectionError):
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await writer.drain()
    async with asyncio.timeout(10):
        await reads
    writer.close()
    return answer.decode("utf-8", "replace")


async def test_a_key_of_one_agent_reaches_no_session_of_another_agent_of_the_same_user(at: Scene) -> None:
    ids = {"session": at.session, "run": at.run, "approval": at.approval}
    numbers = {"number": 1}
    tried = 0
    for (method, path), request in OF_ONE.items():
        if not any(f"{{{name}}}" in path for name in ids):
            continue
        tried += 1
        address = path.format(**ids, **numbers)
        answer = await at.client.request(method, address, **request, headers=bearer(at.scoped))
        assert answer.status_code == 404, (method, path, answer.text)
        assert "{session}" in path or at.session not in answer.text, (method, path, answer.text)
    assert tried > 20
    named = {"model": "other", "input": "x", "conversation": at.session}
    for body in (named, {**named, "conversation": None, "previous_response_id": f"resp_{at.run}_0"}):
        answer = await at.client.post("/v1/responses", json=body, headers=bearer(at.scoped))
        assert answer.status_code == 404, answer.text
    for path in (f"/v1/responses/resp_{at.run}_0", f"/v1/conversations/{at.session}"):
        assert (await at.client.get(path, headers=bearer(at.scoped))).status_code == 404, path
        assert (await at.client.get(path, headers=bearer(at.bob))).status_code == 404, path
    job = await at.client.post("/v1/backtests", json={"sessions": [at.session]}, headers=bearer(at.scoped))
    assert job.status_code == 404
    assert (await at.client.get("/v1/approvals", headers=bearer(at.scoped))).json() == []
    assert (await at.client.get(f"/v1/runs/{at.run}")).json()["state"] == "waiting"


async def test_nobody_learns_of_another_that_their_call_was_decided(at: Scene) -> None:
    path = f"/v1/approvals/{at.approval}"
    assert (await at.client.post(path, json={"decision": "reject"})).status_code == 200
    assert "was rejected already" in (await at.client.get(path)).text
    for token in (at.scoped, at.bob):
        seen = await at.client.get(path, headers=bearer(token))
        unknown = await at.client.get("/v1/approvals/0", headers=bearer(token))
        assert seen.status_code == unknown.status_code == 404
        assert seen.json()["detail"] == unknown.json()["detail"].replace("'0'", repr(at.approval))


async def test_a_waiting_call_belongs_to_the_agent_whose_session_it_is(at: Scene) -> None:
    session = (await at.client.post("/v1/sessions", json={"agent": "other"})).json()["session"]
    _, run = await begun(at.client, "go", session)
    await until(at.client, run, "waiting")
    waiting = {each["session"]: each for each in (await at.client.get("/v1/approvals")).json()}
    assert {name: each["agent"] for name, each in waiting.items()} == {at.session: "test", session: "other"}
    (own,) = (await at.client.get("/v1/approvals", headers=bearer(at.scoped))).json()
    assert own["session"] == session
    decided = await at.client.post(
        f"/v1/approvals/{own['id']}", json={"decision": "approve"}, headers=bearer(at.scoped)
    )
    assert decided.status_code == 200, decided.text
    assert (await until(at.client, run, "complete"))["state"] == "complete"
    assert (await at.client.get(f"/v1/runs/{at.run}")).json()["state"] == "waiting"


OF_PROTOCOLS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/v1/models"): {},
    ("GET", "/v1/models/{model:path}"): {},
    ("POST", "/v1/chat/completions"): {"model": "test", "messages": [{"role": "user", "content": "hi"}]},
    ("POST", "/v1/responses"): {"model": "test", "input": "hi", "conversation": "{session}"},
    ("GET", "/v1/responses/{name}"): {},
    ("POST", "/v1/responses/{name}/cancel"): {},
    ("POST", "/v1/conversations"): {"metadata": {"model": "test"}},
    ("GET", "/v1/conversations/{name}"): {},
    ("DELETE", "/v1/conversations/{name}"): {},
    ("GET", "/mcp"): {},
    ("POST", "/mcp"): {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "test", "arguments": {"prompt": "hi", "session": "{session}"}},
    },
    ("DELETE", "/mcp"): {},
}
"""Every route of the bundled protocols, and a request that names another user's things where it can."""


async def test_no_route_of_a_protocol_tells_a_user_of_another(at: Scene) -> None:
    service = service_of(at.folder, script("Done."), ("zeus.yaml",))
    served = protocols_of(discover(environ={}), [Ref("openai"), Ref("mcp")], service)
    routes = {found for each in served for found in routes_of(list(each.routes()))}
    await service.aclose()
    assert routes == OF_PROTOCOLS.keys(), "a new route: say here how an intruder asks it"
    before = (await at.client.get(f"/v1/sessions/{at.session}/runs")).json()
    accept = {"Accept": "application/json", "Mcp-Session-Id": "0" * 32}
    for (method, path), body in OF_PROTOCOLS.items():
        name = f"resp_{at.run}_0" if "responses" in path else at.session
        where = path.replace("{model:path}", "test").replace("{name}", name)
        asked = json.dumps(body).replace("{session}", at.session)
        heads = {**bearer(at.bob), **accept, "Content-Type": "application/json"}
        answer = await at.client.request(method, where, content=asked if body else None, headers=heads)
        for mark in (at.session, at.run, at.approval):
            assert mark not in answer.text or mark in where + asked, (method, path, answer.text)
        if "{name}" in path or "{session}" in json.dumps(body):
            assert answer.status_code in (400, 404), (method, path, answer.status_code, answer.text)
    assert (await at.client.get(f"/v1/sessions/{at.session}/runs")).json() == before


async def test_a_key_of_one_agent_sees_no_backtest_of_another_agent(at: Scene) -> None:
    job = (await at.client.post("/v1/backtests", json={"sessions": [at.session]})).json()["id"]
    for method, path in (("GET", ""), ("POST", "/cancel")):
        answer = await at.client.request(method, f"/v1/backtests/{job}{path}", headers=bearer(at.scoped))
        assert answer.status_code == 404, answer.text
    assert (await at.client.get("/v1/backtests", headers=bearer(at.scoped))).json() == []
    assert len((await at.client.get("/v1/backtests")).json()) == 1


async def test_an_idempotency_key_of_another_user_names_nothing_of_theirs(at: Scene) -> None:
    key = {"Idempotency-Key": "the-same"}
    body = {"agent": "test"}
    anns = (await at.client.post("/v1/sessions", json=body, headers=key)).json()["session"]
    bobs = (await at.client.post("/v1/sessions", json=body, headers={**key, **bearer(at.bob)})).json()
    assert bobs["session"] != anns
    fork = await at.client.post(
        f"/v1/sessions/{at.session}/fork", json={"step": 1}, headers={**key, **bearer(at.bob)}
    )
    assert fork.status_code == 404
    turn = await at.client.post(
        f"/v1/sessions/{anns}/runs", json={"prompt": "x"}, headers={**key, **bearer(at.bob)}
    )
    assert turn.status_code == 404


async def test_an_etag_tells_nothing_of_what_is_anothers(at: Scene) -> None:
    kept = await at.client.post("/v1/memories?agent=test", json={"content": f"Ann keeps {MARK}."})
    assert kept.status_code in (200, 201), kept.text
    memory = kept.json()["memory"]["id"]
    for tag in ("*", '"x"'):
        for path in (f"/v1/memories/{memory}?agent=test", f"/v1/sessions/{at.session}"):
            read = await at.client.get(path, headers={"If-None-Match": tag, **bearer(at.bob)})
            assert (read.status_code, "etag" in read.headers) == (404, False), read.text
        edit = await at.client.patch(
            f"/v1/memories/{memory}?agent=test",
            json={"content": "The intruder."},
            headers={"If-Match": tag, **bearer(at.bob)},
        )
        assert edit.status_code == 404, edit.text


LAST = ("99999999999999999999", HUGE, "-1", "\u0663", "1.5", "1e3", "x")


async def test_a_number_of_another_stream_or_of_none_fails_no_request(stored: Scene) -> None:
    path = f"/v1/runs/{stored.run}/events"
    await stored.client.post(f"/v1/runs/{stored.run}/cancel")
    mine = await told(stored.client, path)
    for last in LAST:
        header = {"Last-Event-ID": last.encode()}
        async with stored.client.stream("GET", path, headers=header) as answer:
            assert answer.status_code in (200, 204, 422), await answer.aread()
            found = [json.loads(line[6:]) async for line in answer.aiter_lines() if line.startswith("data: ")]
        assert len(found) in (0, len(mine))
        query = await stored.client.get(path, params={"after": last})
        assert query.status_code in (200, 204, 422), query.text
        for other in (
            f"/v1/responses/resp_{stored.run}_{last}",
            f"/v1/responses/resp_{stored.run}_0?stream=true&starting_after={last}",
        ):
            answer = await stored.client.get(other)
            assert answer.status_code in (200, 400, 404, 422), (
                other[:60],
                answer.status_code,
                answer.text[:200],
            )


PLACES: tuple[Any, ...] = (
    [0, "a"],
    [-(10**30), "x"],
    [10**30, "x"],
    [-(2**63), "x"],
    [2**63 - 1, "x"],
    [True, "x"],
    [0, "\ud800"],
    [0],
    {"a": 1},
    [0, {"$gt": ""}],
)


async def test_a_forged_cursor_gives_no_items_of_others_and_no_failure(stored: Scene) -> None:
    for place in PLACES:
        cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
        for path in ("/v1/sessions", "/v1/approvals", "/v1/memories?agent=test"):
            mark = "&" if "?" in path else "?"
            answer = await stored.client.get(
                f"{path}{mark}limit=5&cursor={cursor}", headers=bearer(stored.bob)
            )
            assert answer.status_code in (200, 422), (path, answer.text)
            assert answer.status_code == 422 or answer.json() == []


async def test_numbers_beyond_every_database_are_refused(stored: Scene) -> None:
    huge = 10**30
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"/v1/sessions/{stored.session}/rollback", {"json": {"to": huge}}),
        ("POST", f"/v1/sessions/{stored.session}/fork", {"json": {"step": huge}}),
        ("GET", f"/v1/sessions/{stored.session}/context", {"params": {"step": huge}}),
        ("GET", f"/v1/sessions/{stored.session}/context/diff", {"params": {"a": huge, "b": huge}}),
        ("GET", f"/v1/sessions/{stored.session}/context/why", {"params": {"message": huge}}),
        ("GET", f"/v1/sessions/{stored.session}/messages", {"params": {"limit": huge}}),
        ("GET", f"/v1/sessions/{stored.session}/events", {"params": {"after": huge}}),
        ("GET", "/v1/sessions/search", {"params": {"query": "x", "k": huge}}),
    ]
    for method, path, request in asked:
        answer = await stored.client.request(method, path, **request)
        assert 400 <= answer.status_code < 500, (path, answer.status_code, answer.text[:300])


async def test_a_cookie_serves_no_other_site(at: Scene) -> None:
    local = at.client.headers["authorization"].removeprefix("Bearer ")
    port = at.client.base_url.port
    at.client.headers.pop("authorization")
    cookie = {"Cookie": f"zeus_token_{port}={local}"}
    own = await at.client.get("/v1/sessions", headers=cookie)
    assert own.status_code == 200
    for head in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": f"http://127.0.0.1:{(port or 0) + 1}"},
    ):
        answer = await at.client.get("/v1/sessions", headers={**cookie, **head})
        assert answer.status_code == 403, (head, answer.text)
    form = await at.client.post(f"/v1/approvals/{at.approval}", json={"decision": "approve"}, headers=cookie)
    assert (form.status_code, form.json()["code"]) == (403, "forbidden")
    # A link of another site would log its reader in as somebody else, who then reads the prompts.
    for head in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        answer = await at.client.get("/", params={"token": local}, headers=head)
        assert "set-cookie" not in answer.headers, (head, answer.status_code)
    assert "set-cookie" in (await at.client.get("/", params={"token": local})).headers


async def test_a_preflight_allows_named_sites_alone(tmp_path: Path) -> None:
    async with scene(tmp_path, settings=Settings(cors=Cors(("https://app.example.org",)))) as at:
        for origin in ("https://app.example.org.evil.example", "https://APP.example.org", "null", "file://"):
            answer = await at.client.options(
                "/v1/sessions", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
            )
            assert "access-control-allow-origin" not in answer.headers, origin
            plain = await at.client.get("/v1/sessions", headers={"Origin": origin})
            assert "access-control-allow-origin" not in plain.headers, origin


async def test_no_path_leads_out_of_the_artifacts_and_files_of_a_user(at: Scene) -> None:
    (at.folder.parent / "outside.txt").write_text("outside")
    (at.folder / "way").symlink_to(at.folder.parent / "outside.txt")
    for path in (
        "/../outside.txt", "../outside.txt", "/etc/passwd", "//etc/passwd", "/way", "/.zeus/serve.db", "/zeus.yaml",
        "/./.zeus/../.zeus/zeus.db", "/%2e%2e/outside.txt", "\\..\\outside.txt", "/a\x00b", "",
    ):  # fmt: skip
        answer = await at.client.get(f"/v1/sessions/{at.session}/artifacts/content", params={"path": path})
        assert answer.status_code in (400, 403, 404, 422), (path, answer.status_code)
    for name in ("..%2f..%2fzeus.yaml", "%2e%2e", "A" * 64, "0" * 63, "0" * 65, "..%5czeus.yaml"):
        for method in ("GET", "PUT", "DELETE"):
            answer = await at.client.request(
                method, f"/v1/files/{name}", content=b"x" if method == "PUT" else b""
            )
            assert answer.status_code in (404, 405, 422), (method, name, answer.status_code)


async def test_a_host_that_only_resembles_an_own_one_is_refused(at: Scene) -> None:
    token = f"Authorization: {at.client.headers['authorization']}"
    for host in ("localhost.evil.example", "evil.example:80", "localhost@evil.example", "127.0.0.1.evil.example", "",
                 "localhost:80:80", "[::1].evil.example"):  # fmt: skip
        answer = await raw(
            at.client, "GET /v1/sessions HTTP/1.1", f"Host: {host}", token, "Connection: close"
        )
        assert answer.split(" ")[1] in ("400", "421"), (host, answer[:200])
    twice = await raw(
        at.client,
        "GET /v1/sessions HTTP/1.1",
        "Host: localhost",
        "Host: evil.example",
        token,
        "Connection: close",
    )
    assert twice.split(" ")[1] in ("400", "421"), twice[:200]
    absolute = await raw(
        at.client,
        "GET http://evil.example/v1/sessions/ HTTP/1.1",
        "Host: localhost",
        token,
        "Connection: close",
    )
    assert "evil.example" not in absolute, absolute[:300]


async def test_a_websocket_is_not_opened(at: Scene) -> None:
    for path in ("/v1/sessions", "/", "/mcp", f"/v1/sessions/{at.session}/events"):
        answer = await raw(
            at.client, f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        )  # fmt: skip
        assert not answer.startswith("HTTP/1.1 101"), answer[:200]
        assert MARK not in answer


async def test_other_methods_tell_nothing(at: Scene) -> None:
    for method in ("HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"):
        for path in ("/v1/sessions", f"/v1/sessions/{at.session}", "/metrics", "/mcp", "/v1/models"):
            head = {"Authorization": "", "X-HTTP-Method-Override": "DELETE"}
            answer = await at.client.request(method, path, headers=head)
            assert answer.status_code >= 400, (method, path, answer.status_code)
            assert at.session not in answer.text or at.session in path
    assert (await at.client.get(f"/v1/sessions/{at.session}")).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/zeus"])
async def test_no_other_spelling_of_a_path_gets_past_the_token(tmp_path: Path, prefix: str) -> None:
    async with scene(tmp_path, prefix=prefix) as at:
        token = at.client.headers["authorization"]
        for path in (
            "/v1/sessions/", "//v1/sessions", "/v1//sessions", "/v1%2Fsessions", "/v1/%2e/sessions", "/v1/./sessions",
            "/health/../v1/sessions", "/health%2f..%2fv1/sessions", "/v1/sessions;x", "/V1/sessions",
            "/zeusv1/sessions",
            "/zeus/zeus/v1/sessions", "/v1/sessions%00", "/v1/sessions%0d%0aSet-Cookie:x=1", "/page/..%2f..%2fapp.py",
        ):  # fmt: skip
            without = await raw(
                at.client, f"GET {prefix}{path} HTTP/1.1", "Host: localhost", "Connection: close"
            )
            assert at.session not in without, (path, without[:300])
            assert "set-cookie: x" not in without.lower()
            assert without.split(" ")[1] in ("400", "401", "404", "307"), (path, without[:200])
            elsewhere = await raw(
                at.client, f"GET {prefix}{path} HTTP/1.1", "Host: localhost", f"Authorization: {token}",
                "X-Forwarded-Host: evil.example", "X-Forwarded-Prefix: //evil.example", "Connection: close",
            )  # fmt: skip
            assert "evil.example" not in elsewhere, (path, elsewhere[:300])


async def test_whoever_has_no_token_learns_nothing_of_agents_and_errors(at: Scene) -> None:
    key = "sk-" + "a1B2" * 12
    (at.folder / "other.yaml").write_text(f"name: [{key}\n")
    await asyncio.sleep(1.1)  # how often the files are looked at
    await at.client.get("/v1/agents")
    at.client.headers.pop("authorization")
    for path in ("/health", "/ready", "/metrics", "/openapi.json", "/", "/v1/agents", "/nowhere"):
        answer = await at.client.get(path)
        for word in (key, str(at.folder), "other.yaml", at.session, MARK):
            assert word not in answer.text, (path, word, answer.text[:300])
    assert (await at.client.get("/metrics")).status_code == 401


async def test_an_error_repeats_no_secret_of_its_request(at: Scene) -> None:
    secret = "sk-" + "a1B2" * 12
    for path in ("/v1/sessions", f"/v1/sessions/{at.session}/runs", "/v1/backtests", "/v1/responses"):
        for body in ({"title": [secret]}, {"prompt": {"x": secret}}, [secret], secret):
            answer = await at.client.post(path, json=body)
            assert answer.status_code < 500, answer.text
            assert secret not in answer.text, (path, answer.text)
    broken = await at.client.post(
        "/v1/sessions", content=f'{{"title": "{secret}'.encode(), headers={"Content-Type": "application/json"}
    )
    assert secret not in broken.text


async def test_a_body_that_does_not_end_is_cut_and_a_deep_one_is_refused(at: Scene) -> None:
    token = f"Authorization: {at.client.headers['authorization']}"
    head = ("Host: localhost", token, "Content-Type: application/json", "Connection: close")
    chunk = b"fffff\r\n" + b"x" * 0xFFFFF + b"\r\n"
    for path in ("/v1/sessions", "/v1/responses", "/mcp"):
        answer = await raw(
            at.client, f"POST {path} HTTP/1.1", *head, "Transfer-Encoding: chunked", body=chunk * 5
        )
        assert answer.split(" ")[1] == "413", (path, answer[:200])
        for length in ("-1", "99999999999999999999", "1e3", "0x10", "5, 5"):
            answer = await raw(at.client, f"POST {path} HTTP/1.1", *head, f"Content-Length: {length}")
            assert answer.split(" ")[1] in ("400", "413"), (path, length, answer[:200])
        deep = await at.client.post(
            path,
            content=b"[" * 100_000,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        assert 400 <= deep.status_code < 500, (path, deep.status_code, deep.text[:200])
    smuggled = await raw(
        at.client, "POST /v1/sessions HTTP/1.1", *head, "Content-Length: 3", "Transfer-Encoding: chunked",
        body=b"0\r\n\r\nGET /v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )  # fmt: skip
    assert smuggled.count("HTTP/1.1 ") == 1, smuggled
