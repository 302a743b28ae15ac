"""What an agent holds open, for all its runs and its sub-agents'."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.agent.opening import OpenToolsets
from zeus_runtime.agent.outfitting import open_model

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from zeus_runtime.agent.plan import Plan
    from zeus_runtime.agent.sandboxes import Sandboxes
    from zeus_runtime.models.interface import Model
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog


@dataclass(frozen=True)
class Live:
    """What an agent holds open."""

    database: Database
    log: ThreadLog
    saver: BaseCheckpointSaver[Any]
    graph: CompiledStateGraph[Any, Any, Any, Any]
    models: dict[int, Model]
    toolsets: list[OpenToolsets]
    given_model: Model | None
    loop: asyncio.AbstractEventLoop

    def model_of(self, plan: Plan) -> Model:
        """The model of the agent or of one of its sub-agents, opened once."""
        if self.given_model is not None:
            return self.given_model
        if id(plan) not in self.models:
            self.models[id(plan)] = open_model(plan)
        return self.models[id(plan)]

    def toolsets_of(self, plan: Plan) -> OpenToolsets:
        """The toolsets of the agent or of one of its sub-agents; those with the same ones share them."""
        for each in self.toolsets:
            if each.serves(plan):
                return each
        self.toolsets.append(OpenToolsets(plan))
        return self.toolsets[-1]

    async def close_toolsets(self) -> None:
        """Close what is open of them."""
        await asyncio.gather(*(each.aclose() for each in self.toolsets))


class HeldOpen:
    """What an agent works with: opened when it is needed first, and anew in another event loop.

    Args:
        plan: the agent's.
        model: instead of all its own and its sub-agents'.
    """

    def __init__(self, plan: Plan, model: Model | None) -> None:
        self._plan = plan
        self._model = model
        self._live: Live | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def live(self) -> Live:
        """All of it, open."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._opening = loop, asyncio.Lock()
        async with self._opening:
            if self._live is not None and self._live.loop is not loop:
                # Opened in a former `asyncio.run`, which closed part of it at its end.
                await self.aclose()
            if self._live is None:
                self._live = await _open(self._plan, self._model, self._stack)
            return self._live

    async def aclose(self) -> None:
        """Close what is open."""
        await self._stack.aclose()
        self._live = None


async def _open(plan: Plan, model: Model | None, stack: AsyncExitStack) -> Live:
    from zeus_runtime.agent.graph import build_graph
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog

    database = Database(plan.config.storage.url, directory=plan.build.directory)
    stack.push_async_callback(database.close)
    for each in plans(plan):
        if each.build.memory is not None:
            stack.push_async_callback(each.build.memory.aclose)
        if each.build.knowledge is not None:
            stack.push_async_callback(each.build.knowledge.aclose)
    for sandboxes in sandboxes_of(plan):
        stack.push_async_callback(sandboxes.aclose)
    log = ThreadLog(database)
    await log.create_tables()
    saver = await stack.enter_async_context(plan.checkpointer.create(plan.build))
    live = Live(database, log, saver, build_graph(saver), {}, [], model, asyncio.get_running_loop())
    live.model_of(plan)
    stack.push_async_callback(live.close_toolsets)
    return live


def sandboxes_of(plan: Plan) -> Sequence[Sandboxes]:
    """The sandboxes of a plan and of its sub-agents."""
    return [each.build.sandboxes for each in plans(plan) if each.build.sandboxes is not None]


def plans(plan: Plan) -> Iterator[Plan]:
    """A plan and those of its sub-agents."""
    yield plan
    for each in plan.agents.values():
        yield from plans(each.plan)
