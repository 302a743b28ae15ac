"""A setting may take away an approval, never a refusal, nor the arguments that a person wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.delegation.test_subagents import cast, task
from tests.support.agents import call, calling, events_of, play, script, write_agent
from tests.support.databases import SQLITE_URL, storage
from zeus_runtime import Agent, Decision
from zeus_runtime.cli.approval_prompt import YesApprovals
from zeus_runtime.errors import UsageError
from zeus_runtime.events import RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.store.allowlist import allow
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.tools.approval import PendingApproval

PLUGIN = '''
import secrets
from dataclasses import replace

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.approval import ApprovalRequest
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import ToolResult, tool

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}

def done(what):
    with open("effects.txt", "a") as file:
        file.write(what + "\\n")

@tool(access="write")
async def pay(what: str) -> str:
    """Pay.

    Args:
        what: the thing.
    """
    done(what)
    return "paid"

@tool(access="write")
async def confirm(run, what: str) -> str:
    """Pay if the user is sure.

    Args:
        what: the thing.
    """
    if (await run.ask("Sure?", FORM) or {}).get("sure"):
        done(what)
    return "asked"

@tool(access="read")
async def look(path: str) -> str:
    """Have a path as an argument.

    Args:
        path: any.
    """
    return path

def saving(files):
    @tool(access="write")
    async def save(what: str) -> str:
        """Write a file.

        Args:
            what: the text.
        """
        files.write("/a.md", what.encode())
        done(what)
        return "saved"

    return save

class Judge(Middleware):
    def __init__(self, options, context):
        context.approvals.judged_by(self.judged)

    async def judged(self, call):
        return False

class Rewrite(Middleware):
    async def wrap_tool_call(self, call, call_next):
        return await call_next(replace(call, arguments={"what": "rewritten"}))

class Stamp(Middleware):
    async def wrap_tool_call(self, call, call_next):
        stamped = {"what": call.arguments["what"] + secrets.token_hex(4)}
        return await call_next(replace(call, arguments=stamped))

class Looks(Middleware):
    """Asks about some calls, and about none of these."""

    def __init__(self, options, context):
        self.approvals, self.tools = context.approvals, context.tools

    async def wrap_tool_call(self, call, call_next):
        tool = self.tools[call.name]
        request = ApprovalRequest(tool.name, call.arguments, str(call.place), call.id, setting=tool.setting)
        decision = await self.approvals.settled(request)
        if decision is not None and decision.answer == "reject":
            return ToolResult("The user rejected it.", is_error=True)
        return await call_next(call)

class Twice(Middleware):
    async def wrap_tool_call(self, call, call_next):
        results = [await call_next(replace(call, arguments={"what": each})) for each in ("one", "two")]
        return results[-1]

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [pay, confirm, look, saving(context.workspace)])]

@hookimpl
def register_middlewares():
    made = {"judge": Judge, "rewrite": Rewrite, "stamp": Stamp, "looks": Looks, "twice": Twice}
    return [Component(name, create=each) for name, each in made.items()]
'''

TOOL = {"call": "pay", "sub-agent": "pay", "file": "save", "question": "confirm"}
LATER: dict[str, Any] = {
    "asks": {"mode": "ask"},
    "rule": {"allow": list(TOOL.values())},
    "mode": {"mode": "run_everything"},
    "entry": {},
    "yes": {"mode": "ask"},
    "none": None,
    "judge": None,
}
"""The options of `approve` when the run is resumed; None for a config without it. `judge` is another middleware."""
ANSWERS = {
    "reject": Decision("reject", "not this"),
    "changed": Decision("approve", arguments={"what": "mine"}),
    "always": Decision("approve", always=True),
    "approve": Decision("approve"),
}
CELLS = [
    # `asks` and `yes` ask, `rule`, `mode` and `entry` let it run, with `none` nobody judges the call, and `judge` looks
    # for no decision.
    *(("call", "reject", "other", later) for later in ("asks", "rule", "entry", "yes", "judge")),
    *(("call", "changed", "other", later) for later in ("asks", "mode", "yes", "judge")),
    *(("call", "approve", "other", later) for later in ("rule", "none")),
    ("call", "always", "other", "asks"),
    ("call", "reject", "same", "none"),
    ("call", "changed", "same", "rule"),
    *(("file", "reject", "other", later) for later in ("asks", "rule", "none", "judge")),
    ("file", "reject", "same", "yes"),
    ("file", "approve", "other", "none"),
    *(("question", "reject", "other", later) for later in ("yes", "none")),
    ("question", "approve", "other", "none"),
    *(("sub-agent", "reject", "other", later) for later in ("rule", "none")),
    ("sub-agent", "changed", "other", "rule"),
]
"""Those that reach different code, of every kind, answer, setting and later config."""


def agent(
    folder: Path,
    kind: str,
    approve: dict[str, Any] | None,
    access: dict[str, str],
    *,
    judge: bool = False,
    first: str = "",
    above: Sequence[Any] = (),
    what: str = "model",
) -> Agent:
    """Args: first, above: middlewares before `approve`; what, the argument that the model writes."""
    asking: list[Any] = ["judge"] if judge else [] if approve is None else [{"approve": approve}]
    asking = [*above, *([first] if first else []), *asking]
    own = {"middlewares": asking, "workspace": {"access": access}}
    yaml = "".join(f"{key}: {json.dumps(value)}\n" for key, value in own.items())
    yaml += "agents: {helper: {description: Helps.}}\n" + storage(SQLITE_URL)
    config = write_agent(folder, yaml, plugin=PLUGIN, tools="[probe, subagents]")
    made = call(TOOL[kind], "c1", what=what)
    begins = task("t1", "work") if kind == "sub-agent" else made
    model = cast(go=[calling(begins), "done"], work=[calling(made), "worked"])
    return Agent.from_config(config, directory=folder, model=model)


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return file.read_text().split() if file.exists() else []


def expected(kind: str, answer: str, setting: str, later: str) -> str | None:
    """The text that runs, "" if nothing runs, and None if the call waits for a person."""
    if answer == "reject":
        return ""
    if setting == "same":
        return "mine" if answer == "changed" else "model"
    asks = kind == "question" or answer == "changed" or later == "asks"
    return None if asks else "model"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def allowed_by_name(folder: Path, tool: str) -> None:
    database = Database(SQLITE_URL, directory=folder)
    try:
        assert await allow(ThreadLog(database), "local", tool)
    finally:
        await database.close()


@pytest.mark.parametrize(("kind", "answer", "setting", "later"), CELLS)
async def test_a_refusal_and_changed_arguments_hold_whatever_the_settings(
    folder: Path, kind: str, answer: str, setting: str, later: str
) -> None:
    asked = {"*.md": "ask"} if kind == "file" else {}
    options = {"allow": [TOOL[kind]]} if kind in ("file", "question") else {}
    async with agent(folder, kind, options, asked) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        assert pending.kind == {"sub-agent": "call"}.get(kind, kind)
        decision = ANSWERS[answer]
        if kind == "question" and answer == "approve":
            decision = Decision("approve", arguments={"sure": True})
        await living.decide(session, {pending.id: decision})
    if later == "entry":
        await allowed_by_name(folder, TOOL[kind])
    # Without the rule for the file, or with one for another file.
    access = asked if setting == "same" else {"other.md": "deny"}
    runs = expected(kind, answer, setting, later)
    person = YesApprovals(None) if later == "yes" else None
    async with agent(folder, kind, LATER[later], access, judge=later == "judge") as living:
        events = await events_of(living.resume(session, approvals=person))
        assert effects(folder) == ([runs] if runs else []), events
        waiting = await living.pending_approvals()
        assert isinstance(events[-1], RunFailed if runs is None else RunCompleted), events[-1]
        assert len(waiting) == (runs is None)
        for each in waiting:
            assert each.needs_person == (answer == "changed")
            assert each.approved_with == (ANSWERS[answer].arguments if answer == "changed" else None)
            assert each.approved_before
            # A person may say again what they said: with a change where the call was changed.
            given = {"question": {"sure": True}}.get(kind, {"what": "again"} if answer == "changed" else None)
            await living.decide(session, {each.id: Decision("approve", arguments=given)})
            events = await events_of(living.resume(session))
            assert isinstance(events[-1], RunCompleted), events[-1]
            assert effects(folder) == ["again" if answer == "changed" else "model"]


SECRET = "Tr0ub4dor-and-3-more"


@pytest.mark.parametrize("later", ["asks", "rule", "none", "judge"])
@pytest.mark.parametrize("answer", ["reject", "changed"])
@pytest.mark.parametrize("since", ["a secret is known", "a middleware rewrites", "no middleware rewrites"])
async def test_a_decision_at_a_place_holds_whatever_makes_other_arguments_of_the_call(
    folder: Path, since: str, answer: str, later: str
) -> None:
    """The decision was bound to the arguments that were shown, so another spelling of the call ran."""
    first = "rewrite" if since == "no middleware rewrites" else ""
    what = SECRET if since == "a secret is known" else "model"
    async with agent(folder, "call", {}, {}, first=first, what=what) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS[answer]})
    if since == "a secret is known":
        (folder / ".env").write_text(f"DB_PASSWORD={SECRET}\n")
    first = "rewrite" if since == "a middleware rewrites" else ""
    async with agent(
        folder, "call", LATER[later], {}, judge=later == "judge", first=first, what=what
    ) as living:
        events = await events_of(living.resume(session))
        assert effects(folder) == [], events
        waiting = await living.pending_approvals()
        if answer == "reject":
            assert isinstance(events[-1], RunCompleted), events[-1]
            assert waiting == []
            return
        (pending,) = waiting
        assert pending.needs_person
        assert pending.approved_with == {"what": "mine"}
        # Also when it is asked about once more.
        await events_of(living.resume(session))
        (pending,) = await living.pending_approvals()
        assert pending.approved_with == {"what": "mine"}
        await living.decide(session, {pending.id: ANSWERS["changed"]})
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        assert effects(folder) == ["mine"]


async def test_a_rejection_is_found_at_another_place_after_its_secret_is_known(folder: Path) -> None:
    def paying_twice(approve: dict[str, Any] | None) -> Agent:
        asking = [] if approve is None else [{"approve": approve}]
        yaml = f"middlewares: {json.dumps(asking)}\n" + storage(SQLITE_URL)
        config = write_agent(folder, yaml, plugin=PLUGIN, tools="[probe]")
        calls = [calling(call("pay", f"c{number}", what=SECRET)) for number in (1, 2)]
        return Agent.from_config(config, directory=folder, model=script(*calls, "done"))

    async with paying_twice({}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS["reject"]})
    (folder / ".env").write_text(f"DB_PASSWORD={SECRET}\n")
    async with paying_twice(None) as living:
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        assert effects(folder) == []


@pytest.mark.parametrize("second", ["approve", "later", "changed later"])
async def test_each_of_several_calls_at_a_place_has_a_decision_of_its_own(folder: Path, second: str) -> None:
    answers = iter((ANSWERS["reject"], ANSWERS.get(second)))

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            return next(answers)

    async with agent(folder, "call", {}, {}, first="twice") as living:
        events = await events_of(living.stream("go", approvals=Person()))
        if second != "approve":
            (pending,) = await living.pending_approvals()
            given = ANSWERS["changed" if second == "changed later" else "approve"]
            await living.decide(pending.session, {pending.id: given})
            events = await events_of(living.resume(pending.session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        assert effects(folder) == ["mine" if second == "changed later" else "two"]


async def decided_one_by_one(living: Agent, answers: Mapping[str, Decision]) -> list[str]:
    """Answer each question of a run by its argument, with a resume after each; the arguments that were asked about."""
    asked: list[str] = []
    events = await play(living, "go")
    while isinstance(events[-1], RunFailed):
        (pending,) = await living.pending_approvals()
        asked.append(str(pending.arguments["what"]))
        await living.decide(pending.session, {pending.id: answers[asked[-1]]})
        events = await events_of(living.resume(pending.session))
        assert len(asked) < 5
    assert isinstance(events[-1], RunCompleted), events[-1]
    return asked


@pytest.mark.parametrize("first", ["reject", "changed"])
async def test_calls_at_one_place_that_are_decided_one_after_the_other_come_to_an_end(
    folder: Path, first: str
) -> None:
    """The decision about one was taken for one about the other, so both were asked about for ever."""
    answers = {"one": ANSWERS[first], "two": ANSWERS["approve"]}
    async with agent(folder, "call", {}, {}, first="twice") as living:
        asked = await decided_one_by_one(living, answers)
    # A call that ran before the other was asked about is asked about again.
    again = ["one"] if first == "changed" else []
    assert asked == ["one", "two", *again]
    assert effects(folder) == [*(["mine", "mine"] if again else []), "two"]


async def test_a_file_that_is_rejected_for_one_of_several_calls_at_a_place_is_not_so_for_the_other(
    folder: Path,
) -> None:
    answers = {"one": ANSWERS["approve"], "two": ANSWERS["reject"]}
    async with agent(folder, "file", {"allow": ["save"]}, {"*.md": "ask"}, first="twice") as living:
        asked = await decided_one_by_one(living, answers)
    # A call that ran before the other was asked about is asked about again.
    assert asked == ["one", "two", "one"]
    assert effects(folder) == ["one", "one"]


@pytest.mark.parametrize("answer", ["reject", "changed", "approve"])
async def test_a_decision_is_not_about_an_allowed_call_that_a_middleware_makes_first(
    folder: Path, answer: str
) -> None:
    rules = {"allow": [{"pay": {"what": "one"}}]}
    async with agent(folder, "call", rules, {}, first="twice") as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        assert effects(folder) == ["one"]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS[answer]})
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
    runs = {"reject": [], "changed": ["mine"], "approve": ["two"]}[answer]
    assert effects(folder) == ["one", "one", *runs]


MAKES: dict[str, Any] = {
    "rewrite": "rewrite",
    "hook": {
        "hooks": {"before_tool_call": [{"command": ["/bin/echo", '{"arguments": {"what": "hooked"}}']}]}
    },
    "stamp": "stamp",
}
"""Middlewares that make another call of one."""


@pytest.mark.parametrize("later", ["asks", "rule", "mode", "none"])
@pytest.mark.parametrize("edit", ["taken out", "with the look", "brought in", "same"])
@pytest.mark.parametrize("answer", ["reject", "changed"])
@pytest.mark.parametrize("makes", MAKES)
async def test_a_decision_holds_where_a_layer_above_looks_at_the_call_before_another_one_is_made_of_it(
    folder: Path, makes: str, answer: str, edit: str, later: str
) -> None:
    """The first look was taken for a call, and the one call that was made for another one beside it."""
    both = ["looks", MAKES[makes]]
    asked = ["looks"] if edit == "brought in" else both
    async with agent(folder, "call", {}, {}, above=asked) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        assert not pending.made_beside
        await living.decide(session, {pending.id: ANSWERS[answer]})
    above = {"taken out": ["looks"], "with the look": []}.get(edit, both)
    async with agent(folder, "call", LATER[later], {}, above=above) as living:
        events = await events_of(living.resume(session))
        waiting = await living.pending_approvals()
    is_same = edit == "same" and makes != "stamp"
    is_asked = answer == "changed" and not is_same
    assert isinstance(events[-1], RunFailed if is_asked else RunCompleted), events[-1]
    assert [each.approved_with for each in waiting] == ([{"what": "mine"}] if is_asked else [])
    # A hook refuses what a person writes in place of its own arguments.
    runs = answer == "changed" and is_same and makes != "hook"
    assert effects(folder) == (["mine"] if runs else []), events


@pytest.mark.parametrize("later", ["none", "judge", "rule"])
async def test_the_model_is_told_what_a_person_changed_and_said_under_a_config_that_does_not_ask(
    folder: Path, later: str
) -> None:
    given = Decision("approve", arguments={"what": "mine"}, instruction="Do not pay twice.")
    async with agent(folder, "call", {}, {}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: given})
    async with agent(folder, "call", LATER[later], {}, judge=later == "judge") as living:
        events = await events_of(living.resume(session))
        (result,) = (each.content for each in events if isinstance(each, ToolCallResult))
    assert result.startswith('The user changed the arguments of this call to: {"what": "mine"}')
    assert result.endswith("The user adds: Do not pay twice.")
    assert effects(folder) == ["mine"]


@pytest.mark.parametrize("kind", ["call", "sub-agent"])
async def test_what_a_person_changes_at_the_question_that_comes_again_is_judged(
    folder: Path, kind: str
) -> None:
    async with agent(folder, kind, {}, {}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS["changed"]})

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("approve", arguments={"what": "denied"})

    rules = {"mode": "run_everything", "deny": [{"pay": {"what": "denied"}}]}
    async with agent(folder, kind, rules, {"other.md": "deny"}) as living:
        events = await events_of(living.resume(session, approvals=Person()))
        told = " ".join(each.content for each in events if isinstance(each, ToolCallResult))
    assert effects(folder) == [], events
    assert kind != "call" or "is not allowed with these arguments" in told


async def test_a_person_may_write_a_command_that_rules_cannot_judge_at_the_question_that_comes_again(
    folder: Path,
) -> None:
    """As at the first question: Zeus would ask about it, and a person is asked."""

    def running(rules: dict[str, Any], access: dict[str, str]) -> Agent:
        yaml = (
            f"middlewares: {json.dumps([{'approve': rules}])}\nworkspace: {json.dumps({'access': access})}\n"
        )
        config = write_agent(folder, yaml + storage(SQLITE_URL), tools="[shell]")
        model = script(calling(call("run_command", "c1", command="echo model")), "done")
        return Agent.from_config(config, directory=folder, model=model)

    async with running({}, {}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: Decision("approve", arguments={"command": "echo mine"})})

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("approve", arguments={"command": "for each in a b; do echo $each; done"})

    rules = {"mode": "run_everything", "deny": [{"run_command": {"command": "git push *"}}]}
    async with running(rules, {"other.md": "deny"}) as living:
        events = await events_of(living.resume(session, approvals=Person()))
    (result,) = (each.content for each in events if isinstance(each, ToolCallResult))
    assert "a\nb" in result, result


@pytest.mark.parametrize("answer", ["deny", "Reject", "no", "", None, False, True, "withdrawn", {}])
def test_only_two_answers_are_decisions(answer: Any) -> None:
    with pytest.raises(UsageError, match="is not a decision"):
        Decision(answer)


@pytest.mark.parametrize(
    "values", [{"always": "false"}, {"reason": None}, {"arguments": "x"}, {"instruction": 3}]
)
def test_a_decision_has_values_of_its_types(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"`{next(iter(values))}` of a decision is"):
        Decision("approve", **values)


@pytest.mark.parametrize("given", [True, "approve", {"answer": "approve"}])
async def test_nothing_else_than_a_decision_runs_a_call(folder: Path, given: Any) -> None:
    class Person:
        async def ask(self, pending: Any) -> Any:
            return given

    async with agent(folder, "call", {}, {}) as living:
        events = await events_of(living.stream("go", approvals=Person()))
        assert isinstance(events[-1], RunFailed)
        assert "is not a decision" in events[-1].message
        (pending,) = await living.pending_approvals()
        with pytest.raises(UsageError, match="is not a decision"):
            await living.decide(pending.session, {pending.id: given})
    assert effects(folder) == []


@pytest.mark.parametrize("later", ["mode", "none"])
async def test_changed_arguments_do_not_run_after_their_file_was_rejected(folder: Path, later: str) -> None:
    """The rule for the file is one of `approve`, so the settings of the tool stay as they were."""
    rule = {"mode": "ask", "ask": [{"*": {"path": "*.md"}}]}
    async with agent(folder, "file", rule, {}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        for answer in ("changed", "reject"):
            (pending,) = await living.pending_approvals()
            await living.decide(session, {pending.id: ANSWERS[answer]})
            if answer == "changed":
                await events_of(living.resume(session))
        assert pending.kind == "file"
    async with agent(folder, "file", LATER[later], {}) as living:
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        assert await living.pending_approvals() == []
    assert effects(folder) == []


def paying(folder: Path, taken: str, approve: dict[str, Any] | None) -> Agent:
    """An agent whose model calls `pay` with the text "5", twice with the same and once with another."""
    asking = [] if approve is None else [{"approve": approve}]
    plugin = PLUGIN.replace("async def pay(what: str)", f"async def pay(what: {taken})").replace(
        'done(what)\n    return "paid"', 'done(repr(what))\n    return "paid"'
    )
    config = write_agent(
        folder,
        f"middlewares: {json.dumps(asking)}\n" + storage(SQLITE_URL),
        plugin=plugin,
        tools="[probe]",
    )
    again = calling(call("pay", "c2", what="5"), call("pay", "c3", what="6"))
    return Agent.from_config(
        config, directory=folder, model=script(calling(call("pay", "c1", what="5")), again, "done")
    )


@pytest.mark.parametrize("later", ["rule", "none", "asks"])
@pytest.mark.parametrize("answer", ["reject", "changed", "approve"])
async def test_a_decision_is_about_the_call_as_the_model_wrote_it(
    folder: Path, answer: str, later: str
) -> None:
    """The tool takes a number now, so that it makes other arguments of the same call."""
    async with paying(folder, "str", {}) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        given = Decision("approve", arguments={"what": "7"}) if answer == "changed" else ANSWERS[answer]
        await living.decide(session, {pending.id: given})
    async with paying(folder, "int", LATER[later]) as living:
        events = await events_of(living.resume(session))
        waiting = [each.arguments["what"] for each in await living.pending_approvals()]
        asked = later == "asks"
        if answer == "reject":
            # Nor does the same call at another place.
            assert (effects(folder), waiting) == ([] if asked else ["6"], [6] if asked else []), events
        elif answer == "changed" or asked:
            assert (effects(folder), waiting) == ([], [5]), events
        else:
            assert (effects(folder), waiting) == (["5", "5", "6"], []), events


@pytest.mark.parametrize("later", ["asks", "mode", "none"])
async def test_the_last_word_counts_after_a_change_of_settings_that_is_taken_back(
    folder: Path, later: str
) -> None:
    settings: dict[str, dict[str, str]] = {"one": {}, "other": {"other.md": "deny"}}
    async with agent(folder, "call", {}, settings["one"]) as living:
        session = (await play(living, "go"))[-1].session  # type: ignore[union-attr]
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS["approve"]})
    async with agent(folder, "call", {}, settings["other"]) as living:
        await events_of(living.resume(session))
        (pending,) = await living.pending_approvals()
        await living.decide(session, {pending.id: ANSWERS["changed"]})
    async with agent(folder, "call", LATER[later], settings["one"]) as living:
        events = await events_of(living.resume(session))
        assert effects(folder) == [], events
        (pending,) = await living.pending_approvals()
        assert pending.needs_person
        await living.decide(session, {pending.id: ANSWERS["approve"]})
        events = await events_of(living.resume(session))
        assert isinstance(events[-1], RunCompleted), events[-1]
        assert effects(folder) == ["model"]
