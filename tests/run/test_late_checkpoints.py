"""A process that lost its session and wakes up late may leave a checkpoint; nobody takes it up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import uuid6
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Interrupt, Send

from tests.sessions.test_lifecycle import agent_in
from tests.support.agents import Answer, PositionModel, call, calling, events_of, play, shape
from zeus_runtime import Agent, Decision
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.models.content import calls_of
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.run import graph
from zeus_runtime.run.graph import GraphContext, State
from zeus_runtime.tools.approval import ApprovalPending


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Late:
    """What a stopped process had in hand: the newest checkpoint of a session, written again when it wakes."""

    def __init__(self, agent: Agent, session: str) -> None:
        self._agent = agent
        self._config: RunnableConfig = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}

    async def take(self) -> None:
        saver = (await self._agent._open()).saver
        found = await saver.aget_tuple(self._config)
        assert found is not None
        self._kept = found

    async def write(self) -> None:
        saver = (await self._agent._open()).saver
        newer = {**self._kept.checkpoint, "id": str(uuid6())}
        await saver.aput(
            self._config,
            newer,  # type: ignore[arg-type]
            self._kept.metadata,
            self._kept.checkpoint["channel_versions"],
        )


def model() -> PositionModel:
    """It calls a tool, then answers."""

    def answer(request: ModelRequest) -> Answer:
        if len(request.messages) == 1:
            return calling(call("record", "r1", text="x"))
        return "fine"

    return PositionModel(answer)


async def waiting(agent: Agent) -> str:
    ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "approval_needed"
    return ending.session


APPROVE = "middlewares: [approve]\n"


async def test_a_call_that_the_conversation_went_on_without_is_not_made(
    tmp_path: Path, database_url: str
) -> None:
    async with agent_in(tmp_path, database_url, model(), APPROVE) as agent:
        session = await waiting(agent)
        late = Late(agent, session)
        await late.take()
        assert isinstance((await play(agent, "more", session))[-1], RunCompleted)
        before = shape(await agent.history(session))
        await late.write()
        ending = (await events_of(agent.resume(session)))[-1]
        assert isinstance(ending, RunFailed)
        assert "nothing to resume" in ending.message
        assert shape(await agent.history(session)) == before
        assert isinstance((await play(agent, "again", session))[-1], RunCompleted)
    assert not (tmp_path / "effects.txt").exists()


async def test_nor_after_the_session_was_put_away_and_brought_back(tmp_path: Path, database_url: str) -> None:
    async with agent_in(tmp_path, database_url, model(), APPROVE) as agent:
        session = await waiting(agent)
        late = Late(agent, session)
        await late.take()
        assert isinstance((await play(agent, "more", session))[-1], RunCompleted)
        await agent.archive(session)
        await late.write()
        await agent.restore(session)
        ending = (await events_of(agent.resume(session)))[-1]
        assert isinstance(ending, RunFailed)
        assert "nothing to resume" in ending.message
    assert not (tmp_path / "effects.txt").exists()


async def test_a_run_that_waits_is_still_taken_up(tmp_path: Path, database_url: str) -> None:
    async with agent_in(tmp_path, database_url, model(), APPROVE) as agent:
        session = await waiting(agent)
        late = Late(agent, session)
        await late.take()
        await late.write()
        (pending,) = await agent.pending_approvals(session)
        await agent.decide(session, {pending.id: Decision("approve")})
        ending = (await events_of(agent.resume(session)))[-1]
        assert isinstance(ending, RunCompleted), ending
    assert (tmp_path / "effects.txt").read_text() == "x\n"


class OldDispatch(TypedDict):
    answer: int
    index: int
    run_id: str


def graph_of_former_versions(saver: Any) -> Any:
    """The graph that had a node for the calls, and a Send for each."""

    async def model(state: State, runtime: Runtime[GraphContext]) -> Command[Any]:
        seq = state["cursor"] + 1
        calls = calls_of(await runtime.context.run.answer(seq, state["run_id"]))
        sends = [
            Send("tool", OldDispatch(answer=seq, index=index, run_id=state["run_id"]))
            for index in range(len(calls))
        ]
        return Command(update={"cursor": seq}, goto=sends or END)

    async def tool(state: OldDispatch, runtime: Runtime[GraphContext]) -> dict[str, int]:
        seq = state["answer"] + 1 + state["index"]
        try:
            await runtime.context.run.result(state["answer"], state["index"], seq, state["run_id"])
        except ApprovalPending as waits:
            runtime.context.run.waiting.extend(waits.pending)
            raise GraphInterrupt([Interrupt("waits")]) from None
        return {"cursor": seq}

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=GraphContext)
    graph.add_node("model", model, destinations=("tool", END))
    graph.add_node("tool", tool, input_schema=OldDispatch)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return graph.compile(checkpointer=saver)


async def test_a_run_that_a_former_version_left_waiting_is_resumed(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: ModelRequest) -> Answer:
        if any(message.type == "tool" for message in request.messages):
            return "fine"
        return calling(call("echo", "e1", text="x"), call("record", "r1", text="x"))

    with monkeypatch.context() as former:
        former.setattr(graph, "build_graph", graph_of_former_versions)
        async with agent_in(tmp_path, database_url, PositionModel(answer), APPROVE) as agent:
            session = await waiting(agent)
    async with agent_in(tmp_path, database_url, PositionModel(answer), APPROVE) as agent:
        (pending,) = await agent.pending_approvals(session)
        await agent.decide(session, {pending.id: Decision("approve")})
        events = await events_of(agent.resume(session))
        assert isinstance(events[-1], RunCompleted)
        assert [text for _, text in shape(await agent.history(session))] == [
            *("go", "", "echo: x", "recorded: x", "fine")
        ]
    assert (tmp_path / "effects.txt").read_text() == "x\n"
