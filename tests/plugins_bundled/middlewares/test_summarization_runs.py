"""Summarization in runs: the goal survives, nothing is lost, the user sees none of it, and it is counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import Answer as ModelAnswer
from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, play, write_agent
from tests.support.planning import steps_of
from zeus_runtime import Agent, ConfigError
from zeus_runtime.context.archive import read_archive
from zeus_runtime.models.messages import to_payload
from zeus_runtime.plugin.model import ModelError, ModelRequest, ModelResponse, Usage

SMALL = (
    "profiles: {models: {gpt-4o: "
    "{max_input_tokens: 8000, input_cost_per_token: 0.001, output_cost_per_token: 0.001}}}\n"
)
GOAL = "Count the stars of every sky and write the sum down."
SUMMARY = "## Intent\nCount stars."

Answer = Callable[[ModelRequest], ModelAnswer]


class Counting(PositionModel):
    """A model that calls ``echo`` so many times, each time with a new text, and answers ``done``.

    Args:
        steps: calls it makes.
        summary: its answer to a summary call.
    """

    def __init__(self, steps: int, summary: ModelAnswer | Answer = SUMMARY) -> None:
        super().__init__(self._next)
        self._steps = steps
        self._summary = summary
        self._made = 0

    def _next(self, request: ModelRequest) -> ModelAnswer:
        if request.purpose == "summary":
            return self._summary(request) if callable(self._summary) else self._summary
        self._made += 1
        if self._made > self._steps:
            self._made = 0
            return "done"
        return calling(call("echo", f"c{len(self.requests)}", text=f"sky {self._made}: " + "star " * 200))

    @property
    def turns(self) -> list[ModelRequest]:
        return [request for request in self.requests if request.purpose == "turn"]

    @property
    def summaries(self) -> list[ModelRequest]:
        return [request for request in self.requests if request.purpose == "summary"]


def config(folder: Path, options: str = "{keep: {messages: 5}}", more: str = "") -> Path:
    return write_agent(folder, f"middlewares: [{more}summarization: {options}]\n{SMALL}")


async def test_the_goal_survives_every_summary_of_a_long_turn_and_every_request_fits(tmp_path: Path) -> None:
    model = Counting(60)
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=model) as agent:
        assert (await agent.run(GOAL)).answer == "done"
    assert len(model.summaries) > 2
    for request in model.turns:
        assert_paired(list(request.messages))
        assert GOAL in str(request.messages[0].content)
        assert request.messages.tokens < 8_000  # type: ignore[attr-defined]


async def test_all_that_left_is_in_the_archive_byte_for_byte(tmp_path: Path) -> None:
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=Counting(60)) as agent:
        session = (await agent.run(GOAL)).session
        history = list(await agent.history(session))
    path = tmp_path / ".zeus" / "conversation_history" / f"{session}.md"
    archived, problems = read_archive(path.read_bytes())
    assert not problems
    assert [each.seq for each in archived] == list(range(1, len(archived) + 1)), "each once, in order"
    assert len(archived) > 80
    for each in archived:
        assert to_payload(each.message) == to_payload(history[each.seq - 1])
    assert path.read_text().count("left the window (summarization)") > 2


async def test_the_summary_message_names_the_archive_and_the_model_can_read_it(tmp_path: Path) -> None:
    class Reading(Counting):
        def _next(self, request: ModelRequest) -> ModelAnswer:
            if request.purpose == "turn" and len(self.turns) == 30:
                path = next(
                    word
                    for word in str(request.messages[0].content).split()
                    if "/conversation_history/" in word
                )
                return calling(call("grep", "g", pattern="sky 3:", path=path.strip(";.,")))
            if request.purpose == "turn" and len(self.turns) == 31:
                return "found" if "sky 3:" in str(request.messages[-1].content) else "lost"
            return super()._next(request)

    model = Reading(60)
    path = config(tmp_path)
    path.write_text(path.read_text().replace("tools: [probe]", "tools: [probe, filesystem]"))
    async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
        assert (await agent.run(GOAL)).answer == "found"


async def test_the_summary_does_not_reach_the_users_stream(tmp_path: Path) -> None:
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=Counting(30)) as agent:
        events = await play(agent, GOAL)
    streamed = "".join(event.text for event in events if event.type == "text")  # type: ignore[union-attr]
    assert streamed == "done"


async def test_its_tokens_and_its_price_count_in_the_runs_totals(tmp_path: Path) -> None:
    def summary(request: ModelRequest) -> Any:
        return AIMessage(SUMMARY)

    class Priced(Counting):
        async def stream(self, request: ModelRequest) -> Any:
            async for piece in super().stream(request):
                usage = Usage(1_000, 10) if request.purpose == "summary" else Usage(1, 0)
                yield ModelResponse(piece.message, usage) if isinstance(piece, ModelResponse) else piece

    model = Priced(30, summary)
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=model) as agent:
        result = await agent.run(GOAL)
    calls = len(model.summaries)
    assert calls > 0
    assert result.prompt_tokens == 1_000 * calls + result.steps
    assert result.cost_usd == pytest.approx(1.01 * calls + 0.001 * result.steps)


async def test_a_failing_summary_model_does_not_end_the_run_and_the_ledger_says_so(tmp_path: Path) -> None:
    model = Counting(40, ModelError("the cloud fell down", kind="bad_request"))
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=model) as agent:
        result = await agent.run(GOAL)
    assert result.answer == "done"
    decisions = [each for step in await steps_of(tmp_path, result.session) for each in step.decisions]
    assert decisions
    assert all("the cloud fell down" in each.reason for each in decisions)
    sent = str([request.messages[0].content for request in model.turns])
    assert "cloud" not in sent
    assert "called echo" in sent


async def test_another_model_writes_the_summary_when_one_is_named(tmp_path: Path) -> None:
    plugin = '''
from langchain_core.messages import AIMessage
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse
from zeus_runtime.plugin.tool import tool

class Scribe:
    name = "gpt-4o-mini"

    async def stream(self, request):
        yield ModelResponse(AIMessage("written by the scribe"))

@tool(access="read")
async def echo(text: str) -> str:
    """Say it back.

    Args:
        text: what to say.
    """
    return text

@hookimpl
def register_models():
    return [Component("scribe", create=lambda options, context: Scribe())]

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [echo])]
'''
    model = Counting(30)
    priced = "{input_cost_per_token: 1000000, output_cost_per_token: 1000000}"
    small = SMALL.replace("}}}\n", f"}}, gpt-4o-mini: {priced}}}}}\n")
    yaml = f"middlewares: [summarization: {{model: {{scribe: {{}}}}}}]\n{small}"
    path = write_agent(tmp_path, yaml, plugin=plugin)
    async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
        cost = (await agent.run(GOAL)).cost_usd
    assert cost is not None
    assert cost > 1_000_000, "it has its own price"
    assert not model.summaries
    assert "written by the scribe" in str(model.turns[-1].messages[0].content)


async def test_a_pinned_rule_survives_summaries_a_compaction_by_hand_and_a_restart(tmp_path: Path) -> None:
    rule = "Rule: never delete anything."
    path = config(tmp_path, more="pins: {patterns: ['^Rule:'], first_user: false}, ")
    async with Agent.from_config(path, directory=tmp_path, model=Counting(0)) as agent:
        session = (await agent.run(rule)).session
    for _ in range(2):
        model = Counting(30)
        async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
            await agent.run(GOAL, session=session)
            await agent.compact(session)
        assert model.summaries
        for request in model.turns:
            assert [message.content for message in request.messages].count(rule) == 1


async def test_a_summary_is_made_within_a_turn_and_not_again_at_every_step(tmp_path: Path) -> None:
    model = Counting(120)
    async with Agent.from_config(config(tmp_path), directory=tmp_path, model=model) as agent:
        await agent.run(GOAL)
    firsts = [str(request.messages[0].content) for request in model.turns]
    moves = sum(one != other for one, other in itertools.pairwise(firsts))
    assert moves == len(model.summaries)
    assert moves < len(firsts) / 5


async def test_what_was_summarized_stays_summarized_after_a_restart(tmp_path: Path) -> None:
    path = config(tmp_path)
    model = Counting(30)
    async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
        session = (await agent.run(GOAL)).session
    before = str(model.turns[-1].messages[0].content)
    again = Counting(0)
    async with Agent.from_config(path, directory=tmp_path, model=again) as agent:
        await agent.run("And now?", session=session)
    assert again.turns[0].messages[0].content == before
    assert not again.summaries


async def test_a_thread_that_goes_on_under_a_smaller_window_is_summarized_before_its_first_call(
    tmp_path: Path,
) -> None:
    path = config(tmp_path)
    async with Agent.from_config(path, directory=tmp_path, model=Counting(14)) as agent:
        session = (await agent.run(GOAL)).session
    path.write_text(path.read_text().replace("max_input_tokens: 8000", "max_input_tokens: 4000"))
    model = Counting(0)
    async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
        await agent.run("Go on.", session=session)
    assert model.requests[0].purpose == "summary"
    assert model.turns[0].messages.tokens < 4_000 * 0.85  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ("{trigger: {tokens: 9000}}", "trigger", "more than the input limit"),
        ("{trigger: {messages: 5}, keep: {messages: 5}}", "trigger", "must be above"),
        ("{trigger: {fraction: 0.1}, keep: {fraction: 0.2}}", "trigger", "must be above"),
        ("{trigger: {tokens: 5000}, keep: {fraction: 0.9}}", "trigger", "must be above"),
        ("{max_trigger_tokens: 500, keep: {tokens: 500}}", "max_trigger_tokens", "are not more than `keep`"),
        ("{trigger: {tokens: 5, messages: 5}}", "trigger", ""),
        ("{trigger: {}}", "trigger", ""),
        ("{keep: {fraction: 1.5}}", "fraction", ""),
        ("{model: {sribe: {}}}", "model", ""),
    ],
)
def test_sizes_that_cannot_work_are_errors_with_their_place(
    tmp_path: Path, options: str, key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent.from_config(config(tmp_path, options), directory=tmp_path)
    assert any(
        key in diagnostic.path and diagnostic.position is not None and words in diagnostic.message
        for diagnostic in caught.value.diagnostics
    ), caught.value.diagnostics


def test_a_fraction_without_a_known_window_is_an_error(tmp_path: Path) -> None:
    path = write_agent(tmp_path, "middlewares: [summarization: {trigger: {fraction: 0.5}}]\n")
    path.write_text(path.read_text().replace("model: gpt-4o", "model: acme/unknown"))
    with pytest.raises(ConfigError) as caught:
        Agent.from_config(path, directory=tmp_path)
    assert "known window" in caught.value.diagnostics[0].message


async def test_two_sessions_at_once_do_not_mix(tmp_path: Path) -> None:
    import asyncio

    model = PositionModel(
        lambda request: (
            str(request.messages[0].content)[:60].replace("\n", " ")
            if request.purpose == "summary"
            else calling(call("echo", f"c{len(model.requests)}", text="star " * 200))
            if len(request.messages) < 40 and "done" not in str(request.messages[-1].content)
            else "done"
        )
    )
    path = write_agent(
        tmp_path,
        f"middlewares: [summarization: {{keep: {{messages: 5}}}}]\nlimits: {{max_steps: 30}}\n{SMALL}",
    )
    async with Agent.from_config(path, directory=tmp_path, model=model) as agent:
        both = await asyncio.gather(events_of(agent.stream("red goal")), events_of(agent.stream("blue goal")))
    assert [events[-1].type for events in both] == ["error", "error"]
    for request in model.requests:
        text = str([message.content for message in request.messages])
        assert ("red goal" in text) != ("blue goal" in text)
