"""How often a user is asked: what the config fixes, what they chose of it, and what holds of what they decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agents import PositionModel, call, calling, play, script, write_agent
from tests.support.databases import SQLITE_URL, storage
from tests.support.least_rights import as_agent
from zeus_runtime import Agent, Decision
from zeus_runtime.events import ApprovalDecided, Event, Notice, RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.plugin.approval import AskMode, AskModes
from zeus_runtime.store.allowlist import store_mode, stored_mode
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog

MODES: tuple[AskMode, ...] = get_args(AskMode)


def recording(*texts: str) -> PositionModel:
    return script(calling(*(call("record", f"c{text}", text=text) for text in texts)), "done")


def agent(folder: Path, model: PositionModel, url: str = SQLITE_URL, more: str = "", **options: Any) -> Agent:
    ref = json.dumps({"approve": options})
    config = write_agent(folder, f"middlewares: [{ref}]\n{storage(url)}{more}")
    return Agent.from_config(config, directory=folder, model=model)


async def choose(
    folder: Path, mode: AskMode | None, *, user: str = "local", url: str = SQLITE_URL
) -> str | None:
    database = Database(url, directory=folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        await store_mode(log, user, mode)
        return await stored_mode(log, user)
    finally:
        await database.close()


def ending(events: list[Event]) -> str:
    last = events[-1]
    return last.code if isinstance(last, RunFailed) else "complete"


def waiting(events: list[Event]) -> dict[str, str]:
    assert isinstance(events[-1], RunFailed), events[-1]
    return {each["parameters"]["text"]: each["id"] for each in events[-1].details["pending"]}


def decided(events: list[Event]) -> list[str]:
    return [each.decision for each in events if isinstance(each, ApprovalDecided)]


@pytest.mark.parametrize(
    ("configured", "allowed", "chosen", "expected"),
    [
        ("allowlist", None, None, "approval_needed"),
        ("allowlist", None, "run_everything", "approval_needed"),
        ("allowlist", ["run_everything"], "run_everything", "complete"),
        ("ask", None, "run_everything", "approval_needed"),
        ("ask", ["allowlist"], "run_everything", "approval_needed"),
        ("run_everything", None, None, "complete"),
        ("run_everything", None, "ask", "approval_needed"),
        ("run_everything", [], "ask", "complete"),
    ],
)
async def test_a_user_is_asked_as_they_chose_and_never_less_than_the_config_allows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configured: AskMode,
    allowed: list[AskMode] | None,
    chosen: AskMode | None,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    await choose(tmp_path, chosen)
    async with agent(tmp_path, recording("a", "b"), mode=configured, user_modes=allowed) as living:
        events = await play(living, "go")
    assert ending(events) == expected
    refused = AskModes.of(configured, allowed).in_force(chosen) != (chosen or configured)
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "approval_mode"]
    assert len(told) == refused, "a choice that does not hold is said once a run"


@given(
    configured=st.sampled_from(MODES),
    allowed=st.none() | st.lists(st.sampled_from(MODES)),
    chosen=st.none() | st.sampled_from(MODES) | st.text(),
)
def test_what_holds_is_the_configs_or_what_it_allows(
    configured: AskMode, allowed: list[AskMode] | None, chosen: str | None
) -> None:
    held = AskModes.of(configured, allowed).in_force(chosen)
    assert held in (configured, chosen)
    if held != configured and allowed is None:
        assert MODES.index(held) > MODES.index(configured), "by default nothing is loosened"
    if held != configured and allowed is not None:
        assert held in allowed


async def test_the_choice_is_each_users_own_and_can_be_given_up(tmp_path: Path, database_url: str) -> None:
    assert await choose(tmp_path, "ask", user="ann", url=database_url) == "ask"
    assert await choose(tmp_path, "run_everything", user="bob", url=database_url) == "run_everything"
    assert await choose(tmp_path, "allowlist", user="ann", url=database_url) == "allowlist"
    assert await choose(tmp_path, None, user="bob", url=database_url) is None
    more = "memory: {user: ann}\n"
    async with agent(tmp_path, recording("a"), database_url, more, mode="run_everything") as living:
        assert ending(await play(living, "go")) == "approval_needed"
        await choose(tmp_path, None, user="ann", url=database_url)
        assert ending(await play(living, "go")) == "complete", (
            "what is chosen meanwhile holds from the next call on"
        )


async def test_the_role_that_runs_agents_may_keep_it(tmp_path: Path, postgres_url: str) -> None:
    await choose(tmp_path, "ask", user="ann", url=postgres_url)
    with as_agent(postgres_url) as url:
        assert await choose(tmp_path, "allowlist", user="ann", url=url) == "allowlist"
        assert await choose(tmp_path, "run_everything", user="bob", url=url) == "run_everything"
        assert await choose(tmp_path, None, user="ann", url=url) is None


async def test_what_the_user_rejected_stays_rejected_however_the_rules_change(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with agent(tmp_path, recording("a", "b", "c"), database_url) as living:
        events = await play(living, "go")
        session = events[-1].session  # type: ignore[union-attr]
        pending = waiting(events)
        # "always" puts the tool on the allowlist, though one call of it was rejected and nobody decided on another.
        await living.decide(
            session,
            {pending["a"]: Decision("reject", "not this"), pending["b"]: Decision("approve", always=True)},
        )
        events = [event async for event in living.resume(session)]
        assert isinstance(events[-1], RunCompleted)
        results = {each.call_id: each.content for each in events if isinstance(each, ToolCallResult)}
        assert "not this" in results["ca"]
        assert sorted(decided(events)) == ["approve", "reject"]
        assert await living.pending_approvals() == [], "what runs unasked waits for nobody"
    assert sorted((tmp_path / "effects.txt").read_text().split()) == ["b", "c"]


async def test_arguments_that_were_changed_are_those_that_run_though_nobody_is_asked_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"mode": "ask", "user_modes": ["run_everything"]}
    async with agent(tmp_path, recording("a"), **options) as living:
        events = await play(living, "go")
        session = events[-1].session  # type: ignore[union-attr]
        changed = Decision("approve", arguments={"text": "softer"}, instruction="and be quiet")
        await living.decide(session, {waiting(events)["a"]: changed})
        await choose(tmp_path, "run_everything")
        events = [event async for event in living.resume(session)]
    (result,) = [each for each in events if isinstance(each, ToolCallResult)]
    assert "recorded: softer" in result.content
    assert "and be quiet" in result.content


async def test_a_sub_agent_asks_as_its_parents_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.yaml").write_text(
        "version: 1\nname: helper\nmodel: gpt-4o\ntools: [probe]\nplugins: {files: [probe.py]}\n"
        "middlewares: [{approve: {mode: run_everything}}]\n"
    )
    config = write_agent(
        tmp_path,
        "middlewares: [{approve: {mode: run_everything, allow: [task]}}]\nmemory: {user: ann}\n"
        "agents: {helper: {config: helper.yaml, description: helps}}\n",
        tools="[probe, subagents]",
    )

    def answer(request: Any) -> Any:
        if len(request.messages) > 1:
            return "done"
        if request.messages[0].content == "go":
            return calling(call("task", "t1", agent="helper", prompt="work", description="work"))
        return calling(call("record", "c1", text="a"))

    await choose(tmp_path, "ask", user="ann")
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as living:
        events = await play(living, "go")
        assert ending(events) == "approval_needed"
        assert [each.tool for each in await living.pending_approvals()] == ["record"]
