"""What ends a turn that waits: no decision counts afterwards, and what is queued behind it begins."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import (
    TOOLS,
    Answering,
    PositionModel,
    call,
    calling,
    events_of,
    script,
    write_agent,
)
from tests.support.databases import SQLITE_URL, storage
from tests.support.serving import begun, service_of, serving, told, until
from zeus_runtime import Agent
from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.events import RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.serving.http import hub
from zeus_runtime.store.turns import find_turn, set_state
from zeus_runtime.tools.approval import Decision

PLUGIN = (
    TOOLS
    + '''
import asyncio
from dataclasses import replace

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}

@tool(access="read")
async def confirm(run) -> str:
    """Ask something."""
    return str(await run.ask("Sure?", FORM))

settle = replace(confirm, name="settle", access="write")

@tool(access="read")
async def hang() -> str:
    """Never ends."""
    await asyncio.Event().wait()

@hookimpl(specname="register_tools")
def register_asking():
    return [Component("asking", create=lambda options, context: [confirm, settle, hang])]
'''
)
ASKING = "middlewares: [approve]\n"
NAMES = ("approve", "reject", "changed", "always")
CALLS = [*(call("record", name, text=name) for name in NAMES), call("confirm", "answer")]
DECISIONS: dict[str, dict[str, Any]] = {
    "approve": {"decision": "approve"},
    "reject": {"decision": "reject", "reason": "no"},
    "changed": {"decision": "approve", "changed": {"text": "mine"}},
    "always": {"decision": "approve", "always": True},
    "answer": {"decision": "approve", "changed": {"sure": True}},
}


def written(folder: Path, url: str = SQLITE_URL, more: str = "") -> Path:
    return write_agent(folder, ASKING + storage(url) + more, plugin=PLUGIN, tools="[probe, asking]")


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return file.read_text().split() if file.exists() else []


def at_a_terminal(folder: Path) -> Agent:
    """The same agent in another process, as far as the service knows."""
    return Agent.from_config(folder / "zeus.yaml", directory=folder, model=script(calling(*CALLS), "Done."))


async def asked(client: httpx.AsyncClient, session: str, count: int = len(CALLS)) -> dict[str, str]:
    """The ids of the open requests of a session, by their calls."""
    async with asyncio.timeout(20):
        while True:
            found = (await client.get("/v1/approvals")).json()
            ids = {each["call_id"]: each["id"] for each in found if each["session"] == session}
            if len(ids) == count:
                return ids
            await asyncio.sleep(0.02)


End = Callable[[httpx.AsyncClient, Path, str, str], Awaitable[str]]


async def stop(client: httpx.AsyncClient, _: Path, __: str, run: str) -> str:
    answer = await client.post(f"/v1/runs/{run}/cancel")
    assert answer.json()["state"] == "cancelled"
    return "cancelled"


async def go_back(client: httpx.AsyncClient, _: Path, session: str, __: str) -> str:
    answer = await client.post(f"/v1/sessions/{session}/rollback", json={"to": 1})
    assert answer.status_code == 200, answer.text
    return "cancelled"


async def archive(client: httpx.AsyncClient, _: Path, session: str, __: str) -> str:
    assert (await client.post(f"/v1/sessions/{session}/archive")).status_code == 200
    return ""


async def delete(client: httpx.AsyncClient, _: Path, session: str, __: str) -> str:
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    return ""


async def say_more(_: httpx.AsyncClient, folder: Path, session: str, __: str) -> str:
    async with at_a_terminal(folder) as agent:
        assert isinstance((await events_of(agent.stream("more", session=session)))[-1], RunCompleted)
    return "cancelled"


async def resume(_: httpx.AsyncClient, folder: Path, session: str, __: str) -> str:
    class Person(Answering):
        async def ask(self, pending: Any) -> Decision:
            return Decision("approve", arguments={"sure": True} if pending.is_question else None)

    async with at_a_terminal(folder) as agent:
        assert isinstance((await events_of(agent.resume(session, approvals=Person())))[-1], RunCompleted)
    (folder / "effects.txt").unlink()
    return "cancelled"


@pytest.mark.parametrize("end", [archive, delete, say_more, resume])
async def test_no_decision_counts_after_the_end_of_its_turn(tmp_path: Path, end: End) -> None:
    await no_decision_counts(tmp_path, SQLITE_URL, end)


@pytest.mark.parametrize("end", [stop, go_back])
async def test_no_decision_counts_after_a_stop_or_a_return(
    tmp_path: Path, database_url: str, end: End
) -> None:
    await no_decision_counts(tmp_path, database_url, end)


async def no_decision_counts(tmp_path: Path, url: str, end: End) -> None:
    written(tmp_path, url)
    async with serving(service_of(tmp_path, script(calling(*CALLS), "Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        ids = await asked(client, session)
        state = await end(client, tmp_path, session, run)
        for name, decision in DECISIONS.items():
            answer = await client.post(f"/v1/approvals/{ids[name]}", json=decision)
            assert answer.status_code in (404, 422), (name, answer.text)
        assert (await client.get("/v1/approvals")).json() == []
        assert (await client.get(f"/v1/runs/{run}")).json().get("state", "") == state
        listed = [each["state"] for each in (await client.get("/v1/sessions")).json()]
        assert "approval" not in listed
        if end is archive:
            # It is not the end of the turn: what is restored waits as before, and a decision has its effect.
            await client.post(f"/v1/sessions/{session}/restore")
            for name, decision in DECISIONS.items():
                answer = await client.post(f"/v1/approvals/{ids[name]}", json=decision)
                assert answer.status_code == 200, answer.text
            await until(client, run, "complete")
            assert sorted(effects(tmp_path)) == ["always", "approve", "mine"]
            return
    async with at_a_terminal(tmp_path) as agent:
        for name in NAMES:
            with pytest.raises((UsageError, NotFoundError)):
                await agent.decide(session, {ids[name]: Decision("approve", always=name == "always")})
    assert effects(tmp_path) == []


@pytest.mark.parametrize("how", ["stopped", "failed"])
async def test_a_turn_that_runs_beside_its_questions_withdraws_them_at_its_end(
    tmp_path: Path, how: str
) -> None:
    written(tmp_path, more="limits: {timeout_seconds: 0.5}\n" if how == "failed" else "")
    model = script(calling(*CALLS, call("hang", "h")), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        ids = await asked(client, session)
        if how == "stopped":
            await client.post(f"/v1/runs/{run}/cancel")
        await until(client, run, "cancelled" if how == "stopped" else "failed")
        for name, decision in DECISIONS.items():
            answer = await client.post(f"/v1/approvals/{ids[name]}", json=decision)
            assert answer.status_code in (404, 422), (name, answer.text)
    assert effects(tmp_path) == []


@pytest.mark.parametrize("end", [stop, go_back])
async def test_what_is_queued_behind_a_turn_begins_when_it_ends(tmp_path: Path, end: End) -> None:
    written(tmp_path)
    async with serving(service_of(tmp_path, script(calling(CALLS[0]), "Done.", "Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        _, queued = await begun(client, "more", session, queue=1)
        assert await end(client, tmp_path, session, run) == "cancelled"
        state = (await until(client, queued, "complete", "waiting"))["state"]
        # After going back, the model of this test is at its first answer again.
        assert state == ("complete" if end is stop else "waiting")


def delegating(request: Any) -> Any:
    """Gives a task to a sub-agent, which records something, and once it hears of the result it is done."""
    prompt = next(str(each.content) for each in request.messages if each.type == "human")
    made = [each for each in request.messages if each.type == "ai"]
    if made or "go" not in prompt:
        return "Done." if made else calling(CALLS[0])
    return calling(call("task", "t", agent="scout", description="d", prompt="Record it."))


@pytest.mark.parametrize("end", [stop, go_back])
async def test_the_questions_of_a_sub_agent_end_with_the_turn(tmp_path: Path, end: End) -> None:
    config = written(tmp_path, more="agents: {scout: {description: Looks.}}\n")
    text = config.read_text().replace("[approve]", "[approve: {ask: [task]}]")
    config.write_text(text.replace("asking]", "asking, subagents]"))
    async with serving(service_of(tmp_path, PositionModel(delegating))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        await client.post(
            f"/v1/approvals/{(await asked(client, session, 1))['t']}", json={"decision": "approve"}
        )
        async with asyncio.timeout(20):
            while not (found := (await client.get("/v1/approvals")).json()):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        await until(client, run, "waiting")
        name = found[0]["id"]
        assert found[0]["session"] != session
        await end(client, tmp_path, session, run)
        answer = await client.post(f"/v1/approvals/{name}", json={"decision": "approve"})
        assert answer.status_code == 422, answer.text
        if end is stop:
            sqlite(tmp_path, "UPDATE pending_approval SET verdict = NULL")
            answer = await client.post(f"/v1/approvals/{name}", json={"decision": "approve"})
            assert (answer.status_code, "its turn ended" in answer.text) == (422, True)
            _, more = await begun(client, "more", session)
            await until(client, more, "complete")
            messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
            assert [each["content"] for each in messages if each["role"] == "tool"] == [NOT_RUN["answer"]]
    assert effects(tmp_path) == []


async def test_the_questions_of_a_sub_agent_that_failed_are_withdrawn(tmp_path: Path) -> None:
    """Its task has a result by then, although the turn still waits for another call."""
    limited = written(tmp_path, more="limits: {timeout_seconds: 0.3}\n").read_text()
    (tmp_path / "scout.yaml").write_text(limited.replace("name: test", "name: scout"))
    written(tmp_path, more="agents: {scout: {description: Looks., config: scout.yaml}}\n")
    config = tmp_path / "zeus.yaml"
    text = config.read_text().replace("[approve]", "[approve: {allow: [task]}]")
    config.write_text(text.replace("asking]", "asking, subagents]"))

    def answer(request: Any) -> Any:
        if "go" not in next(str(each.content) for each in request.messages if each.type == "human"):
            return calling(CALLS[0], call("hang", "h"))
        task = call("task", "t", agent="scout", description="d", prompt="Record it.")
        return calling(task, call("record", "own", text="own"))

    async with serving(service_of(tmp_path, PositionModel(answer))) as client:
        _, run = await begun(client, "go")
        turn = await until(client, run, "waiting", "failed")
        assert turn["state"] == "waiting", turn
        assert [each["call_id"] for each in (await client.get("/v1/approvals")).json()] == ["own"]


async def test_a_turn_that_is_decided_but_does_not_run_yet_ends_with_a_return(tmp_path: Path) -> None:
    written(tmp_path)
    service = service_of(tmp_path, script(calling(CALLS[0]), "Done."))
    async with serving(service) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        log = await next(iter(service.hosting)).of(None).log()
        turn = await find_turn(log, run)
        assert turn is not None
        await set_state(log, turn, "running")
        assert await go_back(client, tmp_path, session, run) == "cancelled"
        turn = await find_turn(log, run)
        assert turn is not None
        assert (turn.state, turn.ending and turn.ending["message"]) == (
            "cancelled",
            "The session went back to an earlier message.",
        )


async def test_a_reader_that_is_not_told_of_the_end_hears_of_it_with_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at another service, whose reader has no pause while the next turn works."""
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 60)
    written(tmp_path)
    service = service_of(tmp_path, script(calling(CALLS[0]), "Done.", "Done."))
    service.turns.over = lambda _session: None
    async with serving(service) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        reading = asyncio.create_task(told(client, f"/v1/runs/{run}/events"))
        _, queued = await begun(client, "more", session, queue=1)
        await asyncio.sleep(0.1)  # nothing tells that the reader reads
        await stop(client, tmp_path, session, run)
        await until(client, queued, "complete")
        events = await asyncio.wait_for(reading, 5)
    assert {each["run"] for each in events} == {run}


async def test_a_request_that_an_earlier_zeus_left_open_is_not_decided(tmp_path: Path) -> None:
    written(tmp_path)
    async with serving(service_of(tmp_path, script(calling(CALLS[0]), "Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        ids = await asked(client, session, 1)
        await stop(client, tmp_path, session, run)
        sqlite(tmp_path, "UPDATE pending_approval SET verdict = NULL")
        answer = await client.post(f"/v1/approvals/{ids['approve']}", json={"decision": "approve"})
        assert (answer.status_code, "its turn ended" in answer.text) == (422, True)
    async with at_a_terminal(tmp_path) as agent:
        # Asked again by a run at a terminal, it is decided, and the run goes on.
        sqlite(tmp_path, "UPDATE pending_approval SET verdict = 'withdrawn'")
        assert isinstance((await events_of(agent.resume(session)))[-1], RunFailed)
        await agent.decide(session, {ids["approve"]: Decision("approve")})
        await events_of(agent.resume(session))
    assert effects(tmp_path) == ["approve"]


def sqlite(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / ".zeus/zeus.db") as connection:
        connection.execute(statement)


NOT_RUN = {
    "none": "This call was not run: the user continued without deciding about it.",
    "reject": "This call was rejected: no. It was not run.",
    "approve": "This call was approved, but it was not run: its turn ended before it began.",
    "answer": "This call was interrupted before it finished; whether it took effect is unknown.",
}


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_call_without_a_result_is_closed_with_what_is_known(tmp_path: Path, is_stopped: bool) -> None:
    written(tmp_path)
    calls = [*(call("record", name, text=name) for name in ("none", "reject", "approve")), CALLS[-1]]
    model = script(calling(*calls), "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        ids = await asked(client, session, len(calls))
        for name in ("reject", "approve"):
            await client.post(f"/v1/approvals/{ids[name]}", json=DECISIONS[name])
        if is_stopped:
            await stop(client, tmp_path, session, run)
            _, run = await begun(client, "more", session)
            await until(client, run, "complete")
        else:
            await say_more(client, tmp_path, session, run)
        messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    assert results == NOT_RUN
    assert effects(tmp_path) == []


async def test_a_call_that_asked_something_itself_had_begun(tmp_path: Path) -> None:
    written(tmp_path)
    model = script(calling(call("settle", "s")), "Done.")
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as agent:
        await events_of(agent.stream("go"))
        (pending,) = await agent.pending_approvals()
        await agent.decide(pending.session, {pending.id: Decision("approve")})
        await events_of(agent.resume(pending.session))
        assert [each.is_question for each in await agent.pending_approvals()] == [True]
        await events_of(agent.stream("more", session=pending.session))
        results = [str(each.content) for each in await agent.history(pending.session) if each.type == "tool"]
    assert results == [NOT_RUN["answer"]]


async def test_a_call_that_a_rule_let_run_later_had_begun(tmp_path: Path) -> None:
    config = written(tmp_path)
    asking = config.read_text()
    model = script(calling(CALLS[0]), "Done.")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        await events_of(agent.stream("go"))
        (session,) = [each.session for each in await agent.sessions()]
    hanging = PLUGIN.replace('return f"recorded: {text}"', "await asyncio.Event().wait()")
    (tmp_path / "probe.py").write_text(hanging)
    config.write_text(asking.replace("[approve]", "[approve: {allow: [record]}]"))
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        running = asyncio.create_task(events_of(agent.resume(session)))
        async with asyncio.timeout(20):
            while not effects(tmp_path):  # noqa: ASYNC110 - a tool's file
                await asyncio.sleep(0.01)
        agent.cancel(session)
        await running
        await events_of(agent.stream("more", session=session))
        (result,) = [str(each.content) for each in await agent.history(session) if each.type == "tool"]
    assert result == NOT_RUN["answer"]


async def test_a_decision_counts_where_a_session_can_go_on(tmp_path: Path) -> None:
    """A run that failed or was interrupted at a terminal is resumed, and a turn of no service has no end."""
    written(tmp_path)
    model = script(calling(CALLS[0], call("hang", "h")), "Done.")
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as agent:
        running = asyncio.create_task(events_of(agent.stream("go")))
        async with asyncio.timeout(20):
            while not (pending := await agent.pending_approvals()):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        agent.cancel(pending[0].session)
        await running
        (tmp_path / "probe.py").write_text(PLUGIN.replace("await asyncio.Event().wait()", 'return "x"'))
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as agent:
        await agent.decide(pending[0].session, {pending[0].id: Decision("approve")})
        events = await events_of(agent.resume(pending[0].session))
        assert [each.content for each in events if isinstance(each, ToolCallResult)]
    assert effects(tmp_path) == ["approve"]


@pytest.mark.parametrize("end", ["say more", "go back", "archive", "delete"])
async def test_no_decision_counts_after_the_end_of_a_run_at_a_terminal(tmp_path: Path, end: str) -> None:
    written(tmp_path)
    async with at_a_terminal(tmp_path) as agent:
        await events_of(agent.stream("go"))
        pending = await agent.pending_approvals()
        session = pending[0].session
        if end == "say more":
            await events_of(agent.stream("more", session=session))
        elif end == "go back":
            await agent.rollback(session, to=1)
        else:
            await (agent.archive if end == "archive" else agent.delete_session)(session)
        for each in pending:
            for decision in (Decision("approve", arguments={"sure": True}), Decision("reject")):
                with pytest.raises((UsageError, NotFoundError)):
                    await agent.decide(session, {each.id: decision})
    assert effects(tmp_path) == []
