"""The LangGraph graph: model, one Send per tool call, and back; its state is a cursor into the session's log."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypedDict

# Before the first import of LangGraph, which reads it then: a checkpoint may only contain known types, so that a
# database that was tampered with cannot execute code.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from zeus_runtime.lazy import postponed

# LangGraph imports the client of its own platform, and LangSmith 150 types of its API. No run uses either: 0.15 s.
with (
    postponed("langgraph_sdk"),
    postponed("langsmith._internal._v2_migration_utils", "QueryBackend", "get_query_backend"),
):
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
"""Model calls of a turn after which its older checkpoints are removed."""


def _furthest(left: int, right: int) -> int:
    # Parallel calls of one answer each return their own place; the state keeps the last one.
    return max(left, right)


class State(TypedDict, total=False):
    """The whole content of a checkpoint: how far the log belongs to this run, the run's id, and the branch.

    ``branch`` is the number of rollbacks that were made before the run.
    """

    cursor: Annotated[int, _furthest]
    run_id: str
    branch: int


@dataclass(frozen=True)
class GraphContext:
    """The run that the graph's nodes work for; LangGraph passes it to them besides the state."""

    run: Run


class StepFailedError(Exception):
    """Replaces a step's error, of which a checkpointer may keep only the fact: its text may hold a key or a prompt.

    Args:
        failure: the error itself, for the caller that drives the graph.
    """

    def __init__(self, failure: BaseException) -> None:
        super().__init__()
        self.failure = failure


_CONTROL: Final = (GraphBubbleUp, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""What ends a step and is no failure of it; the first is LangGraph's own, such as an interrupt."""


class _Unspoken:
    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # Not only an Exception: a panic of a library in Rust is none, and its text holds the library's input.
        if error is not None and not isinstance(error, _CONTROL):
            raise StepFailedError(error) from error


_UNSPOKEN: Final = _Unspoken()


class Dispatch(TypedDict):
    """The content of a Send: the ``seq`` of the answer in the log, the index of the call in it, and the run."""

    answer: int
    index: int
    run_id: str


def build_graph(saver: Saver) -> Graph:
    """The compiled graph; it serves every run of an agent, and gets the run as its runtime context."""

    async def model(state: State, runtime: Runtime[GraphContext]) -> Command[Any]:
        run = runtime.context.run
        seq = state["cursor"] + 1
        with _UNSPOKEN:
            if run.is_answered(state["cursor"]):
                return Command(goto=END)
            message = await run.answer(seq, state["run_id"])
            if run.steps % PRUNE_EVERY_STEPS == 0:
                await run.prune()
        calls = calls_of(message)
        goto = [
            Send("tool", Dispatch(answer=seq, index=index, run_id=state["run_id"]))
            for index in range(len(calls))
        ]
        if not calls:
            with _UNSPOKEN:
                again = await run.asked_again(seq, state["run_id"])
            if again is not None:
                return Command(update={"cursor": again}, goto="model")
        return Command(update={"cursor": seq}, goto=goto or END)

    async def tool(state: Dispatch, runtime: Runtime[GraphContext]) -> State:
        answer, index = state["answer"], state["index"]
        seq = answer + 1 + index
        run = runtime.context.run
        with _UNSPOKEN:
            try:
                await run.result(answer, index, seq, state["run_id"])
            except ApprovalPending as waits:
                # The answer's other calls finish; the checkpoint records that this call still has to run.
                run.waiting.extend(waits.pending)
                raise GraphInterrupt([Interrupt([each.id for each in waits.pending])]) from None
        return {"cursor": seq}

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=GraphContext)
    graph.add_node("model", model, destinations=("tool", "model", END))
    graph.add_node("tool", tool, input_schema=Dispatch)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return graph.compile(checkpointer=saver)
