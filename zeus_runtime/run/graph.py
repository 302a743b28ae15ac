"""The LangGraph graph: one node, which does one step, and follows itself; its state is a cursor into the session's log.

A step is one model call and its tool calls. They need no checkpoint in between, because each writes its message to the
log, and a step that runs again uses the messages that are there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypedDict

# Before the first import of LangGraph, which reads it then: a checkpoint may only contain known types, so that a
# database that was tampered with cannot execute code.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from zeus_runtime.errors import ends_process
from zeus_runtime.lazy import postponed

# LangGraph imports the client of its own platform, and LangSmith 150 types of its API. No run uses either: 0.15 s.
with (
    postponed("langgraph_sdk"),
    postponed("langsmith._internal._v2_migration_utils", "QueryBackend", "get_query_backend"),
):
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime
    from langgraph.types import Command, Interrupt

from zeus_runtime.models.content import calls_of
from zeus_runtime.run.run import Run
from zeus_runtime.tools.approval import ApprovalPending

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot as StateSnapshot

    from zeus_runtime.tools.approval import PendingApproval

    Saver: TypeAlias = BaseCheckpointSaver[Any]
    Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]


def _furthest(left: int, right: int) -> int:
    # A run starts at its cursor again after a resume; the state keeps the last one.
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


_CONTROL: Final = (GraphBubbleUp, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""Errors that end a step without being its failure; the first is LangGraph's own, such as an interrupt."""


class _Unspoken:
    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # Not only an Exception: a panic of a library in Rust is none, and its text holds the library's input.
        if error is not None and not isinstance(error, _CONTROL) and not ends_process(error):
            raise StepFailedError(error) from error


_UNSPOKEN: Final = _Unspoken()


def build_graph(saver: Saver) -> Graph:
    """The compiled graph; it serves every run of an agent, and gets the run as its runtime context."""
    return _nodes_and_edges().compile(checkpointer=saver)


@cache
def _nodes_and_edges() -> StateGraph[Any, Any, Any, Any]:
    # The node only calls: each time it compiles, LangGraph decodes the byte code of a node to look for graphs in it.
    async def model(state: State, runtime: Runtime[GraphContext]) -> Command[Any]:
        return await _step(state, runtime.context.run)

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=GraphContext)
    graph.add_node("model", model, destinations=("model", END))
    graph.add_edge(START, "model")
    return graph


async def _step(state: State, run: Run) -> Command[Any]:
    run_id = state["run_id"]
    with _UNSPOKEN:
        if run.is_answered(state["cursor"]):
            return Command(goto=END)
        seq = await run.pictures_described(state["cursor"], run_id) + 1
        message = await run.answer(seq, run_id)
    calls = len(calls_of(message))
    if not calls:
        with _UNSPOKEN:
            again = await run.asked_again(seq, run_id)
        if again is not None:
            return Command(update={"cursor": again}, goto="model")
        return Command(update={"cursor": seq}, goto=END)
    with _UNSPOKEN:
        waiting = await _results(run, seq, calls, run_id)
    if waiting:
        run.waiting.extend(waiting)
        # Raised instead of LangGraph's own `interrupt`, which returns values on a resume: here the database has the
        # decisions.
        raise GraphInterrupt([Interrupt([each.id for each in waiting])])
    return Command(update={"cursor": seq + calls}, goto="model")


async def _results(run: Run, answer: int, calls: int, run_id: str) -> list[PendingApproval]:
    """Run the calls of an answer concurrently; the requests that wait for a decision, once the other calls are done.

    If a call raises, the others are cancelled, and have ended before the error is raised.
    """
    at_once = asyncio.Semaphore(run.limits.max_parallel_tools)

    async def result(index: int) -> Sequence[PendingApproval]:
        async with at_once:
            try:
                await run.result(answer, index, answer + 1 + index, run_id)
            except ApprovalPending as waits:
                # The other calls of the answer continue; the run pauses when they are done.
                return waits.pending
        return ()

    if calls == 1:
        return list(await result(0))
    try:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(result(index)) for index in range(calls)]
    except BaseExceptionGroup as errors:
        # The first failure: the group has cancelled the other calls and leaves their cancellations out. The type of a
        # group would hide a ZeusError.
        raise errors.exceptions[0] from None
    # In the order of the calls, whichever waited first.
    return [pending for each in made for pending in each.result()]
