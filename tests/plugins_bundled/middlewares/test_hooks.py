"""Hooks around tool calls, through whole runs with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import py_compile
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from zeus_plugins.middlewares.approve.rules import Spelling
from zeus_plugins.middlewares.hooks.answers import Answer, HookFailedError, answer_of
from zeus_plugins.middlewares.hooks.matching import matches
from zeus_plugins.middlewares.hooks.options import Hook, Match
from zeus_plugins.middlewares.hooks.process import answer_from

from tests.support.agents import (
    Answering,
    PositionModel,
    call,
    calling,
    events_of,
    script,
    shape,
    write_agent,
)
from tests.support.planning import steps_of
from zeus_runtime import Agent, ConfigError
from zeus_runtime.cutting import mask_before_cutting
from zeus_runtime.errors import ZeusError
from zeus_runtime.events import Event, Notice, RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import parts_of
from zeus_runtime.plugin.model import ModelRequest, ModelResponse
from zeus_runtime.plugin.tool import Tool
from zeus_runtime.run.assembly import run_resources

DENY = {"decision": "deny", "reason": "not on a Friday"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def says(answer: object, **options: Any) -> dict[str, Any]:
    """A hook that writes one answer and notes that it was started."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return runs('echo started >> started; printf %s "$1"', text, **options)


def runs(line: str, *words: str, **options: Any) -> dict[str, Any]:
    # YAML replaces a `$` that is alone.
    return {"command": ["sh", "-c", *(each.replace("$", "$$") for each in (line, "hook", *words))], **options}


def agent(
    folder: Path,
    model: PositionModel,
    *,
    before: Sequence[dict[str, Any]] = (),
    after: Sequence[dict[str, Any]] = (),
    also: Sequence[Any] = (),
    more: str = "",
    tools: str = "[probe]",
    **others: Sequence[dict[str, Any]],
) -> Agent:
    hooks = {"before_tool_call": list(before), "after_tool_call": list(after), **others}
    lines = json.dumps([{"hooks": {name: each for name, each in hooks.items() if each}}, *also])
    config = write_agent(folder, f"middlewares: {lines}\n{more}", tools=tools)
    return Agent.from_config(config, directory=folder, model=model)


def recording(text: str = "hello") -> PositionModel:
    return script(calling(call("record", "c1", text=text)), "done")


async def played(made: Agent, person: Answering | None = None) -> list[Event]:
    async with made:
        return await events_of(made.stream("go", approvals=person))


def results(events: Sequence[Event]) -> list[tuple[str, bool]]:
    return [(each.content, each.is_error) for each in events if isinstance(each, ToolCallResult)]


def notices(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [
        (each.code, each.message)
        for each in events
        if isinstance(each, Notice) and each.code.startswith("hook_")
    ]


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that was adopted may still wait to be noticed."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def effects(folder: Path) -> str:
    file = folder / "effects.txt"
    return file.read_text() if file.exists() else ""


def started(folder: Path) -> int:
    file = folder / "started"
    return len(file.read_text().split()) if file.exists() else 0


async def test_a_hook_is_told_the_call_and_its_silence_lets_the_call_run_as_it_is(folder: Path) -> None:
    cat = "cat > $1.json; env > $1.env; pwd > $1.pwd"
    before, after = runs(cat, "before"), runs(cat, "after", match={"tool": "rec*"})
    os.environ["HOOKS_TEST_SECRET"] = "sk-not-for-hooks"
    try:
        made = agent(folder, recording("größer\0"), before=[before], after=[after])
        events = await played(made)
    finally:
        del os.environ["HOOKS_TEST_SECRET"]
    assert results(events) == [("recorded: größer\0", False)]
    assert notices(events) == []
    origin = events[0].origin
    assert origin is not None
    told = {
        "event": "before_tool_call",
        "session": origin.session,
        "run": origin.run,
        "mode": "agent",
        "call": "c1",
        "tool": "record",
        "arguments": {"text": "größer\0"},
        "workspace": str(folder),
    }
    assert json.loads((folder / "before.json").read_text()) == told
    assert json.loads((folder / "after.json").read_text()) == {
        **told,
        "event": "after_tool_call",
        "result": {"content": "recorded: größer\0", "is_error": False},
    }
    names = {line.partition("=")[0] for line in (folder / "before.env").read_text().splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "TMPDIR", "PYTHONPYCACHEPREFIX", "PWD", "SHLVL", "_", "OLDPWD"}
    assert Path((folder / "before.pwd").read_text().strip()) == folder


async def test_a_denied_call_does_not_run_and_the_model_and_the_person_learn_why(folder: Path) -> None:
    made = agent(folder, recording(), before=[says(DENY), says({})], after=[says({})])
    events = await played(made)
    ((content, is_error),) = results(events)
    assert (content.partition(".")[0], is_error) == (
        "record was not run: a hook of the config denied this call (not on a Friday)",
        True,
    )
    ((code, message),) = notices(events)
    assert code == "hook_denied"
    assert message.endswith("of before_tool_call denied a call of record: not on a Friday.")
    assert effects(folder) == ""
    assert started(folder) == 1, "neither the next hook nor one after the call was started"


async def test_each_hook_gets_the_call_as_the_one_before_left_it(folder: Path) -> None:
    """Also its match is judged so."""
    other = {"arguments": {"text": "other"}, "context": "I changed it."}
    sees = runs('cat > seen.json; echo \'{"context": "And I saw it."}\'')
    replaced = says({"result": "a new result", "context": "After."})
    made = agent(
        folder,
        recording(),
        before=[says(other), sees],
        after=[replaced, runs("cat > after.json")],
    )
    events = await played(made)
    assert effects(folder) == "other\n"
    assert json.loads((folder / "seen.json").read_text())["arguments"] == {"text": "other"}
    assert json.loads((folder / "after.json").read_text())["result"]["content"] == "a new result"
    ((content, is_error),) = results(events)
    assert content.split("\n\n") == [
        "a new result",
        'A hook of the config changed the arguments of this call to: {"text": "other"}',
        "A hook of the config adds: I changed it.",
        "A hook of the config adds: And I saw it.",
        "A hook of the config adds: After.",
    ]
    assert not is_error
    assert [code for code, _ in notices(events)] == ["hook_changed", "hook_changed"]


async def test_a_withheld_result_keeps_its_state_and_nothing_that_tells_its_text(folder: Path) -> None:
    # Some providers give the same id to calls of two answers.
    model = script(calling(call("keep", "c1", value="one")), calling(call("keep", "c1", value="one")), "done")
    hidden = runs('grep -q "was one" && exit 0; echo \'{"decision": "deny"}\'')
    events = await played(agent(folder, model, before=[says({})], after=[hidden, runs("echo more >> more")]))
    assert started(folder) == 2
    assert (folder / "more").read_text() == "more\n", "the first hook that denies is the last"
    assert results(events) == [
        ("keep was run, and a hook of the config withholds its result. Do not repeat the call.", True),
        ("was one", False),
    ]


FAILURES = {
    "exit code": (runs("echo oops >&2; exit 3"), "ended with exit code 3", "oops"),
    "signal": (runs("kill -9 $$"), "was killed by signal 9", ""),
    "no answer": (says("yes"), "wrote something else than JSON", ""),
    "arguments": (
        says({"arguments": {"txt": "a"}}),
        "wrote arguments that do not fit record",
        "missing: text",
    ),
    "no program": ({"command": ["./nothing-here"]}, "could not be started (No such file", ""),
    "time": (runs("sleep 1000", timeout_seconds=0.05), "did not end within 0.05 seconds", ""),
    "size": (runs("yes"), "wrote more than 4 MB", ""),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_hook_that_fails_denies_unless_the_config_lets_it_continue(folder: Path, name: str) -> None:
    hook, what, detail = FAILURES[name]
    events = await played(agent(folder, recording(), before=[{**hook, "on_failure": "continue"}, hook]))
    ((content, is_error),) = results(events)
    assert is_error
    assert content.startswith("record was not run: a hook of the config denied this call (the hook `")
    assert what in content
    (continues, denies) = notices(events)
    for code, message in (continues, denies):
        assert code == "hook_failed"
        assert what in message
        assert detail in message
    assert "for a call of record: the run continues without it." in continues[1]
    assert "for a call of record: the call is not run." in denies[1]
    assert effects(folder) == ""


NO_ANSWERS = {
    "[]": "wrote JSON that is not an object",
    "\udcff": "wrote something else than JSON ('utf-8' codec can't decode",
    '{"decide": "deny"}': "wrote the key 'decide'; it may write decision, reason, arguments, context",
    '{"decision": "yes"}': "wrote the decision 'yes'; it is 'allow' or 'deny'",
    f'{{"decision": "{"x " * 300}"}}': "wrote the decision 'x x",
    '{"context": 1}': "wrote a 'context' that is not a text",
    '{"arguments": []}': "wrote a 'arguments' that is not an object",
    '{"decision": "deny", "arguments": {}, "context": ""}': "denied, and wrote arguments, context too",
    '{"reason": "no"}': "wrote a reason and no decision 'deny'",
    '{"result": "early"}': "wrote the key 'result'",
    '{"context": NaN}': "wrote something else than JSON",
    '{"context": "a"} {}': "wrote something else than JSON",
}


@pytest.mark.parametrize("text", NO_ANSWERS)
def test_whatever_is_not_exactly_an_answer_is_a_failure(text: str) -> None:
    with pytest.raises(HookFailedError) as raised:
        answer_of("before_tool_call", text.encode("utf-8", "surrogateescape"))
    assert raised.value.what.startswith(NO_ANSWERS[text])
    assert len(raised.value.what) < 200


@pytest.mark.parametrize("text", ["", " \n", "{}", '{"decision": "allow"}'])
def test_these_answers_change_nothing(text: str) -> None:
    assert answer_of("before_tool_call", text.encode()) == Answer()


async def test_a_hook_after_the_call_that_fails_withholds_the_result(folder: Path) -> None:
    events = await played(agent(folder, recording(), after=[runs("exit 1")]))
    ((content, is_error),) = results(events)
    assert content.startswith("record was run, and a hook of the config withholds its result (the hook `")
    assert is_error
    assert effects(folder) == "hello\n"


async def test_nothing_of_a_hook_is_left_after_its_time_limit(folder: Path) -> None:
    line = "sleep 1000 & echo $! > left; echo $$ > leader; wait"
    await played(agent(folder, recording(), before=[runs(line, timeout_seconds=0.5)]))
    for name in ("left", "leader"):
        assert is_gone(int((folder / name).read_text()))


async def test_a_cancelled_run_ends_its_hook(folder: Path) -> None:
    os.mkfifo(folder / "ready")
    made = agent(folder, recording(), before=[runs("echo $$ > ready; sleep 1000")])
    import asyncio

    async with made:
        task = asyncio.create_task(events_of(made.stream("go")))
        pid = int(await asyncio.to_thread((folder / "ready").read_text))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert is_gone(pid)


async def test_only_calls_that_match_start_a_hook(folder: Path) -> None:
    """A file that a path leads to by a link or by `..` counts, in any case of letters."""
    (folder / "src").mkdir()
    (folder / "link").symlink_to("src")
    paths = ["/docs/a.md", "/src/a.py", "docs/../src/b.py", "/link/c.py", "/SRC/d.py"]
    model = script(
        calling(*(call("write_file", path, path=path, content="src/x") for path in paths)),
        calling(call("read_file", "r", path="/docs/a.md")),
        "done",
    )
    hook = says(DENY, match={"tool": ["write_file", "edit_*"], "path": "src/**"})
    events = await played(agent(folder, model, before=[hook], tools="[filesystem]"))
    refused = [
        each.call_id for each in events if isinstance(each, ToolCallResult) and "Friday" in each.content
    ]
    assert set(refused) == set(paths[1:])
    assert started(folder) == 4, "each parallel call has its own"
    assert (folder / "docs/a.md").read_text() == "src/x"


@pytest.mark.parametrize("by_rule", [True, False])
async def test_changed_arguments_cannot_reach_what_the_config_denies(folder: Path, *, by_rule: bool) -> None:
    model = script(calling(call("write_file", "c1", path="/a.txt", content="x")), "done")
    hook = says({"arguments": {"path": "/secret/a.txt", "content": "x"}})
    rule = {"approve": {"mode": "run_everything", "deny": [{"*": {"path": "secret/**"}}]}}
    access = "workspace: {access: {'/secret/**': deny}}\n"
    made = agent(
        folder,
        model,
        before=[hook],
        also=[rule] if by_rule else [],
        more="" if by_rule else access,
        tools="[filesystem]",
    )
    ((content, is_error),) = results(await played(made))
    assert is_error
    assert ("`deny: *" in content) == by_rule
    assert not (folder / "secret").exists()


async def test_the_person_approves_what_the_hook_made_of_the_call(folder: Path) -> None:
    person = Answering()
    other = says({"arguments": {"text": "other"}})
    made = agent(folder, recording(), before=[other], also=[{"approve": {"mode": "ask"}}])
    await played(made, person)
    assert [each.arguments for each in person.asked] == [{"text": "other"}]
    assert effects(folder) == "other\n"
    below = write_agent(
        folder, f"middlewares: {json.dumps(['approve', {'hooks': {'before_tool_call': [other]}}])}\n"
    )
    with pytest.raises(ConfigError, match="hooks stands below approve, so it could change a call"):
        Agent.from_config(below, directory=folder)


NO_TODO = """\
import json, sys
made = json.load(sys.stdin)
open("seen", "a").write(made["event"] + " " + made["arguments"]["text"] + "\\n")
if "TODO" in made["arguments"]["text"] and made["event"] == "before_tool_call":
    print(json.dumps({"decision": "deny", "reason": "no TODO"}))
"""


@pytest.mark.parametrize("asks_later", [False, True])
async def test_hooks_judge_the_arguments_that_a_person_changed(folder: Path, *, asks_later: bool) -> None:
    (folder / "check.py").write_text(NO_TODO)
    check = {"command": [sys.executable, "check.py"]}
    options: dict[str, Any] = {"before": [check], "after": [check], "also": [{"approve": {"mode": "ask"}}]}
    asked = "before_tool_call hello\n"
    for text, outcome, seen in (
        ("TODO later", "a hook of the config denied this call (no TODO)", "before_tool_call TODO later\n"),
        ("now", "recorded: now", "before_tool_call now\nafter_tool_call now\n"),
    ):
        (folder / "seen").unlink(missing_ok=True)
        model, person = recording(), Answering(text=text)
        if asks_later:  # under a config that asks nobody: the decision from before holds
            async with agent(folder, model, **options) as first:
                waiting = await events_of(first.stream("go"))
            assert isinstance(waiting[-1], RunFailed)
            async with agent(folder, model, **{**options, "also": ()}) as second:
                events = await events_of(second.resume(waiting[-1].session, approvals=person))
        else:
            events = await played(agent(folder, model, **options), person)
        ((content, _),) = results(events)
        assert outcome in content
        assert (folder / "seen").read_text() == asked + seen
    assert effects(folder) == "now\n", "the denied call did not run"


async def test_a_hook_cannot_change_what_a_person_wrote(folder: Path) -> None:
    """It would run without the approval of the person: the model may ask for it."""
    other = says({"arguments": {"text": "other"}})
    made = agent(folder, recording(), before=[other], also=[{"approve": {"mode": "ask"}}])
    ((content, is_error),) = results(await played(made, Answering(text="mine")))
    assert is_error
    assert 'a hook asks for others: {"text": "other"}' in content
    assert effects(folder) == ""


async def test_a_resume_finds_what_a_hook_decided_and_does_not_start_it_again(folder: Path) -> None:
    """The run waits for a person between the hook and the call."""
    line = 'echo started >> started; printf \'{"arguments": {"text": "%s"}}\' $$'
    options: dict[str, Any] = {"before": [runs(line)], "also": [{"approve": {"mode": "ask"}}]}
    async with agent(folder, recording(), **options) as first:
        waiting = await events_of(first.stream("go"))
    ending = waiting[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "approval_needed"
    async with agent(folder, recording(), **options) as second:
        person = Answering()
        events = await events_of(second.resume(ending.session, approvals=person))
    assert started(folder) == 1
    assert [each.arguments for each in person.asked] == [ending.details["pending"][0]["parameters"]]
    assert effects(folder).strip() == ending.details["pending"][0]["parameters"]["text"]
    assert [code for code, _ in notices(events)] == ["hook_changed"]
    # The next turn is another run: it asks the hook again.
    async with agent(
        folder, script("-", "-", calling(call("record", "c2", text="x")), "done"), **options
    ) as third:
        await events_of(third.stream("again", session=ending.session, approvals=Answering()))
    assert started(folder) == 2


async def test_a_secret_in_an_answer_reaches_neither_model_nor_events_nor_database(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-hooks-0123456789abcdef"
    monkeypatch.setenv("HOOKS_API_KEY", secret)
    (folder / "answer.json").write_text(json.dumps({"context": f"the key is {secret}\x1b[2J"}))
    model = recording()
    (folder / "other.json").write_text(json.dumps({"arguments": {"text": f"key {secret}"}}))
    reads = [runs("cat answer.json"), runs("cat other.json")]
    made = agent(folder, model, before=reads, more="metadata: {a: '${HOOKS_API_KEY}'}\n")
    events = await played(made)
    ((content, _),) = results(events)
    assert "A hook of the config adds: the key is " in content
    assert secret not in str(events) + str(model.requests) + effects(folder)
    for file in (folder / ".zeus").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


async def test_hooks_of_the_run_and_the_model_add_text_and_see_what_there_is(folder: Path) -> None:
    sees = [runs("cat >> $1.json; echo >> $1.json", name) for name in ("run", "asks", "told", "ends")]
    model = recording()
    made = agent(
        folder,
        model,
        before_run=[says({"context": "Today is a holiday."}), sees[0]],
        before_model_call=[sees[1], says({"context": "Be brief."})],
        after_model_call=[sees[2]],
        after_run=[sees[3], says({"decision": "allow"})],
    )
    events = await played(made)
    assert isinstance(events[-1], RunCompleted)
    assert notices(events) == []
    for request in model.requests:
        assert "A hook of the config adds: Today is a holiday." in request.system
        assert shape(request.messages)[-1] == ("human", "A hook of the config adds: Be brief.")
    assert len(model.requests[1].messages) == 4, (
        "the next request does not have the text that was added to the first"
    )

    def seen(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / f"{name}.json").read_text().splitlines()]

    (run,) = seen("run")
    assert (run["event"], run["prompt"], run["mode"]) == ("before_run", "go", "agent")
    assert [[each["role"] for each in ask["messages"]] for ask in seen("asks")] == [
        ["user"],
        ["user", "assistant", "tool"],
    ]
    assert "Today is a holiday." in seen("asks")[0]["system"]
    assert "record" in seen("asks")[0]["tools"]
    assert [each["answer"].get("content") for each in seen("told")][1] == "done"
    assert seen("told")[0]["answer"]["tool_calls"][0]["function"]["name"] == "record"
    assert [(each["prompt"], each["answer"]) for each in seen("ends")] == [("go", "done")]


@pytest.mark.parametrize("event", ["before_run", "before_model_call", "after_model_call", "after_run"])
async def test_a_denied_run_ends_with_an_error_and_its_answers_are_billed(folder: Path, event: str) -> None:
    model = recording()
    denies = {event: [says(DENY, on_failure="continue")]}
    price = "profiles: {models: {scripted: {input_cost_per_token: 1, output_cost_per_token: 1}}}\n"
    async with agent(folder, model, more=price, **denies) as made:
        events = await events_of(made.stream("go"))
        ending = events[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("hook_denied", 1)
        said = f"a hook of {event} denied it: not on a Friday. Give another prompt, or change the hook."
        assert ending.message == said
        assert [code for code, _ in notices(events)] == ["hook_denied"]
        asked = {"before_run": 0, "before_model_call": 0, "after_model_call": 1, "after_run": 2}[event]
        assert len(model.requests) == asked
        ledger = await steps_of(folder, ending.session)
        assert len(ledger) == asked
        assert [each.error for each in ledger if each.error] == (
            ["hook_denied"] if event == "after_model_call" else []
        )
        assert all(each.cost_usd for each in ledger)
    assert effects(folder) == ("hello\n" if event == "after_run" else "")


async def test_a_resumed_run_keeps_the_decisions_about_itself_and_its_model_calls(folder: Path) -> None:
    once = runs('echo started >> started; printf \'{"context": "%s"}\' $$')
    options: dict[str, Any] = {
        "before_run": [once],
        "before_model_call": [once],
        "also": [{"approve": {"mode": "ask"}}],
    }
    model = recording()
    async with agent(folder, model, **options) as first:
        waiting = await events_of(first.stream("go"))
    ending = waiting[-1]
    assert isinstance(ending, RunFailed)
    async with agent(folder, model, **options) as second:
        await events_of(second.resume(ending.session, approvals=Answering()))
    first_request, second_request = model.requests
    added = "A hook of the config adds: "
    assert (
        first_request.system.partition(added)[2].split()[0]
        == second_request.system.partition(added)[2].split()[0]
    )
    assert started(folder) == 3, "one for the run, one for each of two model calls"


async def test_a_run_that_a_failed_hook_ended_can_be_resumed(folder: Path) -> None:
    """A decision would hold; a failure may be over."""
    options: dict[str, Any] = {"before_run": [runs("test -e repaired")]}
    async with agent(folder, script("done"), **options) as first:
        ending = (await events_of(first.stream("go")))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.message.startswith(
        "a hook of before_run denied it: the hook `sh -c 'test -e repaired' hook` ended"
    )
    (folder / "repaired").touch()
    async with agent(folder, script("done"), **options) as second:
        assert isinstance((await events_of(second.resume(ending.session)))[-1], RunCompleted)


async def test_a_sub_agent_with_the_same_config_has_its_hooks(folder: Path) -> None:
    (folder / "other.yaml").write_text(
        "version: 1\nmodel: gpt-4o\ntools: [probe]\nplugins: {files: [probe.py]}\n"
    )
    agents = """
agents:
  same: {description: Shares this config.}
  other: {description: Has its own., config: other.yaml}
"""

    def answer(request: ModelRequest) -> AIMessage | str:
        said = [each for each in request.messages if each.type == "ai"]
        if said:
            return "done"
        if "delegate" not in str(request.messages[-1].content):
            return calling(call("record", "r", text=str(request.messages[-1].content)))
        tasks = [
            call("task", name, agent=name, description=name, prompt=f"work of {name}")
            for name in ("same", "other")
        ]
        return calling(*tasks)

    hook = runs(
        'cat >> seen.json; echo >> seen.json; printf %s "$1"', json.dumps(DENY), match={"tool": "record"}
    )
    made = agent(folder, PositionModel(answer), before=[hook], more=agents, tools="[probe, subagents]")
    async with made:
        events = await events_of(made.stream("delegate"))
    assert isinstance(events[-1], RunCompleted), events[-1]
    (seen,) = map(json.loads, (folder / "seen.json").read_text().splitlines())
    assert seen["arguments"] == {"text": "work of same"}
    origin = events[0].origin
    assert origin is not None
    assert seen["session"] != origin.session
    assert effects(folder) == "work of other\n"


async def test_a_backtest_starts_no_hook(folder: Path) -> None:
    made = agent(folder, recording(), before_model_call=[runs("exit 1")])
    context = run_resources(made.plan, recording(), "session_000000000000").middlewares[0][1]
    request = ModelRequest("", [])

    async def answers(_request: ModelRequest) -> ModelResponse:
        return ModelResponse(AIMessage("simulated"))

    assert (await context.wrap_model_call(request, answers)).message.content == "simulated"


class Address:
    """A hook at an address of this machine."""

    def __init__(self, answer: bytes, status: int = 200) -> None:
        received = self.received = list[tuple[dict[str, str], Any]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((dict(self.headers), json.loads(body)))
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/check"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Address:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def test_a_hook_at_an_address_answers_as_a_program_does(folder: Path) -> None:
    with Address(json.dumps({"arguments": {"text": "other"}}).encode()) as address:
        hook = {"url": address.url, "headers": {"Authorization": "Bearer x"}}
        events = await played(agent(folder, recording(), before=[hook]))
    assert results(events)[0][0].startswith("recorded: other\n\n")
    ((headers, body),) = address.received
    assert headers["Authorization"] == "Bearer x"
    assert (body["event"], body["arguments"]) == ("before_tool_call", {"text": "hello"})


@pytest.mark.parametrize(
    ("answer", "status", "what"),
    [
        (b"no", 500, "answered with status 500 for a call of record: the call is not run. no"),
        (b"word " * 198 + b"half-a-secret", 500, "word word… (1,003 characters)"),
        (b"", 302, "answered with status 302"),
        (b"no", 200, "wrote something else than JSON"),
        (b" " * (5 << 20), 200, "answered with more than 4 MB"),
    ],
)
async def test_an_address_that_fails_denies(folder: Path, answer: bytes, status: int, what: str) -> None:
    with Address(answer, status) as address:
        events = await played(agent(folder, recording(), before=[{"url": address.url}]))
    assert len(address.received) == 1
    ((code, message),) = notices(events)
    assert (code, what in message) == ("hook_failed", True), message
    assert effects(folder) == ""


async def test_an_address_that_cannot_be_reached_denies(folder: Path) -> None:
    with Address(b"") as address:
        pass
    url = address.url.replace("//", "//user:pass-word@") + "?key=secret"
    events = await played(agent(folder, recording(), before=[{"url": url}]))
    ((_, message),) = notices(events)
    assert message.startswith(
        f"The hook `{address.url}` of before_tool_call could not be asked (ConnectError"
    )
    assert "pass-word" not in str(events)
    assert effects(folder) == ""


async def test_an_address_that_is_a_secret_as_a_whole_is_not_shown_in_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "http://127.0.0.1:1/T0/B0/part-of-it?x=1")
    made = agent(folder, recording(), before=[{"url": "${HOOK_SECRET}"}])
    ((_, message),) = notices(await played(made))
    assert message.startswith("The hook `<secret:HOOK_SECRET>` of before_tool_call could not be asked")
    assert "part-of-it" not in message


def test_the_secrets_that_a_process_knows_do_not_change_which_hook_a_noted_answer_is_of() -> None:
    hook = Hook(url="https://ann:pass@hooks.example/T0/B0?x=1")
    known = Redactor().adding({str(hook.url): "HOOK"})
    assert (hook.shown, hook.identity) == ("https://hooks.example/T0/B0", "hooks.example/T0/B0")
    mask_before_cutting(known)
    assert (hook.shown, hook.identity) == ("<secret:HOOK>", "hooks.example/T0/B0")


def test_what_can_never_match_is_an_error_with_its_place(folder: Path) -> None:
    hooks = {
        "before_tool_call": [
            {"command": [""], "match": {"tool": "recrod"}},
            {"command": ["true"], "match": {"tool": ["x_*"], "path": ["../src"]}},
            {"command": ["true"], "url": "http://localhost/"},
            {"headers": {"a": "b"}},
        ]
    }
    with pytest.raises(ConfigError) as raised:
        Agent.from_config(
            write_agent(folder, f"middlewares: {json.dumps([{'hooks': hooks}])}\n"), directory=folder
        )
    found = [
        (each.path[4:], each.message.removeprefix("hooks: "), each.hint) for each in raised.value.diagnostics
    ]
    assert found == [
        ((0, "command", 0), "the program's name is empty", None),
        ((0, "match", "tool"), "'recrod' is not a tool of this agent", "did you mean 'record'?"),
        ((1, "match", "tool", 0), "no tool of this agent matches 'x_*'", None),
        (
            (1, "match", "path", 0),
            "'../src' contains `..`: patterns are compared with resolved paths, which contain none",
            "write the path that it leads to",
        ),
        ((2,), "this hook has both `command` and `url`", "write one of the two"),
        ((3,), "this hook has no `command` and no `url`", "write one of the two"),
        ((3, "headers"), "headers have no effect without `url`", None),
    ]
    with pytest.raises(ZeusError, match="there is no hook"):
        Agent.from_config(write_agent(folder, "middlewares: [hooks]\n"), directory=folder)


async def test_a_hook_uses_no_compiled_file_that_was_put_beside_its_source(folder: Path) -> None:
    (folder / "checks").mkdir()
    source = folder / "checks/after.py"
    forged = "open('effects.txt', 'a').write('forged')"
    source.write_text(forged)
    times = source.stat()
    py_compile.compile(str(source))
    source.write_text("open('effects.txt', 'a').write('honest')")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert len(source.read_bytes()) == len(forged)
    await played(agent(folder, recording(), after=[{"command": [sys.executable, "-m", "checks.after"]}]))
    assert effects(folder) == "hello\nhonest"


async def test_a_hook_runs_on_an_event_loop_whose_pipes_are_of_no_class_of_asyncio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As uvloop's, which `zeus serve` uses where it is installed.
    pipe_of = BaseSubprocessTransport.get_pipe_transport

    def foreign(transport: BaseSubprocessTransport, fd: int) -> Any:
        pipe: Any = pipe_of(transport, fd)
        return SimpleNamespace(write=pipe.write, close=pipe.close, is_closing=pipe.is_closing)

    monkeypatch.setattr(BaseSubprocessTransport, "get_pipe_transport", foreign)
    assert (
        await answer_from(["cat"], b"asked", seconds=30, directory=tmp_path, environ={**os.environ})
        == b"asked"
    )


@pytest.mark.parametrize("given", [b"asked", b"x" * 1_000_000], ids=["short", "long"])
@pytest.mark.parametrize("loop", ["asyncio.SelectorEventLoop", "uvloop.Loop"])
def test_a_hook_need_not_read_its_input(tmp_path: Path, loop: str, given: bytes) -> None:
    # uvloop, which `zeus serve` uses where it is installed, closes the input of a program that has ended.
    package, _, name = loop.partition(".")
    kind: Any = getattr(pytest.importorskip(package), name)

    class Late(kind):
        """Tells of a program when it has ended."""

        async def subprocess_exec(self, *words: Any, **how: Any) -> Any:
            transport, talk = await super().subprocess_exec(*words, **how)
            await talk.exited
            return transport, talk

    asked = answer_from(["echo", "{}"], given, seconds=30, directory=tmp_path, environ={**os.environ})
    with asyncio.Runner(loop_factory=Late) as runner:
        assert runner.run(asked) == b"{}\n"


@pytest.mark.parametrize(("path", "is_meant"), [("/keys/a", True), ("/open/a", False)])
def test_a_path_in_an_object_of_the_arguments_starts_a_hook(path: str, *, is_meant: bool) -> None:
    """A server's tool may take its arguments in one object."""

    async def nothing() -> str:
        return ""

    tool = Tool("s__open", "", {"type": "object"}, nothing, access="read")
    given = {"request": [{"path": path}]}
    assert (
        matches(Match("*", "keys/**"), tool, given, lambda written: [[Spelling(parts_of(written))]])
        is is_meant
    )
