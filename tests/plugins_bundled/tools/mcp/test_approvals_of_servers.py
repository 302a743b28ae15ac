"""Approvals of what servers offer: tools that join while a run goes on, calls that wait, questions of servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from contextvars import Context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from zeus_plugins.tools.mcp.elicitation_routing import Askers
from zeus_plugins.tools.mcp.resources import RESOURCE_TOOLS

from tests.plugins_bundled.tools.mcp.test_stdio import (
    Patient,
    agent,
    notices,
    results,
    server,
    states,
    until,
)
from tests.support.agents import (
    PositionModel,
    call,
    calling,
    events_of,
    play,
    script,
    write_agent,
)
from tests.support.hand_time import moved_by_hand
from zeus_runtime import Agent, ConfigError
from zeus_runtime.agent.approval_preview import _foreseen
from zeus_runtime.events import Event, Notice, RunCompleted, RunFailed
from zeus_runtime.plan.components import PlannedComponent
from zeus_runtime.plan.shown import planned_servers
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.plugin.tool import ToolResult
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.question import question_lines

ASK = "middlewares: [{approve: {mode: ask}}]"


async def test_a_tool_that_joins_while_the_run_goes_on_is_asked_about(tmp_path: Path) -> None:
    late = tmp_path / "late"

    async def joined() -> None:
        late.touch()
        await until(lambda: states(running), lambda found: found[0] == "connected")

    model = Patient(
        script(calling(call("echo", "1", text="a")), calling(call("slow__write", "2", text="b")), "done"),
        joined,
    )
    servers = {"slow": server(f"wait={late}", start_timeout_seconds=0.01)}
    async with agent(tmp_path, model, servers, ASK) as running:
        ending = (await play(running, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "approval_needed"
    assert [each["tool_name"] for each in ending.details["pending"]] == ["slow__write"]
    assert not (tmp_path / "written.txt").exists()


async def test_a_rule_that_denies_holds_for_a_tool_that_a_server_offers_later(tmp_path: Path) -> None:
    async def offered() -> None:
        await until(lambda: tools_of(running), lambda count: count == 13)

    model = Patient(
        script(calling(call("small__grow", "1")), calling(call("small__new_12", "2")), "done"), offered
    )
    deny = "middlewares: [{approve: {mode: run_everything, deny: [small__new_12]}}]"
    async with agent(tmp_path, model, {"small": server()}, deny) as running:
        events = await play(running, "go")
    assert results(events)["2"].startswith("small__new_12 is not allowed")


FETCH = {
    "description": "Fetch a file.",
    "inputSchema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
}


@pytest.mark.parametrize("tool", ["small__fetch", "small__f*"])
@pytest.mark.parametrize("kind", ["deny", "ask"])
async def test_a_rule_on_an_argument_that_the_servers_tool_does_not_have_is_told_and_makes_its_calls_unclear(
    tmp_path: Path, kind: str, tool: str
) -> None:
    rules = f"{kind}: [{{{tool}: {{path: 'secrets/**'}}}}, {{small__fecth: {{file_path: a}}}}, 'small__s?y']"
    yaml = f"middlewares: [{{approve: {{mode: run_everything, {rules}}}}}]"
    model = script(calling(call("small__fetch", "1", file_path="secrets/key")), "done")
    servers = {"small": server(f"tools={json.dumps({'fetch': FETCH})}")}
    async with agent(tmp_path, model, servers, yaml) as running:
        events = await play(running, "go")
    ending = events[-1]
    assert isinstance(ending, RunFailed)
    (pending,) = ending.details["pending"]
    assert f"{tool} has no argument `path`" in pending["reason"]
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "tool_missing"]
    assert len(told) == 2
    assert f"{tool} has no argument 'path'" in told[0]
    assert "its arguments: file_path" in told[0]
    assert "'small__fecth' is not a tool of this agent" in told[1]
    assert "did you mean 'small__fetch'?" in told[1]


async def test_a_rule_is_told_to_be_void_when_the_server_renames_its_tools_argument(tmp_path: Path) -> None:
    async def offered() -> None:
        await until(lambda: tools_of(running), lambda count: count == 13)

    steps = calling(call("small__grow", "1")), calling(call("echo", "2", text="a")), "done"
    model = Patient(script(*steps), offered)
    deny = "middlewares: [{approve: {mode: run_everything, deny: [{small__new_12: {path: a}}]}}]"
    async with agent(tmp_path, model, {"small": server()}, deny) as running:
        events = await play(running, "go")
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "tool_missing"]
    assert ["is not a tool" in told[0], "has no argument 'path'" in told[1]] == [True, True]


async def test_a_server_that_is_not_connected_is_not_told_to_lack_a_tool(tmp_path: Path) -> None:
    deny = "middlewares: [{approve: {mode: run_everything, deny: [{lost__fetch: {path: a}}, 'lost__*']}}]"
    servers = {"lost": server("die_at_start"), "small": server()}
    async with agent(tmp_path, script("done"), servers, deny) as running:
        assert "tool_missing" not in notices(await play(running, "go"))


async def tools_of(running: Agent) -> int:
    return (await running.connections())[0].tools


def waits_for(events: Sequence[Event]) -> dict[str, str]:
    """The calls that wait, and what is asked."""
    ending = events[-1]
    assert isinstance(ending, RunFailed), ending
    return {each["call_id"]: each["reason"].rpartition(" asks: ")[2] for each in ending.details["pending"]}


WONDERING = [call("small__wonder", "1", text="Wall?"), call("small__say", "2", text="a")]


@pytest.mark.parametrize("order", [1, -1])
async def test_of_several_calls_the_one_waits_that_asks(tmp_path: Path, order: int) -> None:
    model = script(calling(*WONDERING[::order]), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
        assert waits_for(events) == {"1": "Wall?"}
        assert results(events) == {"2": "said: a"}
        session = events[-1].session  # type: ignore[union-attr]
        (pending,) = await running.pending_approvals(session)
        await running.decide(session, {pending.id: Decision("approve", arguments={"colour": "red"})})
        events = await events_of(running.resume(session))
    assert json.loads(results(events)["1"]) == {"action": "accept", "content": {"colour": "red"}}


async def test_a_question_that_nobody_can_answer_is_declined(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"colour": None}}
    model = script(calling(call("small__ask", "1")), "done")
    async with agent(tmp_path, model, {"small": server(f"form={json.dumps(form)}")}) as running:
        events = await play(running, "go")
    assert json.loads(results(events)["1"]) == {"action": "decline"}
    (notice,) = [each for each in events if isinstance(each, Notice) and each.code == "mcp_declined"]
    assert "the fields of its form are not a JSON Schema: properties.colour" in notice.message


async def test_a_server_hears_that_nobody_has_decided_and_not_that_somebody_refused(tmp_path: Path) -> None:
    async with agent(
        tmp_path, script(calling(call("small__ask", "1")), "done"), {"small": server()}
    ) as running:
        assert waits_for(await play(running, "go")) == {"1": "Colour?"}
    seen = map(json.loads, (tmp_path / "seen.jsonl").read_text().splitlines())
    assert [each["result"]["action"] for each in seen if each.get("id") == "q1"] == ["cancel"]


async def test_calls_that_all_ask_wait_each_for_its_own_answer(tmp_path: Path) -> None:
    questions = {str(number): f"Colour {number}?" for number in range(3)}
    model = script(
        calling(*(call("small__wonder", name, text=text) for name, text in questions.items())), "done"
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
        assert waits_for(events) == questions
        session = events[-1].session  # type: ignore[union-attr]
        pending = await running.pending_approvals(session)
        decisions = {each.id: Decision("approve", arguments={"colour": each.reason}) for each in pending}
        await running.decide(session, decisions)
        events = await events_of(running.resume(session))
    for name, text in questions.items():
        assert json.loads(results(events)[name])["content"]["colour"].endswith(text)


async def test_questions_of_sub_agents_wait_at_the_calls_that_asked_them(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> AIMessage | str:
        asked = str(request.messages[0].content)
        if request.messages[-1].type == "tool":
            return f"{asked} is done"
        if asked != "go":
            return calling(call("small__wonder", asked, text=f"{asked}?"))
        work = [call("task", name, description="d", prompt=name, agent="helper") for name in ("a", "b")]
        return calling(*work, call("small__say", "s", text="x"))

    yaml = "agents: {helper: {description: Helps.}}"
    config = write_agent(
        tmp_path,
        f"mcpServers: {json.dumps({'small': server()})}\n{yaml}",
        tools="[subagents]",
    )
    model = PositionModel(answer)
    async with Agent.from_config(config, directory=tmp_path, model=model) as running:
        events = await play(running, "go")
        assert waits_for(events) == {"a": "a?", "b": "b?"}
        session = events[-1].session  # type: ignore[union-attr]
        pending = await running.pending_approvals(session)
        decisions = {each.id: Decision("approve", arguments={"colour": "red"}) for each in pending}
        await running.decide(session, decisions)
        events = await events_of(running.resume(session))
    assert results(events)["a"].startswith("a is done")
    assert results(events)["b"].startswith("b is done")


def call_of(person: str, *, is_attended: bool = True) -> Any:
    return SimpleNamespace(
        person=person, is_attended=is_attended, waits=None, unanswered=[], waiting=nullcontext
    )


def question(askers: Askers, answered: asyncio.Event | None = None) -> asyncio.Task[str | None]:
    """A question of the server of which the transport says nothing: whom it is asked of, once it is answered."""

    async def asked() -> str | None:
        async with askers.asker() as run:
            if answered is not None:
                await answered.wait()
            return None if run is None else str(run.person)

    return asyncio.create_task(asked(), context=Context())


async def askers_of(*people: str) -> list[str | None]:
    """Whom each of as many questions is asked of as there are calls."""
    askers = Askers()
    with ExitStack() as running:
        for each in people:
            running.enter_context(askers.running(call_of(each)))
        return list(await asyncio.gather(*(question(askers) for _ in people)))


async def test_nobody_is_asked_what_another_ones_call_wants_to_know() -> None:
    assert await askers_of("ann") == ["ann"]
    assert await askers_of("ann", "ann") == ["ann", "ann"]
    assert await askers_of("ann", "bob") == [None, None]


async def test_a_further_question_while_all_are_asked_is_nobodys_where_they_are_several() -> None:
    askers, answered = Askers(), asyncio.Event()
    with askers.running(call_of("ann")):
        first = question(askers, answered)
        await asyncio.sleep(0)
        with askers.running(call_of("bob")):
            second = question(askers, answered)
            await asyncio.sleep(0)
            assert await question(askers) is None
            answered.set()
            assert [await first, await second] == ["ann", "bob"]


async def test_a_question_of_a_call_that_was_cut_off_goes_to_nobody_else() -> None:
    askers, cut = Askers(), ExitStack()
    with askers.running(call_of("bob")):
        cut.enter_context(askers.running(call_of("ann")))
        asked = question(askers)
        await asyncio.sleep(0)
        # What the stack does with an error is what a `with` does.
        assert not cut.__exit__(asyncio.CancelledError, asyncio.CancelledError(), None)
        assert await asked is None


async def test_a_question_is_of_no_call_that_began_after_it() -> None:
    askers, ann = Askers(), [call_of("ann", is_attended=False) for _ in range(2)]
    with moved_by_hand() as time, askers.running(ann[0]), askers.running(ann[1]):
        asked = question(askers)
        await time.passes(0)
        with askers.running(call_of("bob")):
            await time.passes(11)
            assert await asked == "ann"


async def test_a_call_that_was_told_that_its_answer_waits_may_ask_again() -> None:
    askers, waiting = Askers(), call_of("ann")
    waiting.waits = object()
    with moved_by_hand() as time, askers.running(waiting), askers.running(call_of("bob")):
        asked = question(askers)
        await time.passes(0)
        await time.passes(11)
        assert await asked is None


class Later:
    """Somebody who is there and leaves everything for later."""

    async def ask(self, pending: PendingApproval) -> None:
        return None


async def test_what_somebody_leaves_for_later_waits_at_the_call_that_asked(tmp_path: Path) -> None:
    calls = [call("small__linger", "1"), call("small__wonder", "2", text="Wall?")]
    async with agent(tmp_path, script(calling(*calls), "done"), {"small": server("linger")}) as running:
        events = await events_of(running.stream("go", approvals=Later()))
        assert waits_for(events) == {"2": "Wall?"}
        assert results(events) == {"1": "lingered"}


async def test_a_server_that_ends_no_other_call_before_is_answered_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing else while it waits for the answer: the other call ends by its time."""
    asked, clear = asyncio.Event(), Askers._clear

    async def asking(askers: Askers, question: Any) -> None:
        asked.set()
        await clear(askers, question)

    monkeypatch.setattr(Askers, "_clear", asking)
    model = script(calling(call("small__ask", "1"), call("small__say", "2", text="a")), "done")
    async with agent(tmp_path, model, {"small": server(timeout_seconds=20)}) as running:
        await running.connections()
        with moved_by_hand() as time:
            playing = asyncio.create_task(play(running, "go"))
            await asked.wait()
            passing = asyncio.create_task(time.goes_on())
            events = await playing
            passing.cancel()
        assert waits_for(events) == {"1": "Colour?"}
        assert "did not finish within 20 seconds" in results(events)["2"]


async def test_an_approved_call_waits_for_its_server_when_the_run_is_taken_up(tmp_path: Path) -> None:
    model = script(calling(call("slow__write", "1", text="b")), "done")
    servers = {"slow": server(f"wait={tmp_path / 'late'}", start_timeout_seconds=60)}
    (tmp_path / "late").touch()
    async with agent(tmp_path, model, servers, ASK) as running:
        session = (await play(running, "go"))[-1].session  # type: ignore[union-attr]
    (tmp_path / "late").unlink()
    async with agent(tmp_path, model, servers, ASK) as running:
        (pending,) = await running.pending_approvals(session)
        await running.decide(session, {pending.id: Decision("approve")})
        told = []
        with moved_by_hand() as time:
            passing = asyncio.create_task(time.goes_on())
            async for event in running.resume(session):
                told.append(event)
                if "mcp_late" in notices(told):
                    passing.cancel()
                    (tmp_path / "late").touch()
    assert results(told) == {"1": "written"}


async def test_a_server_that_now_says_its_tool_only_reads_does_not_answer_the_question(
    tmp_path: Path,
) -> None:
    model = script(calling(call("small__write", "1", text="b")), "done")
    async with agent(tmp_path, model, {"small": server()}, ASK) as running:
        session = (await play(running, "go"))[-1].session  # type: ignore[union-attr]
    async with agent(tmp_path, model, {"small": server("meek")}, ASK) as running:
        again = (await events_of(running.resume(session)))[-1]
        assert isinstance(again, RunFailed)
        assert again.code == "approval_needed"
        assert not (tmp_path / "written.txt").exists()
        (pending,) = await running.pending_approvals(session)
        await running.decide(session, {pending.id: Decision("approve")})
        told = await events_of(running.resume(session))
    assert results(told) == {"1": "written"}


async def test_a_question_names_the_server_and_says_that_an_approval_for_another_does_not_hold(
    tmp_path: Path,
) -> None:
    model = script(calling(call("small__write", "1", text="b")), "done")
    told, session, ids = [], "", [""]
    for name, how in (("acme/small", []), ("other/small", ["meek"])):
        async with agent(tmp_path, model, {name: server(*how)}, ASK) as running:
            if session:
                await running.decide(session, dict.fromkeys(ids, Decision("approve")))
                await events_of(running.resume(session))
            else:
                session = (await play(running, "go"))[-1].session  # type: ignore[union-attr]
            (pending,) = await running.pending_approvals(session)
        ids = [pending.id]
        told.append([line.text for line in question_lines(pending)])
    first, again = told
    assert "  of the MCP server acme/small" in first
    new = {"  of the MCP server other/small"} | {
        "  It was approved before, under other settings of small__write: that approval does not hold."
    }
    assert new <= set(again)
    assert not new & set(first)


async def test_an_approved_call_whose_server_is_gone_says_so(tmp_path: Path) -> None:
    model = script(calling(call("small__write", "1", text="b")), "done")
    async with agent(tmp_path, model, {"small": server()}, ASK) as running:
        session = (await play(running, "go"))[-1].session  # type: ignore[union-attr]
    async with agent(tmp_path, model, {"small": {"command": "no-such-command"}}, ASK) as running:
        (pending,) = await running.pending_approvals(session)
        await running.decide(session, {pending.id: Decision("approve")})
        told = await events_of(running.resume(session))
    assert results(told)["1"] == (
        "small__write is not there now. The MCP server 'small' is not connected: the command 'no-such-command' was not"
        " found. Nothing was done."
    )


async def test_nobody_is_asked_about_a_call_whose_parameters_the_model_has_not_seen(tmp_path: Path) -> None:
    calls = [calling(call("small__write", str(number), text="b")) for number in (1, 2)]
    async with agent(tmp_path, script(*calls, "done"), {"small": server(discoverable=True)}, ASK) as running:
        events = await play(running, "go")
    assert results(events)["1"].startswith("Nothing was done: here are the parameters; call it again.")
    assert [each.requires_approval for each in events if each.type == "tool_call"] == [False, True]
    assert waits_for(events).keys() == {"2"}


@pytest.mark.parametrize("rule", ["*", "*__write", "sma*__write", "small__*", {"*": {"uri": "file:*"}}])
async def test_rules_may_be_patterns_of_what_servers_offer(tmp_path: Path, rule: Any) -> None:
    rules = f"middlewares: [{{approve: {{mode: run_everything, ask: [{json.dumps(rule)}]}}}}]"
    config = write_agent(tmp_path, f"mcpServers: {json.dumps({'small': server()})}\n{rules}", tools="[mcp]")
    model = script(calling(call("small__write", "1", text="b")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as running:
        ending = (await play(running, "go"))[-1]
    assert ending.type == ("complete" if isinstance(rule, dict) else "error")


async def test_a_rule_for_a_server_that_is_not_there_is_refused(tmp_path: Path) -> None:
    rules = "middlewares: [{approve: {ask: ['smal__*']}}]"
    with pytest.raises(ConfigError, match="no tool of this agent matches"):
        agent(tmp_path, script("done"), {"small": server()}, rules)


def deployed(folder: Path) -> list[str]:
    return (folder / "deployed.txt").read_text().split()


async def test_a_call_whose_question_nobody_can_answer_is_made_once_and_its_outcome_stands(
    tmp_path: Path,
) -> None:
    """It has done something before it asked: to make it again with an answer would do that twice."""
    model = script(calling(call("small__deploy", "1")), "it was cancelled", "as you say")
    async with agent(tmp_path, model, {"small": server("deploys")}) as running:
        events = await play(running, "go")
        assert isinstance(events[-1], RunCompleted)
        assert await running.pending_approvals(events[-1].session) == []
        await play(running, "and now?", events[-1].session)
    assert deployed(tmp_path) == ["deployed"]
    outcome, _, note = results(events)["1"].partition("\n\n")
    assert json.loads(outcome) == {"action": "cancel"}
    assert note.startswith("[The MCP server 'small' asks: Colour? No user was there to answer")
    assert "mcp_unanswered" in notices(events)


async def test_a_call_that_asked_is_not_made_again_when_another_call_lets_the_run_wait(
    tmp_path: Path,
) -> None:
    calls = [call("small__deploy", "1"), call("small__write", "2", text="b")]
    rules = "middlewares: [{approve: {mode: run_everything, ask: [small__write]}}]"
    async with agent(
        tmp_path, script(calling(*calls), "done"), {"small": server("deploys")}, rules
    ) as running:
        events = await play(running, "go")
        assert waits_for(events).keys() == {"2"}
        assert json.loads(results(events)["1"].partition("\n\n")[0]) == {"action": "cancel"}
        session = events[-1].session  # type: ignore[union-attr]
    async with agent(
        tmp_path, script(calling(*calls), "done"), {"small": server("deploys")}, rules
    ) as running:
        (pending,) = await running.pending_approvals(session)
        await running.decide(session, {pending.id: Decision("approve")})
        events = await events_of(running.resume(session))
        assert isinstance(events[-1], RunCompleted)
    assert deployed(tmp_path) == ["deployed"]
    assert results(events) == {"2": "written"}


async def test_what_somebody_leaves_for_later_does_not_let_a_call_that_did_something_wait(
    tmp_path: Path,
) -> None:
    model = script(calling(call("small__deploy", "1")), "done")
    async with agent(tmp_path, model, {"small": server("deploys")}) as running:
        events = await events_of(running.stream("go", approvals=Later()))
        assert isinstance(events[-1], RunCompleted)
        assert await running.pending_approvals(events[-1].session) == []
    assert deployed(tmp_path) == ["deployed"]


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (
            Decision("approve", arguments={"colour": "red"}),
            {"action": "accept", "content": {"colour": "red"}},
        ),
        (Decision("reject"), {"action": "decline"}),
    ],
)
async def test_somebody_who_is_there_answers_for_a_call_that_did_something(
    tmp_path: Path, answer: Decision, heard: dict[str, Any]
) -> None:
    class There:
        async def ask(self, pending: PendingApproval) -> Decision:
            return answer

    model = script(calling(call("small__deploy", "1")), "done")
    async with agent(tmp_path, model, {"small": server("deploys")}) as running:
        events = await events_of(running.stream("go", approvals=There()))
    assert json.loads(results(events)["1"]) == heard
    assert "mcp_unanswered" not in notices(events)
    assert deployed(tmp_path) == ["deployed"]


@pytest.mark.parametrize(
    ("value", "action"), [({"deep": "red"}, "decline"), ([1], "decline"), (["a"], "accept"), (1.5, "accept")]
)
async def test_an_answer_that_mcp_cannot_send_is_told_as_declined(value: object, action: str) -> None:
    from zeus_plugins.tools.mcp.eliciting import elicited

    told: list[tuple[str, str]] = []

    async def ask(_question: str, _schema: object, *, may_wait: bool) -> dict[str, object]:
        return {"name": "a", "colour": value}

    form = {"type": "object", "properties": {"name": {"type": "string"}, "colour": {}}}
    params = SimpleNamespace(url=None, message="Colour?", requested_schema=form)
    run: Any = SimpleNamespace(ask=ask, unanswered=[], waits=None)
    answer = await elicited("s", params, run, lambda *each: told.append(each), may_wait=False)
    assert answer.action == action
    assert [code for code, _ in told] == ["mcp_declined"] * (action == "decline")
    assert all("got none of your answer: the value of 'colour'" in text for _, text in told)


@pytest.mark.parametrize(
    ("given", "code", "ending"),
    [
        ("no user", "mcp_unanswered", "No user was there to answer, so the question was cancelled."),
        (None, "mcp_declined", "It was declined."),
        ({"name": {}}, "mcp_declined", "It was declined and got none of your answer: "),
    ],
)
async def test_a_note_repeats_the_beginning_of_a_long_question(given: Any, code: str, ending: str) -> None:
    from zeus_plugins.tools.mcp.eliciting import elicited
    from zeus_plugins.tools.mcp.requests import _with_questions

    told: list[tuple[str, str]] = []
    run: Any = SimpleNamespace(unanswered=[], waits=None)

    async def ask(question: str, _schema: object, *, may_wait: bool) -> Any:
        run.unanswered += [question] * (given == "no user")
        return None if given == "no user" else given

    run.ask = ask
    form = {"type": "object", "properties": {"name": {}}}
    params = SimpleNamespace(url=None, message="why " * 1_250, requested_schema=form)
    await elicited("s", params, run, lambda *each: told.append(each), may_wait=False)
    ((was, text),) = told
    assert (was, len(text) < 1_300) == (code, True)
    assert text.startswith("The MCP server 's' asks: why why")
    assert f"why… (5,025 characters) {ending}" in text
    result = _with_questions(ToolResult("made"), run.unanswered)
    assert result.content.startswith("made")
    assert ("why… (5,025 characters) No user" in result.content) == (given == "no user")
    assert len(result.content) < 1_300


async def test_the_address_of_a_page_comes_before_the_servers_text() -> None:
    from zeus_plugins.tools.mcp.eliciting import elicited

    asked: list[str] = []

    async def ask(question: str, _schema: object, *, may_wait: bool) -> dict[str, bool]:
        asked.append(question)
        return {"done": may_wait}

    params = SimpleNamespace(url="https://evil.example", message="\n".join(["https://bank.example"] * 50))
    run: Any = SimpleNamespace(ask=ask, unanswered=(), waits=None)
    result = await elicited("small", params, run, lambda *_: None, may_wait=True)
    assert asked[0].startswith("The MCP server 'small' asks you to open <https://evil.example>: https://bank")
    assert (result.action, result.content) == ("accept", None)


@pytest.mark.parametrize(
    ("page", "is_asked"),
    [
        *(
            (each, True)
            for each in ("https://a.example", "http://127.0.0.1:8700/x?y=[1]#z", "https://[::1]/%C3%A4")
        ),
        *(
            (each, False)
            for each in ("", " https://a.example", "https://a.example/ok: Please\nsign", "https:///x")
        ),
        *(
            (each, False)
            for each in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "//a.example")
        ),
        *(
            (each, False)
            for each in ("https://good.example@evil.example/", "https://a.example\\@evil.example")
        ),
        *(
            (each, False)
            for each in ("https://a.example\u202e/x", "https://a.example/x\n", "https://a.example/<x>")
        ),
    ],
)
async def test_a_server_may_ask_to_open_plain_pages_of_the_web_only(page: str, *, is_asked: bool) -> None:
    from zeus_plugins.tools.mcp.eliciting import elicited

    asked: list[str] = []
    told: list[tuple[str, str]] = []

    async def ask(question: str, _schema: object, *, may_wait: bool) -> dict[str, bool]:
        asked.append(question)
        return {"done": may_wait}

    # As the protocol's library gives it: such a question has no form.
    params = SimpleNamespace(mode="url", url=page, message="Sign in.")
    run: Any = SimpleNamespace(ask=ask, unanswered=(), waits=None)
    answer = await elicited("small", params, run, lambda *each: told.append(each), may_wait=True)
    assert asked == [f"The MCP server 'small' asks you to open <{page}>: Sign in."] * is_asked
    assert answer.action == ("accept" if is_asked else "decline")
    assert [code for code, _ in told] == ["mcp_declined"] * (not is_asked)


OTHERS: list[dict[str, Any]] = [{"env": {"STAGE": "prod"}}, {"args": [*server()["args"], "more"]}]


@pytest.mark.parametrize("other", OTHERS)
async def test_an_answer_is_for_the_server_that_asked(tmp_path: Path, other: dict[str, Any]) -> None:
    model = script(calling(call("small__wonder", "1", text="Wall?")), "done")

    def to(**keys: Any) -> Agent:
        return agent(tmp_path, model, {"small": {**server(), **keys}})

    async with to() as asking:
        session = (await play(asking, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await asking.pending_approvals(session)
        assert not pending.outdated
        await asking.decide(session, {pending.id: Decision("approve", arguments={"colour": "red"})})
    async with to(**other) as changed:
        assert waits_for(await events_of(changed.resume(session))) == {"1": "Wall?"}
        (anew,) = await changed.pending_approvals(session)
        assert anew.id != pending.id
        assert not anew.outdated
    async with to() as asking:
        for told in (*await asking.pending_approvals(session), await asking.previewed(anew.id)):
            assert told.outdated
        events = await events_of(asking.resume(session))
    assert json.loads(results(events)["1"]) == {"action": "accept", "content": {"colour": "red"}}


async def test_no_further_toolset_is_made_to_tell_of_servers_and_their_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with agent(tmp_path, script("done"), {"small": server()}) as asking:
        monkeypatch.setattr(PlannedComponent, "create", None)
        assert [each.name for each in planned_servers(asking.plan)] == ["small"]
        (tool,) = _foreseen(asking.plan, "small__wonder")
    assert tool.setting


READ = "middlewares: [{approve: {mode: allowlist, read_tools: ask}}]"


@pytest.mark.parametrize(("tool", "answer"), [(RESOURCE_TOOLS[0], "approve"), (RESOURCE_TOOLS[1], "always")])
async def test_an_approval_for_a_resource_is_for_the_servers_that_there_were(
    tmp_path: Path, tool: str, answer: str
) -> None:
    arguments = {"server": "small", "uri": "small://note"} if tool == "mcp_read_resource" else {}
    small = server()

    def to(**servers: Any) -> Agent:
        steps = calling(call(tool, "1", **arguments)), "done"
        return agent(tmp_path, script(*steps, *steps), {"small": small, **servers}, READ)

    async def asks(running: Agent) -> bool:
        return isinstance((await play(running, "go"))[-1], RunFailed)

    async with to() as asking:
        session = (await play(asking, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await asking.pending_approvals(session)
        assert not pending.outdated
    moved = {**server(), "env": {"STAGE": "prod"}}
    async with to(small=moved) as changed:
        (told,) = await changed.pending_approvals(session)
        assert told.outdated
    async with to() as asking:
        await asking.decide(session, {pending.id: Decision("approve", always=answer == "always")})
    if answer == "approve":
        async with to(small=moved) as changed:
            assert isinstance((await events_of(changed.resume(session)))[-1], RunFailed)
    else:
        async with to() as same:
            assert isinstance((await events_of(same.resume(session)))[-1], RunCompleted)
            assert not await asks(same)
        for other in ({"small": moved}, {"further": server()}):
            async with to(**other) as changed:
                assert await asks(changed)
    assert list(pending.facts) == ["of the MCP server small"]


@pytest.mark.parametrize(("prefix", "is_known"), [("db", True), ("", False)])
async def test_the_servers_of_a_resource_are_foreseen_unless_a_server_may_have_a_tool_of_that_name(
    tmp_path: Path, prefix: str, *, is_known: bool
) -> None:
    servers = {"small": server(prefix=prefix), "further": server()}
    async with agent(tmp_path, script("done"), servers) as asking:
        assert len([*_foreseen(asking.plan, "mcp_read_resource")]) == is_known
