"""Turns over HTTP: begun, queued, cancelled, decided, resumed by the next process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage

from tests.delegation.test_subagents import cast, task
from tests.support.agents import PositionModel, call, calling, script, write_agent
from tests.support.databases import SQLITE_URL, storage
from tests.support.serving import begun, service_of, serving, told, until
from zeus_runtime import Agent
from zeus_runtime.errors import RunError
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.run.turn import Session
from zeus_runtime.serving.http import hub, turn_queue
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.hosting import HostedAgent
from zeus_runtime.serving.http.turn_queue import TurnQueue
from zeus_runtime.serving.http.uploads import Uploads
from zeus_runtime.store.event_log import EventLog
from zeus_runtime.store.turns import begin_turn, find_turn, set_state, turns_of
from zeus_runtime.tools.client_tool import ClientTool

ASKING = "middlewares: [approve]\n"
JSON = {"content-type": "application/json"}


async def test_a_turn_streams_its_events_and_a_lost_connection_continues(tmp_path: Path) -> None:
    write_agent(tmp_path)
    model = script(calling(call("echo", "a", text="x"), text="First."), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        first = await told(client, f"/v1/runs/{run}/events", most=4)
        rest = await told(client, f"/v1/runs/{run}/events", after=first[-1]["id"])
        events = [*first, *rest]
        assert [each["id"] for each in events] == list(range(1, len(events) + 1))
        assert events[0]["type"] == "run_started"
        assert events[-1]["type"] == "complete"
        assert {each["run"] for each in events} == {run}
        over = await client.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(events[-1]["id"])})
        assert over.status_code == 204
        turn = await until(client, run, "complete")
        assert turn["ending"]["answer"] == "Done."
        messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
        assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant"]
        follows = await told(client, f"/v1/sessions/{session}/events?after=2", most=2)
        assert [each["id"] for each in follows] == [1, 2], "the header of a client that comes back counts"


async def test_a_busy_session_refuses_or_queues_and_a_key_names_one_turn(tmp_path: Path) -> None:
    write_agent(tmp_path)
    gate = asyncio.Event()

    class Slow(PositionModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            await gate.wait()
            async for piece in super().stream(request):
                yield piece

    async with serving(service_of(tmp_path, Slow(lambda _request: "Done."))) as client:
        session, first = await begun(client, "one")
        path = f"/v1/sessions/{session}/runs"
        refused = await client.post(path, json={"prompt": "two"})
        assert (refused.status_code, refused.json()["code"]) == (409, "busy")
        key = {"Idempotency-Key": "k"}
        queued = (await client.post(path, json={"prompt": "two"}, params={"queue": 1}, headers=key)).json()
        again = (await client.post(path, json={"prompt": "two"}, headers=key)).json()
        assert (queued["state"], again["run"]) == ("queued", queued["run"])
        gone = (await client.post(path, json={"prompt": "three"}, params={"queue": 1})).json()["run"]
        assert (await client.post(f"/v1/runs/{gone}/cancel")).json()["state"] == "cancelled"
        gate.set()
        await until(client, queued["run"], "complete")
        turns = (await client.get(path)).json()
        assert [(each["prompt"], each["state"]) for each in turns] == [
            ("one", "complete"),
            ("two", "complete"),
            ("three", "cancelled"),
        ]
        assert turns[0]["run"] == first


async def test_a_turn_and_its_new_session_are_begun_together_or_not_at_all(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        asked = {"prompt": "go", "title": "Going", "attachments": [{"sha256": "0" * 64}]}
        for wrong in (asked, {**asked, "attachments": [], "prompt": ""}, {"prompt": "go", "agent": "other"}):
            refused = await client.post("/v1/runs", json=wrong)
            assert refused.status_code in (404, 422), refused.text
        assert (await client.get("/v1/sessions")).json() == []
        key = {"Idempotency-Key": "k"}
        made = await client.post("/v1/runs", json={**asked, "attachments": []}, headers=key)
        again = await client.post("/v1/runs", json={**asked, "attachments": []}, headers=key)
        assert (made.status_code, again.json()["run"]) == (202, made.json()["run"])
        assert (await until(client, made.json()["run"], "complete"))["ending"]["answer"] == "Done."
        (session,) = (await client.get("/v1/sessions")).json()
        assert (session["session"], session["title"]) == (made.json()["session"], "Going")
        begun_alone = await client.post("/v1/sessions", json={}, headers=key)
        assert begun_alone.json()["session"] == session["session"], "a key names one session"


async def test_a_client_that_has_read_the_end_of_a_turn_is_not_told_that_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)

    async def later(*_given: Any, **_named: Any) -> Any:
        raise AssertionError("the end is noted after its event")

    monkeypatch.setattr(turn_queue, "set_state", later)
    async with serving(service_of(tmp_path, script("One.", "Two."))) as client:
        session, run = await begun(client, "one")
        assert (await told(client, f"/v1/runs/{run}/events"))[-1]["type"] == "complete"
        assert (await client.get(f"/v1/runs/{run}")).json()["state"] == "complete"
        _, second = await begun(client, "two", session)
        assert (await until(client, second, "complete"))["ending"]["answer"] == "Two."


async def test_the_end_of_a_turn_and_its_event_are_stored_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)

    def refused(*_given: Any, **_named: Any) -> Any:
        def write(_connection: Any) -> Any:
            raise RunError("the turn cannot be written")

        return write

    monkeypatch.setattr(turn_queue, "setting_state", refused)
    async with serving(service_of(tmp_path, script("One."))) as client:
        _, run = await begun(client, "one")
        assert (await until(client, run, "complete"))["ending"]["answer"] == "One."
        kinds = [each["type"] for each in await told(client, f"/v1/runs/{run}/events")]
        assert "text" in kinds
        assert "complete" not in kinds


def before_the_end_is_stored(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]) -> None:
    """Do something when the last event of the first run is about to be stored."""
    store, done = EventLog._flush, []

    async def late(log: EventLog) -> None:
        if not done and any(each.event.type in ("complete", "error") for each in log._waiting):
            done.append(log)
            await act()
        await store(log)

    monkeypatch.setattr(EventLog, "_flush", late)


async def test_cancelling_ends_a_running_turn(tmp_path: Path) -> None:
    write_agent(tmp_path)

    class Endless(PositionModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            await asyncio.Event().wait()
            yield AIMessage("")

    async with serving(service_of(tmp_path, Endless(lambda _request: ""))) as client:
        _, run = await begun(client, "go")
        await told(client, f"/v1/runs/{run}/events", most=2)
        assert (await client.post(f"/v1/runs/{run}/cancel")).status_code == 202
        assert (await until(client, run, "cancelled"))["ending"]["code"] == "cancelled"
        assert (await told(client, f"/v1/runs/{run}/events"))[-1]["type"] == "error"


async def test_a_call_waits_for_a_decision_with_the_arguments_that_run(tmp_path: Path) -> None:
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="draft")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        assert pending["parameters"] == {"text": "draft"}
        path = f"/v1/approvals/{pending['id']}"
        wrong = await client.post(path, json={"decision": "approve", "changed": {"nonsense": 1}})
        assert wrong.status_code == 422
        # A person may write it in the page's editor: not all of it, or something else, would run.
        for changed, why in (
            ('{"text": "safe", "text": "evil"}', "a key is there twice"),
            ('{"text": 1e400}', "1e400 is too large a number"),
            ('{"text": NaN}', "NaN is not a JSON number"),
            ('{"text": 1e-400}', "1e-400 would be 0.0"),
            (r'{"text": "\ud800"}', "half of a surrogate pair is not a character"),
            (r'{"\ud800": 1, "\ufffd": 2}', "half of a surrogate pair is not a character"),
            ('{"text": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
        ):
            refused = await client.post(
                path, content=f'{{"decision": "approve", "changed": {changed}}}', headers=JSON
            )
            assert (refused.status_code, why in refused.json()["detail"]) == (422, True), refused.text
        decided = await client.post(path, json={"decision": "approve", "changed": {"text": "final"}})
        assert decided.status_code == 200, decided.text
        assert (await client.post(path, json={"decision": "reject"})).status_code == 422
        await until(client, run, "complete")
        events = await told(client, f"/v1/runs/{run}/events")
        assert [each["type"] for each in events].count("tool_call_result") == 1
    assert (tmp_path / "effects.txt").read_text() == "final\n"


async def test_a_waiting_call_is_shown_exactly(tmp_path: Path) -> None:
    write_agent(tmp_path, ASKING)
    text = "pay\u202e\u200b" + "x" * 5_000
    async with serving(
        service_of(tmp_path, script(calling(call("record", "a", text=text)), "Done."))
    ) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        shown = (await client.get(f"/v1/approvals/{pending['id']}")).json()
    cut, whole = (" ".join(line["text"] for line in shown[name]) for name in ("lines", "whole"))
    assert r"text: pay\u202e\u200bxxx" in cut
    assert r"text: pay\u202e\u200bxxx" in whole
    assert "more characters; see it with `show all`" in cut
    assert len(cut) < 5_000 < len(whole)
    assert json.loads(shown["editable"]) == {"text": text}
    assert shown["editable"].isascii()


async def test_what_a_terminal_gets_cannot_act_on_it(tmp_path: Path) -> None:
    write_agent(tmp_path, ASKING)
    hiding = "a\u202eb\x9b31mc\u2028d\x85é"
    model = script(calling(call("record", "a", text=hiding), text=hiding), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        _, run = await begun(client, hiding)
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        texts = [(await client.get(f"/v1/approvals{path}")).text for path in ("", f"/{pending['id']}")]
        texts.append((await client.get(f"/v1/sessions/{pending['session']}/messages")).text)
        await client.post(f"/v1/approvals/{pending['id']}", json={"decision": "reject", "reason": hiding})
        texts.append((await client.get(f"/v1/runs/{run}/events")).text)
    assert pending["parameters"] == {"text": hiding}
    for text in texts:
        assert r"a\u202eb\u009b31mc\u2028d\u0085é" in text
        assert text.replace("\n", "").isprintable()


async def test_an_approval_counts_for_the_change_that_its_user_saw(tmp_path: Path) -> None:
    write_agent(tmp_path, ASKING, tools="[filesystem]")
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    made = call("edit_file", "a", path="/a.txt", old="one", new="two")
    async with serving(service_of(tmp_path, script(calling(made), "Done."))) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        path = f"/v1/approvals/{pending['id']}"
        first = (await client.get(path)).json()
        file.write_text("delete everything but one\n")
        second = (await client.get(path)).json()
        assert first["seen"] != second["seen"]
        old = await client.post(path, json={"decision": "approve", "seen": first["seen"]})
        assert (old.status_code, "another change" in old.text) == (422, True), old.text
        assert (
            await client.post(path, json={"decision": "approve", "seen": second["seen"]})
        ).status_code == 200
        await until(client, run, "complete")
    assert file.read_text() == "delete everything but two\n"


@pytest.mark.parametrize("former", ["approve", "reject", "cancel"])
async def test_who_decides_after_another_person_reads_what_became_of_the_call(
    tmp_path: Path, former: str
) -> None:
    """Once its turn went on, the answer was that no call with this id waits."""
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="x")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        path = f"/v1/approvals/{pending['id']}"
        if former == "cancel":
            await client.post(f"/v1/runs/{run}/cancel")
        else:
            await client.post(path, json={"decision": former})
        await until(client, run, "cancelled" if former == "cancel" else "complete")
        told = {
            "approve": "was approved already",
            "reject": "was rejected already",
            "cancel": "its turn ended",
        }
        for decision in ("approve", "reject"):
            late = await client.post(path, json={"decision": decision})
            assert (late.status_code, told[former] in late.text) == (422, True), late.text
        looked = await client.get(path)
        assert (looked.status_code, told[former] in looked.text) == (404, True), looked.text
        assert former == "cancel" or re.search(r"already, by the user, at \d{4}-\d\d-\d\d \d", looked.text)
        unknown = await client.post("/v1/approvals/0", json={"decision": "approve"})
        assert unknown.status_code == 404


async def test_an_approval_that_does_not_hold_is_told_to_who_gave_it(tmp_path: Path) -> None:
    answers = script(calling(call("write_file", "a", path="/a.txt", content="x")), "Done.")
    run, found = "", []
    for tools in ("[filesystem]", "[{filesystem: {protected: [b.txt]}}]"):
        write_agent(tmp_path, ASKING, tools=tools)
        async with serving(service_of(tmp_path, answers)) as client:
            if not run:
                _, run = await begun(client, "go")
                await until(client, run, "waiting")
                continue
            for _ in range(2):
                await until(client, run, "waiting")
                (pending,) = (await client.get("/v1/approvals")).json()
                answer = await client.post(f"/v1/approvals/{pending['id']}", json={"decision": "approve"})
                found.append(answer.json().get("outdated", False))
            await until(client, run, "complete")
    assert found == [True, False]


async def test_the_next_service_resumes_what_a_stopped_one_left(tmp_path: Path) -> None:
    write_agent(tmp_path)
    reached = asyncio.Event()
    stuck = True

    class Stopped(PositionModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            if stuck and any(message.type == "tool" for message in request.messages):
                reached.set()
                await asyncio.Event().wait()
            async for piece in super().stream(request):
                yield piece

    def answer(request: ModelRequest) -> AIMessage | str:
        prompts = sum(message.type == "human" for message in request.messages)
        done = any(message.type == "tool" for message in request.messages)
        return f"Done {prompts}." if done else calling(call("record", "a", text="once"))

    model = Stopped(answer)
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        _, queued = await begun(client, "more", session, queue=1)
        await asyncio.wait_for(reached.wait(), 10)
    stuck = False
    async with serving(service_of(tmp_path, model)) as client:
        await until(client, queued, "complete")
        first = await told(client, f"/v1/runs/{run}/events")
        assert first[-1]["answer"] == "Done 1."
        assert [each["type"] for each in first].count("tool_call_result") == 1
        assert not [each for each in first if each["type"] == "error"]
        assert (await until(client, queued, "complete"))["ending"]["answer"] == "Done 2."
    assert (tmp_path / "effects.txt").read_text() == "once\n"


@pytest.mark.parametrize("moment", ["begins", "is prepared", "reads its files"])
async def test_a_turn_that_only_begins_when_the_service_stops_is_left_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write_agent(tmp_path)
    model = script("First.", "Second.")
    service = service_of(tmp_path, model)
    closing: list[asyncio.Task[None]] = []
    names: dict[str, tuple[Any, str]] = {
        "begins": (turn_queue, "begin_turn"),
        "is prepared": (HostedAgent, "prepare"),
        "reads its files": (TurnQueue, "_attached"),
    }
    place, name = names[moment]
    whole = getattr(place, name)

    async def stopping(*given: Any) -> Any:
        found = await whole(*given)
        if not closing and (moment != "is prepared" or await states() == ["running"]):
            closing.append(asyncio.create_task(service.turns.aclose()))
            await asyncio.sleep(0)
        return found

    async def states() -> list[str]:
        (hosted,) = service.hosting
        log = await hosted.of(None).log()
        return [each.state for each in await turns_of(log, await log.find(session))]

    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        monkeypatch.setattr(place, name, stopping)
        _, run = await begun(client, "go", session)
        while service.turns.working:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        await closing[0]
        assert await states() == ["running"]
    monkeypatch.undo()
    async with serving(service_of(tmp_path, model)) as client:
        turn = await until(client, run, "complete", "failed", "cancelled")
        assert turn["ending"]["answer"].endswith(".")
        events = await told(client, f"/v1/runs/{run}/events")
        assert [each["type"] for each in events if each["type"] in ("complete", "error")] == ["complete"]


@pytest.mark.parametrize("place", ["begin", "attach", "stream"])
async def test_a_turn_that_fails_inside_the_runtime_has_an_end_and_does_not_keep_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write_agent(tmp_path, "middlewares: [resources]\n")
    service = service_of(tmp_path, script("Done."))

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is gone")

    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        data = b"x"
        digest = hashlib.sha256(data).hexdigest()
        await client.put(f"/v1/files/{digest}", content=data)
        if place == "begin":
            monkeypatch.setattr(ClientTool, "from_json", broken)
        elif place == "attach":
            monkeypatch.setattr(Uploads, "read", broken)
        else:
            monkeypatch.setattr(Agent, "stream", broken)
        tools = {"tools": [{}]} if place == "begin" else {}
        asked = {"prompt": "go", "attachments": [{"sha256": digest, "name": "f"}], **tools}
        (hosted,) = service.hosting
        run = (await service.turns.add(hosted, None, session, asked)).run
        ending = (await until(client, run, "failed"))["ending"]
        assert (ending["code"], ending["message"]) == ("internal", "OSError: the disk is gone")
        monkeypatch.undo()
        _, later = await begun(client, "go", session)
        assert (await until(client, later, "complete"))["ending"]["answer"] == "Done."


@pytest.mark.parametrize("ends", ["complete", "waiting", "failed"])
async def test_a_turn_that_ends_by_itself_while_the_service_stops_has_its_end_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    write_agent(tmp_path, ASKING)
    wanted = {"complete": "Done.", "waiting": calling(call("record", "a", text="draft")), "failed": ""}
    service = service_of(tmp_path, script(wanted[ends]))
    tidy = Session._tidy

    async def stopping(*given: Any) -> None:
        await tidy(*given)
        closing.append(asyncio.create_task(service.turns.aclose()))
        await asyncio.sleep(0)

    closing: list[asyncio.Task[None]] = []
    monkeypatch.setattr(Session, "_tidy", stopping)
    async with serving(service) as client:
        session, run = await begun(client, "go")
        turn = await until(client, run, ends)
        await closing[0]
    monkeypatch.undo()
    later = service_of(tmp_path, script())
    async with serving(later) as client:
        assert await until(client, run, ends) == turn
        (hosted,) = later.hosting
        events = await hosted.of(None).stored_events(session, 0, at_most=100)
        last = json.loads(events[-1].payload)
        assert (last["type"], last.get("code")) == (turn["ending"]["type"], turn["ending"].get("code"))


@pytest.mark.parametrize("headers", [{"Authorization": ""}, {"Authorization": "Bearer wrong"}])
async def test_without_the_token_nothing_is_told(tmp_path: Path, headers: dict[str, str]) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    async with serving(service) as client:
        paths = [
            path for path in (await client.get("/openapi.json")).json()["paths"] if path.startswith("/v1/")
        ]
        assert len(paths) >= 10
        for path in paths:
            for method in ("GET", "POST", "DELETE"):
                answer = await client.request(method, path, headers=headers)
                assert answer.status_code in (401, 405), (method, path)
                if answer.status_code == 401:
                    assert answer.json()["code"] == "unauthorized"
        assert (await client.get("/health", headers=headers)).text == "ok\n"


async def test_a_changed_config_is_read_again_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    async with serving(service) as client:
        (hosted,) = service.hosting
        assert hosted is service.hosting.named(None)
        text = config.read_text()
        config.write_text(text + "description: New.\n")
        hosted._looked = 0
        agent = (await client.get("/v1/agents")).json()[0]
        assert agent["description"] == "New."
        config.write_text(text + "descriptoin: wrong\n")
        hosted._looked = 0
        assert (await client.get("/v1/agents")).json()[0]["description"] == "New."
        assert "descriptoin" in (await client.get("/ready")).json()["unread_configs"]["test"]


async def test_a_key_and_a_wrong_request_leave_no_secret(tmp_path: Path) -> None:
    secret = "argo-Secret-4711"
    (tmp_path / ".env").write_text(f"SHIP_TOKEN={secret}\n")
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        wrong = await client.post("/v1/sessions", json={secret: 1})
        assert (wrong.status_code, wrong.json()["errors"][0]["where"]) == (422, "body.<secret:SHIP_TOKEN>")
        assert secret not in wrong.text
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        path, key = f"/v1/sessions/{session}/runs", {"Idempotency-Key": f"key {secret}"}
        run = (await client.post(path, json={"prompt": "go"}, headers=key)).json()["run"]
        await until(client, run, "complete")
        assert (await client.post(path, json={"prompt": "go"}, headers=key)).json()["run"] == run
    for file in (tmp_path / ".zeus").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


async def test_no_agent_may_write_what_decides_about_another_agent_of_the_service(tmp_path: Path) -> None:
    write_agent(tmp_path, "instructions: {file: other.md}\n").rename(tmp_path / "other.yaml")
    (tmp_path / "other.md").write_text("Be kind.")
    (tmp_path / "other.yaml").write_text(
        (tmp_path / "other.yaml").read_text().replace("name: test", "name: other")
    )
    write_agent(tmp_path, tools="[filesystem, probe]")
    calls = [
        call("write_file", name, path=f"/{name}", content="approvals: run_everything\n")
        for name in ("other.yaml", "other.md", "free.md")
    ]
    service = service_of(tmp_path, script(calling(*calls), "Done."), ("zeus.yaml", "other.yaml"))
    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={"agent": "test"})).json()["session"]
        _, run = await begun(client, "go", session)
        await until(client, run, "complete")
        messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    assert "decides" in results["other.yaml"]
    assert "decides" in results["other.md"]
    assert (tmp_path / "free.md").exists()
    assert "run_everything" not in (tmp_path / "other.yaml").read_text() + (tmp_path / "other.md").read_text()


async def test_a_stream_ends_with_a_turn_that_is_cancelled_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.05)
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="draft")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        following = asyncio.create_task(told(client, f"/v1/runs/{run}/events"))
        await asyncio.sleep(0.2)
        assert not following.done(), "a turn that waits is not over"
        monkeypatch.setattr(hub, "PAUSE_SECONDS", 60)
        await asyncio.sleep(0.1)  # the next pause is one of these
        assert (await client.post(f"/v1/runs/{run}/cancel")).json()["state"] == "cancelled"
        assert (await asyncio.wait_for(following, 5))[-1]["code"] == "approval_needed"
        again = await asyncio.wait_for(told(client, f"/v1/runs/{run}/events"), 5)
        assert again[-1]["code"] == "approval_needed", "it ends at once for whoever comes later"
    assert not (tmp_path / "effects.txt").exists()


async def test_a_turn_that_cannot_begin_fails_and_does_not_keep_the_next(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, empty = await begun(client, "   ")
        assert (await until(client, empty, "failed"))["ending"]["code"] == "usage"
        _, run = await begun(client, "go", session)
        assert (await until(client, run, "complete"))["ending"]["answer"] == "Done."


@pytest.mark.parametrize("moment", ["begins", "waits"])
async def test_a_cancel_counts_that_comes_while_a_turn_begins_or_before_it_is_noted_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="draft")), "Done.")
    service = service_of(tmp_path, model)
    async with serving(service) as client:

        async def cancel() -> None:
            (session,) = [each["session"] for each in (await client.get("/v1/sessions")).json()]
            (turn,) = (await client.get(f"/v1/sessions/{session}/runs")).json()
            assert turn["state"] == "running"
            assert (await client.post(f"/v1/runs/{turn['run']}/cancel")).status_code == 202

        async def begin(*given: Any) -> Any:
            begun = await begin_turn(*given)
            if begun is not None:
                await cancel()
            return begun

        if moment == "begins":
            monkeypatch.setattr(turn_queue, "begin_turn", begin)
        else:
            before_the_end_is_stored(monkeypatch, cancel)
        _, run = await begun(client, "go")
        turn = await until(client, run, "cancelled", "complete")
        assert (turn["state"], turn["ending"]["code"]) == (
            "cancelled",
            "cancelled" if moment == "begins" else "approval_needed",
        )
        if moment == "waits":
            (hosted,) = service.hosting
            log = await hosted.of(None).log()
            found = await find_turn(log, run)
            assert found is not None
            assert await set_state(log, found, "running") == "cancelled", "a final state stays"
            assert (await client.get(f"/v1/runs/{run}")).json()["state"] == "cancelled"
    assert not (tmp_path / "effects.txt").exists()


async def test_a_decision_counts_that_comes_before_the_turn_is_noted_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="draft")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:

        async def decide() -> None:
            (pending,) = (await client.get("/v1/approvals")).json()
            decided = await client.post(f"/v1/approvals/{pending['id']}", json={"decision": "approve"})
            assert decided.status_code == 200

        before_the_end_is_stored(monkeypatch, decide)
        _, run = await begun(client, "go")
        assert (await until(client, run, "complete"))["ending"]["answer"] == "Done."


TIMED = "middlewares: [approve: {timeout_seconds: SECONDS, on_timeout: ANSWER}]\n"


@pytest.mark.parametrize("ends", ["while the service runs", "while no service runs", "after the next begins"])
async def test_a_turn_goes_on_when_the_time_to_decide_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.02)
    seconds = "0.05" if ends == "while the service runs" else "0.5"
    write_agent(tmp_path, TIMED.replace("SECONDS", seconds).replace("ANSWER", "approve"))
    model = script(calling(call("record", "a", text="draft")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        if ends == "while the service runs":
            await until(client, run, "complete")
        else:
            await until(client, run, "waiting")
    if ends == "while no service runs":
        await asyncio.sleep(0.5)
    async with serving(service_of(tmp_path, model)) as client:
        assert (await until(client, run, "complete"))["ending"]["answer"] == "Done."
        following = (await client.post(f"/v1/sessions/{session}/runs", json={"prompt": "more"})).status_code
        assert following == 202
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


async def test_a_turn_waits_on_for_a_call_without_a_time_and_then_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.02)
    write_agent(tmp_path, TIMED.replace("SECONDS", "1.5").replace("ANSWER", "reject"))
    calls = [call("record", name, text=name) for name in "ab"]
    service = service_of(tmp_path, script(calling(*calls), "Done."))
    async with serving(service) as client:
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        *_, last = (await client.get("/v1/approvals")).json()
        with sqlite3.connect(tmp_path / ".zeus/zeus.db") as database:
            database.execute("UPDATE pending_approval SET expires_ms = NULL WHERE id = ?", (last["id"],))
        await asyncio.sleep(1.6)
        for _ in range(500):
            if service.turns._timed:
                await asyncio.sleep(0.02)
        assert not service.turns._timed, "nobody looks for it any more"
        assert (await client.get(f"/v1/runs/{run}")).json()["state"] == "waiting"
        await client.post(f"/v1/approvals/{last['id']}", json={"decision": "approve"})
        await until(client, run, "complete")
    assert (tmp_path / "effects.txt").read_text() == f"{last['parameters']['text']}\n"


@pytest.mark.parametrize("fails", ["after the decision", "after the end of the run"])
async def test_a_decided_turn_goes_on_although_its_process_ended_before_it_was_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    write_agent(tmp_path, ASKING)
    model = script(calling(call("record", "a", text="draft")), "Done.")
    noted = asyncio.Event()

    async def ends(*given: Any, **named: Any) -> Any:
        if given[2:] == ("running",):
            noted.set()
            raise RunError("the process ends")
        return await set_state(*given, **named)

    place = service_module if fails == "after the decision" else turn_queue
    monkeypatch.setattr(place, "set_state", ends)
    async with serving(service_of(tmp_path, model)) as client:

        async def decide() -> None:
            (pending,) = (await client.get("/v1/approvals")).json()
            await client.post(f"/v1/approvals/{pending['id']}", json={"decision": "approve"})

        if place is turn_queue:
            before_the_end_is_stored(monkeypatch, decide)
        _, run = await begun(client, "go")
        await until(client, run, "waiting")
        if place is service_module:
            await decide()
        await asyncio.wait_for(noted.wait(), 10)
        assert (await client.get(f"/v1/runs/{run}")).json()["state"] == "waiting"
    monkeypatch.undo()
    async with serving(service_of(tmp_path, model)) as client:
        assert (await until(client, run, "complete"))["ending"]["answer"] == "Done."
    assert (tmp_path / "effects.txt").read_text() == "draft\n"


@pytest.mark.parametrize("has_gone_back", [True, False])
async def test_the_next_service_leaves_a_turn_that_waits(tmp_path: Path, has_gone_back: bool) -> None:
    write_agent(tmp_path, ASKING)
    calls = [call("record", name, text="draft") for name in "ab"]
    model = script("Hello.", calling(*calls), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "hello")
        await until(client, run, "complete")
        _, run = await begun(client, "go", session)
        await until(client, run, "waiting")
        first, _ = (await client.get("/v1/approvals")).json()
        await client.post(f"/v1/approvals/{first['id']}", json={"decision": "approve"})
        if has_gone_back:
            await client.post(f"/v1/sessions/{session}/rollback", json={"to": 1})
            assert (await client.get("/v1/approvals")).json() == []
    service = service_of(tmp_path, model)
    async with serving(service) as client:
        assert not service.turns.working
        state = (await client.get(f"/v1/runs/{run}")).json()["state"]
    assert state == ("cancelled" if has_gone_back else "waiting")
    assert not (tmp_path / "effects.txt").exists()


async def test_another_task_than_the_one_that_had_begun_is_worked_on_anew(tmp_path: Path) -> None:
    """An agent that waits is edited, so its task is asked about again, and a person changes it."""

    def written(steps: int) -> None:
        rules = {"ask": ["task", {"echo": {"text": "b*"}}], "allow": [{"echo": {"text": "a*"}}]}
        writer = {"description": "W.", "overrides": {"limits": {"max_steps": steps}}}
        agents = {"writer": writer, "reader": {"description": "R."}}
        more = f"middlewares: [{json.dumps({'approve': rules})}]\nagents: {json.dumps(agents)}\n"
        write_agent(tmp_path, more + storage(SQLITE_URL), tools="[probe, subagents]")

    lines = [calling(call("echo", f"r{n}", text=text)) for n, text in enumerate(("a1", "b", "a2"))]
    model = cast(
        go=[calling(task("t1", "delete all", "writer")), "End."],
        delete=[*lines, "Deleted."],
        only=["Two."],
    )

    async def asked(client: httpx.AsyncClient, tool: str) -> str:
        async with asyncio.timeout(20):
            while True:
                waiting = (await client.get("/v1/approvals")).json()
                if found := [each["id"] for each in waiting if each["tool_name"] == tool]:
                    return f"/v1/approvals/{found[0]}"
                await asyncio.sleep(0.02)

    async def approve(client: httpx.AsyncClient, tool: str, **more: Any) -> dict[str, Any]:
        path = await asked(client, tool)
        shown: dict[str, Any] = (await client.get(path)).json()
        answer = await client.post(path, json={"decision": "approve", "seen": shown["seen"], **more})
        assert answer.status_code == 200, answer.text
        return shown

    written(9)
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        assert (await approve(client, "task"))["interrupted"] is False
        await asked(client, "echo")
        await until(client, run, "waiting")
    written(8)
    async with serving(service_of(tmp_path, model)) as client:
        await approve(client, "echo")
        changed = {"description": "look", "prompt": "only list", "agent": "reader"}
        shown = await approve(client, "task", changed=changed)
        begun_before = "It was begun before and did not finish: whether it took effect is unknown."
        assert begun_before in [each["text"].strip() for each in shown["lines"]]
        assert (await until(client, run, "complete", "failed"))["state"] == "complete"
        messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
    (result,) = [each["content"] for each in messages if each["role"] == "tool"]
    assert result.startswith(
        'This call was begun before with the arguments {"description": "about delete all"'
    )
    assert "\n\nTwo.\n\n[reader · " in result
    assert "Deleted." not in result
