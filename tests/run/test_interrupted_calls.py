"""An approved call that an interrupted run began: it runs again only if somebody approves that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.delegation.test_subagents import cast, task
from tests.support.agents import call, calling, events_of, script, write_agent
from tests.support.databases import SQLITE_URL, storage
from zeus_runtime import Agent, Decision, PendingApproval
from zeus_runtime.cli.approval_prompt import YesApprovals
from zeus_runtime.cli.sessions.conversation import conversation
from zeus_runtime.errors import UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallResult,
)
from zeus_runtime.tools.question import question_lines

PLUGIN = '''
import asyncio
from dataclasses import replace
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}

def paid(what):
    with open("effects.txt", "a") as file:
        file.write(what + "\\n")

@tool(access="write")
async def pay(what: str) -> str:
    """Pay.

    Args:
        what: the thing.
    """
    paid(what)
    if Path("slow").exists():
        await asyncio.sleep(60)
    return "paid"

@tool(access="write")
async def confirm(run, what: str = "begun") -> str:
    """Pay after a question.

    Args:
        what: the thing.
    """
    paid(what)
    return str(await run.ask("Sure?", FORM))

start = replace(pay, name="start", starts_agents=True)

def copying(files):
    @tool(access="write")
    async def copy() -> str:
        """Copy two files."""
        for name in ("/a.md", "/b.md"):
            await asyncio.to_thread(files.write, name, b"x")
        paid("copied")
        if Path("slow").exists():
            await asyncio.sleep(60)
        return "copied"

    return copy

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [pay, confirm, start, copying(context.workspace)])]
'''

PAY = calling(call("pay", "c1", what="once"))
AGAIN = "It was begun before and did not finish: whether it took effect is unknown."


class Person:
    """Gives ``answers`` in order."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.asked: list[PendingApproval] = []

    async def ask(self, pending: PendingApproval) -> Decision:
        self.asked.append(pending)
        return self.answers.pop(0)


DENIES = "middlewares: [approve: {deny: [pay]}]\n"
YES, NO = Decision("approve"), Decision("reject")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow").touch()
    return tmp_path


def agent(
    folder: Path, yaml: str = "middlewares: [approve]\n", *, url: str = SQLITE_URL, answer: Any = PAY
) -> Agent:
    config = write_agent(folder, yaml + storage(url), plugin=PLUGIN)
    return Agent.from_config(config, directory=folder, model=script(answer, "done"))


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return file.read_text().split() if file.exists() else []


async def interrupted(folder: Path, made: Agent, person: Person, session: str = "") -> str:
    """The session of a run that is cancelled while its tool runs."""
    before, events = len(effects(folder)), list[Event]()

    async def play(stream: AsyncIterator[Event]) -> None:
        async for event in stream:
            events.append(event)

    async with made as living:
        stream = (
            living.resume(session, approvals=person) if session else living.stream("go", approvals=person)
        )
        running = asyncio.create_task(play(stream))
        async with asyncio.timeout(30):
            while len(effects(folder)) == before:  # noqa: ASYNC110 - a tool's file
                await asyncio.sleep(0.01)
        (found,) = {each.session for each in events if isinstance(each, RunStarted)}
        assert living.cancel(found)
        await running
    return found


async def resumed(made: Agent, session: str, person: Person | None = None) -> tuple[list[Event], str]:
    """The events of a resume, and the conversation after it."""
    async with made as living:
        events = await events_of(living.resume(session, approvals=person))
        stored = await living.stored_session(session)
    return events, conversation(stored.messages, stored)


def asked(events: Sequence[Event]) -> list[bool]:
    return [each.interrupted for each in events if isinstance(each, ApprovalRequested)]


def decided(events: Sequence[Event]) -> list[ApprovalDecided]:
    return [each for each in events if isinstance(each, ApprovalDecided)]


async def test_it_is_asked_about_anew_with_what_is_known(folder: Path, database_url: str) -> None:
    session = await interrupted(folder, agent(folder, url=database_url), Person(YES))
    second = Person(YES)
    await interrupted(folder, agent(folder, url=database_url), second, session)
    assert AGAIN in "\n".join(line.text for line in question_lines(second.asked[0]))
    (folder / "slow").unlink()
    third = Person(YES)
    events, lines = await resumed(agent(folder, url=database_url), session, third)
    assert [each.former for each in decided(events)] == [False]
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == ["once"] * 3
    assert len({each.id for each in (*second.asked, *third.asked)}) == 2
    again = "begun before, approved by the user"
    assert f"── tool pay · 3 · approved by the user · {again} · {again}\n" in lines


ALLOWED = f"middlewares: [{json.dumps({'approve': {'allow': ['pay']}})}]\n"


@pytest.mark.parametrize("later", ["middlewares: [approve]\n", ALLOWED])
async def test_without_anybody_to_ask_it_waits_and_what_is_decided_holds(folder: Path, later: str) -> None:
    """As when a service is started again."""
    session = await interrupted(folder, agent(folder), Person(YES))
    for _ in range(2):
        events, _lines = await resumed(agent(folder), session)
        ending = events[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("approval_needed", 7)
        (pending,) = ending.details["pending"]
        assert pending["interrupted"] is True
        assert asked(events) == [True]
    assert effects(folder) == ["once"]
    async with agent(folder) as living:
        await living.decide(session, {pending["id"]: NO})
    events, lines = await resumed(agent(folder, later), session)
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == ["once"]
    assert [(each.decision, each.former) for each in decided(events)] == [("reject", True)]
    assert "approved by the user · begun before, rejected by the user\n" in lines


async def test_an_approval_that_was_not_used_yet_needs_no_question(folder: Path) -> None:
    (folder / "slow").unlink()
    async with agent(folder) as living:
        ending = (await events_of(living.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        await living.decide(ending.session, {ending.details["pending"][0]["id"]: YES})
    events, _ = await resumed(agent(folder), ending.session)
    assert isinstance(events[-1], RunCompleted)
    assert asked(events) == []
    assert [each.former for each in decided(events)] == [True]


async def test_a_call_that_stopped_for_a_question_goes_on_after_it(folder: Path) -> None:
    made = calling(call("confirm", "c1"))
    async with agent(folder, answer=made) as living:
        ending = (await events_of(living.stream("go")))[-1]
        for decision in (YES, Decision("approve", arguments={"sure": True})):
            assert isinstance(ending, RunFailed)
            (pending,) = ending.details["pending"]
            assert pending["interrupted"] is False
            await living.decide(ending.session, {pending["id"]: decision})
            ending = (await events_of(living.resume(ending.session)))[-1]
        assert isinstance(ending, RunCompleted)


async def test_each_file_of_a_call_is_asked_about_once_however_often_it_stops(folder: Path) -> None:
    (folder / "slow").unlink()
    yaml = 'middlewares: [approve: {allow: [copy]}]\nworkspace: {access: {"*.md": ask}}\n'
    async with agent(folder, yaml, answer=calling(call("copy", "c1"))) as living:
        ending = (await events_of(living.stream("go")))[-1]
        for _ in ("/a.md", "/b.md"):
            assert isinstance(ending, RunFailed)
            (pending,) = ending.details["pending"]
            assert (pending["kind"], pending["interrupted"]) == ("file", False)
            await living.decide(ending.session, {pending["id"]: YES})
            ending = (await events_of(living.resume(ending.session)))[-1]
        assert isinstance(ending, RunCompleted)
    assert effects(folder) == ["copied"]


async def test_work_of_a_sub_agent_goes_on_without_a_question(folder: Path) -> None:
    """Its session has what is done of it, and asks about its own calls."""
    made = calling(call("start", "c1", what="once"))
    session = await interrupted(folder, agent(folder, answer=made), Person(YES))
    (folder / "slow").unlink()
    events, _ = await resumed(agent(folder, answer=made), session)
    assert isinstance(events[-1], RunCompleted)
    assert asked(events) == []


async def test_a_config_that_asks_about_nothing_asks_about_it(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(YES))
    events, _ = await resumed(agent(folder, ""), session)
    assert isinstance(events[-1], RunFailed)
    assert asked(events) == [True]
    assert effects(folder) == ["once"]


async def test_a_call_that_a_rule_lets_run_is_resumed_as_it_was(folder: Path) -> None:
    session = await interrupted(folder, agent(folder, ALLOWED), Person())
    (folder / "slow").unlink()
    events, _ = await resumed(agent(folder, ALLOWED), session)
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == ["once"] * 2


CHANGED = Decision("approve", arguments={"what": "mine"})


async def test_a_call_that_was_begun_with_changed_arguments_is_shown_with_them(
    folder: Path, database_url: str
) -> None:
    session = await interrupted(folder, agent(folder, url=database_url), Person(CHANGED))
    second = Person(YES)
    await interrupted(folder, agent(folder, url=database_url), second, session)
    (folder / "slow").unlink()
    third = Person(Decision("approve", arguments={"what": "third"}))
    events, _ = await resumed(agent(folder, url=database_url), session, third)
    told = [each.begun_with for each in events if isinstance(each, ApprovalRequested)]
    assert effects(folder) == ["mine", "once", "third"]
    for pending, begun in ((second.asked[0], ["mine"]), (third.asked[0], ["mine", "once"])):
        lines = "\n".join(line.text for line in question_lines(pending))
        assert "  what: once\n" in lines
        assert (
            "It was begun before, with the arguments below, and did not finish: whether it took effect is unknown.\n"
            + "\n".join(f'  begun with: {{"what": "{each}"}}' for each in begun)
        ) in lines
        assert pending.as_json()["begun_with"] == [{"what": each} for each in begun]
    assert [list(each) for each in told] == [[{"what": "mine"}, {"what": "once"}]]
    async with agent(folder, url=database_url) as living:
        stored = await living.stored_session(session)
    # What a later claim began is not said of an earlier question.
    assert [len(each.begun_with) for each in stored.approvals] == [0, 1, 2]


async def test_only_a_person_approves_another_call_than_the_one_that_was_begun(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(CHANGED))
    (folder / "slow").unlink()
    async with agent(folder) as living:
        ending = (await events_of(living.resume(session, approvals=YesApprovals(None))))[-1]
        assert isinstance(ending, RunFailed)
        assert ending.code == "approval_needed"
        (pending,) = ending.details["pending"]
        assert (pending["needs_person"], pending["on_timeout"]) == (True, "reject")
        with pytest.raises(UsageError, match="only a person may approve it"):
            await living.decide(session, {pending["id"]: Decision("approve", by="automatic")})
        await living.decide(session, {pending["id"]: YES})
        assert isinstance((await events_of(living.resume(session)))[-1], RunCompleted)
    assert effects(folder) == ["mine", "once"]


@pytest.mark.parametrize("on_timeout", ["approve", "reject"])
async def test_the_end_of_the_time_approves_no_other_call_than_the_one_that_was_begun(
    folder: Path, on_timeout: str
) -> None:
    options = {"timeout_seconds": 60, "on_timeout": on_timeout}
    yaml = f"middlewares: [{json.dumps({'approve': options})}]\n"
    session = await interrupted(folder, agent(folder, yaml), Person(CHANGED))
    (folder / "slow").unlink()
    over = yaml.replace("60", "0.001")
    first, _ = await resumed(agent(folder, over), session)
    again, _ = await resumed(agent(folder, over), session)
    found = {(each.decision, each.by) for each in decided([*first, *again])}
    assert found == ({("reject", "timeout")} if on_timeout == "reject" else set())
    waiting = getattr(again[-1], "details", {}).get("pending", ())
    left = [] if on_timeout == "reject" else [(None, "reject")]
    assert [(each["expires_ms"], each["on_timeout"]) for each in waiting] == left
    assert effects(folder) == ["mine"]


async def test_the_same_arguments_written_again_are_no_other_call(folder: Path) -> None:
    same = Decision("approve", arguments={"what": "once"})
    session = await interrupted(folder, agent(folder), Person(same))
    (folder / "slow").unlink()
    async with agent(folder) as living:
        events = await events_of(living.resume(session, approvals=YesApprovals(None)))
    assert isinstance(events[-1], RunCompleted)
    assert [each.begun_with for each in events if isinstance(each, ApprovalRequested)] == [()]


async def test_a_rule_that_lets_the_call_run_resumes_what_the_person_wrote(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(CHANGED))
    (folder / "slow").unlink()
    events, _ = await resumed(agent(folder, ALLOWED), session)
    assert isinstance(events[-1], RunCompleted)
    assert effects(folder) == ["mine"] * 2


async def test_a_secret_in_what_was_begun_is_masked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Decision("approve", arguments={"what": "long-hidden-value"})
    session = await interrupted(folder, agent(folder), Person(written))
    monkeypatch.setenv("LATER_TOKEN", "long-hidden-value")
    person = Person(NO)
    await resumed(agent(folder), session, person)
    assert list(person.asked[0].begun_with) == [{"what": "<secret:LATER_TOKEN>"}]


async def test_arguments_whose_secret_is_known_later_are_no_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = calling(call("pay", "c1", what="long-hidden-value"))
    session = await interrupted(folder, agent(folder, answer=answer), Person(YES))
    monkeypatch.setenv("LATER_TOKEN", "long-hidden-value")
    events, _ = await resumed(agent(folder, DENIES), session)
    (told,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert told.startswith("This call was begun before and did not finish:")


ASKS = "middlewares: [approve]\n"
TIMED = "middlewares: [approve: {timeout_seconds: 0.001}]\n"
HOOK = {"match": {"tool": "pay"}, "command": ["/bin/echo", '{"decision": "deny", "reason": "closed"}']}
HOOKED = f"middlewares: [{json.dumps({'hooks': {'before_tool_call': [HOOK]}})}, approve]\n"
MINE = 'This call was begun before with the arguments {"what": "mine"} and did not finish'


@pytest.mark.parametrize(
    ("at_once", "later", "words"),
    [
        (True, ASKS, "The user rejected this call of pay: no more."),
        (False, ASKS, "The user rejected this call of pay: no more."),
        (False, ALLOWED, "The user rejected this call of pay: no more."),
        (False, "", "The user rejected this call of pay: no more."),
        (True, TIMED, "The user did not approve this call of pay within 0.001 seconds."),
        (True, DENIES, "pay is not allowed with these arguments (the rule `deny: pay`)."),
        (True, HOOKED, "pay was not run: a hook of the config denied this call (closed)."),
        (True, "mode: plan\n", "pay cannot be called in plan mode."),
    ],
)
async def test_the_model_reads_that_a_rejected_call_was_begun(
    folder: Path, later: str, words: str, *, at_once: bool
) -> None:
    session = await interrupted(folder, agent(folder), Person(CHANGED))
    no = Decision("reject", "no more")
    if not at_once:
        async with agent(folder) as living:
            ending = (await events_of(living.resume(session)))[-1]
            assert isinstance(ending, RunFailed)
            await living.decide(session, {ending.details["pending"][0]["id"]: no})
    async with agent(folder, later) as living:
        await events_of(living.resume(session, approvals=Person(no) if at_once else None))
        if later == TIMED:
            await events_of(living.resume(session))
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    assert result.startswith(f"{MINE}: whether it took effect is unknown. This time:\n\n{words}")
    assert effects(folder) == ["mine"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("pay(what: str)", "pay(what: int)", "what: "),
        ("pay(what: str)", "spend(what: str)", "There is no tool 'pay'."),
    ],
)
async def test_the_model_reads_that_a_call_was_begun_whose_tool_is_another_one_now(
    folder: Path, old: str, new: str, words: str
) -> None:
    session = await interrupted(folder, agent(folder), Person(YES))
    names = ("start = replace(pay", "[pay, ")
    plugin = PLUGIN.replace(old, new)
    if "spend" in new:
        plugin = plugin.replace(names[0], "start = replace(spend").replace(names[1], "[spend, ")
    config = write_agent(folder, ASKS + storage(SQLITE_URL), plugin=plugin)
    async with Agent.from_config(config, directory=folder, model=script(PAY, "done")) as living:
        await events_of(living.resume(session))
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    begun = "This call was begun before and did not finish: whether it took effect is unknown."
    assert result.startswith(f"{begun} This time:\n\n")
    assert words in result
    assert effects(folder) == ["once"]


async def test_the_model_reads_that_a_call_was_begun_under_the_approval_of_a_file(folder: Path) -> None:
    yaml = 'middlewares: [approve: {RULES: [copy]}]\nworkspace: {access: {"b.md": ask}}\n'
    answer = calling(call("copy", "c1"))
    session = await interrupted(
        folder, agent(folder, yaml.replace("RULES", "allow"), answer=answer), Person(YES)
    )
    async with agent(folder, yaml.replace("RULES", "deny"), answer=answer) as living:
        await events_of(living.resume(session))
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    assert result.startswith("This call was begun before and did not finish:")


async def test_the_model_reads_each_way_in_which_a_call_was_begun(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(CHANGED))
    await interrupted(folder, agent(folder), Person(YES), session)
    events, _ = await resumed(agent(folder, DENIES), session)
    (told,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert 'with the arguments {"what": "mine"} and {"what": "once"} and did not finish' in told


async def test_a_call_that_runs_again_has_its_own_result_alone(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(YES))
    (folder / "slow").unlink()
    async with agent(folder) as living:
        await events_of(living.resume(session, approvals=Person(YES)))
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    assert result == "paid"


@pytest.mark.parametrize("at_once", [True, False])
async def test_the_model_reads_where_a_call_whose_file_is_rejected_was_stopped(
    folder: Path, *, at_once: bool
) -> None:
    yaml = 'middlewares: [approve]\nworkspace: {access: {"b.md": ask}}\n'
    async with agent(folder, yaml, answer=calling(call("copy", "c1"))) as living:
        await events_of(living.stream("go", approvals=Person(YES, NO) if at_once else None))
        (session,) = [each.session for each in await living.sessions()]
        for decision in () if at_once else (YES, NO):
            (pending,) = await living.pending_approvals(session)
            await living.decide(session, {pending.id: decision})
            await events_of(living.resume(session))
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    told = "The user rejected this call of copy. It was stopped before it opened /b.md"
    assert result.startswith(f"{told}." if at_once else f"{told}: ")
    assert effects(folder) == []


async def test_the_same_call_made_again_was_not_begun(folder: Path) -> None:
    session = await interrupted(folder, agent(folder), Person(CHANGED))
    await resumed(agent(folder), session)
    config = write_agent(folder, ALLOWED + storage(SQLITE_URL), plugin=PLUGIN)
    model = script(PAY, calling(call("pay", "c2", what="once")), "done")
    async with Agent.from_config(config, directory=folder, model=model) as living:
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: NO})
        await events_of(living.resume(session))
        results = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    assert ["This call was begun before" in each for each in results] == [True, False]


async def test_the_model_reads_that_a_call_which_never_began_was_not_run(folder: Path) -> None:
    async with agent(folder) as living:
        await events_of(living.stream("go", approvals=Person(Decision("reject"))))
        (session,) = [each.session for each in await living.sessions()]
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
    assert result.startswith("The user rejected this call of pay. It was not run. Do not call pay ")


ASKED = {"ask": ["task", "confirm", {"pay": {"what": "[!a]*"}}], "allow": [{"pay": {"what": "a*"}}]}


def any_agent(folder: Path, kind: str, approve: dict[str, Any], more: str = "", hooks: str = "") -> Agent:
    """An agent that makes one call of ``kind``; a sub-agent pays `a`, and is asked about its next call."""
    yaml = f"middlewares: [{hooks}{json.dumps({'approve': approve})}]\nagents: {{helper: {{description: Helps.}}}}\n"
    config = write_agent(folder, yaml + more, plugin=PLUGIN, tools="[probe, subagents]")
    made = task("c1", "work") if kind == "task" else call(kind, "c1", what="once")
    paying = [calling(call("pay", "p1", what="a")), calling(call("pay", "p2", what="b")), "paid"]
    return Agent.from_config(config, directory=folder, model=cast(go=[calling(made), "done"], work=paying))


def changed_to(kind: str) -> dict[str, Any]:
    return (
        {"description": "d", "prompt": "work less", "agent": "helper"} if kind == "task" else {"what": "mine"}
    )


# The access of `task` is "read", so a mode lets it run.
SECOND = ["same", "changed", "reject", "deny", "hook", "mode"]
KINDS = [
    (kind, each) for kind in ("pay", "confirm", "task") for each in SECOND if (kind, each) != ("task", "mode")
]


@pytest.mark.parametrize(("kind", "second"), KINDS)
async def test_that_a_call_had_begun_is_told_by_each_question_and_by_each_refusal(
    folder: Path, kind: str, second: str
) -> None:
    """A call that was interrupted, one that stopped to ask something, and one whose sub-agent waits."""
    if kind == "pay":
        session = await interrupted(folder, any_agent(folder, kind, ASKED), Person(YES))
        (folder / "slow").unlink()
    else:
        (folder / "slow").unlink()
        async with any_agent(folder, kind, ASKED) as living:
            ending = (await events_of(living.stream("go")))[-1]
            assert isinstance(ending, RunFailed)
            session = ending.session
            await living.decide(session, {ending.details["pending"][0]["id"]: YES})
            waiting = (await events_of(living.resume(session)))[-1]
            assert isinstance(waiting, RunFailed), "it waits for its own question"
    begun = effects(folder)
    assert len(begun) == 1
    # Other settings: approvals of these tools do not hold.
    more = "workspace: {access: {other.md: deny}}\n" + ("mode: plan\n" if second == "mode" else "")
    hook = {"match": {"tool": kind}, "command": ["/bin/echo", '{"decision": "deny", "reason": "closed"}']}
    hooks = json.dumps({"hooks": {"before_tool_call": [hook]}}) + ", " if second == "hook" else ""
    approve = {"deny": [kind]} if second == "deny" else ASKED
    answers = {"same": YES, "changed": Decision("approve", arguments=changed_to(kind)), "reject": NO}
    async with any_agent(folder, kind, approve, more, hooks) as living:
        events = await events_of(living.resume(session))
        own = [
            each for each in await living.pending_approvals(session) if each.kind == "call" and not each.agent
        ]
        assert [each.interrupted for each in own] == ([True] if second in answers else [])
        if second in answers:
            assert AGAIN in "\n".join(line.text for line in question_lines(own[0]))
            await living.decide(session, {own[0].id: answers[second]})
            events = await events_of(living.resume(session))
        for _ in range(2):
            if rest := await living.pending_approvals(session):
                fits = {each.id: {"sure": True} if each.kind == "question" else None for each in rest}
                yes = {name: Decision("approve", arguments=given) for name, given in fits.items()}
                await living.decide(session, yes)
                events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        (result,) = [str(each.content) for each in await living.history(session) if each.type == "tool"]
        stored = await living.stored_session(session)
    if second == "same":
        assert not result.startswith("This call was begun before")
    else:
        assert result.startswith("This call was begun before")
        assert (second == "changed") == ("begun before with the arguments {" in result)
    if second not in ("same", "changed"):
        assert effects(folder) == begun
    assert all(each.decision is not None or each.withdrawn for each in stored.approvals)


async def test_a_call_that_a_rule_let_run_until_it_asked_something_had_begun(folder: Path) -> None:
    allowed, denied = (f"middlewares: [approve: {{{rule}: [confirm]}}]\n" for rule in ("allow", "deny"))
    answer = calling(call("confirm", "c1"))
    async with agent(folder, allowed, answer=answer) as living:
        ending = (await events_of(living.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
    events, _ = await resumed(agent(folder, denied, answer=answer), ending.session)
    (told,) = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert told.startswith("This call was begun before and did not finish:")
