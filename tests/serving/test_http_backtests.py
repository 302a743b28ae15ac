"""Backtests as jobs, and the data of a plot, over HTTP."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import begun, service_of, serving, until

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


async def test_a_fork_with_policies_of_its_own_needs_an_administrator(tmp_path: Path) -> None:
    from tests.serving.test_http_keys import bearer, keyed, made

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
