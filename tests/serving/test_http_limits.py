"""The edge of the service: limits, hosts, other sites, the audit log, the access line, the figures."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from starlette.requests import ClientDisconnect, Request

from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import call, calling, script
from tests.support.serving import begun, told, until
from zeus_runtime import Agent
from zeus_runtime.client import AsyncServiceClient, ServiceLimitError
from zeus_runtime.errors import ZeusError
from zeus_runtime.serving.http import limits
from zeus_runtime.serving.http.boundary import HEADERS
from zeus_runtime.serving.http.limits import Buckets
from zeus_runtime.serving.http.settings import Cors, ServiceLimits, Settings
from zeus_runtime.store.service_audit import add_entry, entries, expire


@example([4.082117240398025, 0.0], 1, 1)
@given(st.lists(st.floats(0, 5), max_size=200), st.integers(1, 600), st.integers(1, 20))
def test_a_bucket_lets_pass_its_burst_and_its_rate_and_no_more(
    pauses: list[float], per_minute: int, burst: int
) -> None:
    now = 0.0
    buckets = Buckets(per_minute, burst, lambda: now)
    passed = 0
    for pause in pauses:
        now += pause
        if not (seconds := buckets.wait_seconds("a")):
            passed += 1
        else:
            assert buckets.wait_seconds("a", take=False) == seconds
            later = Buckets(per_minute, burst, lambda at=now + seconds: at)  # type: ignore[misc]
            later._left = buckets._left.copy()
            assert later.wait_seconds("a", take=False) == 0, "after the time that it told"
    assert passed <= burst + now * per_minute / 60 + 1e-6
    assert buckets.wait_seconds("another") == 0


def test_buckets_are_bounded_and_forget_those_who_asked_least_recently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_BUCKETS", 100)
    buckets = Buckets(1, 1, lambda: 0.0)
    for number in range(1_000):
        # Refused each time but the first, and still known.
        assert bool(buckets.wait_seconds("stubborn")) == (number > 0)
        assert buckets.wait_seconds(f"address {number}") == 0
    assert len(buckets._left) == 100
    assert buckets.wait_seconds("address 999", take=False) > 0
    assert buckets.wait_seconds("address 0", take=False) == 0


async def test_too_many_requests_of_a_user_wait_whatever_key_they_use(tmp_path: Path) -> None:
    settings = Settings(limits=ServiceLimits(requests_per_minute=1, burst=3))
    async with keyed(tmp_path, settings) as (client, database):
        one, two = await made(database, "one", user="ann"), await made(database, "two", user="ann")
        bob = await made(database, "bob")
        for key in (one, two, one):
            assert (await client.get("/v1/agents", headers=bearer(key))).status_code == 200
        late = await client.get("/v1/agents", headers=bearer(two))
        assert (late.status_code, late.json()["code"]) == (429, "too_many_requests")
        assert 50 <= int(late.headers["retry-after"]) <= 60
        assert late.headers["content-type"] == "application/problem+json"
        assert (await client.get("/v1/agents", headers=bearer(bob))).status_code == 200
        assert (await client.get("/v1/agents")).status_code == 200, "the user who started it"


async def test_a_client_that_reaches_its_limit_leaves_no_empty_session(tmp_path: Path) -> None:
    settings = Settings(limits=ServiceLimits(requests_per_minute=1, burst=2))
    async with keyed(tmp_path, settings) as (client, database):
        key = await made(database)
        async with AsyncServiceClient(str(client.base_url), key) as service:
            await service.agents()
            for _ in range(2):
                with pytest.raises(ServiceLimitError):
                    [each async for each in service.run("go")]
    with closing(sqlite3.connect(tmp_path / ".zeus" / "zeus.db")) as stored:
        (counted,) = stored.execute("SELECT (SELECT count(*) FROM thread), (SELECT count(*) FROM turn)")
    assert counted == (1, 1), "the first turn was begun, and only its events were refused"


async def test_open_streams_of_a_user_are_counted_until_they_end(tmp_path: Path) -> None:
    async with keyed(tmp_path, Settings(limits=ServiceLimits(open_requests=2))) as (client, database):
        client.headers.update(bearer(await made(database)))
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        path = f"/v1/sessions/{session}/events"
        async with client.stream("GET", path) as first, client.stream("GET", path) as second:
            assert (first.status_code, second.status_code) == (200, 200)
            assert (await client.get("/v1/agents")).status_code == 429
        for _ in range(100):
            if (answer := await client.get("/v1/agents")).status_code == 200:
                break
        assert answer.status_code == 200


async def test_large_bodies_and_heads_and_other_hosts_are_refused(tmp_path: Path) -> None:
    settings = Settings(limits=ServiceLimits(body_bytes=1000, header_bytes=2000))
    async with keyed(tmp_path, settings) as (client, _):
        large = b'{"title": "' + b"x" * 1000 + b'"}'

        async def pieces() -> AsyncIterator[bytes]:
            yield large

        for body in (large, pieces()):
            answer = await client.post(
                "/v1/sessions", content=body, headers={"content-type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert (await client.get("/v1/agents", headers={"X-Large": "x" * 2000})).status_code == 431
        for host in ("evil.example.org", "localhost.evil.example.org", ""):
            answer = await client.get("/v1/agents", headers={"Host": host})
            assert answer.status_code in (400, 421), host
        assert (await client.get("/health", headers={"Host": "localhost:1"})).status_code == 200


async def test_other_sites_are_refused_unless_they_are_named(tmp_path: Path) -> None:
    asking = {"Access-Control-Request-Method": "POST", "Origin": "https://app.example.org"}
    for origins, allowed in (((), False), (("https://app.example.org",), True)):
        folder = tmp_path / str(allowed)
        folder.mkdir()
        async with keyed(folder, Settings(cors=Cors(origins))) as (client, _):
            answer = await client.options("/v1/sessions", headers=asking)
            assert (answer.headers.get("access-control-allow-origin") == asking["Origin"]) is allowed
            other = await client.options(
                "/v1/sessions", headers={**asking, "Origin": "https://evil.example.org"}
            )
            assert "access-control-allow-origin" not in other.headers
            assert "access-control-allow-credentials" not in answer.headers


async def test_the_audit_log_has_acts_without_contents_and_cannot_be_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zeus.access")
    model = script(calling(call("record", "a", text="private")), "Done.")
    async with keyed(tmp_path, Settings(access_log="json"), more="middlewares: [approve]\n", model=model) as (
        client,
        database,
    ):
        key = await made(database)
        client.headers.update(bearer(key))
        session, run = await begun(client, "private prompt")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        await client.post(f"/v1/approvals/{pending['id']}", json={"decision": "reject", "reason": "private"})
        await until(client, run, "complete")
        await client.get(f"/v1/sessions/{session}/what-if")
        await client.get(f"/v1/sessions/{session}/context/why", params={"text": "private"})
        found = await entries(database, user="ann")
        assert [(each.action, each.session, each.decision, each.outcome) for each in found] == [
            ("POST /v1/sessions", session, None, "done"),
            ("POST /v1/sessions/{session}/runs", session, None, "done"),
            ("decide", session, "reject", "done"),
            ("POST /v1/approvals/{approval}", session, None, "done"),
            ("GET /v1/sessions/{session}/what-if", session, None, "forbidden"),
        ]
        assert {each.caller for each in found} == {f"key:{key.split('_')[1]}"}
        assert "private" not in str(found)
        assert await entries(database, user="bob") == []
        for statement in ("DELETE FROM audit_entry", "UPDATE audit_entry SET user_id = 'bob'"):
            with pytest.raises((ZeusError, IntegrityError), match="append-only"):
                await database.run(
                    lambda connection, statement=statement: connection.execute(text(statement))
                )
        assert len(await entries(database)) == 5
        aged = round((time.time() - 29 * 86_400) * 1000)
        for at_ms in (1, aged):
            await add_entry(database, replace(found[0], at_ms=at_ms))
        with pytest.raises((ZeusError, IntegrityError), match="append-only"):
            await expire(database, aged + 1)
        assert await expire(database, aged) == 1
        assert len(await entries(database)) == 6
    lines = [json.loads(each.message) for each in caplog.records if each.name == "zeus.access"]
    assert {each["user"] for each in lines if each["path"].startswith("/v1/")} == {"ann"}
    assert session in {each["session"] for each in lines}
    assert key not in caplog.text
    assert "private" not in caplog.text


async def test_an_error_that_no_code_foresaw_is_answered_and_told_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zeus.access")

    async def broken(*_: Any, **__: Any) -> None:
        raise TimeoutError("the disk is gone")

    async with keyed(tmp_path, Settings(access_log="json")) as (client, database):
        client.headers.update(bearer(await made(database, scopes=("run", "read", "metrics"))))
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        monkeypatch.setattr(Agent, "delete_session", broken)
        answer = await client.delete(f"/v1/sessions/{session}")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert answer.headers["content-type"] == "application/problem+json"
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        figures = (await client.get("/metrics")).text
        counted = 'zeus_http_requests_total{method="DELETE",route="/v1/sessions/{session}",status="500"} 1.0'
        assert counted in figures
        acts = [(each.action, each.status, each.outcome) for each in await entries(database, user="ann")]
        assert acts[-1] == ("DELETE /v1/sessions/{session}", 500, "internal")
    lines = [json.loads(each.message) for each in caplog.records if each.name == "zeus.access"]
    assert [each["status"] for each in lines if each["method"] == "DELETE"] == [500]
    assert "the disk is gone" in caplog.text, "with its traceback, for the operator"


async def test_a_client_that_leaves_while_it_uploads_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zeus.access")

    async def gone(_request: Any) -> bytes:
        raise ClientDisconnect

    async with keyed(tmp_path, Settings(access_log="json")) as (client, _):
        monkeypatch.setattr(Request, "body", gone)
        with suppress(httpx.HTTPError):  # the server closes the connection without an answer
            await client.put(f"/v1/files/{'0' * 64}", content=b"x")
    lines = [json.loads(each.message) for each in caplog.records if each.name == "zeus.access"]
    assert [each["status"] for each in lines if each["method"] == "PUT"] == [499]
    assert not [each for each in caplog.records if each.name.startswith("zeus_runtime.") and each.exc_info]


async def test_neither_log_has_a_secret_that_a_client_writes_into_an_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zeus.access")
    secret = "argo-Secret-4711"
    (tmp_path / ".env").write_text(f"SHIP_TOKEN={secret}\n")
    async with keyed(tmp_path, Settings(access_log="text")) as (client, database):
        client.headers.update(bearer(await made(database)))
        for path in (f"/v1/sessions/{secret}", f"/v1/runs/{secret}/cancel", f"/v1/approvals/{secret}"):
            await client.request("DELETE" if "sessions" in path else "POST", path, json={})
        found = await entries(database)
    assert [(each.session, each.subject) for each in found] == [(None, None)] * 3
    lines = [each.message for each in caplog.records if each.name == "zeus.access"]
    assert sum("<secret:SHIP_TOKEN>" in line for line in lines) == 3
    assert secret not in str(lines)
    for file in (tmp_path / ".zeus").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


async def test_a_line_of_the_access_log_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "zeus.access")
    async with keyed(tmp_path) as (client, _):
        await client.get("/v1/x%0Auser=root")
    (line,) = [each.message for each in caplog.records if each.name == "zeus.access"]
    assert "\n" not in line
    assert 'path="/v1/x\\nuser=root"' in line


async def test_figures_need_their_scope_and_name_no_user(tmp_path: Path) -> None:
    async with keyed(tmp_path) as (client, database):
        key = await made(database, "ann-lovelace")
        session, run = await begun(client, "go")
        await told(client, f"/v1/runs/{run}/events")
        await client.get(f"/v1/unknown/{session}")
        assert (await client.get("/metrics", headers=bearer(key))).status_code == 403
        assert (await client.get("/metrics", headers={"Authorization": ""})).status_code == 401
        scraper = await made(database, "scraper", scopes=("metrics",))
        assert (await client.get("/v1/sessions", headers=bearer(scraper))).status_code == 403
        answer = await client.get("/metrics", headers=bearer(scraper))
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines: Any = answer.text.splitlines()
        wanted = (
            'zeus_http_requests_total{method="POST",route="/v1/sessions/{session}/runs",status="202"} 1.0'
        )
        assert wanted in lines
        assert session not in answer.text
        assert "lovelace" not in answer.text


async def test_a_head_that_does_not_end_is_not_read_for_ever() -> None:
    import asyncio

    import uvicorn

    from zeus_runtime.serving.http.heads import bounded_http

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(app, port=0, http=bounded_http(2000), lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname()[:2])
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    for _ in range(3):
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200"), "a body is no head"
        while (await reader.readline()).strip():
            pass
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Endless: ")
    writer.write(b"x" * 2500)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 400")
    writer.close()
    server.should_exit = True
    await task


async def test_a_request_that_trickles_in_keeps_no_connection() -> None:
    import asyncio

    import uvicorn

    from zeus_runtime.serving.http.heads import bounded_http

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})

    config = uvicorn.Config(app, port=0, http=bounded_http(2000, 0.5), lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    address = server.servers[0].sockets[0].getsockname()[:2]

    async def closed(begin: bytes, piece: bytes) -> bytes:
        """What a client gets that sends a beginning, and then pieces until its connection ends."""
        reader, writer = await asyncio.open_connection(*address)
        writer.write(begin)
        reads = asyncio.create_task(reader.read())
        async with asyncio.timeout(10):
            while not reads.done():
                if piece:
                    writer.write(piece)
                await asyncio.wait((reads,), timeout=0.05)
        writer.close()
        return reads.result() if reads.exception() is None else b""

    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"
    silent, slow_head, slow_body = await asyncio.gather(
        closed(b"", b""), closed(b"GET / HTTP/1.1\r\nX: ", b"x"), closed(head, b"x")
    )
    assert (silent, slow_head, slow_body) == (b"", b"", b"")
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 24000\r\n\r\n")
    for _ in range(24):
        writer.write(b"x" * 1000)
        await asyncio.sleep(0.05)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200"), (
        "slower than the look, but fast"
    )
    writer.close()
    server.should_exit = True
    await task
