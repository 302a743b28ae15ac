"""The approvals, through whole runs: asked now, left open, decided later, timed out, remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import text
from zeus_plugins.middlewares.approve import middleware
from zeus_plugins.middlewares.approve.rules import unreadable

from tests.support.agents import (
    TOOLS,
    Answering,
    PositionModel,
    assert_paired,
    call,
    calling,
    events_of,
    play,
    script,
    shape,
    write_agent,
)
from tests.support.databases import SQLITE_URL, storage
from tests.support.hand_time import moved_by_hand
from zeus_runtime import Agent, ApprovalRequest, ConfigError, Decision, PendingApproval
from zeus_runtime.agent.present_rules import judgement_of
from zeus_runtime.cli.approval_prompt import Instead, read_answer
from zeus_runtime.errors import BusyError, UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    Notice,
    RunCompleted,
    RunFailed,
    ToolCallResult,
    ToolCallStarted,
)
from zeus_runtime.plugin.tool import Change, Preview, Tool, ToolResult, preview_of, tool
from zeus_runtime.run.approvals import ApprovalBroker, ApprovedCall
from zeus_runtime.store.allowlist import allow, allowlist, revoke
from zeus_runtime.store.approvals import approvals_of
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.tools.dispatch import validate_arguments

APPROVE = Decision("approve")


@dataclass
class Person:
    """Answers by what is asked; None leaves it open."""

    answer: Callable[[PendingApproval], Decision | None]
    asked: list[PendingApproval] = field(default_factory=list)

    async def ask(self, pending: PendingApproval) -> Decision | None:
        self.asked.append(pending)
        return self.answer(pending)


def says(decision: Decision | None) -> Person:
    return Person(lambda _pending: decision)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def agent(folder: Path, model: PositionModel, url: str = SQLITE_URL, **options: Any) -> Agent:
    ref = json.dumps({"approve": options})
    config = write_agent(folder, f"middlewares: [{ref}]\n{storage(url)}")
    return Agent.from_config(config, directory=folder, model=model)


def recording(*texts: str) -> PositionModel:
    """One answer that calls `record` for each text, then the end."""
    return script(calling(*(call("record", f"c{text}", text=text) for text in texts)), "done")


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return sorted(file.read_text().split()) if file.exists() else []


def of(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def pending_ids(ending: Event) -> dict[str, str]:
    """What waits, from its `text` argument to its id."""
    assert isinstance(ending, RunFailed), ending
    assert (ending.code, ending.exit_code) == ("approval_needed", 7)
    return {each["parameters"]["text"]: each["id"] for each in ending.details["pending"]}


async def test_a_call_that_is_approved_runs_and_the_wire_says_so(folder: Path) -> None:
    person = says(APPROVE)
    async with agent(folder, recording("a")) as living:
        events = await events_of(living.stream("go", approvals=person))
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == ["a"]
    (started,) = of(events, ToolCallStarted)
    (asked,) = of(events, ApprovalRequested)
    (decided,) = of(events, ApprovalDecided)
    assert started.requires_approval
    assert asked.to_wire()["type"] == "approval_requested"
    assert (asked.tool_name, asked.parameters, asked.call_id) == ("record", {"text": "a"}, "ca")
    assert (decided.id, decided.decision, decided.by) == (asked.id, "approve", "user")
    assert events.index(started) < events.index(asked) < events.index(decided)


async def test_reading_needs_no_approval_unless_the_yaml_says_so(folder: Path) -> None:
    model = script(calling(call("echo", "c1", text="x")), "done")
    async with agent(folder, model) as living:
        events = await play(living, "go")
    assert isinstance(events[-1], RunCompleted)
    assert not of(events, ToolCallStarted)[0].requires_approval
    async with agent(folder, model, read_tools="ask") as living:
        assert pending_ids((await play(living, "go"))[-1]).keys() == {"x"}


@pytest.mark.parametrize(
    ("decision", "written"),
    [
        (Decision("reject", "not today"), []),
        (APPROVE, ["a"]),
        (Decision("approve", arguments={"text": "b"}), ["b"]),
    ],
)
async def test_what_waits_holds_under_a_config_that_asks_nobody(
    folder: Path, decision: Decision, written: list[str]
) -> None:
    model = recording("a")
    async with agent(folder, model) as living:
        waiting = pending_ids((await play(living, "go"))[-1])["a"]
    config = write_agent(folder, storage(SQLITE_URL))
    async with Agent.from_config(config, directory=folder, model=model) as careless:
        session = (await careless.sessions())[0].session
        assert pending_ids((await events_of(careless.resume(session)))[-1]) == {"a": waiting}
        assert effects(folder) == []
        await careless.decide(session, {waiting: decision})
        events = await events_of(careless.resume(session))
    assert isinstance(events[-1], RunCompleted), events[-1]
    assert effects(folder) == written
    assert len(of(events, ApprovalDecided)) == 1


async def test_a_rejected_call_does_not_run_and_is_not_asked_again(folder: Path) -> None:
    same = calling(call("record", "c1", text="a"))
    model = script(
        same, calling(call("record", "c2", text="a")), calling(call("record", "c3", text="b")), "done"
    )
    person = Person(
        lambda pending: APPROVE if pending.arguments["text"] == "b" else Decision("reject", "not today")
    )
    async with agent(folder, model) as living:
        events = await events_of(living.stream("go", approvals=person))
        session = events[-1].session  # type: ignore[union-attr]
        first, second, third = of(events, ToolCallResult)
        assert first.is_error
        assert "rejected" in first.content
        assert "not today" in first.content
        assert "Do not call record with these arguments again" in first.content
        assert "was not asked again" in second.content
        assert "not today" in second.content
        assert third.content == "recorded: b"
        assert [each.arguments["text"] for each in person.asked] == ["a", "b"]
        assert effects(folder) == ["b"]
        # Another message of the user's is another run: it may be asked anew.
        again = Person(lambda _pending: APPROVE)
        living_again = script("", "", "", "", same, "done")
        async with agent(folder, living_again) as other:
            await events_of(other.stream("now do it", session=session, approvals=again))
        assert len(again.asked) == 1


async def test_several_calls_are_asked_separately_and_what_is_left_open_stays_open(
    folder: Path, database_url: str
) -> None:
    answers = {"a": APPROVE, "b": Decision("reject"), "c": None, "d": None}
    model = recording(*answers)
    person = Person(lambda pending: answers[pending.arguments["text"]])
    async with agent(folder, model, database_url) as living:
        events = await events_of(living.stream("go", approvals=person))
        ids = pending_ids(events[-1])
        assert ids.keys() == {"c", "d"}
        assert effects(folder) == ["a"]
        assert {each.call_id for each in of(events, ToolCallResult)} == {"ca", "cb"}, "the others are logged"
        session = events[-1].session  # type: ignore[union-attr]
        assert (await living.sessions())[0].state == "approval"

    # Decided one by one, in invocations of their own.
    async with agent(folder, model, database_url) as living:
        await living.decide(session, {ids["c"]: Decision("approve", instruction="then stop")})
        events = await events_of(living.resume(session))
        assert pending_ids(events[-1]) == {"d": ids["d"]}
        (result,) = of(events, ToolCallResult)
        assert result.content == "recorded: c\n\nThe user adds: then stop"
    async with agent(folder, model, database_url) as living:
        await living.decide(session, {ids["d"]: APPROVE})
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted)
        assert effects(folder) == ["a", "c", "d"]
        history = await living.history(session)
        assert_paired(history)
        assert next(text for kind, text in shape(history) if kind == "tool") == "recorded: a"
        assert len(model.requests) == 2, "no paid answer was asked again"
        assert await living.pending_approvals() == []


@pytest.mark.parametrize(
    ("given", "changed"), [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 1}, {"a": 1.0})]
)
async def test_a_change_that_python_takes_for_the_same_runs_too(
    tmp_path: Path, given: Any, changed: Any
) -> None:
    """For Python 1 equals true, so the original ran."""
    plugin = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Tool

async def note(value):
    return repr(value)

def create(options, context):
    return [Tool("note", "Notes.", {"type": "object", "properties": {"value": {}}}, note, access="write")]

@hookimpl
def register_tools():
    return [Component("probe", create=create)]
"""
    config = write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]\n", plugin=plugin)
    model = script(calling(call("note", "c", value=given)), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await events_of(agent.stream("go")))[-1]
        (waiting,) = await agent.pending_approvals()
        await agent.decide(ending.session, {waiting.id: Decision("approve", arguments={"value": changed})})  # type: ignore[union-attr]
        events = await events_of(agent.resume(ending.session))  # type: ignore[union-attr]
    (result,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert result.endswith(repr(changed))


async def test_changed_arguments_run_instead_and_the_model_is_told(folder: Path) -> None:
    model = recording("a")
    async with agent(folder, model) as living:
        ending = (await play(living, "go"))[-1]
        ((_, name),) = pending_ids(ending).items()
        session = ending.session  # type: ignore[union-attr]
        for wrong in ({"text": 5, "more": 1}, {}):
            with pytest.raises(UsageError, match="do not fit"):
                await living.decide(session, {name: Decision("approve", arguments=wrong)})
        await living.decide(session, {name: Decision("approve", arguments={"text": "better"})})
        events = await events_of(living.resume(session))
    assert effects(folder) == ["better"]
    (result,) = of(events, ToolCallResult)
    assert '{"text": "better"}' in result.content
    assert result.content.endswith("recorded: better")
    assert of(events, ApprovalDecided)[0].changed == {"text": "better"}


@pytest.mark.parametrize("answer", [Decision("reject"), Decision("approve", always=True), APPROVE])
async def test_a_person_whose_answer_comes_second_is_told_that_it_does_not_count(
    folder: Path, answer: Decision
) -> None:
    """Another process decides meanwhile, such as a service on the same database."""
    url = "sqlite:///sessions.db"
    model = recording("a")
    async with agent(folder, model, url) as living, agent(folder, model, url) as other:

        class Slow:
            async def ask(self, pending: PendingApproval) -> Decision:
                with pytest.raises(BusyError, match="running elsewhere"):
                    await other.decide(pending.session, {pending.id: APPROVE}, unless_running=True)
                await other.decide(pending.session, {pending.id: APPROVE})
                return answer

        events = await events_of(living.stream("go", approvals=Slow()))
        assert await living.pending_approvals() == []
        assert await allowlist((await living._open()).log, "local") == []
    assert effects(folder) == ["a"]
    (decided,) = of(events, ApprovalDecided)
    assert decided.decision == "approve"
    told = [each.message for each in of(events, Notice) if each.code == "decided_elsewhere"]
    second = f"record ({decided.id}) was decided elsewhere first: this answer does not count."
    assert told == ([] if answer == APPROVE else [second])


async def test_wrong_decisions_are_told_and_change_nothing(folder: Path, database_url: str) -> None:
    model = recording("a", "b")
    async with agent(folder, model, database_url) as living:
        ending = (await play(living, "go"))[-1]
        ids, session = pending_ids(ending), ending.session  # type: ignore[union-attr]
        with pytest.raises(UsageError, match=r"nothing of .* waits .*'nonsense'"):
            await living.decide(session, {ids["a"]: APPROVE, "nonsense": APPROVE})
        assert len(await living.pending_approvals(session)) == 2, "all or none"
        await living.decide(session, {ids["a"]: APPROVE})
        with pytest.raises(UsageError, match="was approved already"):
            await living.decide(session, {ids["a"]: Decision("reject")})
        with pytest.raises(UsageError, match="no session"):
            await living.decide("session_000000000000", {ids["b"]: APPROVE})
        events = await play(living, "never mind", session)
        assert isinstance(events[-1], RunCompleted | RunFailed)
        with pytest.raises(UsageError, match="continued without it"):
            await living.decide(session, {ids["b"]: APPROVE})
        assert effects(folder) == []


async def test_a_new_prompt_withdraws_what_waits_before_its_own_run_ends(
    folder: Path, database_url: str
) -> None:
    """The conversation goes on without the call, so nobody may be shown it as waiting, nor decide it."""
    model = PositionModel(
        lambda request: calling(
            call("record", f"c{len(request.messages)}", text=str(request.messages[-1].content))
        )
    )
    async with agent(folder, model, database_url) as living:
        ending = (await play(living, "one"))[-1]
        first, session = pending_ids(ending), ending.session  # type: ignore[union-attr]
        second = pending_ids((await play(living, "two", session))[-1])
        assert (list(first), list(second)) == (["one"], ["two"])
        assert [each.id for each in await living.pending_approvals(session)] == [second["two"]]
        assert [each.id for each in await living.pending_approvals()] == [second["two"]]
        with pytest.raises(UsageError, match="continued without it"):
            await living.decide(session, {first["one"]: APPROVE})
    assert effects(folder) == []


async def test_a_decision_holds_for_what_was_shown_and_for_nothing_else(folder: Path) -> None:
    """The same place of the same run, but the tool's schema changed what would run."""
    async with agent(folder, recording("a")) as living:
        ending = (await play(living, "go"))[-1]
        ((_, name),) = pending_ids(ending).items()
        session = ending.session  # type: ignore[union-attr]
        await living.decide(session, {name: APPROVE})
    database = Database(SQLITE_URL, directory=folder)
    try:
        from sqlalchemy import text

        await database.run(
            lambda c: c.execute(text("""UPDATE message SET payload = replace(payload, '"a"', '"evil"')"""))
        )
    finally:
        await database.close()
    async with agent(folder, recording("a")) as living:
        ending = (await events_of(living.resume(session)))[-1]
        assert pending_ids(ending).keys() == {"evil"}
        assert effects(folder) == []


async def test_a_call_whose_id_is_taken_has_a_question_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id is short, and a model that knows the run could choose two calls that have the same."""
    monkeypatch.setattr("zeus_runtime.store.approvals._ID_DIGITS", 0)
    person = Person(lambda pending: APPROVE if pending.arguments["text"] == "a" else Decision("reject"))
    async with agent(folder, recording("a", "evil")) as living:
        events = await events_of(living.stream("go", approvals=person))
    assert sorted(str(each.arguments["text"]) for each in person.asked) == ["a", "evil"]
    assert effects(folder) == ["a"]
    decided = {(each.parameters["text"], each.decision) for each in of(events, ApprovalDecided)}
    assert decided == {
        ("a", "approve"),
        ("evil", "reject"),
    }


@pytest.mark.parametrize("on_timeout", ["reject", "approve"])
async def test_what_nobody_decides_in_time_is_decided_by_the_yaml(
    folder: Path, monkeypatch: pytest.MonkeyPatch, on_timeout: str
) -> None:
    now = [1_000_000]
    monkeypatch.setattr(ThreadLog.__init__, "__kwdefaults__", {"now_ms": lambda: now[0]})
    model = recording("a")
    options = {"timeout_seconds": 60, "on_timeout": on_timeout}
    async with agent(folder, model, **options) as living:
        ending = (await play(living, "go"))[-1]
        ((_, name),) = pending_ids(ending).items()
        session = ending.session  # type: ignore[union-attr]
        assert ending.details["pending"][0]["expires_ms"] == 1_060_000  # type: ignore[union-attr]
        now[0] += 59_999
        assert pending_ids((await events_of(living.resume(session)))[-1]) == {"a": name}
        now[0] += 1
        with pytest.raises(
            UsageError, match=r"(?s)time to decide .* is over.* continues it; a service does so by itself"
        ):
            await living.decide(session, {name: APPROVE})
        events = await events_of(living.resume(session))
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == (["a"] if on_timeout == "approve" else [])
    assert of(events, ApprovalDecided)[0].by == "timeout"
    if on_timeout == "reject":
        assert (
            "The user did not approve this call of record within 60 seconds"
            in of(events, ToolCallResult)[0].content
        )


async def test_without_a_timeout_a_question_waits_for_weeks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000]
    monkeypatch.setattr(ThreadLog.__init__, "__kwdefaults__", {"now_ms": lambda: now[0]})
    async with agent(folder, recording("a")) as living:
        ending = (await play(living, "go"))[-1]
        session = ending.session  # type: ignore[union-attr]
    now[0] += 14 * 86_400_000
    async with agent(folder, recording("a")) as living:
        ids = pending_ids((await events_of(living.resume(session)))[-1])
        await living.decide(session, {ids["a"]: APPROVE})
        assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)


async def test_somebody_who_is_asked_and_never_answers_times_out(folder: Path) -> None:
    class Silent:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            await asyncio.Event().wait()
            return None

    async with agent(folder, recording("a"), timeout_seconds=0.05) as living:
        events = await events_of(living.stream("go", approvals=Silent()))
    assert isinstance(events[-1], RunCompleted)
    assert of(events, ApprovalDecided)[0].by == "timeout"


async def test_thinking_is_not_the_runs_time(folder: Path) -> None:
    class Slow:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            await time.passes(1_000)
            return APPROVE

    config = write_agent(folder, "middlewares: [approve]\nlimits: {timeout_seconds: 5}\n")
    async with Agent.from_config(config, directory=folder, model=recording("a", "b")) as living:
        with moved_by_hand() as time:
            events = await events_of(living.stream("go", approvals=Slow()))
    assert isinstance(events[-1], RunCompleted), events[-1]


ASKING = (
    TOOLS
    + """
import asyncio

@tool(access="read", timeout_seconds=5)
async def interview(run, hang: bool) -> str:
    \"\"\"Ask the user.

    Args:
        hang: never come back afterwards.
    \"\"\"
    answer = await run.ask("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    if hang:
        await asyncio.Event().wait()
    return str(answer)

@hookimpl(specname="register_tools")
def register_interview():
    return [Component("interview", create=lambda options, context: [interview])]
"""
)


async def test_a_tool_whose_question_has_a_broken_form_fails_and_nobody_is_asked(folder: Path) -> None:
    plugin = ASKING.replace('{"name": {"type": "string"}}', '{"name": None}')
    config = write_agent(folder, plugin=plugin, tools="[interview]")
    model = script(calling(call("interview", "c1", hang=False)), "done")
    user = Answering()
    async with Agent.from_config(config, directory=folder, model=model) as living:
        events = await events_of(living.stream("go", approvals=user))
    assert user.asked == []
    (result,) = [each for each in events if isinstance(each, ToolCallResult)]
    assert "the form of a question is not a JSON Schema" in result.content


async def test_thinking_is_not_the_calls_time_either_and_what_the_tool_takes_is(folder: Path) -> None:
    passing: list[asyncio.Task[None]] = []

    class Slow:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            await time.passes(1_000)
            if pending.call_id == "c2":
                passing.append(asyncio.create_task(time.goes_on()))
            return Decision("approve", arguments={"name": "Ada"})

    calls = [call("interview", "c1", hang=False), call("interview", "c2", hang=True)]
    config = write_agent(folder, plugin=ASKING, tools="[interview]")
    model = script(calling(calls[0]), calling(calls[1]), "done")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        with moved_by_hand() as time:
            events = await events_of(living.stream("go", approvals=Slow()))
        passing[0].cancel()
    answered, hung = of(events, ToolCallResult)
    assert answered.content == "{'name': 'Ada'}"
    assert "did not finish within 5 seconds" in hung.content


async def test_a_cancelled_question_stays_open(folder: Path) -> None:
    asked = asyncio.Event()

    class Thinking:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            asked.set()
            await asyncio.Event().wait()
            return None

    async with agent(folder, recording("a")) as living:
        events: list[Event] = []

        async def follow() -> None:
            events.extend(await events_of(living.stream("go", approvals=Thinking())))

        task = asyncio.create_task(follow())
        await asked.wait()
        (waiting,) = await living.pending_approvals()
        assert living.cancel(waiting.session)
        await task
        assert events[-1].code == "cancelled"  # type: ignore[union-attr]
        assert [each.id for each in await living.pending_approvals()] == [waiting.id]
        await living.decide(waiting.session, {waiting.id: APPROVE})
        assert isinstance((await events_of(living.resume(waiting.session)))[-1], RunCompleted)


async def test_always_is_remembered_for_the_user(folder: Path, database_url: str) -> None:
    model = script(calling(call("record", "c1", text="a")), calling(call("record", "c2", text="b")), "done")
    person = says(Decision("approve", always=True))
    async with agent(folder, model, database_url) as living:
        assert isinstance((await events_of(living.stream("go", approvals=person)))[-1], RunCompleted)
        assert len(person.asked) == 1
        assert person.asked[0].may_remember
        events = await play(living, "again")
        assert isinstance(events[-1], RunCompleted)
        assert not any(each.requires_approval for each in of(events, ToolCallStarted))
    database = Database(database_url, directory=folder)
    try:
        assert [(each.tool, each.is_any) for each in await allowlist(ThreadLog(database), "local")] == [
            ("record", False)
        ]
    finally:
        await database.close()
    # A rule of the YAML says more than what is stored, and `ask` means every time.
    for options in ({"ask": ["record"]}, {"mode": "ask"}):
        async with agent(folder, model, database_url, **options) as living:
            assert pending_ids((await play(living, "go"))[-1]).keys() == {"a"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "write_file is not on your allowlist"),
        ({"mode": "ask"}, "every such call needs approval"),
        ({"ask": [{"write_file": {"path": "infra/**"}}]}, 'the rule `ask: write_file {"path": "infra/**"}`'),
    ],
)
async def test_a_question_says_that_a_rule_asks_about_the_file_and_offers_no_always(
    folder: Path, options: dict[str, Any], reason: str
) -> None:
    (folder / "infra").mkdir()
    writes = [calling(call("write_file", each, path=each, content="x")) for each in ("/infra/a", "/b")]
    person = says(APPROVE)
    yaml = f"middlewares: [{json.dumps({'approve': options})}]\nworkspace: {{access: {{infra/**: ask}}}}\n"
    config = write_agent(folder, yaml, tools="[filesystem]")
    async with Agent.from_config(config, directory=folder, model=script(*writes, "done")) as living:
        await events_of(living.stream("go", approvals=person))
    why = "/infra/a: the rule `infra/**: ask` of workspace.access asks for an approval of each change"
    assert (person.asked[0].reason, person.asked[0].may_remember) == (f"{reason}; {why}", False)
    assert (folder / "infra/a").exists()
    if "mode" not in options:
        assert (person.asked[1].reason, person.asked[1].may_remember) == (
            "write_file is not on your allowlist",
            True,
        )


async def test_an_allowlist_is_one_users_and_survives_two_who_write_it_at_once(
    folder: Path, database_url: str
) -> None:
    databases = [Database(database_url, directory=folder) for _ in range(4)]
    logs = [ThreadLog(each) for each in databases]
    try:
        await logs[0].create_tables()
        made = await asyncio.gather(*(allow(log, "ann", "record") for log in logs for _ in range(5)))
        assert sum(made) == 1
        assert [each.tool for each in await allowlist(logs[0], "ann")] == ["record"]
        assert await allowlist(logs[0], "bob") == []
        gone = await asyncio.gather(*(revoke(log, "ann", "record") for log in logs))
        assert sum(gone) == 1
    finally:
        for each in databases:
            await each.close()


@pytest.mark.parametrize("mode", ["agent", "ask", "plan"])
async def test_the_rules_hold_in_every_mode(folder: Path, mode: Literal["agent", "ask", "plan"]) -> None:
    (folder / "pay.md").write_text("PAY-4711")
    echoes = (call("echo", "c1", text="x"), call("echo", "c2", text="secret"))
    files = call("read_file", "c3", path="/pay.md"), call("grep", "c4", pattern="4711", path="/")
    model = script(calling(*echoes, *files), "done")
    options: Mapping[str, Any] = {
        "mode": "run_everything",
        "ask": [{"echo": {"text": "x"}}, {"*": {"path": "pay.md"}}],
        "deny": [{"echo": {"text": "secret*"}}],
    }
    config = write_agent(
        folder, f"middlewares: [resources, {json.dumps({'approve': options})}]\n", tools="[filesystem, probe]"
    )
    person = says(Decision("reject"))
    async with Agent.from_config(config, directory=folder, model=model, mode=mode) as living:
        events = await events_of(living.stream("go @pay.md", approvals=person))
    assert isinstance(events[-1], RunCompleted)
    assert sorted(each.call_id for each in person.asked) == ["c1", "c3"]
    results = {each.call_id: each for each in of(events, ToolCallResult)}
    assert 'deny: echo {"text": "secret*"}' in results["c2"].content
    assert "PAY" not in str([each.content for request in model.requests for each in request.messages])


async def test_a_mode_that_only_reads_asks_as_its_config_says_and_about_no_call_that_it_refuses(
    folder: Path,
) -> None:
    model = script(calling(call("record", "c1", text="a"), call("echo", "c2", text="x")), "done")
    ref = json.dumps({"approve": {"mode": "ask", "read_tools": "ask", "ask": ["record"]}})
    config = write_agent(folder, f"middlewares: [{ref}]\n")
    async with Agent.from_config(config, directory=folder, model=model, mode="plan") as living:
        events = await play(living, "go")
    assert isinstance(events[-1], RunFailed)
    assert [each["call_id"] for each in events[-1].details["pending"]] == ["c2"]
    results = {each.call_id: each.content for each in of(events, ToolCallResult)}
    assert results["c1"].startswith("record cannot be called in plan mode.")
    assert effects(folder) == []


ALLOW = "secrets: {to_model: allow}\n"


async def test_secrets_are_masked_in_what_is_asked_and_stored_and_run_as_they_are(folder: Path) -> None:
    (folder / ".env").write_text("MY_TOKEN=hunter2hunter2\n")
    model = script(calling(call("record", "c1", text="hunter2hunter2")), "done")
    config = write_agent(folder, "middlewares: [approve]\nmetadata: {token: '${MY_TOKEN}'}\n" + ALLOW)
    person = says(None)
    async with Agent.from_config(config, directory=folder, model=model) as living:
        events = await events_of(living.stream("go", approvals=person))
        assert "hunter2" not in str(events)
        assert "hunter2" not in str(person.asked)
        session = events[-1].session  # type: ignore[union-attr]
        (waiting,) = await living.pending_approvals(session)
        assert "hunter2" not in str(waiting)
        # Arguments that were changed elsewhere and kept here run with what the mask stands for.
        await living.decide(session, {waiting.id: Decision("approve", arguments=dict(waiting.arguments))})
        assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)
    assert effects(folder) == ["hunter2hunter2"]


@pytest.mark.parametrize(
    ("asked", "given", "runs"),
    [
        ("one hunter2hunter2", "two <secret:MY_TOKEN>", "two hunter2hunter2"),
        ("aHVudGVyMmh1bnRlcjI= one", "<secret:MY_TOKEN:base64>I= two", "aHVudGVyMmh1bnRlcjI= two"),
        ("one", "two <secret:MY_TOKEN>", "two <secret:MY_TOKEN>"),
        # Nobody can say which of both is meant.
        ("<secret:MY_TOKEN> hunter2hunter2", "two <secret:MY_TOKEN>", "two <secret:MY_TOKEN>"),
    ],
)
async def test_a_placeholder_in_changed_arguments_is_the_secret_that_the_question_showed(
    folder: Path, asked: str, given: str, runs: str
) -> None:
    (folder / ".env").write_text("MY_TOKEN=hunter2hunter2\n")
    model = script(calling(call("record", "c1", text=asked)), "done")
    config = write_agent(folder, "middlewares: [approve]\nmetadata: {token: '${MY_TOKEN}'}\n" + ALLOW)
    async with Agent.from_config(config, directory=folder, model=model) as living:
        events = await events_of(living.stream("go", approvals=Answering(text=given)))
        assert "hunter2" not in str(events)
    assert (folder / "effects.txt").read_text() == f"{runs}\n"


async def test_what_was_asked_and_decided_before_a_secret_was_known_is_read_masked(folder: Path) -> None:
    secret = "hunter2hunter2"
    model = script(calling(call("record", "c1", text=f"one {secret}")), "done")
    config = write_agent(folder, "middlewares: [approve]\n")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        events = await events_of(living.stream("go", approvals=Answering(text=f"two {secret}")))
        session = events[-1].session  # type: ignore[union-attr]
        assert secret in str((await living.stored_session(session)).approvals[0].decision)
    (folder / ".env").write_text(f"MY_TOKEN={secret}\n")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        stored = await living.stored_session(session)
    (asked,) = stored.approvals
    assert asked.decision is not None
    assert (asked.arguments, asked.decision.arguments) == (
        {"text": "one <secret:MY_TOKEN>"},
        {"text": "two <secret:MY_TOKEN>"},
    )
    assert secret not in str(stored)


async def test_what_runs_is_shown_even_where_a_known_secret_is_the_same_word(folder: Path) -> None:
    """A word that is too ordinary to be searched for runs as it is, so it is shown as it is."""
    (folder / ".env").write_text("MY_TOKEN=production\n")
    model = script(calling(call("record", "c1", text="production")), "done")
    config = write_agent(folder, "middlewares: [approve]\nmetadata: {token: '${MY_TOKEN}'}\n" + ALLOW)
    person = says(None)
    async with Agent.from_config(config, directory=folder, model=model) as living:
        await events_of(living.stream("go", approvals=person))
    assert [dict(each.arguments) for each in person.asked] == [{"text": "production"}]


async def test_a_session_keeps_its_decisions_through_the_archive(folder: Path) -> None:
    async with agent(folder, recording("a", "b")) as living:
        ending = (await play(living, "go"))[-1]
        ids, session = pending_ids(ending), ending.session  # type: ignore[union-attr]
        await living.decide(session, {ids["a"]: APPROVE})
        await living.archive(session)
        assert await living.pending_approvals() == []
        await living.restore(session)
        (waiting,) = await living.pending_approvals()
        assert waiting.id == ids["b"]
        await living.decide(session, {ids["b"]: Decision("reject", "no")})
        assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)
        assert effects(folder) == ["a"]
        log = (await living._open()).log
        stored = await approvals_of(log, await log.find(session))
        assert [each.decision and each.decision.answer for each in stored] == ["approve", "reject"]


async def test_going_back_withdraws_what_was_asked(folder: Path) -> None:
    async with agent(folder, recording("a")) as living:
        ending = (await play(living, "go"))[-1]
        ids, session = pending_ids(ending), ending.session  # type: ignore[union-attr]
        await living.rollback(session, to=1)
        assert await living.pending_approvals() == []
        with pytest.raises(UsageError, match="continued without it"):
            await living.decide(session, {ids["a"]: APPROVE})


async def test_what_was_asked_or_decided_before_going_back_is_asked_anew(folder: Path) -> None:
    """Else a question that was withdrawn could never be decided, and what was approved would run once more unasked."""
    async with agent(folder, recording("a")) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        asked: set[str] = set()
        for times in range(1, 3):
            await living.rollback(session, to=1)
            waiting = pending_ids((await events_of(living.resume(session)))[-1])["a"]
            assert waiting not in asked
            asked.add(waiting)
            await living.decide(session, {waiting: APPROVE})
            assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)
            assert effects(folder) == ["a"] * times


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"deny": ["recrod"]}, "'recrod' is not a tool of this agent"),
        ({"deny": [{"record": {"txt": "x"}}]}, "record has no argument 'txt'"),
        ({"ask": ["git_*"]}, "no tool of this agent matches 'git_*'"),
        ({"deny": [{"*": {"path": "!secrets/**"}}]}, "begins with `!`, which excludes nothing"),
        ({"deny": [{"*": {"path": " secrets/**"}}]}, "begins with a blank"),
        ({"deny": [{"*": {"path": "{secrets, private}/**"}}]}, "begins with a blank"),
        ({"deny": [{"*": {"path": "secrets/**\nprivate/**\n"}}]}, "has the control character '\\n'"),
        ({"allow": [{"*": {"path": ["a", "secrets/**\t"]}}]}, "has the control character '\\t'"),
        ({"ask": [{"*": {"path": "secrets /**"}}]}, "ends with a blank"),
        ({"ask": [{"*": {"url": "https://example.org/**\n"}}]}, "begins or ends with a blank"),
        (
            {"deny": [{"record": {"text": "\x1bsecret"}}]},
            "begins or ends with a blank or a control character",
        ),
        ({"deny": [{"record": {"text": "secret\u00a0"}}]}, "begins or ends with a blank"),
        ({"deny": [{"mcp_*\n": {"uri": "docs/**"}}]}, "begins or ends with a blank"),
        ({"deny": [{"*": {"path": "{a,../b}/**"}}]}, "contains `..`"),
        ({"deny": [{"*": {"path": "src/**.pem"}}]}, "write src/**/*.pem for any number of folders"),
        ({"deny": [{"record": {"text": "docs://src/**.pem"}}]}, "write docs://src/**/*.pem for any number"),
        ({"deny": [{"*": {"path": 2024}}]}, "2024 is not text, so it matches no path"),
        ({"ask": [{"*": {"file": ["secrets/**", True]}}]}, 'help: write "true" with quotes'),
        ({"on_timeout": "approve"}, "on_timeout has no effect without timeout_seconds"),
        ({"timeout_seconds": 10**12}, "1000000000000 is more than 3153600000"),
    ],
)
def test_rules_that_could_never_fit_are_refused(
    folder: Path, options: Mapping[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        agent(folder, script("x"), **options)
    assert problem in str(refused.value)


def test_only_an_allow_rule_needs_the_spelling_of_an_argument_in_the_schema(folder: Path) -> None:
    for kind in ("ask", "deny"):
        agent(folder, script("x"), **{kind: [{"record": {"Text": "x"}}]})
    with pytest.raises(ConfigError, match="record has no argument 'Text'"):
        agent(folder, script("x"), allow=[{"record": {"Text": "x"}}])


@pytest.mark.parametrize(("kind", "tool"), [("deny", "*"), ("ask", "read_*"), ("allow", "read_file")])
def test_a_path_of_this_machine_into_the_workspace_is_refused_with_the_path_that_is_meant(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, tool: str
) -> None:
    """It closed the calls of servers alone, and left the files open to Zeus's own tools."""
    monkeypatch.setenv("HOME", str(folder.parent))
    for pattern in (f"{folder}/secrets/**", f"~/{folder.name}/secrets/**", f"{{{folder}/secrets,x}}/**"):
        with pytest.raises(ConfigError, match="is a path of this machine") as refused:
            with_files(folder, approve={kind: [{tool: {"path": ["src/a", pattern]}}]})
        assert "patterns start at the workspace: /secrets/**" in str(refused.value)
    with pytest.raises(ConfigError, match="write the whole path, without ~"):
        with_files(folder, approve={kind: [{tool: {"path": "~/.ssh/**"}}]})


def test_a_path_of_this_machine_may_be_elsewhere_or_an_argument_of_a_servers_tool(folder: Path) -> None:
    with pytest.raises(ConfigError, match="is a path of this machine"):  # no tool of it declares a path
        agent(folder, script("x"), deny=[{"*": {"path": f"{folder}/secrets/**"}}])
    outside: Any = {"*": {"path": f"{folder.parent}/.ssh/**"}}
    servers: Any = {"files__*": {"path": [f"{folder}/secrets/**", "~/.ssh/**"]}}
    with_files(folder, approve={"deny": [outside, servers]}, server="files")


def with_files(folder: Path, *, approve: Any, server: str = "") -> Agent:
    servers = f"mcpServers: {{{server}: {{command: none}}}}" if server else ""
    middlewares = json.dumps([{"approve": approve}])
    config = write_agent(folder, f"middlewares: {middlewares}\n{servers}\n", tools="[filesystem]")
    return Agent.from_config(config, directory=folder, model=script("x"))


def test_a_refused_pattern_is_told_with_its_place_and_what_to_do(folder: Path) -> None:
    """A block scalar ends with a line end: `validate` found nothing, and the rule closed nothing."""
    config = write_agent(
        folder,
        """
        middlewares:
          - approve:
              deny:
                - "*":
                    path: |
                      secrets/**
        """,
    )
    with pytest.raises(ConfigError) as refused:
        Agent.from_config(config, directory=folder, model=script("x"))
    (found,) = [each for each in refused.value.diagnostics if each.code == "access-pattern"]
    assert found.position is not None
    assert (config.read_text().splitlines()[found.position.line - 1]).strip() == "path: |"
    assert "write ? in its place" in str(found.hint)


@pytest.mark.parametrize("pattern", ["/", ".", "./", "", "//", "{,src}"])
def test_a_rule_that_names_the_workspace_and_no_file_in_it_is_refused_unless_it_allows(
    folder: Path, pattern: str
) -> None:
    for kind, of in (("deny", "*"), ("ask", "write_file")):
        with pytest.raises(ConfigError, match="names nothing") as refused:
            with_files(folder, approve={kind: [{of: {"path": ["src/a", pattern]}}]})
        (found,) = refused.value.diagnostics
        assert (found.code, found.hint) == ("access-pattern", "`**` names every file")
        assert found.position is not None
    with_files(folder, approve={"allow": [{"ls": {"path": pattern}}], "deny": [{"grep": {"pattern": "."}}]})


def test_a_pattern_for_paths_may_end_in_a_slash() -> None:
    """It is a path from `/` on with and without one."""
    assert unreadable("docs/") is None


ASKING_PLUGIN = '''
from zeus_runtime import ApprovalRequest
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import ToolResult, tool

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(access="read")
async def interview(run) -> str:
    """Ask the user two things."""
    told = []
    for number, question in enumerate(["first name", "last name"]):
        request = ApprovalRequest(
            tool="interview", arguments={}, place=f"{run.place}.{number}", reason=question, schema=SCHEMA
        )
        decision = await run.approvals.ask(request)
        told.append(decision.arguments["name"] if decision.answer == "approve" else "(declined)")
    return " ".join(told)


class Careless(Middleware):
    """Makes a result of whatever goes wrong below it."""

    async def wrap_tool_call(self, call, call_next):
        try:
            return await call_next(call)
        except Exception as error:
            return ToolResult(f"swallowed {error!r}")


@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [interview])]


@hookimpl
def register_middlewares():
    return [Component("careless", create=Careless)]
'''


async def test_a_tool_asks_by_the_same_way_and_no_careless_middleware_swallows_it(folder: Path) -> None:
    config = write_agent(folder, "middlewares: [careless, approve]\n", plugin=ASKING_PLUGIN)
    model = script(calling(call("interview", "c1")), "done")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        ending = (await play(living, "go"))[-1]
        assert isinstance(ending, RunFailed)
        (first,) = ending.details["pending"]
        assert (first["tool_name"], first["reason"]) == ("interview", "first name")
        await living.decide(ending.session, {first["id"]: Decision("approve", arguments={"name": "Ada"})})
        again = (await events_of(living.resume(ending.session)))[-1]
        assert isinstance(again, RunFailed)
        (second,) = again.details["pending"]
        assert second["reason"] == "last name"
        await living.decide(ending.session, {second["id"]: Decision("reject")})
        events = await events_of(living.resume(ending.session))
    assert of(events, ToolCallResult)[0].content == "Ada (declined)"


def test_rules_may_name_tools_that_a_server_brings_when_the_agent_runs(tmp_path: Path) -> None:
    def config(rules: str) -> Path:
        servers = "mcpServers: {small: {command: python}}"
        return write_agent(tmp_path, f"{servers}\nmiddlewares: [{{approve: {{{rules}}}}}]\n")

    Agent.from_config(config('ask: ["small__*", "small__[sw]ay", small__say]'), directory=tmp_path)
    with pytest.raises(ConfigError, match=r"matches 'other__\*'"):
        Agent.from_config(config('ask: ["other__*"]'), directory=tmp_path)


def editing(folder: Path, answer: Any, meddle: Callable[[Path], object]) -> tuple[Agent, Person, Path]:
    """An agent whose user approves, and a file that changes while they decide."""
    file = folder / "work" / "a.txt"
    file.parent.mkdir()
    file.write_text("one\ntwo\nthree\n")

    def answered(_pending: PendingApproval) -> Decision:
        meddle(file)
        return APPROVE

    yaml = "middlewares: [{approve: {mode: ask}}]\nworkspace: {root: work}\n"
    config = write_agent(folder, yaml, tools="[filesystem]")
    return Agent.from_config(config, directory=folder, model=script(answer, "done")), Person(answered), file


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit_file", {"old": "two", "new": "2", "replace_all": True}),
        ("write_file", {"content": "one\n2\nthree\n"}),
    ],
)
async def test_a_change_that_is_no_longer_what_the_user_saw_does_not_run(
    folder: Path, tool: str, arguments: dict[str, Any]
) -> None:
    meanwhile = "one\ntwo\nthree, and two again\n"
    answer = calling(call(tool, "c", path="/a.txt", **arguments))
    running, person, file = editing(folder, answer, lambda file: file.write_text(meanwhile))
    async with running:
        events = await events_of(running.stream("go", approvals=person))
    (result,) = of(events, ToolCallResult)
    assert result.is_error
    assert "the file changed after the user saw" in result.content
    assert file.read_text() == meanwhile


async def test_several_edits_of_one_answer_all_run_when_each_does_what_was_shown(folder: Path) -> None:
    edits = [
        call("edit_file", f"c{old}", path="/a.txt", old=old, new=old.upper()) for old in ("one", "three")
    ]
    running, person, file = editing(folder, calling(*edits), lambda _file: None)
    async with running:
        await events_of(running.stream("go", approvals=person))
    assert file.read_text() == "ONE\ntwo\nTHREE\n"
    assert len(person.asked) == 2


class Waiting:
    """An agent that edits ``/a.txt``, and a question about it that nobody decided yet."""

    def __init__(self, folder: Path, *answers: Any, more: str = "", mode: str = "ask") -> None:
        self.folder = folder
        self.file = folder / "work" / "a.txt"
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text("one\ntwo\nthree\n")
        self.session = ""
        self._model = script(*answers, "done")
        self._mode = mode
        self._yaml = f"workspace: {{root: work}}\n{more}"

    def agent(self, *, asks: bool = True) -> Agent:
        approve = f"middlewares: [{{approve: {{mode: {self._mode}}}}}]\n" if asks else ""
        config = write_agent(self.folder, approve + self._yaml, tools="[filesystem]")
        return Agent.from_config(config, directory=self.folder, model=self._model)

    async def begin(self, person: Person | None = None) -> list[str]:
        """The ids of what waits, by the ids of the calls: those of one answer are asked in any order."""
        async with self.agent() as living:
            ending = (await events_of(living.stream("go", approvals=person)))[-1]
        assert isinstance(ending, RunFailed), ending
        self.session = ending.session
        pending = sorted(ending.details["pending"], key=lambda each: str(each["call_id"]))
        return [each["id"] for each in pending]

    async def resume(
        self, decisions: Mapping[str, Decision], person: Person | None = None, *, asks: bool = True
    ) -> list[ToolCallResult]:
        """What the calls gave."""
        async with self.agent(asks=asks) as living:
            if decisions:
                await living.decide(self.session, decisions)
            return of(await events_of(living.resume(self.session, approvals=person)), ToolCallResult)

    async def sql(self, statement: str) -> None:
        from sqlalchemy import text

        database = Database(SQLITE_URL, directory=self.folder)
        try:
            await database.run(lambda connection: connection.execute(text(statement)))
        finally:
            await database.close()


def write(content: str = "one\n2\nthree\n", path: str = "/a.txt", name: str = "c") -> Any:
    return call("write_file", name, path=path, content=content)


def edit(old: str = "two", new: str = "2", name: str = "c", **more: Any) -> Any:
    return call("edit_file", name, path="/a.txt", old=old, new=new, **more)


def was_refused(results: Sequence[ToolCallResult]) -> bool:
    (result,) = results
    assert result.is_error == ("the file changed after the user saw" in result.content), result.content
    return result.is_error


@pytest.mark.parametrize("asked", [write(), edit(replace_all=True)], ids=["write", "edit"])
@pytest.mark.parametrize("asks", [True, False], ids=["asks", "asks nobody now"])
@pytest.mark.parametrize("decision", [APPROVE, Decision("approve", always=True)], ids=["once", "always"])
async def test_a_call_that_is_approved_later_does_what_its_question_was_about_or_nothing(
    folder: Path, asked: Any, decision: Decision, *, asks: bool
) -> None:
    waiting = Waiting(folder, calling(asked), mode="allowlist" if decision.always else "ask")
    (name,) = await waiting.begin()
    meanwhile = "one\ntwo\nthree, and two again\n"
    waiting.file.write_text(meanwhile)
    assert was_refused(await waiting.resume({name: decision}, asks=asks))
    assert waiting.file.read_text() == meanwhile


@pytest.mark.parametrize("asked", [write(), edit()], ids=["write", "edit"])
@pytest.mark.parametrize("asks", [True, False], ids=["asks", "asks nobody now"])
async def test_a_call_that_is_approved_later_runs_where_nothing_changed(
    folder: Path, asked: Any, *, asks: bool
) -> None:
    waiting = Waiting(folder, calling(asked))
    (name,) = await waiting.begin()
    assert not was_refused(await waiting.resume({name: APPROVE}, asks=asks))
    assert waiting.file.read_text() == "one\n2\nthree\n"


async def test_a_binary_file_that_became_another_of_its_size_is_not_replaced(folder: Path) -> None:
    waiting = Waiting(folder, calling(write()))
    waiting.file.write_bytes(b"\0old")
    (name,) = await waiting.begin()
    waiting.file.write_bytes(b"\0new")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert waiting.file.read_bytes() == b"\0new"
    waiting = Waiting(folder, calling(write()))
    waiting.file.write_bytes(b"\0old")
    (name,) = await waiting.begin()
    assert not was_refused(await waiting.resume({name: APPROVE}))


async def test_the_same_lines_elsewhere_in_the_file_are_another_change(folder: Path) -> None:
    """The text of the diff is the same; a heading that it does not show makes it mean something else."""
    waiting = Waiting(folder, calling(edit()))
    waiting.file.write_text("[dev]\n\n\n\none\ntwo\n")
    (name,) = await waiting.begin()
    meanwhile = "[dev]\n\n[prod]\n\n\n\n\none\ntwo\n"
    waiting.file.write_text(meanwhile)
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert waiting.file.read_text() == meanwhile


async def test_a_refused_call_may_be_repeated_and_is_asked_again(folder: Path) -> None:
    waiting = Waiting(folder, calling(edit(name="c1", replace_all=True)), calling(edit(name="c2")))
    (name,) = await waiting.begin()
    waiting.file.write_text("just two\n")
    person = says(APPROVE)
    results = await waiting.resume({name: APPROVE}, person)
    assert [each.is_error for each in results] == [True, False]
    assert [each.id for each in person.asked] != [name]
    assert waiting.file.read_text() == "just 2\n"


async def test_a_file_that_did_not_exist_and_was_made_meanwhile_is_not_replaced(folder: Path) -> None:
    waiting = Waiting(folder, calling(write("new", path="/b.txt")))
    (name,) = await waiting.begin()
    made = waiting.file.with_name("b.txt")
    made.write_text("")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert made.read_text() == ""


@pytest.mark.parametrize("asked", [write(), edit()], ids=["write", "edit"])
async def test_a_file_of_which_no_diff_can_be_shown_any_more_is_left_alone(folder: Path, asked: Any) -> None:
    waiting = Waiting(folder, calling(asked))
    (name,) = await waiting.begin()
    waiting.file.write_bytes(b"\x89PNG\0 two")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert waiting.file.read_bytes() == b"\x89PNG\0 two"


@pytest.mark.parametrize("to_model", ["mask", "allow"])
async def test_text_that_looked_like_a_placeholder_and_became_its_secret_is_a_change(
    folder: Path, to_model: str
) -> None:
    """Only in a file that holds the secret does a placeholder stand for it: the call would write the secret."""
    (folder / ".env").write_text("MY_TOKEN=hunter2hunter2\n")
    asked = calling(write("B=1\nA=<secret:MY_TOKEN>\n"))
    waiting = Waiting(folder, asked, more=f"secrets: {{to_model: {to_model}}}\n")
    waiting.file.write_text("B=<secret:MY_TOKEN>\n")
    (name,) = await waiting.begin()
    waiting.file.write_text("B=hunter2hunter2\n")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert waiting.file.read_text() == "B=hunter2hunter2\n"


async def test_a_file_that_is_gone_is_not_made_again(folder: Path) -> None:
    waiting = Waiting(folder, calling(write()))
    (name,) = await waiting.begin()
    waiting.file.unlink()
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert not waiting.file.exists()


@pytest.mark.parametrize("asked", ["write_file", "edit_file"])
async def test_a_folder_that_became_a_link_leads_no_approved_call_elsewhere(folder: Path, asked: str) -> None:
    """The text there is the same, so only the place tells that it is another file."""
    arguments = {"content": "2"} if asked == "write_file" else {"old": "two", "new": "2"}
    waiting = Waiting(folder, calling(call(asked, "c", path="/sub/a.txt", **arguments)))
    here, other = (waiting.file.parent / each for each in ("sub", "other"))
    for each in (here, other):
        each.mkdir()
        (each / "a.txt").write_text("two")
    (name,) = await waiting.begin()
    here.rename(waiting.file.parent / "moved")
    here.symlink_to("other")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert (other / "a.txt").read_text() == "two"


@pytest.mark.parametrize("later", [True, False], ids=["later", "at the prompt"])
async def test_arguments_that_the_user_changed_run_on_the_file_that_the_user_saw(
    folder: Path, *, later: bool
) -> None:
    changed = Decision("approve", arguments={"path": "/a.txt", "content": "mine"})
    waiting = Waiting(folder, calling(write("1")))

    async def decided(meddle: Callable[[], object]) -> bool:
        if not later:

            def answer(_pending: PendingApproval) -> Decision:
                meddle()
                return changed

            async with waiting.agent() as living:
                return was_refused(
                    of(await events_of(living.stream("go", approvals=Person(answer))), ToolCallResult)
                )
        (name,) = await waiting.begin()
        meddle()
        return was_refused(await waiting.resume({name: changed}))

    assert not await decided(lambda: None)
    assert waiting.file.read_text() == "mine"
    assert await decided(lambda: waiting.file.write_text("theirs"))
    assert waiting.file.read_text() == "theirs"


@pytest.mark.parametrize("later", [True, False], ids=["later", "at the prompt"])
@pytest.mark.parametrize(
    ("calls", "ran"),
    [
        ((write("1\n", name="c1"), write("2\n", name="c2")), 1),
        ((edit("one\ntwo", "1 2", name="c1"), edit("two\nthree", "2 3", name="c2")), 1),
        ((edit("one", "1", name="c1"), edit("three", "3", name="c2")), 2),
    ],
    ids=["writes", "edits of one line", "edits of two lines"],
)
async def test_of_two_calls_on_one_file_the_second_runs_where_the_first_left_its_change_as_shown(
    folder: Path, calls: Sequence[Any], ran: int, monkeypatch: pytest.MonkeyPatch, *, later: bool
) -> None:
    both = asyncio.Barrier(len(calls))

    async def previewed_together(*given: Any) -> Preview | None:
        preview = await preview_of(*given)
        # At the prompt a call may run before the change of the other one is made to be shown.
        await both.wait()
        return preview

    monkeypatch.setattr(middleware, "preview_of", previewed_together)
    waiting = Waiting(folder, calling(*calls))
    if later:
        names = await waiting.begin()
        assert len(names) == 2
        results = await waiting.resume(dict.fromkeys(names, APPROVE))
    else:
        async with waiting.agent() as living:
            results = of(await events_of(living.stream("go", approvals=says(APPROVE))), ToolCallResult)
    assert len(results) == 2
    assert sum(not each.is_error for each in results) == ran
    for each in results:
        assert not each.is_error or "was not run" in each.content
    if ran == 2:
        assert waiting.file.read_text() == "1\ntwo\n3\n"


@pytest.mark.parametrize("where", ["root", "route"])
async def test_a_mount_that_became_a_link_elsewhere_leads_no_approved_call_there(
    folder: Path, where: str
) -> None:
    path = "/a.txt" if where == "root" else "/cur/a.txt"
    waiting = Waiting(folder, calling(call("edit_file", "c", path=path, old="two", new="2")))
    waiting._yaml = f"workspace: {{root: {'cur' if where == 'root' else 'work, routes: {/cur/: cur}'}}}\n"
    for each in ("v1", "v2"):
        (folder / each).mkdir()
        (folder / each / "a.txt").write_text("two")
    (folder / "cur").symlink_to("v1")
    (name,) = await waiting.begin()
    (folder / "cur").unlink()
    (folder / "cur").symlink_to("v2")
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert (folder / "v2" / "a.txt").read_text() == "two"


async def test_a_call_with_changed_arguments_counts_as_the_change_that_it_made(folder: Path) -> None:
    waiting = Waiting(folder, calling(edit("one", "1", name="c1"), edit("three", "3", name="c2")))
    names = await waiting.begin()
    changed = Decision("approve", arguments={"path": "/a.txt", "old": "one", "new": "uno"})
    await waiting.resume({names[0]: changed, names[1]: APPROVE})
    assert waiting.file.read_text() == "uno\ntwo\n3\n"


async def test_a_call_that_failed_counts_as_no_change() -> None:
    """The text that it would have made is there since, made by another program."""
    text = ["one\n\nthree\n"]

    def preview(old: str, new: str) -> Preview:
        return Preview((Change("/a", text[0], text[0].replace(old, new)),))

    @tool(preview=preview)
    async def swap(old: str, new: str) -> str:
        """Swap."""
        raise AssertionError

    async def run(*, fails: bool) -> ToolResult:
        text[0] = "1\n\nthree\n"
        return ToolResult("", is_error=fails)

    for fails in (True, False):
        text[0] = "one\n\nthree\n"
        desk = ApprovalBroker()
        requests: list[ApprovalRequest] = []
        for place, (old, new) in enumerate((("one", "1"), ("three", "3"))):
            request = ApprovalRequest("swap", {"old": old, "new": new}, str(place))
            desk._approved[request.place, request.digest] = ApprovedCall(
                preview(old, new).digest, request.arguments
            )
            requests.append(request)
        await desk.signed(swap, requests[0], partial(run, fails=fails))
        second = await desk.signed(swap, requests[1], partial(run, fails=False))
        assert second.is_error is fails


async def test_approved_calls_of_two_agents_of_a_run_come_one_after_the_other() -> None:
    def preview(new: str) -> Preview:
        return Preview((Change("/a", text[0], new),))

    text = ["old\n"]

    @tool(preview=preview)
    async def write_it(new: str) -> str:
        """Write."""
        raise AssertionError

    parent = ApprovalBroker()
    desks = [ApprovalBroker(signing=parent.signing) for _ in range(2)]
    requests = [ApprovalRequest("write_it", {"new": each}, "1") for each in ("a\n", "b\n")]

    async def one(
        desk: ApprovalBroker, request: ApprovalRequest, inner: ApprovalBroker | None = None
    ) -> ToolResult:
        async def run() -> ToolResult:
            await asyncio.sleep(0)
            if inner is not None:
                return await asyncio.create_task(one(inner, request))
            text[0] = str(request.arguments["new"])
            return ToolResult("done")

        shown = preview(str(request.arguments["new"])).digest
        desk._approved[request.place, request.digest] = ApprovedCall(shown, request.arguments)
        return await desk.signed(write_it, request, run)

    both = await asyncio.gather(*map(one, desks, requests))
    assert [each.is_error for each in both] == [False, True]
    # A call may wait for an approved call of a sub-agent that it started.
    async with asyncio.timeout(10):
        assert not (await one(parent, requests[1], desks[1])).is_error


async def test_a_decision_is_bound_to_what_somebody_was_shown_last(folder: Path) -> None:
    """Asked again at a terminal, the user saw the new change; a resume that asks nobody shows nothing."""
    waiting = Waiting(folder, calling(write()))
    (name,) = await waiting.begin(says(None))
    waiting.file.write_text("second\n")
    assert not await waiting.resume({})
    assert was_refused(await waiting.resume({name: APPROVE}))

    (name,) = await waiting.begin(says(None))
    waiting.file.write_text("third\n")
    assert not await waiting.resume({}, says(None))
    assert not was_refused(await waiting.resume({name: APPROVE}))


async def test_an_answer_at_the_prompt_is_about_what_the_prompt_showed(folder: Path) -> None:
    """Somebody else was shown a later change while this user was thinking."""
    waiting = Waiting(folder, calling(write()))
    (name,) = await waiting.begin()
    living = waiting.agent()

    class Slow:
        async def ask(self, pending: PendingApproval) -> Decision:
            waiting.file.write_text("theirs\n")
            await waiting.sql("UPDATE pending_approval SET shown = 'of a later change'")
            return APPROVE

    async with living:
        results = of(await events_of(living.resume(waiting.session, approvals=Slow())), ToolCallResult)
        (asked,) = await approvals_of_session(waiting)
    assert (asked.id, asked.shown) != (name, "of a later change")
    assert was_refused(results)


async def approvals_of_session(waiting: Waiting) -> list[PendingApproval]:
    database = Database(SQLITE_URL, directory=waiting.folder)
    try:
        log = ThreadLog(database)
        return await approvals_of(log, await log.find(waiting.session))
    finally:
        await database.close()


async def test_a_question_from_before_digests_is_asked_again_by_the_model(folder: Path) -> None:
    waiting = Waiting(folder, calling(write()))
    (name,) = await waiting.begin()
    await waiting.sql("UPDATE pending_approval SET shown = NULL")
    assert was_refused(await waiting.resume({name: APPROVE}))


async def test_a_question_from_before_digests_about_a_tool_without_preview_holds(folder: Path) -> None:
    async with agent(folder, recording("a")) as living:
        ending = (await play(living, "go"))[-1]
        ((_, name),) = pending_ids(ending).items()
        session = ending.session  # type: ignore[union-attr]
        waiting = Waiting(folder)
        await waiting.sql("UPDATE pending_approval SET shown = NULL")
        await living.decide(session, {name: APPROVE})
        assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)
    assert effects(folder) == ["a"]


async def test_a_call_that_was_shown_without_a_diff_is_bound_to_that_in_a_later_process(folder: Path) -> None:
    """The first call makes the text that the second one replaces; then the person looks again."""
    waiting = Waiting(folder, calling(write("new\n", name="c1"), edit("new", "newer", name="c2")))
    first, second = await waiting.begin()
    await waiting.resume({first: APPROVE})
    async with waiting.agent() as living:
        shown = (await living.previewed(second)).shown
        assert shown
        await living.decide(waiting.session, {second: APPROVE}, seen={second: shown})
    await waiting.resume({})
    assert waiting.file.read_text() == "newer\n"

    (folder / "other").mkdir()
    waiting = Waiting(folder / "other", calling(write("new\n", name="c1"), edit("new", "newer", name="c2")))
    first, second = await waiting.begin()
    await waiting.resume({first: APPROVE})
    assert was_refused(await waiting.resume({second: APPROVE}))
    assert waiting.file.read_text() == "new\n"


@pytest.mark.parametrize(
    ("asked", "before", "meanwhile"),
    [(edit("gone", "x"), "zzz\n", "gone\n"), (write("x\n"), "\0", "precious\n")],
    ids=["the text to replace appears", "a binary file becomes text"],
)
async def test_a_call_that_was_shown_without_a_diff_makes_no_change_that_a_diff_would_show(
    folder: Path, asked: Any, before: str, meanwhile: str
) -> None:
    waiting = Waiting(folder, calling(asked))
    waiting.file.write_text(before)
    (name,) = await waiting.begin()
    waiting.file.write_text(meanwhile)
    assert was_refused(await waiting.resume({name: APPROVE}))
    assert waiting.file.read_text() == meanwhile


async def test_a_call_that_was_shown_without_a_diff_is_bound_to_its_workspace(folder: Path) -> None:
    waiting = Waiting(folder, calling(edit()))
    waiting.file.unlink()
    (name,) = await waiting.begin()
    (folder / "elsewhere").mkdir()
    waiting._yaml = "workspace: {root: elsewhere}\n"
    (result,) = await waiting.resume({name: APPROVE})
    assert "the user approved it in another workspace" in result.content


async def test_a_link_to_a_binary_file_is_bound_to_the_file_that_the_question_names(folder: Path) -> None:
    waiting = Waiting(folder, calling(write("x\n")))
    others = [waiting.file.with_name(each) for each in ("b.bin", "c.bin")]
    for each in others:
        each.write_bytes(b"\0")
    for other, is_refused in ((others[1], True), (others[0], False)):
        waiting.file.unlink()
        waiting.file.symlink_to(others[0])
        (name,) = await waiting.begin()
        waiting.file.unlink()
        waiting.file.symlink_to(other)
        assert was_refused(await waiting.resume({name: APPROVE})) is is_refused
    assert [each.read_bytes() for each in others] == [b"x\n", b"\0"]


@pytest.mark.parametrize(("meanwhile", "result"), [("one\n", "1\n"), ("one one\n", "one one\n")])
async def test_a_sub_agents_call_is_bound_to_what_was_shown_as_well(
    folder: Path, meanwhile: str, result: str
) -> None:
    (folder / "helper.yaml").write_text(
        "version: 1\nname: helper\nmodel: gpt-5.2\ntools: [filesystem]\nmiddlewares: [{approve: {mode: ask}}]\n"
    )
    file = folder / "a.txt"
    file.write_text("one\n")
    yaml = "agents: {helper: {description: edits, config: helper.yaml}}\n"
    config = write_agent(folder, yaml, tools="[subagents]")
    task = call("task", "t1", agent="helper", description="d", prompt="edit it")
    answers = {
        "go": [calling(task), "done"],
        "edit it": [calling(edit("one", "1", replace_all=True)), "helped"],
    }

    def answer(request: Any) -> Any:
        said = [each.type for each in request.messages].count("ai")
        return answers[str(request.messages[0].content)][said]

    async with Agent.from_config(config, directory=folder, model=PositionModel(answer)) as living:
        ending = (await play(living, "go"))[-1]
        assert isinstance(ending, RunFailed), ending
        (pending,) = ending.details["pending"]
        file.write_text(meanwhile)
        await living.decide(ending.session, {pending["id"]: APPROVE})
        assert isinstance((await events_of(living.resume(ending.session)))[-1], RunCompleted)
    assert file.read_text() == result


async def test_two_sub_agents_do_not_overwrite_each_others_approved_change(folder: Path) -> None:
    """Both questions are answered at once, so both were shown the same file."""
    (folder / "helper.yaml").write_text(
        "version: 1\nname: helper\nmodel: gpt-5.2\ntools: [filesystem]\nmiddlewares: [{approve: {mode: ask}}]\n"
    )
    file = folder / "a.txt"
    file.write_text("one\n\n\nfour\n")
    yaml = "agents: {helper: {description: edits, config: helper.yaml}}\n"
    config = write_agent(folder, yaml, tools="[subagents]")
    tasks = [
        call("task", f"t{each}", agent="helper", description="d", prompt=f"write {each}") for each in (1, 2)
    ]
    answers = {
        "go": [calling(*tasks), "done"],
        "write 1": [calling(write("1\n\n\nfour\n", name="c1")), "helped"],
        "write 2": [calling(write("one\n\n\n4\n", name="c2")), "helped"],
    }

    def answer(request: Any) -> Any:
        said = [each.type for each in request.messages].count("ai")
        return answers[str(request.messages[0].content)][said]

    waiting: list[PendingApproval] = []
    both = asyncio.Event()

    class Together:
        async def ask(self, pending: PendingApproval) -> Decision:
            if pending.tool == "write_file":
                waiting.append(pending)
                if len(waiting) == 2:
                    both.set()
                async with asyncio.timeout(20):
                    await both.wait()
            return APPROVE

    begun: list[ApprovalBroker] = []
    begin = ApprovalBroker.begin

    def noted(desk: ApprovalBroker, *arguments: Any, **named: Any) -> None:
        begun.append(desk)
        begin(desk, *arguments, **named)

    async with Agent.from_config(config, directory=folder, model=PositionModel(answer)) as living:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ApprovalBroker, "begin", noted)
            events = await events_of(living.stream("go", approvals=Together()))
    assert isinstance(events[-1], RunCompleted)
    assert len(waiting) == 2
    assert len({id(each) for each in begun}) == 3
    assert len({id(each.signing) for each in begun}) == 1
    assert file.read_text() in ("1\n\n\nfour\n", "one\n\n\n4\n")


CHANGING_FORM = '''
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool(access="read")
async def deploy(run) -> str:
    """Ask where."""
    form = {"target": {"type": "string", "default": "a"}}
    if Path("later").exists():
        form |= {"wipe": {"type": "boolean", "default": True}}
    answer = await run.ask("Where?", {"type": "object", "properties": form})
    return str(sorted((answer or {}).items()))


@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [deploy])]
'''


@pytest.mark.parametrize("changes", [False, True])
async def test_an_answer_is_bound_to_the_form_that_was_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, changes: bool
) -> None:
    monkeypatch.chdir(folder)
    config = write_agent(folder, "", plugin=CHANGING_FORM)
    model = script(calling(call("deploy", "c1")), "done")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        ending = (await play(living, "go"))[-1]
        assert isinstance(ending, RunFailed)
        (first,) = ending.details["pending"]
        await living.decide(ending.session, {first["id"]: Decision("approve")})
        if changes:
            (folder / "later").touch()
        events = await events_of(living.resume(ending.session))
    if changes:
        again = events[-1]
        assert isinstance(again, RunFailed), of(events, ToolCallResult)
        assert again.details["pending"][0]["id"] != first["id"]
    else:
        assert of(events, ToolCallResult)[0].content == "[('target', 'a')]"


VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, -0.0, "", "1", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(VALUES, VALUES)
@example({"a": 1, "b": [2]}, {"b": [2], "a": 1})
@example({"a": 1}, {"a": True})
def test_values_are_the_same_where_their_json_is(one: Any, other: Any) -> None:
    written = [json.dumps(each, sort_keys=True).replace("-0.0", "0.0") for each in (one, other)]
    assert middleware.same_json(one, other) == (written[0] == written[1])
    assert middleware.same_json(one, json.loads(json.dumps(one)))


TAKING_MORE = '''
from dataclasses import replace

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="write")
async def record(text: str, more: KIND | None = None) -> str:
    """Write it down."""
    with open("effects.txt", "a") as file:
        file.write(f"{more}")
    return "recorded"

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [replace(record, commands=frozenset(COMMANDS))])]
'''


@pytest.mark.parametrize("asks", [True, False])
async def test_changed_arguments_that_the_tool_does_not_take_any_more_are_judged_by_nothing_and_do_not_run(
    folder: Path, asks: bool
) -> None:
    model = recording("a")

    def living(kind: str, commands: Sequence[str] = (), *, asks: bool = True) -> Agent:
        rules = "middlewares: [{approve: {deny: [{record: {more: 'rm *'}}]}}]\n" if asks else ""
        config = write_agent(
            folder,
            f"{rules}{storage(SQLITE_URL)}",
            plugin=TAKING_MORE.replace("KIND", kind).replace("COMMANDS", str(commands)),
        )
        return Agent.from_config(config, directory=folder, model=model)

    async with living("int") as first:
        ending = (await play(first, "go"))[-1]
        ((_, name),) = pending_ids(ending).items()
        session = ending.session  # type: ignore[union-attr]
        await first.decide(session, {name: Decision("approve", arguments={"text": "a", "more": 7})})
    async with living("list[str]", ["more"], asks=asks) as later:
        events = await events_of(later.resume(session))
    assert isinstance(events[-1], RunCompleted), events[-1]
    (result,) = of(events, ToolCallResult)
    assert "The arguments of record do not fit" in result.content
    assert effects(folder) == []


def test_arguments_of_a_wrong_type_are_refused_for_every_tool_and_nothing_judges_them(folder: Path) -> None:
    tools = "[filesystem, shell, web, todos, memory, subagents]"
    rules = "ask: ['*'], deny: [{run_command: {command: 'rm *'}}, {'*': {path: 'secret/**'}}]"
    more = "memory: {user: ann}\nagents: {helper: {description: helps, instructions: Help.}}\n"
    config = write_agent(
        folder, f"middlewares: [{{approve: {{{rules}}}}}]\n{more}{storage(SQLITE_URL)}", tools=tools
    )
    plan = Agent.from_config(config, directory=folder, model=script("x")).plan
    values: Sequence[Any] = ("x", 7, None, [7], [], {"a": 7})
    for chosen in (each.tool for each in plan.tools):
        pending = PendingApproval("a1", "s", "r", "0", "", chosen.name, {}, schema=chosen.parameters)
        alone = replace(chosen, parameters={**chosen.parameters, "required": []})

        def fits(name: str, value: Any, alone: Tool = alone) -> bool:
            return isinstance(validate_arguments(alone, {name: value}), dict)

        needed = {
            name: next(each for each in values if fits(name, each))
            for name in chosen.parameters.get("required", ())
        }
        for name in chosen.parameters["properties"]:
            misfits = [each for each in values if not fits(name, each)]
            assert misfits, (chosen.name, name)
            for value in misfits:
                changed = {**needed, name: value}
                typed = read_answer(f"c {json.dumps(changed)}", pending)
                assert isinstance(typed, Instead)
                assert f"The arguments of {chosen.name} do not fit" in typed.text
                assert judgement_of(plan, pending, changed) is None


async def test_an_approved_call_is_asked_again_where_it_would_run_in_another_way(folder: Path) -> None:
    model = script(calling(call("run_command", "c", command="echo made > made.txt")), "done")

    def living(contain: str) -> Agent:
        shell = json.dumps(
            {"shell": {"contain": contain, "network": True} if contain != "none" else {"contain": "none"}}
        )
        config = write_agent(folder, f"middlewares: [approve]\n{storage(SQLITE_URL)}", tools=f"[{shell}]")
        return Agent.from_config(config, directory=folder, model=model)

    async with living("bubblewrap") as first:
        ending = (await events_of(first.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        (pending,) = ending.details["pending"]
        await first.decide(ending.session, {pending["id"]: APPROVE})
    async with living("none") as other:
        ending = (await events_of(other.resume(ending.session)))[-1]
        assert isinstance(ending, RunFailed)
        assert ending.code == "approval_needed"
    assert not (folder / "made.txt").exists()
    async with living("bubblewrap") as first:
        ended = (await events_of(first.resume(ending.session)))[-1]
        assert isinstance(ended, RunCompleted), ended
    assert (folder / "made.txt").exists()


REMOVED = call("run_command", "c", command="rm a.txt")
SAVED = call("memory_save", "c", content="The tests run on Linux.", scope="project")


@pytest.mark.parametrize(
    ("made", "tools", "keys", "values"),
    [
        (REMOVED, "[{shell: {contain: none}}]", "workspace: {access: {'a.*': %s}}", ("read", "write")),
        (SAVED, "[memory]", "memory: {project: %s}", ("alpha", "beta")),
        (SAVED, "[memory]", "memory: {user: %s}", ("ann", "bob")),
    ],
)
async def test_an_approval_does_not_hold_where_the_call_reaches_other_files_or_memories(
    folder: Path, made: Any, tools: str, keys: str, values: tuple[str, str]
) -> None:
    (folder / "a.txt").touch()
    model = script(calling(made), "done")

    def living(value: str) -> Agent:
        yaml = f"middlewares: [approve]\n{storage(SQLITE_URL)}{keys % value}\n"
        return Agent.from_config(write_agent(folder, yaml, tools=tools), directory=folder, model=model)

    async with living(values[0]) as asking:
        ending = (await events_of(asking.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        (pending,) = ending.details["pending"]
        assert not (await asking.pending_approvals())[0].outdated
    async with living(values[1]) as changed:
        for told in (*await changed.pending_approvals(), await changed.previewed(pending["id"])):
            assert told.outdated
    async with living(values[0]) as asking:
        assert not (await asking.previewed(pending["id"])).outdated
        await asking.decide(ending.session, {pending["id"]: APPROVE})
    async with living(values[1]) as changed:
        ended = (await events_of(changed.resume(ending.session)))[-1]
        assert isinstance(ended, RunFailed)
        assert [each["id"] for each in ended.details["pending"]] != [pending["id"]]
    assert (folder / "a.txt").exists()
    async with living(values[0]) as asking:
        assert isinstance((await events_of(asking.resume(ending.session)))[-1], RunCompleted)


async def test_a_list_says_that_a_call_was_asked_about_in_another_workspace(folder: Path) -> None:
    model = script(calling(REMOVED), "done")

    def living(root: str) -> Agent:
        (folder / root).mkdir(exist_ok=True)
        yaml = f"middlewares: [approve]\n{storage(SQLITE_URL)}workspace: {{root: {root}}}\n"
        config = write_agent(folder, yaml, tools="[{shell: {contain: none}}]")
        return Agent.from_config(config, directory=folder, model=model)

    async with living("a") as asking:
        await play(asking, "go")
        assert not (await asking.pending_approvals())[0].outdated
    async with living("b") as elsewhere:
        (pending,) = await elsewhere.pending_approvals()
        assert pending.outdated
        assert (await elsewhere.previewed(pending.id)).outdated


@pytest.mark.parametrize("verdict", [None, "approve", "reject"])
async def test_a_tool_that_claims_to_read_and_takes_other_values_does_not_get_round_the_question(
    folder: Path, verdict: Literal["approve", "reject"] | None
) -> None:
    """A server declares both itself, and may change them between the question and the run."""
    model = script(calling(call("record", "c", text="5")), "done")
    reads = TOOLS.replace('"write"', '"read"').replace("record(text: str)", "record(text: int)")
    reads = reads.replace("file.write(text", "file.write(repr(text)")

    def living(plugin: str) -> Agent:
        config = write_agent(folder, f"middlewares: [approve]\n{storage(SQLITE_URL)}", plugin=plugin)
        return Agent.from_config(config, directory=folder, model=model)

    async def resumed(plugin: str, decision: Decision | None) -> Event:
        async with living(plugin) as agent:
            (pending,) = await agent.pending_approvals(session)
            if decision:
                await agent.decide(session, {pending.id: decision})
            return (await events_of(agent.resume(session)))[-1]

    async with living(TOOLS) as first:
        ending = (await events_of(first.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        session = ending.session
        (pending,) = await first.pending_approvals(session)
        if verdict:
            await first.decide(session, {pending.id: Decision(verdict)})
    async with living(reads) as other:
        again = (await events_of(other.resume(session)))[-1]
        if verdict == "reject":
            # A rejection is of what the model wrote, whatever the tool makes of it.
            assert isinstance(again, RunCompleted), again
            assert not (folder / "effects.txt").exists()
            return
        assert isinstance(again, RunFailed), "nobody has approved these arguments"
        assert again.details["pending"][0]["parameters"] == {"text": 5}
    assert not (folder / "effects.txt").exists()
    if verdict is None:  # the tool is again what it was when the user was asked
        assert isinstance(await resumed(TOOLS, None), RunFailed)
        assert isinstance(await resumed(TOOLS, APPROVE), RunCompleted)
        assert (folder / "effects.txt").read_text() == "5\n"
    else:
        assert isinstance(await resumed(reads, APPROVE), RunCompleted)
        assert (folder / "effects.txt").read_text() == "5\n"


AGAIN = """
import asyncio
from dataclasses import replace
from zeus_runtime.plugin.middleware import Middleware
class Again(Middleware):
    def __init__(self, options, context):
        pass
    async def wrap_tool_call(self, call, call_next):
        await call_next(call)
        return await call_next(call)
class AtOnce(Again):
    async def wrap_tool_call(self, call, call_next):
        return (await asyncio.gather(call_next(call), call_next(call)))[1]
class Others(Again):
    async def wrap_tool_call(self, call, call_next):
        calls = [replace(call, arguments={"text": text}) for text in ("b", "c")]
        return (await asyncio.gather(*map(call_next, calls)))[1]
@hookimpl
def register_middlewares():
    kinds = {"again": Again, "at_once": AtOnce, "others": Others}
    return [Component(name, kind, summary=name) for name, kind in kinds.items()]
"""


@pytest.mark.parametrize("again", ["again", "at_once"])
@pytest.mark.parametrize(("tool_name", "runs"), [("record", 1), ("fail", 2)])
async def test_an_approval_is_for_one_run_of_a_call_unless_that_failed(
    folder: Path, tool_name: str, runs: int, again: str
) -> None:
    plugin = TOOLS.replace(
        'raise RuntimeError("the disk is on fire")',
        'open("effects.txt", "a").write("failed\\n"); raise RuntimeError("on fire")',
    )
    config = write_agent(
        folder,
        f"middlewares: [{again}, {{approve: {{read_tools: ask}}}}]\n{storage(SQLITE_URL)}",
        plugin=plugin + AGAIN,
    )
    made = call(tool_name, "c", **({"text": "a"} if tool_name == "record" else {}))
    person = says(APPROVE)
    async with Agent.from_config(config, directory=folder, model=script(calling(made), "done")) as living:
        events = await events_of(living.stream("go", approvals=person))
    assert len(person.asked) == 1
    assert len(effects(folder)) == runs
    (result,) = of(events, ToolCallResult)
    assert ("approved it once" in result.content) == (runs == 1)


@pytest.mark.parametrize("fails", [True, False])
async def test_a_call_that_is_made_again_while_it_runs_waits_for_its_end(*, fails: bool) -> None:
    @tool
    async def slow() -> str:
        """Wait."""
        raise AssertionError

    runs: list[None] = []

    async def run() -> ToolResult:
        await asyncio.sleep(0)
        runs.append(None)
        return ToolResult("", is_error=fails)

    desk, request = ApprovalBroker(), ApprovalRequest("slow", {}, "1")
    desk._approved[request.place, request.digest] = ApprovedCall("", {})
    await asyncio.gather(*(desk.signed(slow, request, run) for _ in range(2)))
    assert len(runs) == 1 + fails


@pytest.mark.parametrize("first", [APPROVE, Decision("reject")])
async def test_other_calls_that_a_middleware_makes_at_once_are_asked_about_in_turn(
    folder: Path, first: Decision
) -> None:
    yaml = f"middlewares: [others, approve]\n{storage(SQLITE_URL)}"
    config = write_agent(folder, yaml, plugin=TOOLS + AGAIN)
    model = script(calling(call("record", "c", text="a")), "done")
    person = Person(lambda pending: first if pending.arguments["text"] == "b" else APPROVE)
    async with Agent.from_config(config, directory=folder, model=model) as living:
        ending = (await events_of(living.stream("go", approvals=person)))[-1]
    assert isinstance(ending, RunCompleted), ending
    assert [each.arguments["text"] for each in person.asked] == ["b", "c"]
    assert effects(folder) == (["b", "c"] if first is APPROVE else ["c"])


SOURCES = '''
from dataclasses import dataclass, replace
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import Toolset, tool

@dataclass(frozen=True)
class Options:
    place: str = ""

@tool(access="write")
async def record(text: str) -> str:
    """Write down.

    Args:
        text: the line.
    """
    return "recorded"

class Server(Toolset):
    given = ()

    def tools(self):
        # As MCP does it: the server's address is no option of the component.
        self.given = self.given or (replace(record, setting=Path("address").read_text()),)
        return self.given

class Gives(Middleware):
    def __init__(self, options, context):
        pass

    @classmethod
    def tools(cls, options, context):
        return [record]

@hookimpl
def register_tools():
    fixed = {name: lambda options, context: [record] for name in ("one", "two")}
    opened = {name: lambda options, context: Server() for name in ("server", "other")}
    return [Component(name, create=create, options=Options) for name, create in (fixed | opened).items()]

@hookimpl
def register_middlewares():
    return [Component(name, create=Gives, options=Options) for name in ("gives", "hands")]
'''


@pytest.mark.parametrize(
    ("kind", "given", "others"),
    [
        ("tools", "{one: {place: a}}", ["{one: {place: b}}", "{two: {place: a}}"]),
        ("tools", "server", ["other", "{server: {place: b}}"]),
        ("middlewares", "{gives: {place: a}}", ["{gives: {place: b}}", "{hands: {place: a}}"]),
    ],
)
async def test_always_is_for_the_tool_that_was_seen_and_for_no_other_of_its_name(
    folder: Path, kind: str, given: str, others: list[str]
) -> None:
    address = folder / "address"
    address.write_text("https://one.example")
    model = recording("a")

    def living(source: str, keys: str = "") -> Agent:
        tools, more = (f"[{source}]", "") if kind == "tools" else ("[]", f", {source}")
        config = write_agent(folder, f"middlewares: [approve{more}]\n{keys}", plugin=SOURCES, tools=tools)
        return Agent.from_config(config, directory=folder, model=model)

    async def ends_in(source: str, keys: str = "") -> str:
        async with living(source, keys) as agent:
            (ending,) = (await play(agent, "go"))[-1:]
        return ending.details["pending"][0]["reason"] if isinstance(ending, RunFailed) else "complete"

    async with living(given) as asking:
        await play(asking, "go")
        (pending,) = await asking.pending_approvals()
    async with living(given) as elsewhere:
        await elsewhere.decide(pending.session, {pending.id: Decision("approve", always=True)})
        assert isinstance((await events_of(elsewhere.resume(pending.session)))[-1], RunCompleted)
    assert await ends_in(given) == "complete"
    changed = "record is on your allowlist with other options, from another source or for another workspace"
    assert [await ends_in(other) for other in others] == [changed] * len(others)
    assert await ends_in(given, "workspace: {access: {'a/**': read}}\n") == changed
    assert await ends_in(given, "memory: {project: alpha}\n") == changed
    assert await ends_in(given, "instructions: Be brief.\n") == "complete"
    address.write_text("https://other.example")
    assert await ends_in(given) == (changed if given == "server" else "complete")


@pytest.mark.parametrize("during", [True, False])
async def test_arguments_that_a_person_wrote_run_as_the_tool_takes_them(
    folder: Path, *, during: bool
) -> None:
    """As a model's: a number for a text is that text, also in the event and in what the model is told."""
    changed = Decision("approve", arguments={"text": 5})
    async with agent(folder, recording("a")) as living:
        events = await events_of(living.stream("go", approvals=says(changed) if during else None))
        if not during:
            (pending,) = await living.pending_approvals()
            await living.decide(pending.session, {pending.id: changed})
            events = await events_of(living.resume(pending.session))
        (decided,) = of(events, ApprovalDecided)
        assert decided.changed == {"text": "5"}
        assert effects(folder) == ["5"]


async def test_an_always_with_a_secret_in_its_instruction_is_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANK_API_KEY", "k-0123456789abcdef")
    person = says(Decision("approve", always=True, instruction="the key is k-0123456789abcdef"))
    async with agent(folder, recording("a")) as living:
        await events_of(living.stream("go", approvals=person))
        assert [each.tool for each in await allowlist(await living.log(), "local")] == ["record"]


@pytest.mark.parametrize("during", [True, False])
async def test_a_rejection_puts_no_tool_on_the_allowlist(folder: Path, *, during: bool) -> None:
    never = Decision("reject", "never do that", always=True)
    async with agent(folder, recording("a")) as living:
        ending = (await events_of(living.stream("go", approvals=says(never) if during else None)))[-1]
        assert isinstance(ending, RunFailed)
        (pending,) = await living.pending_approvals()
        if not during:
            with pytest.raises(UsageError, match="`always` goes with an approval"):
                await living.decide(pending.session, {pending.id: never})
        assert effects(folder) == []
        assert (await living.pending_approvals())[0].is_open
        assert await allowlist(await living.log(), "local") == []


async def test_always_at_a_question_from_before_settings_puts_no_tool_on_the_allowlist(folder: Path) -> None:
    async with agent(folder, recording("a")) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        database = Database(SQLITE_URL, directory=folder)
        try:
            older = "UPDATE pending_approval SET request = json_remove(request, '$.remembered_as')"
            await database.run(lambda connection: connection.execute(text(older)))
            (pending,) = await living.pending_approvals()
            assert not pending.may_remember
            assert not pending.outdated
            with pytest.raises(UsageError, match="cannot be remembered"):
                await living.decide(session, {pending.id: Decision("approve", always=True)})
            assert await allowlist(ThreadLog(database), "local") == []
            await living.decide(session, {pending.id: APPROVE})
        finally:
            await database.close()


@pytest.mark.parametrize("tool", ["filesystem", "{filesystem: {max_write_bytes: 1000}}"])
async def test_a_config_that_asks_about_nothing_shows_the_diff_of_a_call_that_waits(
    folder: Path, tool: str
) -> None:
    """It is bound to it too: the file changes while the question of the resumed run is open."""
    (folder / "a.txt").write_text("precious\n")
    model = script(calling(call("write_file", "1", path="a.txt", content="new\n")), "done")
    stored = storage("sqlite:///sessions.db")
    config = write_agent(folder, f"middlewares: [approve]\n{stored}", tools="[filesystem]")
    async with Agent.from_config(config, directory=folder, model=model) as asking:
        session = (await play(asking, "go"))[-1].session  # type: ignore[union-attr]

    def changes_it(pending: PendingApproval) -> Decision:
        assert pending.preview is not None
        assert [(each.path, each.before, each.after) for each in pending.preview.changes] == [
            ("/a.txt", "precious\n", "new\n")
        ]
        (folder / "a.txt").write_text("more precious\n")
        return APPROVE

    config = write_agent(folder, stored, tools=f"[{tool}]")
    person = Person(changes_it)
    async with Agent.from_config(config, directory=folder, model=model) as free:
        events = await events_of(free.resume(session, approvals=person))
    assert len(person.asked) == 1
    (result,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert "the file changed after the user saw" in result
    assert (folder / "a.txt").read_text() == "more precious\n"
