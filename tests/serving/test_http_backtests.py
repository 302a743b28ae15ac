"""Backtests as jobs, and the data of a plot, over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from sqlalchemy import Connection, select

from tests.serving.test_http_keys import bearer, made
from tests.support.agents import call, calling, script, write_agent
from tests.support.databases import storage
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.agent.session_plans import SessionPlans
from zeus_runtime.errors import RunError
from zeus_runtime.serving.http import backtests
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.service import Service
from zeus_runtime.serving.http.settings import OpenAgents, Settings
from zeus_runtime.store.backtests import BacktestLimits, add_outcome, drop_replays
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.store.tables import BACKTEST, REPLAY, THREAD

POLICIES = {"short": "[{eviction: {max_tokens: 100}}]"}


async def ended(client: httpx.AsyncClient, job: str) -> dict[str, Any]:
    """The backtest, once it is over."""
    async with asyncio.timeout(60):
        while True:
            told: dict[str, Any] = (await client.get(f"/v1/backtests/{job}")).json()
            if told["state"] != "running":
                return told
            await asyncio.sleep(0.02)


async def test_a_session_is_recomputed_in_the_background(tmp_path: Path) -> None:
    write_agent(tmp_path, "middlewares: []\n")
    calls = [calling(call("echo", f"c{n}", text=f"{n} " + "word " * 900)) for n in range(4)]
    async with serving(service_of(tmp_path, script(*calls, "Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        steps = (await client.get(f"/v1/sessions/{session}/context/steps")).json()["steps"]
        assert [each["number"] for each in steps] == [1, 2, 3, 4, 5]
        tokens = [each["by_source"].get("tool:echo", 0) for each in steps]
        assert tokens == sorted(tokens)
        body = {"sessions": [session], "policies": POLICIES, "needles": ["go"]}
        key = {"Idempotency-Key": "k"}
        first = await client.post("/v1/backtests", json=body, headers=key)
        assert (first.status_code, first.json()["total"]) == (202, 2), first.text
        again = await client.post("/v1/backtests", json=body, headers=key)
        assert again.json()["id"] == first.json()["id"]
        job = await ended(client, first.json()["id"])
        assert (job["state"], job["done"], job["problem"]) == ("complete", 2, "")
        present, short = job["outcomes"]
        assert (present["policy"], short["policy"]) == ("present", "short")
        assert present["outcome"]["needles_kept"] == 1
        assert sum(short["steps"][-1]["sources"].values()) < sum(present["steps"][-1]["sources"].values())
        (listed,) = (await client.get("/v1/backtests")).json()
        assert listed["id"] == job["id"]
        for wrong, status in (
            ({"sessions": [session], "policies": {"bad": "[{no_such: {}}]"}}, 422),
            ({"sessions": ["session_000000000000"]}, 404),
            ({"sessions": []}, 422),
        ):
            refused = await client.post("/v1/backtests", json=wrong)
            assert refused.status_code == status, refused.text


async def test_a_backtest_is_cancelled_and_so_many_run_at_a_time(tmp_path: Path) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    async with serving(service) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        async with service.replaying:
            jobs = [
                (await client.post("/v1/backtests", json={"sessions": [session]})).json()["id"]
                for _ in range(3)
            ]
            full = await client.post("/v1/backtests", json={"sessions": [session]})
            assert (full.status_code, full.json()["code"]) == (429, "limit")
            gone = (await client.post(f"/v1/backtests/{jobs[0]}/cancel")).json()
            assert (gone["state"], gone["done"]) == ("cancelled", 0)
        assert (await ended(client, jobs[1]))["state"] == "complete"


async def test_a_replay_that_runs_ends_when_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.agent import what_if

    begun_there, ended_there = threading.Event(), threading.Event()

    async def endless(*_: Any, **__: Any) -> None:
        begun_there.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended_there.set()

    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    async with serving(service) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        monkeypatch.setattr(what_if, "replay", endless)
        job = (await client.post("/v1/backtests", json={"sessions": [session]})).json()["id"]
        await asyncio.to_thread(begun_there.wait, 20)
        assert (await client.post(f"/v1/backtests/{job}/cancel")).json()["state"] == "cancelled"
        assert ended_there.is_set()


@asynccontextmanager
async def two(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Service, httpx.AsyncClient, Service, httpx.AsyncClient, str]]:
    """Two services on one database, and a session with a turn; each looks often for what the other one cancels."""
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)
    write_agent(folder, storage(url))
    ours, theirs = service_of(folder, script("Done.")), service_of(folder, script())
    async with serving(ours) as one, serving(theirs) as other:
        session, run = await begun(one, "go")
        await until(one, run, "complete")
        yield ours, one, theirs, other, session


async def test_every_process_tells_of_a_backtest_and_cancels_it(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, database_url, monkeypatch) as (ours, one, theirs, other, session):
        body, key = {"sessions": [session], "policies": POLICIES}, {"Idempotency-Key": "k"}
        async with ours.replaying, theirs.replaying:
            job = (await one.post("/v1/backtests", json=body, headers=key)).json()
            seen = (await other.get(f"/v1/backtests/{job['id']}")).json()
            assert seen == job == (await other.get("/v1/backtests")).json()[0]
            assert (seen["state"], seen["done"], seen["total"]) == ("running", 0, 2)
            again = await other.post("/v1/backtests", json=body, headers=key)
            assert again.json() == job, "the other process knows the key"
            for _ in range(2):
                await other.post("/v1/backtests", json={**body, "policies": {}})
            full = await one.post("/v1/backtests", json=body)
            assert (full.status_code, full.json()["code"]) == (429, "limit")
            gone = (await other.post(f"/v1/backtests/{job['id']}/cancel")).json()
            assert (gone["state"], gone["done"]) == ("cancelled", 0)
            async with asyncio.timeout(20):
                while ours.backtests.works_for(None):  # noqa: ASYNC110 - another process asks for it
                    await asyncio.sleep(0.02)
        assert (await one.get(f"/v1/backtests/{job['id']}")).json() == gone
        job = (await one.post("/v1/backtests", json=body)).json()
        done = await ended(other, job["id"])
        assert (done["state"], done["done"]) == ("complete", 2)
        assert done == (await one.get(f"/v1/backtests/{job['id']}")).json()
        assert [(each["session"], each["policy"]) for each in done["outcomes"]] == [
            (session, "present"),
            (session, "short"),
        ]


async def test_a_backtest_whose_process_is_gone_is_lost_to_every_other(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, database_url, monkeypatch) as (ours, one, _, other, session):
        body, key = {"sessions": [session]}, {"Idempotency-Key": "k"}
        async with ours.replaying:
            job = (await one.post("/v1/backtests", json=body, headers=key)).json()["id"]
            await ours.backtests.aclose()
        # What a process that does not know that it lost its lock stores is refused.
        log = await next(iter(ours.hosting)).of(None).log()
        for client in (other, one):
            lost = await client.get(f"/v1/backtests/{job}")
            assert (lost.status_code, "is lost" in lost.json()["detail"]) == (404, True)
            assert (await client.get("/v1/backtests")).json() == []
        assert not await add_outcome(log, job, 0, {})
        again = (await other.post("/v1/backtests", json=body, headers=key)).json()
        assert again["id"] != job
        assert (await ended(one, again["id"]))["state"] == "complete"


async def test_an_idle_users_agent_stays_open_while_its_backtest_runs(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock by which other processes know that it runs is a connection of that agent."""
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)
    write_agent(tmp_path, storage(postgres_url))
    database = Database(postgres_url, directory=tmp_path)
    await ready(database)
    settings = Settings(agents=OpenAgents(most_open=1, idle_seconds=0))
    ours, theirs = (
        replace(service_of(tmp_path, script("Done.")), database=Database(postgres_url, directory=tmp_path))
        for _ in range(2)
    )
    key = bearer(await made(database, scopes=("run", "read", "admin")))
    ours = replace(ours, settings=settings)
    async with serving(ours) as one, serving(theirs) as other:
        for client in (one, other):
            client.headers.update(key)
        session, run = await begun(one, "go")
        await until(one, run, "complete")
        async with ours.replaying:
            job = (await one.post("/v1/backtests", json={"sessions": [session]})).json()["id"]
            await asyncio.sleep(0.5)  # several looks at idle agents
            assert (await other.get(f"/v1/backtests/{job}")).json()["state"] == "running"
        assert (await ended(other, job))["state"] == "complete"
    await database.close()


async def two_replayed(client: httpx.AsyncClient) -> tuple[list[str], str]:
    """Two sessions, and the backtest that has replayed them."""
    sessions = []
    for _ in range(2):
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        sessions.append(session)
    job = (await client.post("/v1/backtests", json={"sessions": sessions})).json()["id"]
    assert (await ended(client, job))["done"] == 2
    return sessions, job


async def test_the_outcomes_of_a_session_are_deleted_with_it(tmp_path: Path, database_url: str) -> None:
    write_agent(tmp_path, storage(database_url))
    async with serving(service_of(tmp_path, script("Done.", "Done."))) as client:
        sessions, job = await two_replayed(client)
        assert (await client.delete(f"/v1/sessions/{sessions[0]}")).status_code == 204
        left = (await client.get(f"/v1/backtests/{job}")).json()
        assert [each["session"] for each in left["outcomes"]] == sessions[1:]
        assert (left["done"], left["total"]) == (1, 1)
        # An archived session is still there, and so are its outcomes.
        await client.post(f"/v1/sessions/{sessions[1]}/archive")
        assert (await client.get(f"/v1/backtests/{job}")).json() == left
        await client.delete(f"/v1/sessions/{sessions[1]}")
        assert (await client.get(f"/v1/backtests/{job}")).status_code == 404
        assert (await client.get("/v1/backtests")).json() == []
    database = Database(database_url, directory=tmp_path)
    try:
        for table in (BACKTEST, REPLAY):
            assert not await database.run(lambda each, table=table: each.execute(select(table)).all())
    finally:
        await database.close()


async def test_so_many_backtests_of_a_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtests, "LIMITS", BacktestLimits(running=1, kept=2))
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        made = []
        for _ in range(3):
            made.append((await client.post("/v1/backtests", json={"sessions": [session]})).json()["id"])
            await ended(client, made[-1])
        assert [each["id"] for each in (await client.get("/v1/backtests")).json()] == made[1:]


async def test_sessions_in_two_databases_need_two_backtests(tmp_path: Path) -> None:
    file = write_agent(tmp_path)
    text = file.read_text()
    (tmp_path / "other.yaml").write_text(
        text.replace("name: test", "name: other") + "storage: {url: 'sqlite:///other.db'}\n"
    )
    service = service_of(tmp_path, script("Done.", "Done."), ("zeus.yaml", "other.yaml"))
    async with serving(service) as client:
        sessions = []
        for agent in ("test", "other"):
            made = (await client.post("/v1/sessions", json={"agent": agent})).json()["session"]
            _, run = await begun(client, "go", made)
            await until(client, run, "complete")
            sessions.append(made)
        refused = await client.post("/v1/backtests", json={"sessions": sessions})
        assert (refused.status_code, "databases" in refused.json()["detail"]) == (422, True)
        jobs = [(await client.post("/v1/backtests", json={"sessions": [each]})).json() for each in sessions]
        for each in jobs:
            assert (await ended(client, each["id"]))["state"] == "complete"
        assert [each["id"] for each in (await client.get("/v1/backtests")).json()] == [
            each["id"] for each in jobs
        ]


async def test_the_event_loop_reads_no_config_for_what_is_recomputed_and_each_is_read_once(
    tmp_path: Path,
) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done.", "Done."))
    (hosted,) = service.hosting
    read, threads = hosted.read, []

    def noted(sets: Any, edited: Any = None) -> Any:
        threads.append(threading.get_ident())
        return read(sets, edited)

    async with serving(service) as client:
        sessions = []
        for _ in range(2):
            session, run = await begun(client, "go")
            await until(client, run, "complete")
            sessions.append(session)
        hosted.read = noted
        body = {"sessions": sessions, "policies": POLICIES}
        await ended(client, (await client.post("/v1/backtests", json=body)).json()["id"])
        assert len(threads) == 2
        await client.get(f"/v1/sessions/{session}/what-if")
        await client.post(f"/v1/sessions/{session}/what-if", json={"middlewares": "[]"})
        assert len(threads) == 5
    assert threading.get_ident() not in threads


async def test_a_backtest_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zeus_runtime.agent import what_if

    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        for error, words in ((RunError("no disk"), "no disk"), (ValueError("odd"), "ValueError: odd")):

            async def failing(*_: Any, error: Exception = error, **__: Any) -> None:
                raise error

            monkeypatch.setattr(what_if, "replay", failing)
            job = (await client.post("/v1/backtests", json={"sessions": [session]})).json()["id"]
            told = await ended(client, job)
            assert (told["state"], told["done"], told["problem"]) == ("failed", 0, words)


async def test_a_fork_with_policies_of_its_own_needs_an_administrator(tmp_path: Path) -> None:
    from tests.serving.test_http_keys import keyed

    model = script(calling(call("echo", "a", text="word " * 900)), "Done.", "Again.")
    body = {"step": 2, "middlewares": "- eviction: {max_tokens: 100}\n"}
    async with keyed(tmp_path, more="middlewares: []\n", model=model) as (client, database):
        client.headers.update(bearer(await made(database)))
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        refused = await client.post(f"/v1/sessions/{session}/fork", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        scopes = ("run", "read", "admin")
        client.headers.update(bearer(await made(database, "boss", user="ann", scopes=scopes)))
        wrong = await client.post(f"/v1/sessions/{session}/fork", json={**body, "middlewares": "- evicton"})
        assert wrong.status_code == 422, wrong.text
        assert "eviction" in wrong.text
        fork = (await client.post(f"/v1/sessions/{session}/fork", json=body)).json()["session"]
        begun_run = await client.post(f"/v1/sessions/{fork}/runs", json={"resume": True})
        await until(client, begun_run.json()["run"], "complete")
        (result,) = (str(each.content) for each in model.requests[-1].messages if each.type == "tool")
        assert len(result) < 1500
        shown = (await client.get(f"/v1/sessions/{fork}/what-if")).json()
        assert shown == {"middlewares": body["middlewares"], "own": True}
        other = {"middlewares": "[]"}
        found = (await client.post(f"/v1/sessions/{fork}/what-if", json=other)).json()
        present, changed = (found[each]["outcome"]["sent_tokens"] for each in ("present", "other"))
        assert present < changed, "the present policies are those of the session"


async def test_other_policies_hold_no_secret_and_those_of_before_show_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "blue-Fork-4711-owl"
    model = f"{{litellm: {{model: openai/gpt-5.2, api_key: {value}}}}}"
    holding = f"- summarization: {{model: {model}}}\n"
    write_agent(tmp_path, "middlewares: []\n")
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        fork = {"step": 1, "middlewares": holding}
        for path, body in (
            (f"/v1/sessions/{session}/what-if", {"middlewares": holding}),
            ("/v1/backtests", {"sessions": [session], "policies": {"other": holding}}),
            (f"/v1/sessions/{session}/fork", fork),
        ):
            refused = await client.post(path, json=body)
            assert refused.status_code == 422, refused.text
            assert "hold a secret" in refused.text
            assert value not in refused.text
        with monkeypatch.context() as patched:
            patched.setattr(SessionPlans, "check", AsyncMock())
            stored = (await client.post(f"/v1/sessions/{session}/fork", json=fork)).json()["session"]
        shown = (await client.get(f"/v1/sessions/{stored}/what-if")).json()
        assert shown["own"]
        assert "summarization" in shown["middlewares"]
        assert value not in shown["middlewares"]
        found = await client.post(f"/v1/sessions/{stored}/what-if", json={"middlewares": "[]"})
        assert found.status_code == 200, found.text
        begun_job = await client.post("/v1/backtests", json={"sessions": [stored]})
        assert (await ended(client, begun_job.json()["id"]))["state"] == "complete"


async def test_sessions_that_are_deleted_at_the_same_time_leave_no_backtest(
    tmp_path: Path, postgres_url: str
) -> None:
    write_agent(tmp_path, storage(postgres_url))
    async with serving(service_of(tmp_path, script("Done.", "Done."))) as client:
        sessions, _ = await two_replayed(client)
    ours, theirs = (Database(postgres_url, directory=tmp_path) for _ in range(2))
    dropped, may_commit = threading.Event(), threading.Event()
    try:
        query = select(THREAD.c.key).where(THREAD.c.session.in_(sessions))
        one, other = await ours.run(lambda each: list(each.execute(query).scalars()))

        def first(connection: Connection) -> None:
            drop_replays(connection, one)
            dropped.set()
            assert may_commit.wait(20)

        deleting = asyncio.create_task(ours.run(first))
        await asyncio.to_thread(dropped.wait, 20)
        second = asyncio.create_task(theirs.run(lambda connection: drop_replays(connection, other)))
        await asyncio.wait([second], timeout=0.3)  # it waits for the first, or is done before it
        may_commit.set()
        await asyncio.gather(deleting, second)
        for table in (BACKTEST, REPLAY):
            assert not await ours.run(lambda each, table=table: each.execute(select(table)).all())
    finally:
        may_commit.set()
        await ours.close()
        await theirs.close()
