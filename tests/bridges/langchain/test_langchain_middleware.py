"""LangChain middlewares run as Zeus middlewares in a real run, or are refused when they are made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import AgentState
from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from tests.support.agents import TOOLS, PositionModel, call, calling, play, script, write_agent
from zeus_runtime import Agent, ConfigError, from_langchain_middleware
from zeus_runtime.bridges.langchain import UnsupportedError
from zeus_runtime.events import Event, RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.plugin.model import ModelError

HOLDER = (
    TOOLS
    + """
from zeus_runtime import from_langchain_middleware
from tests.bridges.langchain import test_langchain_middleware as holder

@hookimpl
def register_middlewares():
    kind = type(holder.make())
    create = from_langchain_middleware(kind, lambda options, context: holder.make(), **holder.options)
    return [Component("bridged", create=create)]
"""
)
NO_CONTEXT: Any = None
make: Callable[[], Any]
say: Callable[[], Any]
options: dict[str, Any] = {}


async def played(
    folder: Path, given: Callable[[], Any], model: PositionModel, *, times: int = 1, **how: Any
) -> list[Event]:
    """The last of so many runs in one session with a bridged middleware."""
    global make, options
    make, options = given, how
    config = write_agent(folder, "middlewares: [bridged]\nretry: {attempts: 1}\n", plugin=HOLDER)
    events: list[Event] = []
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        session: str | None = None
        for _ in range(times):
            events = await play(agent, "hello", session)
            session = events[-1].session  # type: ignore[attr-defined]
    return events


def answer_of(events: list[Event]) -> str:
    assert isinstance(events[-1], RunCompleted), events[-1]
    return events[-1].answer


def results_of(events: list[Event]) -> list[tuple[str, bool]]:
    return [(each.content, each.is_error) for each in events if isinstance(each, ToolCallResult)]


@pytest.fixture(autouse=True)
def _found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(
        sys.modules, "tests.bridges.langchain.test_langchain_middleware", sys.modules[__name__]
    )


async def test_wrap_model_call_changes_the_prompt_the_tools_and_the_settings(tmp_path: Path) -> None:
    class Narrow(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            assert isinstance(request.system_message, SystemMessage)
            return await handler(
                request.override(
                    system_message=SystemMessage(request.system_prompt + "\nBe brief."),
                    tools=[each for each in request.tools if each.name == "echo"],
                    model_settings={"temperature": 0.5},
                    tool_choice="auto",
                )
            )

    model = script("fine")
    assert answer_of(await played(tmp_path, Narrow, model)) == "fine"
    (request,) = model.requests
    assert request.system.endswith("\nBe brief.")
    assert 0 < request.stable_system_length < len(request.system)
    assert [each.name for each in request.tools] == ["echo"]
    assert request.tools[0].parameters["required"] == ["text"]
    assert request.settings == {"temperature": 0.5, "tool_choice": "auto"}


async def test_a_changed_beginning_of_the_prompt_is_not_called_stable(tmp_path: Path) -> None:
    def given() -> Any:
        @dynamic_prompt
        def other(request: ModelRequest) -> str:
            return "You are somebody else."

        return other

    model = script("fine")
    await played(tmp_path, given, model)
    assert model.requests[0].system == "You are somebody else."
    assert model.requests[0].stable_system_length == 0


async def test_a_synchronous_middleware_runs_in_a_thread_and_may_ask_twice(tmp_path: Path) -> None:
    def given() -> Any:
        @wrap_model_call
        def again(request: ModelRequest, handler: Any) -> Any:
            handler(request)
            return handler(request)

        return again

    model = script("fine")
    events = await played(tmp_path, given, model)
    assert answer_of(events) == "fine"
    assert len(model.requests) == 2


async def test_the_answer_can_be_replaced_and_keeps_its_usage(tmp_path: Path) -> None:
    class Loud(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            response = await handler(request)
            return AIMessage(response.result[0].content.upper())

    assert answer_of(await played(tmp_path, Loud, script("fine"))) == "FINE"


async def test_an_answer_without_the_model_is_the_answer(tmp_path: Path) -> None:
    class Cached(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return ModelResponse(result=[AIMessage("from the cache")])

    model = script("fine")
    assert answer_of(await played(tmp_path, Cached, model)) == "from the cache"
    assert model.requests == []


async def test_langchain_s_model_retry_retries(tmp_path: Path) -> None:
    tries: list[int] = []

    def answer(request: Any) -> Any:
        tries.append(1)
        return ModelError("busy", kind="server") if len(tries) < 3 else "at last"

    def given() -> Any:
        return ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False, backoff_factor=0)

    assert answer_of(await played(tmp_path, given, PositionModel(answer))) == "at last"
    assert len(tries) == 3


async def test_langchain_s_tool_retry_retries_where_failures_are_raised(tmp_path: Path) -> None:
    failing = TOOLS.replace('raise RuntimeError("the disk is on fire")', "return again()") + (
        "\ntimes = []\n\ndef again():\n    times.append(1)\n"
        '    if len(times) < 3:\n        raise RuntimeError("not yet")\n    return f"after {len(times)}"\n'
    )

    def given() -> Any:
        return ToolRetryMiddleware(max_retries=5, initial_delay=0, jitter=False, backoff_factor=0)

    global make, options
    make, options = given, {"tool_errors": "raise"}
    plugin = HOLDER.replace(TOOLS, failing)
    config = write_agent(tmp_path, "middlewares: [bridged]\n", plugin=plugin)
    model = script(calling(call("fail", "c1")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    assert results_of(events) == [("after 3", False)]


async def test_a_failure_that_is_raised_and_not_caught_stays_the_tool_s_result(tmp_path: Path) -> None:
    class Through(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    model = script(calling(call("fail", "c1")), "done")
    events = await played(tmp_path, Through, model, tool_errors="raise")
    assert results_of(events) == [("fail failed: RuntimeError: the disk is on fire", True)]


async def test_wrap_tool_call_sees_the_call_and_the_conversation_and_changes_both_ends(
    tmp_path: Path,
) -> None:
    seen: list[Any] = []

    def given() -> Any:
        @wrap_tool_call
        def shout(request: Any, handler: Any) -> Any:
            seen.append((request.tool_call["id"], [each.type for each in request.state["messages"]]))
            args = {"text": request.tool_call["args"]["text"] + "!"}
            answer = handler(request.override(tool_call={**request.tool_call, "args": args}))
            return answer.model_copy(update={"content": answer.content.upper()})

        return shout

    model = script(calling(call("echo", "c1", text="hey")), "done")
    events = await played(tmp_path, given, model)
    assert results_of(events) == [("ECHO: HEY!", False)]
    assert seen == [("c1", ["human", "ai"])]


@pytest.mark.parametrize("copies", [False, True])
async def test_a_changed_result_keeps_what_the_tool_keeps_with_the_thread(
    tmp_path: Path, *, copies: bool
) -> None:
    class Stamp(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            answer = await handler(request)
            if copies:
                return answer.model_copy(update={"content": answer.content + ", stamped"})
            answer.content += ", stamped"
            return answer

    model = script(calling(call("keep", "c1", value="a")), calling(call("keep", "c2", value="b")), "done")
    events = await played(tmp_path, Stamp, model)
    assert results_of(events) == [("was None, stamped", False), ("was a, stamped", False)]


async def test_what_a_tool_keeps_with_the_thread_passes_through(tmp_path: Path) -> None:
    class Through(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    model = script(calling(call("keep", "c1", value="a")), calling(call("keep", "c2", value="b")), "done")
    events = await played(tmp_path, Through, model)
    assert results_of(events) == [("was None", False), ("was a", False)]


async def test_a_tool_call_answered_without_the_tool_does_not_run_it(tmp_path: Path) -> None:
    class Deny(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return ToolMessage("not today", tool_call_id=request.tool_call["id"], status="error")

    model = script(calling(call("record", "c1", text="x")), "done")
    events = await played(tmp_path, Deny, model)
    assert results_of(events) == [("not today", True)]
    assert not (tmp_path / "effects.txt").exists()


async def test_before_model_changes_the_request_and_not_the_history(tmp_path: Path) -> None:
    def given() -> Any:
        @before_model
        def remind(state: AgentState, runtime: Any) -> dict[str, Any]:
            return {"messages": [HumanMessage("Remember: be kind.")]}

        return remind

    model = script("one", "two")
    await played(tmp_path, given, model, times=2)
    assert [str(each.content) for each in model.requests[0].messages] == ["hello", "Remember: be kind."]
    assert [str(each.content) for each in model.requests[1].messages] == [
        "hello",
        "one",
        "hello",
        "Remember: be kind.",
    ]


async def test_before_model_removes_a_message_by_its_id(tmp_path: Path) -> None:
    def given() -> Any:
        @before_model
        async def forget(state: AgentState, runtime: Any) -> dict[str, Any] | None:
            messages = state["messages"]
            return (
                {"messages": [RemoveMessage(id=each.id) for each in messages[:-1]]} if messages[1:] else None
            )

        return forget

    model = script("one", "two", "three")
    make_answer = PositionModel(lambda request: "one")
    await played(tmp_path, given, make_answer, times=2)
    assert [len(each.messages) for each in make_answer.requests] == [1, 1]
    assert model.requests == []


async def test_before_model_jumps_to_the_end_with_its_answer(tmp_path: Path) -> None:
    def given() -> Any:
        @before_model(can_jump_to=["end"])
        def stop(state: AgentState, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("I do not answer that.")], "jump_to": "end"}

        return stop

    model = script("fine")
    assert answer_of(await played(tmp_path, given, model)) == "I do not answer that."
    assert model.requests == []


async def test_a_jump_to_the_end_without_an_answer_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    def given() -> Any:
        @before_model(can_jump_to=["end"])
        def stop(state: AgentState, runtime: Any) -> dict[str, Any]:
            return {"jump_to": "end"}

        return stop

    events = await played(tmp_path, given, script("fine"))
    assert isinstance(events[-1], RunFailed)
    assert "without an answer" in events[-1].message


async def test_after_model_replaces_the_answer(tmp_path: Path) -> None:
    def given() -> Any:
        @after_model
        def polite(state: AgentState, runtime: Any) -> dict[str, Any]:
            last = state["messages"][-1]
            return {"messages": [last.model_copy(update={"content": f"{last.content}, please"})]}

        return polite

    assert answer_of(await played(tmp_path, given, script("wait"))) == "wait, please"


async def test_after_model_may_not_add_messages(tmp_path: Path) -> None:
    def given() -> Any:
        @after_model
        def more(state: AgentState, runtime: Any) -> dict[str, Any]:
            return {"messages": [HumanMessage("and now?")]}

        return more

    events = await played(tmp_path, given, script("wait"))
    assert isinstance(events[-1], RunFailed)
    assert "added or removed messages" in events[-1].message


async def test_langchain_s_redaction_of_what_the_user_says(tmp_path: Path) -> None:
    model = script("Noted.")

    def given() -> Any:
        @before_model
        def say(state: AgentState, runtime: Any) -> dict[str, Any]:
            return {"messages": [HumanMessage("I am ann@example.com")]}

        return say

    def redacting() -> Any:
        return PIIMiddleware("email", strategy="redact")

    plugin = HOLDER + (
        "\n@hookimpl(specname='register_middlewares')\n"
        "def more():\n    kind = type(holder.say())\n"
        "    create = from_langchain_middleware(kind, lambda options, context: holder.say())\n"
        "    return [Component('saying', create=create)]\n"
    )
    global make, options, say
    make, options, say = redacting, {}, given
    config = write_agent(tmp_path, "middlewares: [saying, bridged]\n", plugin=plugin)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        assert isinstance((await play(agent, "hello"))[-1], RunCompleted)
    assert str(model.requests[0].messages[-1].content) == "I am [REDACTED_EMAIL]"


async def test_its_tools_are_offered_with_their_access_class(tmp_path: Path) -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    class Pinging(AgentMiddleware):
        tools = (ping,)

    model = script(calling(call("ping", "c1")), "done")
    events = await played(tmp_path, Pinging, model, tool_access={"ping": "read"})
    assert results_of(events) == [("pong", False)]
    for access, expected in (("read", "read"), ({}, "write")):
        (offered,) = from_langchain_middleware(Pinging, tool_access=access).tools(None, NO_CONTEXT)
        assert offered.access == expected


async def test_its_tools_share_the_state_of_the_run_s_own_instance(tmp_path: Path) -> None:
    class Counting(AgentMiddleware):
        def __init__(self) -> None:
            self.asked = 0

            @tool
            def asked() -> str:
                """How often the model was asked."""
                return str(self.asked)

            self.tools = [asked]

        def before_model(self, state: Any, runtime: Any) -> None:
            self.asked += 1

    events = await played(
        tmp_path, Counting, script(calling(call("asked", "c1")), "done"), tool_access="read"
    )
    assert results_of(events) == [("1", False)]


@pytest.mark.parametrize(
    ("given", "is_refused"), [(ModelRetryMiddleware, False), (ToolRetryMiddleware, True)]
)
def test_only_one_that_wraps_tool_calls_is_refused_below_approvals(
    tmp_path: Path, given: Callable[[], Any], is_refused: bool
) -> None:
    global make, options
    make, options = given, {}
    config = write_agent(tmp_path, "middlewares: [approve, bridged]\n", plugin=HOLDER)
    if is_refused:
        with pytest.raises(ConfigError, match="changed-after-asking"):
            Agent.from_config(config, directory=tmp_path)
    else:
        assert Agent.from_config(config, directory=tmp_path).plan


@pytest.mark.parametrize("slow", [False, True])
async def test_a_cancelled_run_stops_the_call_of_a_synchronous_middleware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, slow: bool
) -> None:
    asked, stopped, ended = asyncio.Event(), asyncio.Event(), threading.Event()
    begin = asyncio.run_coroutine_threadsafe

    def beginning(work: Any, loop: asyncio.AbstractEventLoop) -> Any:
        begun = begin(work, loop)
        if slow:  # the thread stands still where the call is under way and not noted yet
            ended.wait()
        return begun

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", beginning)

    class Hanging:
        name = "hanging"

        async def stream(self, request: Any) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
                yield
            finally:
                stopped.set()

    def given() -> Any:
        @wrap_model_call
        def through(request: ModelRequest, handler: Any) -> Any:
            return handler(request)

        return through

    global make, options
    make, options = given, {}
    config = write_agent(tmp_path, "middlewares: [bridged]\n", plugin=HOLDER)
    async with Agent.from_config(config, directory=tmp_path, model=Hanging()) as agent:
        running = asyncio.create_task(play(agent, "go"))
        await asyncio.wait(
            [asyncio.ensure_future(asked.wait()), running], return_when=asyncio.FIRST_COMPLETED
        )
        assert not running.done(), running.result()
        agent.cancel((await agent.sessions())[0].session)
        events = await running
        ended.set()
        await asyncio.wait_for(stopped.wait(), 30)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].code == "cancelled"


class WithState(AgentMiddleware):
    class State(AgentState):
        count: int

    state_schema = State

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class JumpsBack(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> None:
        return None


class Streams(AgentMiddleware):
    transformers = (lambda scope: None,)

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


FAKE = FakeListChatModel(responses=["x"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (WithState, "state of its own \\(count\\)"),
        (JumpsBack, "after_model may jump to model"),
        (Streams, "stream transformers"),
        (AgentMiddleware, "none of wrap_model_call"),
        (lambda: before_agent(lambda state, runtime: None), "has before_agent"),
        (lambda: after_agent(lambda state, runtime: None), "has after_agent"),
        (lambda: SummarizationMiddleware(model=FAKE), "(?s)append-only.*summarization"),
        (lambda: HumanInTheLoopMiddleware(interrupt_on={"x": True}), "HumanInTheLoopMiddleware"),
        (lambda: ModelCallLimitMiddleware(run_limit=2), "(?s)state of its own.*limits.max_steps"),
        (lambda: FilesystemFileSearchMiddleware(root_path="/"), "(?s)past `workspace.access`.*filesystem"),
        (TodoListMiddleware, "(?s)state of its own.*todos"),
    ],
)
def test_what_cannot_be_honoured_is_refused_when_it_is_made(given: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnsupportedError, match=said) as refused:
        from_langchain_middleware(type(given()), lambda options, context: given()).tools(None, NO_CONTEXT)
    assert refused.value.exit_code == 3
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda request: request.override(model=FAKE), "asks another model"),
        (lambda request: request.override(response_format=dict), "structured response"),
        (
            lambda request: request.override(tools=[{"type": "function", "function": {"name": "x"}}]),
            "adds the tool 'x'",
        ),
    ],
)
async def test_what_shows_only_in_a_request_ends_the_run_with_its_reason(
    tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    class Changes(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return await handler(change(request))

    events = await played(tmp_path, Changes, script("fine"))
    assert isinstance(events[-1], RunFailed)
    assert said in events[-1].message
    assert events[-1].exit_code == 3


async def test_a_command_beside_the_answer_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    class Commands(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return ExtendedModelResponse(await handler(request), command=Command(update={"x": 1}))

    events = await played(tmp_path, Commands, script("fine"))
    assert isinstance(events[-1], RunFailed)
    assert "LangGraph Command" in events[-1].message


async def test_cache_points_stand_only_where_the_messages_are_the_same(tmp_path: Path) -> None:
    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.models import ModelRequest as Request
    from zeus_runtime.models import ModelResponse as Response
    from zeus_runtime.plugin.model import CachePoints

    class Trim(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return await handler(request.override(messages=request.messages[1:]))

    sent: list[Request] = []

    async def model(request: Request) -> Response:
        sent.append(request)
        return Response(AIMessage("fine"))

    bridged: Middleware = from_langchain_middleware(Trim)(None, NO_CONTEXT)
    messages = [HumanMessage("a"), HumanMessage("b")]
    request = Request("system", messages, cache_points=CachePoints(system=True, messages=(0, 1)))
    await bridged.wrap_model_call(request, model)
    assert sent[0].cache_points == replace(request.cache_points, messages=())  # type: ignore[type-var]
