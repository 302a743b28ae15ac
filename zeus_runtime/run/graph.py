"""The LangGraph graph: model, one Send per tool call, and back; its state is a cursor into the thread log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Interrupt, Send

from zeus_runtime.models.content import calls_of
from zeus_runtime.run.run import Run
from zeus_runtime.tools.approval import ApprovalPending

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot as StateSnapshot

    Saver: TypeAlias = BaseCheckpointSaver[Any]
    Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]

PRUNE_EVERY_STEPS = 50
"""How many model calls' checkpoints may pile up within a turn before the older ones go."""


def _furthest(left: int, right: int) -> int:
    return max(left, right)


class State(TypedDict, total=False):
    """All that a checkpoint holds: how far the log is part of this run, whose run it is, and along which line.

    ``branch`` is the number of rollbacks that were made before the run.
    """

    cursor: Annotated[int, _furthest]
    run_id: str
    branch: int


@dataclass(frozen=True)
class RunContext:
    """What the graph's nodes get besides the state: the run they work for."""

    run: Run


class StepFailedError(Exception):
    """What a checkpointer may keep of a failed step: that it failed. A provider's words may hold a key or a prompt.

    Args:
        failure: the error itself, for whoever drives the graph.
    """

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure


@contextmanager
def _unspoken() -> Iterator[None]:
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        raise StepFailedError(error) from error


class Dispatch(TypedDict):
    """What a Send carries: where the call stands in the log's last answer, and where its result goes."""

    answer: int
    index: int
    run_id: str


def build_graph(saver: Saver) -> Graph:
    """The compiled graph; one serves every run of an agent, which comes in as the runtime context."""

    async def model(state: State, runtime: Runtime[RunContext]) -> Command[Any]:
        run = runtime.context.run
        seq = state["cursor"] + 1
        with _unspoken():
            message = await run.answer(seq, state["run_id"])
        if run.steps % PRUNE_EVERY_STEPS == 0:
            await run.prune()
        calls = calls_of(message)
        goto = [
            Send("tool", Dispatch(answer=seq, index=index, run_id=state["run_id"]))
            for index in range(len(calls))
        ]
        return Command(update={"cursor": seq}, goto=goto or END)

    async def tool(state: Dispatch, runtime: Runtime[RunContext]) -> State:
        answer, index = state["answer"], state["index"]
        seq = answer + 1 + index
        run = runtime.context.run
        with _unspoken():
            try:
                await run.result(answer, index, seq, state["run_id"])
            except ApprovalPending as waits:
                # The other calls of the answer finish, and the checkpoint keeps that this one is still to be made.
                run.waiting.extend(waits.pending)
                raise GraphInterrupt([Interrupt([each.id for each in waits.pending])]) from None
        return {"cursor": seq}

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=RunContext)
    graph.add_node("model", model, destinations=("tool", END))
    graph.add_node("tool", tool, input_schema=Dispatch)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return graph.compile(checkpointer=saver)
