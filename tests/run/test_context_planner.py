"""Before every model call the policies propose and one planner decides; the ledger says what and why."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import (
    TOOLS,
    PositionModel,
    assert_paired,
    call,
    calling,
    play,
    script,
    write_agent,
)
from tests.support.planning import edits_of, entries_of, steps_of, texts_of, write_planned
from zeus_runtime import Agent, FailedRunError
from zeus_runtime.context import fold, read_archive
from zeus_runtime.context.edits import edit_from_json
from zeus_runtime.context.ledger import MAX_DECISIONS, PolicyDecision
from zeus_runtime.context.prompt_cost import fixed_from_json
from zeus_runtime.context.tokens import Counter, counter_for, request_tokens
from zeus_runtime.events import Notice, RunCompleted, Text, TokenUsage
from zeus_runtime.plugin.model import ModelError, ModelPiece, ModelRequest, ModelResponse, Usage
from zeus_runtime.run.context_planner import listed

LONG = "word " * 400


def looping(steps: int, text: str = LONG) -> PositionModel:
    """Calls echo so often, wherever the conversation stands, then says done."""
    made = [0]

    def answer(request: ModelRequest) -> AIMessage | str:
        if request.purpose == "summary":
            return "the story so far"
        made[0] += 1
        return "done" if made[0] > steps else calling(call("echo", f"c{made[0]}", text=text))

    return PositionModel(answer)


def test_more_decisions_than_a_row_lists_are_counted() -> None:
    many = [
        PolicyDecision("p", "evict", False, f"reason {number}", count=2)
        for number in range(MAX_DECISIONS + 3)
    ]
    assert listed(many[:MAX_DECISIONS]) == tuple(many[:MAX_DECISIONS])
    rows = listed(many)
    assert len(rows) == MAX_DECISIONS
    assert rows[:-1] == tuple(many[: MAX_DECISIONS - 1])
    assert (rows[-1].kind, rows[-1].count, rows[-1].admitted) == ("more", 8, False)
    assert rows[-1].reason == "4 more decisions are not listed"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


async def test_policies_run_in_yaml_order_before_each_call_inside_one_turn(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 7}, keep: 4}]\n"
    model = looping(12)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        result = await agent.run("go")
        history = await agent.history(result.session)
    assert len(history) == 2 + 2 * 12
    assert max(len(request.messages) for request in model.requests) < 8
    for request in model.requests:
        assert_paired(list(request.messages))


async def test_the_view_of_every_step_can_be_folded_again_from_log_edits_and_ledger(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 7}, keep: 4}]\n"
    model = looping(12)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        result = await agent.run("go")
        history = list(await agent.history(result.session))
        profile = agent.plan.profile
    edits = [edit_from_json(json.dumps(each)) for each in await edits_of(tmp_path, result.session)]
    steps = await steps_of(tmp_path, result.session)
    assert [step.number for step in steps] == list(range(1, 14))
    counter = counter_for(profile)
    for step, request in zip(steps, model.requests, strict=True):
        view = fold(history, edits[: step.edits], step.cursor, counter=counter)
        assert [(m.type, m.content) for m in view] == [(m.type, m.content) for m in request.messages]
        assert (view.tokens, dict(view.by_source), len(view)) == (
            step.view_tokens,
            dict(step.by_source),
            step.messages,
        )


async def test_the_ledger_names_every_section_and_tool_and_stores_each_text_once(tmp_path: Path) -> None:
    model = looping(5)
    async with Agent.from_config(write_planned(tmp_path), directory=tmp_path, model=model) as agent:
        result = await agent.run("go")
    steps = await steps_of(tmp_path, result.session)
    texts = await texts_of(tmp_path, result.session)
    assert {step.fixed for step in steps} == {steps[0].fixed}
    fixed = fixed_from_json(steps[0].fixed, texts[steps[0].fixed])
    assert list(fixed.tools) == ["echo", "record", "fail", "keep"]
    assert list(fixed.sections)[:3] == ["core", "soul", "tools"]
    system = model.requests[0].system
    assert all(texts[part.digest] in system for part in fixed.sections.values())
    assert sum(part.tokens for part in (*fixed.sections.values(), *fixed.tools.values())) > 0.9 * fixed.tokens
    assert len(texts) == 1 + len(fixed.tools) + len({part.digest for part in fixed.sections.values()})


async def test_a_ledger_entry_is_as_large_at_the_last_step_as_at_the_first(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 20}, keep: 8}]\n"
    async with Agent.from_config(
        write_planned(tmp_path, yaml), directory=tmp_path, model=looping(60, "x")
    ) as agent:
        result = await agent.run("go")
    sizes = [len(entry.payload) for entry in await entries_of(tmp_path, result.session)]
    assert len(sizes) == 61
    assert max(sizes[-20:]) < 1.1 * max(sizes[:20])
    assert max(sizes) < 800


async def test_a_decision_says_which_edits_were_admitted_and_what_they_saved(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 7}, keep: 4}]\n"
    async with Agent.from_config(
        write_planned(tmp_path, yaml), directory=tmp_path, model=looping(6)
    ) as agent:
        result = await agent.run("go")
    decisions = [each for step in await steps_of(tmp_path, result.session) for each in step.decisions]
    stored = await edits_of(tmp_path, result.session)
    assert len(decisions) == len(stored) > 0
    for number, (decision, edit) in enumerate(zip(decisions, stored, strict=True), start=1):
        assert (decision.policy, decision.kind, decision.admitted) == ("shed", "drop_before", True)
        assert decision.numbers == (number, number)
        assert (decision.tokens_before, decision.tokens_after) == (
            edit["tokens_before"],
            edit["tokens_after"],
        )
        assert decision.tokens_after < decision.tokens_before


async def test_what_is_refused_stands_in_the_ledger_with_its_reason_and_is_told_once(tmp_path: Path) -> None:
    yaml = (
        "middlewares:\n"
        "  - propose:\n"
        "      at: 1\n"
        "      edits: [{kind: drop, seq: 9}, {kind: evict, seq: 1, content: x, handle: /large_tool_results/x}]\n"
    )
    async with Agent.from_config(
        write_planned(tmp_path, yaml), directory=tmp_path, model=looping(3)
    ) as agent:
        events = await play(agent, LONG)
    ending = events[-1]
    assert isinstance(ending, RunCompleted)
    first = (await steps_of(tmp_path, ending.session))[0]
    assert [(each.kind, each.admitted, each.reason) for each in first.decisions] == [
        ("evict", True, "as told"),
        ("drop_before", False, "it would leave nothing to send"),
    ]
    told = [event.message for event in events if isinstance(event, Notice) and event.code == "edit_refused"]
    assert told == ["An edit of propose was refused: it would leave nothing to send."]


async def test_a_pin_survives_every_later_cut(tmp_path: Path) -> None:
    yaml = (
        "middlewares:\n"
        "  - propose: {at: 1, edits: [{kind: pin, seq: 1}]}\n"
        "  - shed: {trigger: {messages: 6}, keep: 2}\n"
    )
    model = looping(12)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        await agent.run("the one goal")
    assert all(request.messages[0].content == "the one goal" for request in model.requests)
    assert max(len(request.messages) for request in model.requests) < 8
    for request in model.requests:
        assert_paired(list(request.messages))


async def test_originals_are_archived_before_the_edit_and_come_back_byte_for_byte(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 7}, keep: 4}]\n"
    model = looping(20, "naïve 中文 --> <!-- zeus:message {} -->\n\r\n\x00end " * 20)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        result = await agent.run("go")
        history = list(await agent.history(result.session))
    edits = await edits_of(tmp_path, result.session)
    gone = max(edit["seq"] for edit in edits) - 1
    file = tmp_path / ".zeus" / "conversation_history" / f"{result.session}.md"
    found, problems = read_archive(file.read_bytes())
    assert problems == []
    assert [each.seq for each in found] == list(range(1, gone + 1))
    assert [each.message.model_dump() for each in found] == [m.model_dump() for m in history[:gone]]
    assert {edit["handle"] for edit in edits} == {f"/conversation_history/{result.session}.md"}


async def test_what_is_evicted_or_truncated_is_in_a_file_of_its_own(tmp_path: Path) -> None:
    yaml = (
        "middlewares:\n"
        "  - propose:\n"
        "      at: 3\n"
        "      edits:\n"
        "        - {kind: evict, seq: 3, content: see /large_tool_results/c1, handle: /large_tool_results/c1}\n"
        "        - {kind: truncate, seq: 2, call_id: c1, arguments: {text: cut}}\n"
    )
    model = looping(2)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        await agent.run("go")
    sent = list(model.requests[1].messages)
    assert sent[2].content == "see /large_tool_results/c1"
    assert sent[1].tool_calls[0]["args"] == {"text": "cut"}  # type: ignore[attr-defined]
    folder = tmp_path / ".zeus" / "large_tool_results"
    assert (folder / "c1").read_text() == f"echo: {LONG}"
    assert json.loads((folder / "c1.arguments.json").read_text()) == {"text": LONG}
    assert names_in(tmp_path) == [".zeus", "probe.py", "zeus.yaml"]


async def test_another_sessions_result_under_the_same_call_id_is_not_overwritten(tmp_path: Path) -> None:
    yaml = (
        "middlewares:\n"
        "  - propose:\n"
        "      at: 3\n"
        "      edits: [{kind: evict, seq: 3, content: see /large_tool_results/c1, handle: /large_tool_results/c1}]\n"
    )
    config = write_planned(tmp_path, yaml)
    sent = []
    for text in (LONG, LONG + "other", LONG):
        model = looping(1, text)
        async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
            await agent.run("go")
        sent.append(model.requests[1].messages[2].content)
    other = f"echo: {LONG}other"
    beside = f"/large_tool_results/c1.{hashlib.sha256(other.encode()).hexdigest()[:16]}"
    assert sent == ["see /large_tool_results/c1", f"see {beside}", "see /large_tool_results/c1"]
    assert (tmp_path / ".zeus/large_tool_results/c1").read_text() == f"echo: {LONG}"
    assert (tmp_path / f".zeus{beside}").read_text() == other


async def test_without_an_archive_nothing_is_edited(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 3}, keep: 2}]\n"
    config = write_planned(tmp_path, yaml)
    (tmp_path / ".zeus").mkdir()
    model = looping(4)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        # After the plan, which would refuse it.
        (tmp_path / ".zeus" / "conversation_history").write_text("a file where a folder should be")
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted)
    assert len(model.requests[-1].messages) == 9
    assert any("could not be archived" in e.message for e in events if isinstance(e, Notice))


async def test_a_policys_own_call_is_counted_and_does_not_reach_the_stream(tmp_path: Path) -> None:
    yaml = "middlewares: [resume: {trigger: {messages: 5}, keep: 2}]\n"

    def answer(request: ModelRequest) -> ModelResponse | str:
        return "the story so far" if request.purpose == "summary" else "x"

    class Counted(PositionModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def, override]
            async for piece in super().stream(request):
                if isinstance(piece, ModelResponse):
                    piece = ModelResponse(piece.message, Usage(1000, 10))
                yield piece

    model = Counted(answer)  # type: ignore[arg-type]
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        session = (await agent.run("one")).session
        await agent.run("two", session=session)
        events = await play(agent, "three", session)
    summary, turn = model.requests[-2:]
    assert (summary.purpose, turn.purpose) == ("summary", "turn")
    assert turn.messages[0].content == "the story so far"
    assert "".join(event.text for event in events if isinstance(event, Text)) == "x"
    assert sum(isinstance(event, TokenUsage) for event in events) == 2
    ending = events[-1]
    assert isinstance(ending, RunCompleted)
    assert ending.prompt_tokens == 2000
    step = (await steps_of(tmp_path, session))[-1]
    assert step.policy_tokens == 1010
    assert step.policy_cost_usd is not None
    assert step.usage is not None
    assert step.usage.input_tokens == 1000


async def test_a_thread_continued_under_a_smaller_window_is_planned_before_its_first_call(
    tmp_path: Path,
) -> None:
    yaml = "middlewares: [shed: {trigger: {fraction: 0.8}, keep: 3}]\n"
    large = looping(10)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=large) as agent:
        session = (await agent.run("go")).session
    small = script(*["done"] * 20)
    config = write_planned(tmp_path, yaml, window=6000)
    async with Agent.from_config(config, directory=tmp_path, model=small) as agent:
        await agent.run("more", session=session)
        profile = agent.plan.profile
    assert len(large.requests[-1].messages) == 21
    assert len(small.requests) == 1
    assert len(small.requests[0].messages) <= 4
    step = (await steps_of(tmp_path, session))[-1]
    assert step.expected_tokens <= 6000 == profile.max_input_tokens


async def test_the_providers_count_anchors_the_next_estimate_also_after_a_restart(tmp_path: Path) -> None:
    class Reporting(PositionModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def, override]
            async for piece in super().stream(request):
                if isinstance(piece, ModelResponse):
                    piece = ModelResponse(piece.message, Usage(5_000, 10))
                yield piece

    config = write_planned(tmp_path)
    session = None
    for _ in range(2):
        async with Agent.from_config(config, directory=tmp_path, model=Reporting(lambda _: "x")) as agent:
            session = (await agent.run("hello", session=session)).session
    first, second = await steps_of(tmp_path, session or "")
    assert first.expected_tokens == first.estimate_tokens < 5_000
    assert second.expected_tokens == 5_000 + second.estimate_tokens - first.estimate_tokens


async def test_compact_sheds_at_once_through_the_same_planner(tmp_path: Path) -> None:
    yaml = (
        "middlewares:\n"
        "  - propose: {at: 1, edits: [{kind: pin, seq: 1}]}\n"
        "  - shed: {trigger: {messages: 900}, keep: 3}\n"
    )
    model = looping(6)
    async with Agent.from_config(write_planned(tmp_path, yaml), directory=tmp_path, model=model) as agent:
        session = (await agent.run("the goal")).session
        done = await agent.compact(session)
        again = await agent.compact(session)
        await agent.run("more", session=session)
    assert done.tokens_after < done.tokens_before
    assert done.messages_after < done.messages_before == 14
    assert again.tokens_after == again.tokens_before
    sent = list(model.requests[-1].messages)
    assert sent[0].content == "the goal"
    assert len(sent) == done.messages_after + 1
    assert_paired(sent)
    assert [step.cause for step in await steps_of(tmp_path, session)][-3:] == ["compact", "compact", "turn"]


WITNESSES = """
from dataclasses import dataclass
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.context import DropBefore
from zeus_runtime.plugin.middleware import Middleware

@dataclass(frozen=True)
class Options:
    sheds: bool = False

def witness(name):
    class Witness(Middleware):
        def __init__(self, options, context):
            self.options = options
        async def edits(self, view, budget):
            with Path(__file__).with_name("told.txt").open("a") as file:
                file.write(f"{name}:{budget.overflow}\\n")
            if self.options.sheds and budget.overflow:
                return [DropBefore(name, "as asked", view.item(2).seq)]
            return ()
    return Component(name, create=Witness, options=Options)

@hookimpl
def register_middlewares():
    return [witness("first"), witness("second"), witness("third")]
"""


@pytest.mark.parametrize(
    ("sheds", "told"),
    [
        ("none", ["first:True", "second:True", "third:True"]),
        ("first", ["first:True", "second:False", "third:False"]),
        ("second", ["first:True", "second:True", "third:False"]),
    ],
)
async def test_a_compaction_that_is_asked_for_goes_on_until_one_policy_has_shed_something(
    tmp_path: Path, sheds: str, told: list[str]
) -> None:
    """The request fits from the start, so that alone is no reason to stop."""
    refs = ", ".join(
        f"{{{name}: {{sheds: {str(name == sheds).lower()}}}}}" for name in ("first", "second", "third")
    )
    config = write_agent(tmp_path, f"middlewares: [{refs}]\n", plugin=TOOLS + WITNESSES)
    async with Agent.from_config(config, directory=tmp_path, model=script("a", "b", "c")) as agent:
        session = (await agent.run("one")).session
        await agent.run("two", session=session)
        file = tmp_path / "told.txt"
        assert file.read_text().split() == ["first:False", "second:False", "third:False"] * 2
        file.unlink()
        await agent.compact(session)
        assert file.read_text().split() == told


async def test_deleting_a_session_takes_its_ledger_along(tmp_path: Path) -> None:
    async with Agent.from_config(write_planned(tmp_path), directory=tmp_path, model=looping(2)) as agent:
        session = (await agent.run("go")).session
        await agent.delete_session(session)
    connection = sqlite3.connect(tmp_path / ".zeus" / "zeus.db")
    for table in ("context_step", "context_text", "context_edit", "message"):
        assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)
    connection.close()


async def test_a_corrupt_edit_or_ledger_entry_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 7}, keep: 4}]\n"
    config = write_planned(tmp_path, yaml)
    async with Agent.from_config(config, directory=tmp_path, model=looping(6)) as agent:
        session = (await agent.run("go")).session
    connection = sqlite3.connect(tmp_path / ".zeus" / "zeus.db")
    connection.execute("UPDATE context_edit SET payload = '{broken' WHERE number = 1")
    connection.execute("UPDATE context_step SET payload = '{broken'")
    connection.commit()
    connection.close()
    model = looping(6)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "more", session)
    assert isinstance(events[-1], RunCompleted)
    told = [event.message for event in events if isinstance(event, Notice)]
    assert any(f"edit 1 of {session} cannot be read" in message for message in told)
    for request in model.requests:
        assert_paired(list(request.messages))
        assert len(request.messages) < 9


async def test_a_refusal_that_repeats_at_every_step_is_told_once(tmp_path: Path) -> None:
    plugin = """
class Greedy(Middleware):
    async def edits(self, view, budget):
        return [DropBefore("greedy", "why", view.upto + 1), Evict("greedy", "why", 900 + view.upto, "", "/x")]

@hookimpl
def register_models():
    return []
"""
    config = write_planned(tmp_path, "middlewares: [greedy]\n")
    file = tmp_path / "probe.py"
    more = '        Component("greedy", create=Greedy),\n    ]\n'
    text = file.read_text()
    file.write_text(text[: text.rindex("    ]\n")] + more + plugin)
    async with Agent.from_config(config, directory=tmp_path, model=looping(5)) as agent:
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted)
    told = [event.message for event in events if isinstance(event, Notice) and event.code == "edit_refused"]
    assert len(told) == 2
    refused = [each for step in await steps_of(tmp_path, events[-1].session) for each in step.decisions]
    assert len(refused) == 2 * 6


class Undercounted(PositionModel):
    """A provider that counts half as much again as the model's counter, and refuses what its window does not hold."""

    def __init__(self, steps: int, window: int, counter: Counter) -> None:
        super().__init__(looping(steps)._answer)
        self.window, self.counter = window, counter
        self.refused = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        true_tokens = round(1.5 * request_tokens(self.counter, request))
        if true_tokens > self.window:
            self.refused += 1
            raise ModelError("too long", kind="context_overflow", input_tokens=true_tokens)
        async for piece in super().stream(request):
            if isinstance(piece, ModelResponse):
                piece = ModelResponse(piece.message, Usage(true_tokens, 10))
            yield piece


@pytest.mark.parametrize("window", range(12_000, 13_200, 150))
async def test_a_model_that_counts_more_than_expected_refuses_no_request_of_a_run(
    tmp_path: Path, window: int
) -> None:
    """The policy's own trigger comes too late for some of the windows; the planner leaves room for what it learned."""
    yaml = "middlewares: [shed: {trigger: {fraction: 0.99}, keep: 6}]\n"
    config = write_planned(tmp_path, yaml, window=window)
    profile = Agent.from_config(config, directory=tmp_path, model=script("x")).plan.profile
    model = Undercounted(20, window, counter_for(profile))
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        await agent.run("go")
    assert model.refused == 0
    assert len(model.requests) == 21


@pytest.mark.parametrize(("tokenizer", "shortened"), [("o200k_base", False), ("estimate", True)])
async def test_an_estimate_that_nothing_has_confirmed_leaves_room(
    tmp_path: Path, tokenizer: str, shortened: bool
) -> None:
    """A session of 95 % of the window goes on with a model that has reported nothing yet."""
    yaml = "middlewares: [shed: {trigger: {fraction: 0.99}, keep: 6}]\n"
    limits = "profiles: {{models: {{gpt-4o: {{max_input_tokens: {}, tokenizer: {}}}}}}}\n"
    config = write_planned(tmp_path, limits.format(100_000, tokenizer) + yaml)
    async with Agent.from_config(config, directory=tmp_path, model=looping(10)) as agent:
        session = (await agent.run("go")).session
    window = round((await steps_of(tmp_path, session))[-1].estimate_tokens / 0.95)
    write_planned(tmp_path, limits.format(window, tokenizer) + yaml)
    model = script(*["done"] * 20)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        await agent.run("more", session=session)
    assert (len(model.requests[0].messages) < 23) is shortened


DAY_MS = 24 * 3600 * 1000


async def second_turn(folder: Path, monkeypatch: pytest.MonkeyPatch, pause_ms: int) -> list[PolicyDecision]:
    """The decisions in the second turn about an early edit that saves little, after a pause between the turns."""
    edit = "{kind: evict, seq: 3, content: short, handle: /large_tool_results/c0}"
    yaml = f"middlewares: [propose: {{at: 15, edits: [{edit}]}}]\n"
    config = write_planned(folder, yaml, window=100_000)
    said = ["one two three four " * 8, *[LONG] * 5]
    async with Agent.from_config(config, directory=folder, model=script(*answers_with(said))) as agent:
        first = await agent.run("go")
    assert len(await edits_of(folder, first.session)) == 0
    later = time.time_ns() + pause_ms * 1_000_000
    monkeypatch.setattr("zeus_runtime.store.thread_log.time", SimpleNamespace(time_ns=lambda: later))
    async with Agent.from_config(config, directory=folder, model=PositionModel(lambda _: "done")) as agent:
        await agent.run("and now?", session=first.session)
    steps = await steps_of(folder, first.session)
    assert [step.cache_seconds for step in steps] == [300.0] * len(steps)
    return list(steps[-1].decisions)


def answers_with(texts: list[str]) -> list[AIMessage | str]:
    return [*(calling(call("echo", f"c{n}", text=text)) for n, text in enumerate(texts)), "done"]


async def test_a_cached_prefix_is_kept_between_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (decision,) = await second_turn(tmp_path, monkeypatch, pause_ms=60_000)
    assert not decision.admitted
    assert "cached tokens would be sent anew" in decision.reason


async def test_after_the_cache_has_expired_an_edit_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (decision,) = await second_turn(tmp_path, monkeypatch, pause_ms=DAY_MS)
    assert decision.admitted


class Cached(PositionModel):
    """A provider that has the whole request cached, as far as it is not new."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        async for piece in super().stream(request):
            if isinstance(piece, ModelResponse):
                piece = ModelResponse(piece.message, Usage(20_000, 10, cache_read_tokens=19_000))
            yield piece


@pytest.mark.parametrize("pause_ms", [60_000, DAY_MS])
async def test_a_call_after_the_cache_has_expired_is_projected_at_the_full_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_ms: int
) -> None:
    config = write_planned(tmp_path, "limits: {max_cost_usd: 0.047}\n", window=100_000)
    async with Agent.from_config(config, directory=tmp_path, model=Cached(lambda _: "done")) as agent:
        first = await agent.run(LONG * 40)
    later = time.time_ns() + pause_ms * 1_000_000
    monkeypatch.setattr("zeus_runtime.store.thread_log.time", SimpleNamespace(time_ns=lambda: later))
    async with Agent.from_config(config, directory=tmp_path, model=Cached(lambda _: "done")) as agent:
        if pause_ms == DAY_MS:  # 20,000 tokens cost $0.05, half of it if they are cached
            with pytest.raises(FailedRunError, match="the next model call may cost"):
                await agent.run("and now?", session=first.session)
        else:
            await agent.run("and now?", session=first.session)


async def test_a_continued_session_keeps_the_margin_that_its_reports_taught(tmp_path: Path) -> None:
    config = write_planned(tmp_path, "", window=50_000)
    profile = Agent.from_config(config, directory=tmp_path, model=script("x")).plan.profile
    model = Undercounted(3, 50_000, counter_for(profile))
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await agent.run("go")).session
    learned = (await steps_of(tmp_path, session))[-1].margin_share
    assert learned == pytest.approx(0.5, abs=0.02)
    async with Agent.from_config(config, directory=tmp_path, model=script(*["done"] * 9)) as agent:
        await agent.run("more", session=session)
    assert (await steps_of(tmp_path, session))[-1].margin_share >= learned / 2
