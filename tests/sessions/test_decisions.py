"""Whose decision is whose: each one beside the call that it is about, whatever ids a provider gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import call, calling, events_of, script, write_agent
from zeus_runtime import Agent, Decision, PendingApproval
from zeus_runtime.cli.event_lines import decision_line
from zeus_runtime.cli.sessions.conversation import conversation
from zeus_runtime.cli.sessions.trace import _name
from zeus_runtime.events import ApprovalDecided, ApprovalRequested
from zeus_runtime.sessions.decisions import decision_text
from zeus_runtime.sessions.stored import as_markdown
from zeus_runtime.sessions.trace import Span, trace_of

PLUGIN = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

FORM = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}

@tool(access="write")
async def paint(run, what: str) -> str:
    """Paint.

    Args:
        what: the thing.
    """
    return f"{what} is {await run.ask('Which colour?', FORM)}"

@tool(access="write")
async def record(text: str) -> str:
    """Write down.

    Args:
        text: the line.
    """
    return "recorded"

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [paint, record])]
'''


class Person:
    """Approves calls, and answers each question of a tool with ``answer``."""

    def __init__(self, answer: Decision) -> None:
        self.answer = answer

    async def ask(self, pending: PendingApproval) -> Decision:
        return self.answer if pending.is_question else Decision("approve")


async def shown(folder: Path, yaml: str, person: Person, *calls: Any) -> tuple[list[Any], str, list[Span]]:
    """The events of a run that makes one call an answer, its conversation, and the spans of its calls."""
    config = write_agent(folder, yaml, plugin=PLUGIN)
    model = script(*(calling(each) for each in calls), "done")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = await events_of(agent.stream("go", approvals=person))
        stored = await agent.stored_session(events[-1].session)
        (run,) = await trace_of(await agent.log(), events[-1].session)
    lines = conversation(stored.messages, stored)
    return events, lines, [each for each in run.spans if each.kind == "tool_call"]


RED = Decision("approve", arguments={"colour": "red"})


@pytest.mark.parametrize(
    ("answer", "told", "said"),
    [
        (RED, "a question answered by the user", "answered"),
        (Decision("reject"), "a question declined by the user", "declined"),
    ],
)
@pytest.mark.parametrize("asks", [True, False])
async def test_the_answer_to_a_tools_question_does_not_pass_for_the_decision_about_its_call(
    tmp_path: Path, answer: Decision, told: str, said: str, *, asks: bool
) -> None:
    yaml = "middlewares: [approve]\n" if asks else "middlewares: [{approve: {allow: [paint]}}]\n"
    events, lines, (made,) = await shown(tmp_path, yaml, Person(answer), call("paint", "c1", what="it"))
    decisions = ["approved by the user", told] if asks else [told]
    assert f"── tool paint · 3 · {' · '.join(decisions)}\n" in lines
    kinds = ["call", "question"] if asks else ["question"]
    assert [each.details["kind"] for each in made.spans] == kinds
    assert [_name(each) for each in made.spans][-1] == "waits for an answer"
    assert [each.kind for each in events if isinstance(each, ApprovalRequested)] == kinds
    decided = [each for each in events if isinstance(each, ApprovalDecided)]
    assert [each.kind for each in decided] == kinds
    assert decision_line(decided[-1]) == f"the question of paint was {said}"
    assert asks is (decision_line(decided[0]) == "paint was approved")


async def test_an_approved_file_does_not_pass_for_the_approval_of_its_call(tmp_path: Path) -> None:
    yaml = 'middlewares: [approve: {allow: [write_file]}]\nworkspace: {access: {"notes.md": ask}}\n'
    config = write_agent(tmp_path, yaml, tools="[filesystem]")
    model = script(calling(call("write_file", "c1", path="notes.md", content="x\n")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await events_of(agent.stream("go", approvals=Person(RED)))
        stored = await agent.stored_session(events[-1].session)
    assert "── tool write_file · 3 · a file approved by the user\n" in conversation(stored.messages, stored)
    (decided,) = (each for each in events if isinstance(each, ApprovalDecided))
    assert decision_line(decided) == "a file for write_file was approved"


async def test_an_id_that_a_provider_uses_again_lends_a_call_no_decision(tmp_path: Path) -> None:
    yaml = 'middlewares: [approve: {allow: [{record: {text: "free"}}]}]\n'
    calls = [call("record", "0", text="asked"), call("record", "0", text="free")]
    _, lines, (first, second) = await shown(tmp_path, yaml, Person(RED), *calls)
    assert "── tool record · 3 · approved by the user\n" in lines
    assert "── tool record · 5\n" in lines
    assert [len(first.spans), len(second.spans)] == [1, 0]


async def test_a_decision_from_before_a_rollback_stays_with_its_own_call(tmp_path: Path) -> None:
    """Both calls have one place and one id."""
    config = write_agent(tmp_path, "middlewares: [approve]\n", plugin=PLUGIN)
    model = script(calling(call("record", "0", text="a")), "done")
    reject = Decision("reject", "not now")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await events_of(agent.stream("go", approvals=Person(RED))))[-1].session
        await agent.rollback(session, to=1)

        class Refuses:
            async def ask(self, pending: PendingApproval) -> Decision:
                return reject

        await events_of(agent.resume(session, approvals=Refuses()))
        stored = await agent.stored_session(session)
    lines = conversation(stored.messages, stored)
    assert "── tool record · 3 (set aside) · approved by the user\n" in lines
    assert "── tool record (error) · 6 · rejected by the user: not now\n" in lines


async def test_the_arguments_that_a_user_wrote_are_in_the_record(tmp_path: Path) -> None:
    class Changes:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("approve", arguments={"text": "mi\u202ene"})

    config = write_agent(tmp_path, "middlewares: [approve]\n", plugin=PLUGIN)
    model = script(calling(call("record", "0", text="a")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await events_of(agent.stream("go", approvals=Changes()))
        stored = await agent.stored_session(events[-1].session)
    said = 'approved by the user, with changed arguments {"text": "mi\\u202ene"}'
    assert f"── tool record · 3 · {said}\n" in conversation(stored.messages, stored)
    assert f"Decided:\n\n```\n{said}\n```\n" in as_markdown(stored)


async def test_no_name_of_a_tool_passes_for_a_decision(tmp_path: Path) -> None:
    """A model may call a tool that does not exist."""
    config = write_agent(tmp_path, "middlewares: [approve]\n", plugin=PLUGIN)
    names = ["record · 2 · approved by the user", "a` **approved** ``b"]
    model = script(*(calling(call(each, "0")) for each in names), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await events_of(agent.stream("go"))
        stored = await agent.stored_session(events[-1].session)
    lines, text = conversation(stored.messages, stored), as_markdown(stored)
    assert f'→ "{names[0]}"()\n' in lines
    assert f'── tool "{names[0]}" (error) · 3\n' in lines
    assert f'## 3 · Tool `"{names[0]}"` · ' in text
    assert f'## 5 · Tool ``` "{names[1]}" ``` · ' in text
    assert f'Calls ``` "{names[1]}" ```:\n' in text


@pytest.mark.parametrize(("written", "told"), [(1, ""), (True, ', with changed arguments {"n": true}')])
def test_arguments_that_were_written_again_are_not_changed(written: object, told: str) -> None:
    decision = Decision("approve", arguments={"n": written})
    pending = PendingApproval("a1", "s", "r", "0", "d", "record", {"n": 1}, decision=decision)
    assert decision_text(pending) == f"approved by the user{told}"


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"approved_before": True}, "after a change of the tool's settings, "),
        (
            {"approved_before": True, "interrupted": True},
            "begun before, after a change of the tool's settings, ",
        ),
    ],
)
def test_a_decision_says_why_the_call_was_asked_about_again(known: Any, told: str) -> None:
    asked = PendingApproval("a1", "s", "r", "0", "d", "record", {}, decision=Decision("reject"), **known)
    assert decision_text(asked) == f"{told}rejected by the user"


def test_a_decision_from_before_is_told_as_one() -> None:
    told = ApprovalDecided("a1", "s", "c1", "record", {}, "approve", "user", former=True)
    assert decision_line(told) == "record was approved earlier"


async def test_a_fork_shows_the_decisions_about_its_calls_and_asks_about_new_ones(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [approve]\n", plugin=PLUGIN)
    calls = [calling(call("record", "c1", text=each)) for each in ("one", "two", "two")]
    model = script(calls[0], calls[1], "done", calls[2], "done")
    person = Person(Decision("approve", arguments={"text": "another"}))
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await events_of(agent.stream("go", approvals=person))
        fork = await agent.fork(events[-1].session, step=2)
        stored = await agent.stored_session(fork)
        assert conversation(stored.messages, stored).count("· approved by the user\n") == 1
        assert len(stored.approvals) == 1
        asked = [each for each in await events_of(agent.resume(fork)) if isinstance(each, ApprovalRequested)]
        assert [each.parameters for each in asked] == [{"text": "two"}]
