"""Sessions over HTTP: listed in parts, searched, forked, archived, exported."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.delegation.test_subagents import cast, task
from tests.serving.test_http_memory import next_of
from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import TOKEN, begun, service_of, serving, told, until
from zeus_runtime import Agent
from zeus_runtime.client import AsyncServiceClient, ServiceChangedError
from zeus_runtime.errors import RunError


async def parts(client: httpx.AsyncClient, path: str) -> list[list[dict[str, Any]]]:
    """A list, part by part."""
    found = []
    while path:
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        path = next_of(answer) or ""
    return found


async def test_lists_come_in_parts(tmp_path: Path) -> None:
    write_agent(tmp_path)
    write_agent(tmp_path)
    (tmp_path / "other.yaml").write_text(
        (tmp_path / "zeus.yaml").read_text().replace("name: test", "name: other")
    )
    service = service_of(tmp_path, script(*map(str, range(9))), ("zeus.yaml", "other.yaml"))
    async with serving(service) as client:
        made = []
        for number in range(5):
            name = ("test", "other")[number % 2]
            made.append((await client.post("/v1/sessions", json={"agent": name})).json()["session"])
        whole = (await client.get("/v1/sessions")).json()
        read = await parts(client, "/v1/sessions?limit=2")
        assert [len(each) for each in read] == [2, 2, 1]
        assert [each for part in read for each in part] == whole
        assert {each["session"] for each in whole} == set(made)
        first = await client.get("/v1/sessions?limit=2&agent=other")
        assert ([each["agent"] for each in first.json()], next_of(first)) == (["other"] * 2, None)
        for prompt in ("one", "two", "three"):
            _, run = await begun(client, prompt, made[0])
            await until(client, run, "complete")
        messages = (await client.get(f"/v1/sessions/{made[0]}/messages")).json()
        assert [each["number"] for each in messages] == [1, 2, 3, 4, 5, 6]
        read = await parts(client, f"/v1/sessions/{made[0]}/messages?limit=4")
        assert ([len(each) for each in read], [one for part in read for one in part]) == ([4, 2], messages)
        await client.post(f"/v1/sessions/{made[0]}/rollback", json={"to": 3, "before": True})
        _, run = await begun(client, "four", made[0])
        await until(client, run, "complete")
        read = await parts(client, f"/v1/sessions/{made[0]}/messages?limit=3")
        assert [[each["content"] for each in part] for part in read] == [["one", "0", "four"], ["1"]]
        read = await parts(client, f"/v1/sessions/{made[0]}/runs?limit=3")
        assert [[each["prompt"] for each in part] for part in read] == [["one", "two", "three"], ["four"]]
        wrong = await client.get("/v1/sessions?cursor=WzEsMl0")
        assert (wrong.status_code, wrong.json()["code"]) == (422, "usage")


async def test_waiting_calls_come_in_parts(tmp_path: Path) -> None:
    write_agent(tmp_path, "middlewares: [approve]\n")
    calls = [call("record", name, text=name) for name in "abc"]
    async with serving(service_of(tmp_path, script(calling(*calls), "Done."))) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        read = await parts(client, "/v1/approvals?limit=2")
        whole = (await client.get("/v1/approvals")).json()
        assert ([len(each) for each in read], [one for part in read for one in part]) == ([2, 1], whole)


async def test_an_agent_whose_database_is_away_keeps_no_other_from_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path, "middlewares: [approve]\nstorage: {url: 'sqlite:///a.db'}\n")
    text = (tmp_path / "zeus.yaml").read_text()
    names = ("a", "b", "c")
    for name in names:
        own = text.replace("name: test", f"name: {name}").replace("a.db", f"{name}.db")
        (tmp_path / f"{name}.yaml").write_text(own)
    model = script(calling(call("record", "x", text="draft")), "Done.")
    service = service_of(tmp_path, model, [f"{name}.yaml" for name in names])
    away: set[str] = set()

    def absent(name: str) -> None:
        whole = getattr(Agent, name)

        async def reached(agent: Agent, *given: Any, **named: Any) -> Any:
            if agent.name in away:
                raise RunError("the database is away")
            return await whole(agent, *given, **named)

        monkeypatch.setattr(Agent, name, reached)

    for name in ("log", "masked_log", "pending_approvals", "asking_session", "sessions", "search_messages"):
        absent(name)
    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={"agent": "b"})).json()["session"]
        _, run = await begun(client, "go", session)
        await until(client, run, "waiting")
        lists = ("/v1/approvals", "/v1/sessions", "/v1/sessions/search?query=go")
        whole = [(await client.get(each)).json() for each in lists]
        assert [len(each) for each in whole] == [1, 1, 1]
        away.update("ac")
        for path, expected in zip(lists, whole, strict=True):
            answer = await client.get(path)
            assert (answer.json(), answer.headers.get("zeus-unread-agents")) == (expected, "a, c"), path
        assert (await client.get(f"/v1/sessions/{session}")).json()["agent"] == "b"
        assert (await client.get(f"/v1/runs/{run}")).json()["state"] == "waiting"
        # Not found only once every agent was asked: it may be in the database that is away.
        for path in ("sessions/session_0", "runs/0", "approvals/0", "sessions?agent=a"):
            lost = await client.get(f"/v1/{path}")
            assert (lost.status_code, "database is away" in lost.text) == (500, True), path
        approval = whole[0][0]["id"]
        assert (await client.get(f"/v1/approvals/{approval}")).json()["id"] == approval
        decided = await client.post(f"/v1/approvals/{approval}", json={"decision": "approve"})
        assert decided.status_code == 200, decided.text
        await until(client, run, "complete")
        away.add("b")
        assert (await client.get("/v1/sessions")).status_code == 500
        away.clear()
        assert "zeus-unread-agents" not in (await client.get("/v1/sessions")).headers
        assert (await client.get("/v1/approvals/0")).status_code == 404


async def test_messages_are_found_in_any_case(tmp_path: Path) -> None:
    write_agent(tmp_path)
    text = 'He said "ÄPFEL & 苹果"\nand 100% paid\\unpaid.'
    async with serving(service_of(tmp_path, script(text, "Another.", "Last."))) as client:
        session, run = await begun(client, "Which fruit?")
        await until(client, run, "complete")

        async def search(query: str) -> list[dict[str, Any]]:
            answer = await client.get("/v1/sessions/search", params={"query": query})
            assert answer.status_code == 200, answer.text
            return list(answer.json())

        for query in ("äpfel", "苹果", 'said "äpf', "100% PAID", "paid\\unp", '"\nand'):
            (found,) = await search(query)
            assert (found["session"], found["number"], found["role"]) == (session, 2, "assistant"), query
            assert "ÄPFEL" in found["excerpt"]
        assert [each["number"] for each in await search("which fruit")] == [1]
        for query in ("role", "assistant", "100_ paid", "   "):
            assert await search(query) == [], query
        await client.post(f"/v1/sessions/{session}/rollback", json={"to": 1})
        assert await search("äpfel") == []
        again = await client.post(f"/v1/sessions/{session}/runs", json={"resume": True})
        await until(client, again.json()["run"], "complete")
        assert len(await search("äpfel")) == 1
        await client.post(f"/v1/sessions/{session}/archive")
        assert await search("äpfel") == []


async def test_a_fork_asks_a_step_again_and_its_events_are_its_runs(tmp_path: Path) -> None:
    write_agent(tmp_path)
    model = script(calling(call("echo", "a", text="x")), "First.", "Second.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        _, run = await begun(client, "more", session)
        await until(client, run, "complete")
        body, key = {"step": 2}, {"Idempotency-Key": "k"}
        made = await client.post(f"/v1/sessions/{session}/fork", json=body, headers=key)
        assert made.status_code == 201, made.text
        fork = made.json()["session"]
        again = await client.post(f"/v1/sessions/{session}/fork", json=body, headers=key)
        assert again.json()["session"] == fork != session
        answered = await client.post(f"/v1/sessions/{session}/runs", json={"resume": True})
        assert (answered.status_code, "has its answer" in answered.text) == (422, True)
        resumed = (await client.post(f"/v1/sessions/{fork}/runs", json={"resume": True}, headers=key)).json()
        repeated = (await client.post(f"/v1/sessions/{fork}/runs", json={"resume": True}, headers=key)).json()
        assert repeated["run"] == resumed["run"]
        ended = await until(client, resumed["run"], "complete")
        assert ended["ending"]["answer"] == "First."
        events = await told(client, f"/v1/runs/{resumed['run']}/events")
        assert (events[0]["type"], events[-1]["type"]) == ("run_started", "complete")
        shown = (await client.get(f"/v1/sessions/{fork}/messages")).json()
        whole = (await client.get(f"/v1/sessions/{session}/messages")).json()
        assert [each["content"] for each in shown] == [each["content"] for each in whole[:4]]
        for body in ({}, {"prompt": "x", "resume": True}, {"prompt": ""}):
            refused = await client.post(f"/v1/sessions/{fork}/runs", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), body
        missing = await client.post(f"/v1/sessions/{session}/fork", json={"step": 99})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_a_session_is_archived_restored_and_exported(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        document = await client.get(f"/v1/sessions/{session}/export")
        assert document.headers["content-disposition"] == f'attachment; filename="{session}.json"'
        assert [each["payload"]["content"] for each in document.json()["messages"]] == ["go", "Done."]
        markdown = await client.get(f"/v1/sessions/{session}/export?format=markdown")
        assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
        assert "> Done." in markdown.text
        packed = (await client.post(f"/v1/sessions/{session}/archive")).json()
        assert packed["archived_ms"] is not None
        assert (await client.get("/v1/sessions")).json() == []
        (listed,) = (await client.get("/v1/sessions?archived=true")).json()
        assert listed["session"] == session
        assert (await client.get(f"/v1/sessions/{session}/export")).status_code == 422
        back = (await client.post(f"/v1/sessions/{session}/restore")).json()
        assert back["archived_ms"] is None
        assert len((await client.get(f"/v1/sessions/{session}/messages")).json()) == 2


async def test_what_a_model_may_see_is_still_masked_for_those_who_read(tmp_path: Path) -> None:
    key = "Zq7ownkey0123456789"
    write_agent(tmp_path, "secrets: {to_model: allow}\nworkspace: {root: work}\n", tools="[filesystem]")
    (tmp_path / "work").mkdir()
    (tmp_path / ".env").write_text(f"OWN_API_KEY={key}\n")
    wrote = calling(call("write_file", "w", path="/b.txt", content=f"z {key}\n"))
    async with serving(service_of(tmp_path, script(wrote, f"The answer is {key}."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        assert (tmp_path / "work/b.txt").read_text() == f"z {key}\n"
        for path in ("messages", "context", "trace", "export", "artifacts/content?path=/b.txt"):
            shown = await client.get(f"/v1/sessions/{session}/{path}")
            assert (shown.status_code, key in shown.text) == (200, False), path
        found = (await client.get("/v1/sessions/search", params={"query": "answer"})).json()
        assert [each["excerpt"] for each in found] == ["The answer is <secret:OWN_API_KEY>."]


async def test_an_excerpt_drops_no_control_character(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("a\x1cb\u2028c\x85d\n needle"))) as client:
        _, run = await begun(client, "go")
        await until(client, run, "complete")
        found = (await client.get("/v1/sessions/search", params={"query": "needle"})).json()
        assert [each["excerpt"] for each in found] == ["a\x1cb\u2028c\x85d needle"]


async def test_what_was_stored_before_its_secret_was_known_is_masked(tmp_path: Path) -> None:
    write_agent(tmp_path, "middlewares: [approve]\n")
    secret = "zq81-Tango-55xw-Hotel"
    model = script(
        calling(call("echo", "e", text=secret)),
        calling(call("record", "r", text=secret), text=f"It is {secret}."),
    )
    async with serving(service_of(tmp_path, model)) as client:
        made = (await client.post("/v1/sessions", json={"title": secret})).json()["session"]
        body = {"json": {"prompt": f"Use {secret}."}, "headers": {"Idempotency-Key": "once"}}
        run = (await client.post(f"/v1/sessions/{made}/runs", **body)).json()["run"]
        await until(client, run, "waiting")
        assert secret in (await client.get(f"/v1/runs/{run}")).text
    async with serving(service_of(tmp_path, script(), environ={"API_KEY": secret})) as client:
        again = await client.post(f"/v1/sessions/{made}/runs", **body)
        session = f"/v1/sessions/{made}"
        names = ("", "/runs", "/messages", "/trace", "/context", "/context/steps", "/export")
        paths = ["/v1/sessions", "/v1/approvals", f"/v1/runs/{run}", *(f"{session}{name}" for name in names)]
        answers = [again, *[await client.get(path) for path in paths]]
        assert {each.status_code for each in answers} == {200, 202}
        for path in (f"/v1/runs/{run}/events", f"{session}/events"):
            events = await told(client, path, most=13)
            assert "API_KEY" in str(events)
            assert secret not in str(events), path
        leaks = [str(each.url) for each in answers if secret in each.text]
        assert not leaks


async def test_a_title_shows_no_part_of_a_secret_that_the_prompt_has_further_on(tmp_path: Path) -> None:
    masked, cut = "long-A1-" + "x9y8" * 38, "other-B2-" + "k7j6" * 8
    (tmp_path / ".env").write_text(f"LONG_TOKEN={masked}\nOTHER_TOKEN={cut}\n")
    write_agent(tmp_path)
    prompt = f"Use {masked} and {cut}. " + "Then tell me more. " * 100
    async with serving(service_of(tmp_path, script("Done."))) as client:
        async with AsyncServiceClient(str(client.base_url), TOKEN) as typed:
            _ = [event async for event in typed.run(prompt)]
        (session,) = (await client.get("/v1/sessions")).json()
    assert session["title"].startswith("Use <secret:LONG_TOKEN> and <secret:OTHER_TOKEN>. ")


@pytest.mark.parametrize("archived", [False, True])
async def test_a_session_is_deleted_only_as_it_was_read(tmp_path: Path, archived: bool) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("One.", "Two."))) as web:
        session, run = await begun(web, "go")
        await until(web, run, "complete")
        async with AsyncServiceClient(str(web.base_url), TOKEN) as client:
            if archived:
                await client.archive_session(session)
            read = await client.session(session)
            for other in (replace(read, messages=1), replace(read, updated_ms=read.updated_ms - 1)):
                with pytest.raises(ServiceChangedError, match="changed after it was shown"):
                    await client.delete_session(other)
            await client.delete_session(read)
            assert [*await client.sessions(archived=archived)] == []


async def test_the_session_of_a_sub_agents_own_sub_agent_is_shown_and_begins_no_run(tmp_path: Path) -> None:
    """Its name begins with the agent just above it, so it was 404. A turn there was 202, and failed."""
    sub = {"version": 1, "model": "gpt-4o", "name": "mid", "tools": ["subagents"]}
    lower = {**sub, "agents": {"low": {"description": "L."}}}
    (tmp_path / "mid.yaml").write_text(json.dumps(lower))
    agents = {"mid": {"description": "M.", "config": "./mid.yaml"}}
    write_agent(tmp_path, f"agents: {json.dumps(agents)}\n", tools="[probe, subagents]")
    model = cast(
        go=[calling(task("t1", "delegate", "mid")), "End."],
        delegate=[calling(task("t2", "finish", "low")), "Done."],
        finish=["Low."],
    )
    async with serving(service_of(tmp_path, model)) as client:
        _, run = await begun(client, "go")
        assert (await until(client, run, "complete", "failed"))["state"] == "complete"
        with sqlite3.connect(tmp_path / ".zeus/zeus.db") as database:
            found = dict(database.execute("SELECT session, agent FROM thread").fetchall())
        told = {found[each]: (await client.get(f"/v1/sessions/{each}/messages")).text for each in found}
        inner = [session for session, agent in found.items() if "/" in agent]
        other = {"middlewares": "[]"}
        refused = [
            await client.post(path, json=body)
            for each in inner
            for path, body in (
                (f"/v1/sessions/{each}/runs", {"prompt": "more"}),
                (f"/v1/sessions/{each}/what-if", other),
                (f"/v1/sessions/{each}/rollback", {"to": 1}),
                ("/v1/backtests", {"sessions": [each], "policies": {"other": "[]"}}),
            )
        ]
        turns = [(await client.get(f"/v1/sessions/{each}/runs")).json() for each in inner]
    assert len(told) == 3
    assert '"Low."' in told["mid/low"], told
    assert [(each.status_code, "works for" in each.text) for each in refused] == [(422, True)] * 8
    assert turns == [[], []]
