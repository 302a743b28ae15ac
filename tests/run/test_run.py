"""Runs through the public door: what comes back, what is stored, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import (
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
from tests.support.databases import storage
from zeus_runtime import Agent
from zeus_runtime.agent.result import FailedRunError
from zeus_runtime.errors import UsageError
from zeus_runtime.events import Notice, RunCompleted, RunFailed, Text, ToolCallResult
from zeus_runtime.plugin.model import ModelError, ModelRequest

TERMINAL = (RunCompleted, RunFailed)

HANGING = """
import asyncio
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def hang() -> str:
    'Never comes back.'
    await asyncio.Event().wait()
    return ""

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [hang])]
"""


HALF = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def half(text: str) -> str:
    'Cuts an emoji.'
    return text + " c\\ud83d"

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [half])]
"""


async def test_an_answer_comes_back_and_is_stored(tmp_path: Path, database_url: str) -> None:
    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=script("Hello.")
    ) as agent:
        result = await agent.run("Hi")
        assert result.answer == "Hello."
        assert result.session.startswith("session_")
        assert len(result.session) == len("session_") + 12
        assert shape(await agent.history(result.session)) == [("human", "Hi"), ("ai", "Hello.")]


async def test_half_an_emoji_in_a_result_is_replaced_and_ends_no_run(
    tmp_path: Path, database_url: str
) -> None:
    cutting = HANGING.replace('return ""', "return '\\ud83d cut'").replace("await asyncio.Event().wait()", "")
    model = script(calling(call("hang", "1")), "done")
    config = write_agent(tmp_path, storage(database_url), plugin=cutting)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
        assert [each.content for each in events if isinstance(each, ToolCallResult)] == ["\ufffd cut"]
        assert isinstance(events[-1], RunCompleted)


async def test_parallel_calls_each_get_their_own_result_in_call_order(
    tmp_path: Path, database_url: str
) -> None:
    calls = [call("echo", f"c{i}", text=str(i)) for i in range(5)]
    model = script(calling(*calls), "done")
    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=model
    ) as agent:
        events = await play(agent, "go")
        ending = events[-1]
        assert isinstance(ending, RunCompleted)
        history = await agent.history(ending.session)
        assert_paired(history)
        assert [str(m.content) for m in history[2:7]] == [f"echo: {i}" for i in range(5)]
        results = {e.call_id: e.content for e in events if isinstance(e, ToolCallResult)}
        assert results == {f"c{i}": f"echo: {i}" for i in range(5)}


@pytest.mark.parametrize(
    "answers",
    [
        ["fine"],
        [calling(call("echo", "a", text="x")), "fine"],
        [calling(call("fail", "a")), "fine"],
        [ModelError("no", kind="bad_request")],
        [RuntimeError("a bug")],
    ],
    ids=["answer", "tool", "failing tool", "failing model", "bug"],
)
async def test_exactly_one_terminal_event_and_it_is_the_last(tmp_path: Path, answers: list[object]) -> None:
    model = script(*answers)  # type: ignore[arg-type]
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    assert [isinstance(event, TERMINAL) for event in events] == [False] * (len(events) - 1) + [True]


async def test_an_unknown_tool_wrong_arguments_and_a_failing_tool_are_results_the_model_can_act_on(
    tmp_path: Path,
) -> None:
    broken = AIMessage(
        "",
        invalid_tool_calls=[
            {
                "name": "echo",
                "args": '{"text": ',
                "id": "d",
                "error": "unexpected end",
                "type": "invalid_tool_call",
            }
        ],
    )
    answer = calling(call("ecko", "a"), call("echo", "b", txt="x"), call("fail", "c"))
    async with Agent.from_config(
        write_agent(tmp_path), directory=tmp_path, model=script(answer, broken, "done")
    ) as agent:
        events = await play(agent, "go")
        assert_paired(await agent.history(events[-1].session))  # type: ignore[union-attr]
    results = {e.call_id: e for e in events if isinstance(e, ToolCallResult)}
    assert all(result.is_error for result in results.values())
    assert "no tool 'ecko'" in results["a"].content
    assert "echo" in results["a"].content
    assert "text" in results["b"].content
    assert "the disk is on fire" in results["c"].content
    assert "unexpected end" in results["d"].content


async def test_halves_of_emojis_stop_neither_a_run_nor_the_log(tmp_path: Path, database_url: str) -> None:
    model = script(calling(call("half", "c1", text="a\ud83d")), "b\ud83d")
    config = write_agent(tmp_path, storage(database_url), plugin=HALF)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        result = await agent.run("Hi")
        history = await agent.history(result.session)
    assert history[1].tool_calls[0]["args"] == {"text": "a\ufffd"}  # type: ignore[attr-defined]
    assert [history[2].content, history[3].content] == ["a\ufffd c\ufffd", "b\ufffd"]
    assert model.requests[1].messages[-1].content == "a\ufffd c\ufffd"


async def test_a_conversation_goes_on_in_its_session(tmp_path: Path, database_url: str) -> None:
    config = write_agent(tmp_path, storage(database_url))
    async with Agent.from_config(config, directory=tmp_path, model=script("one", "two")) as agent:
        first = await agent.run("1")
    model = script("one", "two")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        assert await agent.latest_session() == first.session
        await agent.run("2", session=first.session)
        assert shape(model.requests[0].messages) == [("human", "1"), ("ai", "one"), ("human", "2")]
        with pytest.raises(UsageError, match="no session 'session_nope'"):
            await agent.run("x", session="session_nope")


async def test_what_a_tool_keeps_with_the_thread_survives_turns_and_processes(
    tmp_path: Path, database_url: str
) -> None:
    config = write_agent(tmp_path, storage(database_url))
    answers = (calling(call("keep", "a", value="red")), "ok", calling(call("keep", "b", value="blue")), "ok")
    async with Agent.from_config(config, directory=tmp_path, model=script(*answers)) as agent:
        session = (await agent.run("1")).session
    async with Agent.from_config(config, directory=tmp_path, model=script(*answers)) as agent:
        events = await play(agent, "2", session)
    assert [e.content for e in events if isinstance(e, ToolCallResult)] == ["was red"]


async def test_a_failed_model_call_leaves_a_thread_that_goes_on(tmp_path: Path, database_url: str) -> None:
    failing = [True]

    def answer(_request: ModelRequest) -> str | Exception:
        return ModelError("overloaded", kind="bad_request") if failing[0] else "better"

    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=PositionModel(answer)
    ) as agent:
        with pytest.raises(FailedRunError, match="overloaded") as failure:
            await agent.run("go")
        failing[0] = False
        events = await events_of(agent.resume(failure.value.session))
        assert isinstance(events[-1], RunCompleted)
        assert shape(await agent.history(failure.value.session)) == [("human", "go"), ("ai", "better")]


async def test_a_finished_run_cannot_be_taken_up(tmp_path: Path, database_url: str) -> None:
    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=script("hi")
    ) as agent:
        session = (await agent.run("go")).session
        (ending,) = await events_of(agent.resume(session))
    assert isinstance(ending, RunFailed)
    assert "nothing to resume" in ending.message
    assert ending.exit_code == 2


async def test_cancel_ends_the_run_cleanly_and_the_thread_goes_on(tmp_path: Path, database_url: str) -> None:
    config = write_agent(tmp_path, storage(database_url), plugin=HANGING)
    model = script(calling(call("hang", "a"), call("hang", "b")), "I was interrupted.")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        stream = agent.stream("go")
        seen = []
        async for event in stream:
            seen.append(event)
            if event.type == "tool_call":
                agent.cancel(seen[0].session)  # type: ignore[union-attr]
        ending = seen[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("cancelled", 130)
        events = await play(agent, "what happened?", ending.session)
        assert any(isinstance(e, Notice) and e.code == "calls_closed" for e in events)
        history = await agent.history(ending.session)
        assert_paired(history)
        assert [m.type for m in history] == ["human", "ai", "tool", "tool", "human", "ai"]
        assert "interrupted" in str(history[2].content)


async def test_a_second_cancel_changes_nothing_about_the_ending(tmp_path: Path) -> None:
    config = write_agent(tmp_path, plugin=HANGING)
    async with Agent.from_config(
        config, directory=tmp_path, model=script(calling(call("hang", "a")), "done")
    ) as agent:
        stream = agent.stream("go")
        session = (await anext(stream)).session  # type: ignore[union-attr]

        def cancel_on_and_on() -> None:
            if agent.cancel(session):
                asyncio.get_running_loop().call_soon(cancel_on_and_on)

        async for event in stream:
            if event.type == "tool_call":
                cancel_on_and_on()
            ending = event
        assert isinstance(ending, RunFailed)
        assert ending.code == "cancelled"
        assert isinstance((await play(agent, "again", session))[-1], RunCompleted)


async def test_a_run_cancelled_before_its_first_step_ends_with_its_terminal_event(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    config.write_text(config.read_text().replace("gpt-4o", "nobody/knows-this"))
    async with Agent.from_config(config, directory=tmp_path, model=script("one", "two")) as agent:
        session = (await agent.run("1")).session
        events = []
        async for event in agent.stream("2", session=session):
            events.append(event)
            if isinstance(event, Notice):
                assert agent.cancel(session)
        assert isinstance(events[0], Notice)
        assert isinstance(events[-1], RunFailed)
        assert events[-1].code == "cancelled"
        assert isinstance((await play(agent, "2", session))[-1], RunCompleted)


async def test_closing_the_stream_early_cancels_the_run(tmp_path: Path, database_url: str) -> None:
    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)),
        directory=tmp_path,
        model=script(calling(call("echo", "a", text="x")), "done"),
    ) as agent:
        stream = agent.stream("go")
        session = (await anext(stream)).session  # type: ignore[union-attr]
        await stream.aclose()  # type: ignore[attr-defined]
        assert not agent.cancel(session)
        events = await events_of(agent.resume(session))
        assert isinstance(events[-1], RunCompleted)


async def test_max_steps_ends_the_run_with_its_own_exit_code_and_it_goes_on(
    tmp_path: Path, database_url: str
) -> None:
    config = write_agent(tmp_path, storage(database_url) + "limits: {max_steps: 2}\n")
    model = script(*[calling(call("echo", f"c{i}", text=str(i))) for i in range(3)], "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("limit", 6)
        assert "max_steps = 2" in ending.message
        again = (await events_of(agent.resume(ending.session)))[-1]
        assert isinstance(again, RunCompleted)
        assert_paired(await agent.history(ending.session))


async def test_a_timeout_ends_the_run_with_the_limit_exit_code(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "limits: {timeout_seconds: 0.05}\n")

    class Hanging:
        name = "hanging"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            await asyncio.Event().wait()
            yield None

    async with Agent.from_config(config, directory=tmp_path, model=Hanging()) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.exit_code) == ("limit", 6)
    assert "timeout_seconds" in ending.message


async def test_a_money_limit_counts_by_the_models_price(tmp_path: Path) -> None:
    from zeus_runtime.plugin.model import ModelResponse, Usage

    config = write_agent(tmp_path, "limits: {max_cost_usd: 0.01}\n")

    class Costly:
        name = "gpt-4o"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            step = len(request.messages)
            yield ModelResponse(calling(call("echo", f"c{step}", text="x")), usage=Usage(2_000, 100))

    async with Agent.from_config(config, directory=tmp_path, model=Costly()) as agent:
        price = agent.plan.profile.input_cost_per_token
        assert price is not None
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.exit_code == 6
    assert "max_cost_usd" in ending.message
    per_step = 2_000 * price + 100 * (agent.plan.profile.output_cost_per_token or 0)
    assert ending.details["cost_usd"] == pytest.approx(per_step * ending.details["steps"])
    assert ending.details["cost_usd"] <= 0.01 < ending.details["cost_usd"] + per_step


async def test_two_sessions_at_the_same_time_do_not_mix(tmp_path: Path, database_url: str) -> None:
    def answer(request: ModelRequest) -> str | AIMessage:
        mine = str(request.messages[0].content)
        step = len(request.messages)
        return calling(call("keep", f"{mine}-{step}", value=mine)) if step < 12 else f"end of {mine}"

    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=PositionModel(answer)
    ) as agent:
        results = await asyncio.gather(*(agent.run(name) for name in ("red", "green", "blue")))
        assert [result.answer for result in results] == ["end of red", "end of green", "end of blue"]
        for name, result in zip(("red", "green", "blue"), results, strict=True):
            kept = {str(m.content) for m in (await agent.history(result.session)) if m.type == "tool"}
            assert kept == {"was None", f"was {name}"}


async def test_a_session_runs_one_thing_at_a_time(tmp_path: Path) -> None:
    async with Agent.from_config(
        write_agent(tmp_path), directory=tmp_path, model=script(calling(call("echo", "a", text="x")), "done")
    ) as agent:
        stream = agent.stream("go")
        session = (await anext(stream)).session  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="is running"):
            await agent.run("too", session=session)
        assert isinstance((await events_of(stream))[-1], RunCompleted)


async def test_ask_mode_refuses_a_write_tool_again_at_dispatch(tmp_path: Path) -> None:
    model = script(calling(call("record", "a", text="x"), call("echo", "b", text="y")), "done")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, mode="ask", model=model) as agent:
        events = await play(agent, "go")
    results = {e.call_id: e for e in events if isinstance(e, ToolCallResult)}
    assert results["a"].is_error
    assert "agent mode" in results["a"].content
    assert not results["b"].is_error
    assert not (tmp_path / "effects.txt").exists()
    shown = {schema.name: schema for schema in model.requests[0].tools}
    assert "cannot be called" in shown["record"].description


async def test_a_session_can_be_deleted(tmp_path: Path, database_url: str) -> None:
    async with Agent.from_config(
        write_agent(tmp_path, storage(database_url)), directory=tmp_path, model=script("hi")
    ) as agent:
        session = (await agent.run("go")).session
        await agent.delete_session(session)
        assert await agent.sessions() == []
        with pytest.raises(UsageError):
            await agent.history(session)


async def test_secrets_do_not_leave_in_events(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "metadata: {token: '${SERVICE_TOKEN}'}\n")
    model = script(calling(call("echo", "a", text="sk-verysecret-123456")), "it is sk-verysecret-123456")
    async with Agent.from_config(
        config, directory=tmp_path, model=model, environ={"SERVICE_TOKEN": "sk-verysecret-123456"}
    ) as agent:
        events = await play(agent, "go")
    assert any(isinstance(event, Text) for event in events)
    assert "sk-verysecret" not in repr(events)


def test_an_agent_can_be_used_by_one_event_loop_after_another(tmp_path: Path) -> None:
    agent = Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=script("one", "two"))
    first = asyncio.run(agent.run("1"))
    second = asyncio.run(agent.run("2", session=first.session))
    assert (first.answer, second.answer) == ("one", "two")
    asyncio.run(agent.aclose())


async def test_what_parallel_calls_keep_is_the_last_calls_whoever_finished_last(tmp_path: Path) -> None:
    plugin = """
import asyncio
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import ToolResult, tool

def make(options, context):
    second = asyncio.Event()

    @tool(access="read")
    async def keep(run, value: str) -> ToolResult:
        'Keeps a value; the first call waits for the second.'
        if value == "first":
            await second.wait()
        if value == "second":
            second.set()
        return ToolResult(f"was {run.state('kept')}", state={"kept": value})

    return [keep]

@hookimpl
def register_tools():
    return [Component("probe", create=make)]
"""
    both = calling(call("keep", "a", value="first"), call("keep", "b", value="second"))
    config = write_agent(tmp_path, plugin=plugin)
    model = script(both, calling(call("keep", "c", value="third")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    results = {event.call_id: event.content for event in events if isinstance(event, ToolCallResult)}
    assert results["c"] == "was second"


async def test_the_database_is_its_owners_alone(tmp_path: Path) -> None:
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=script("hi")) as agent:
        await agent.run("go")
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / ".zeus").glob("zeus.db*")}
    assert "zeus.db" in modes
    assert set(modes.values()) == {0o600}


async def test_the_digest_changes_with_what_decides_the_run(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    sets = ([], ["limits.max_steps=7"], ["workspace.routes./notes/=notes"], ["prompt.time.precision=none"])
    digests = [Agent.from_config(config, directory=tmp_path, sets=each).plan.digest for each in sets]
    assert len(set(digests)) == len(sets)
    assert Agent.from_config(config, directory=tmp_path).plan.digest == digests[0]


async def test_what_a_summary_took_out_is_in_the_archive(tmp_path: Path, database_url: str) -> None:
    from zeus_runtime.context.archive import read_archive

    def answer(request: ModelRequest) -> str | AIMessage:
        if request.purpose == "summary":
            return "## Intent\nGo on."
        step = len(seen)
        seen.append(request)
        return "done" if step == 12 else calling(call("echo", f"c{step}", text="star " * 300))

    seen: list[ModelRequest] = []
    small = "profiles: {models: {gpt-4o: {max_input_tokens: 4000}}}\n"
    policy = "middlewares: [summarization: {keep: {messages: 3}}]\n"
    config = write_agent(tmp_path, storage(database_url) + small + policy)
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        session = (await agent.run("go")).session
        history = await agent.history(session)
        compaction = await agent.compact(session)
    assert len(history) == 26
    assert compaction.tokens_after <= compaction.tokens_before
    (file,) = (tmp_path / ".zeus" / "conversation_history").iterdir()
    archived, problems = read_archive(file.read_bytes())
    assert not problems
    assert len(archived) > 3
    assert all(shape([each.message]) == shape([history[each.seq - 1]]) for each in archived)
