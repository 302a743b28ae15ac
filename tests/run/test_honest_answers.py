"""An answer that is none ends the run with a sentence; what was said stays, and the session goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, play, script, shape, write_agent
from zeus_runtime import Agent
from zeus_runtime.cli.views import JsonView
from zeus_runtime.events import Notice, RunCompleted, RunFailed, Text, ToolCallResult, ToolCallStarted
from zeus_runtime.models.error_classification import classify
from zeus_runtime.plugin.model import ModelRequest, ModelResponse, Usage
from zeus_runtime.testing import ScriptedModel


def ended(message: AIMessage | str, reason: str, usage: Usage | None = None) -> ModelResponse:
    """An answer that ended for ``reason``."""
    return ModelResponse(AIMessage(message) if isinstance(message, str) else message, usage, reason)


@pytest.mark.parametrize("text", ["", "  \n"])
@pytest.mark.parametrize("after_tools", [False, True])
async def test_an_empty_answer_fails_the_run_and_is_asked_again(
    tmp_path: Path, text: str, *, after_tools: bool
) -> None:
    config = write_agent(tmp_path)
    tools = [calling(call("echo", "a", text="x"))] if after_tools else []
    async with Agent.from_config(config, directory=tmp_path, model=ScriptedModel([*tools, text])) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.exit_code) == ("answer_empty", 1)
    assert "neither text nor a tool call" in ending.message
    assert "--continue" in ending.message
    model = script(*tools, "here it is") if after_tools else script("here it is")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        again = (await play(agent, None, ending.session))[-1]  # type: ignore[arg-type]
        assert isinstance(again, RunCompleted), again
        assert again.answer == "here it is"
        history = await agent.history(ending.session)
    assert "" not in [text for kind, text in shape(history) if kind == "ai" and not after_tools]
    assert_paired(history)


async def test_an_empty_answer_goes_into_the_ledger_with_its_cost(tmp_path: Path) -> None:
    model = ScriptedModel([ended("", "stop", Usage(1_000, 3))], name="gpt-4o")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.details["steps"] == 1
    assert ending.details["prompt_tokens"] == 1_000
    assert ending.details["cost_usd"] > 0


async def test_an_output_limit_that_left_no_answer_says_so(tmp_path: Path) -> None:
    model = ScriptedModel([ended("", "length")])
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "answer_empty"
    assert "output limit" in ending.message
    assert "max_tokens" in ending.message


async def test_what_a_provider_said_is_whole_in_the_details_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "word " * 1_000 + "end"

    def refuse(_request: ModelRequest) -> str:
        raise classify(body, status=400)

    config = write_agent(tmp_path)
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(refuse)) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert body not in ending.message
    assert ending.details["provider_message"] == body
    JsonView().show(ending)
    assert json.loads(capsys.readouterr().out)["error"]["provider_message"] == body


async def test_a_filtered_answer_fails_the_run_and_keeps_its_text(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    model = ScriptedModel([ended("The first half", "content_filter"), "fine"])
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
        ending = events[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("answer_filtered", 1)
        assert "content filter" in ending.message
        assert ending.details["partial_answer"] == "The first half"
        assert "".join(event.text for event in events if isinstance(event, Text)) == "The first half"
        assert shape(await agent.history(ending.session)) == [("human", "go"), ("ai", "The first half")]
        again = (await play(agent, "and now", ending.session))[-1]
    assert isinstance(again, RunCompleted)
    assert again.answer == "fine"


async def test_taking_up_a_filtered_answer_says_again_that_it_was_filtered_and_pays_nothing(
    tmp_path: Path,
) -> None:
    config = write_agent(tmp_path)
    async with Agent.from_config(
        config, directory=tmp_path, model=ScriptedModel([ended("half", "content_filter")])
    ) as agent:
        session = (await play(agent, "go"))[-1].session  # type: ignore[union-attr]
    unused = ScriptedModel([])
    async with Agent.from_config(config, directory=tmp_path, model=unused) as agent:
        ending = (await play(agent, None, session))[-1]  # type: ignore[arg-type]
    assert isinstance(ending, RunFailed)
    assert ending.code == "answer_filtered"
    assert unused.requests == []


async def test_a_filtered_answer_without_text_is_asked_again(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    model = ScriptedModel([ended("", "content_filter"), "fine"])
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        assert isinstance(ending, RunFailed)
        assert ending.code == "answer_filtered"
        assert shape(await agent.history(ending.session)) == [("human", "go")]
        again = (await play(agent, None, ending.session))[-1]  # type: ignore[arg-type]
    assert isinstance(again, RunCompleted)


async def test_no_call_of_a_filtered_answer_is_run(tmp_path: Path) -> None:
    half = calling(call("record", "a", text="effect"), text="I will")
    model = ScriptedModel([ended(half, "content_filter"), "fine"])
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
        ending = events[-1]
        await play(agent, "and now", ending.session)  # type: ignore[union-attr]
        history = await agent.history(ending.session)  # type: ignore[union-attr]
    assert not any(isinstance(event, ToolCallStarted) for event in events)
    assert not (tmp_path / "effects.txt").exists()
    assert_paired(history)
    assert history[1].additional_kwargs["calls_not_run"][0]["args"] == {"text": "effect"}


async def test_an_answer_that_was_cut_completes_and_says_so(tmp_path: Path) -> None:
    model = ScriptedModel([ended("The first half", "length")])
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    ending = events[-1]
    assert isinstance(ending, RunCompleted)
    assert (ending.answer, ending.finish_reason) == ("The first half", "length")
    assert [event.code for event in events if isinstance(event, Notice)] == ["usage_unknown", "answer_cut"]


async def test_a_whole_answer_ended_with_stop(tmp_path: Path) -> None:
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=script("fine")) as agent:
        assert (await agent.run("go")).finish_reason == "stop"


@pytest.mark.parametrize(
    ("name", "arguments", "problem", "told"),
    [
        (None, "{}", "the call names no tool", "it names no tool. The tools are: echo"),
        ("", "{}", "the call names no tool", "it names no tool. The tools are: echo"),
        (
            "echo",
            "[1]",
            "the arguments must be a JSON object, not an array",
            "not an array. Call the tool again",
        ),
        (
            "echo",
            '{"text"',
            "the answer reached its output limit within the arguments of this call",
            "Write less",
        ),
    ],
)
async def test_a_malformed_call_is_told_to_the_model_with_what_is_wrong(
    tmp_path: Path, name: str | None, arguments: str, problem: str, told: str
) -> None:
    bad = {"name": name, "args": arguments, "id": "a", "error": problem, "type": "invalid_tool_call"}
    answer = AIMessage("", invalid_tool_calls=[bad])  # type: ignore[list-item]
    async with Agent.from_config(
        write_agent(tmp_path), directory=tmp_path, model=script(answer, "done")
    ) as agent:
        events = await play(agent, "go")
        assert_paired(await agent.history(events[-1].session))  # type: ignore[union-attr]
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    assert result.is_error
    assert told in result.content
    assert started.tool_name == result.tool_name == (name or "")
    assert isinstance(events[-1], RunCompleted)


@pytest.mark.parametrize("name", ["x y", "a\x1b[31m\u202eb", "n" * 10_000])
async def test_an_odd_tool_name_is_shown_the_model_as_data_and_cut(tmp_path: Path, name: str) -> None:
    model = script(calling(call(name, "a")), "done")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert result.content.startswith("There is no tool '")
    assert "\x1b" not in result.content
    assert "\u202e" not in result.content
    assert len(result.content) < 300


async def test_a_sub_agents_empty_answer_is_an_error_result(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str | AIMessage:
        if not any("delegate" in schema.name or schema.name == "task" for schema in request.tools):
            return ""
        done = any(message.type == "tool" for message in request.messages)
        return (
            "done" if done else calling(call("task", "t", agent="helper", prompt="do it", description="work"))
        )

    config = write_agent(
        tmp_path,
        "agents: {helper: {description: helps, overrides: {tools: [probe]}}}\n",
        tools="[subagents, probe]",
    )
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        events = await play(agent, "go")
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert result.is_error
    assert "answer_empty" in result.content
