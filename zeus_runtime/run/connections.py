"""The connections of an agent, opened once for all its runs: database, checkpoints, models, toolsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.cutting import mask_known
from zeus_runtime.events import Event, Notice
from zeus_runtime.run.links import Circuits, OpenModel, open_models
from zeus_runtime.tools.run_to_completion import all_tried, finished

if TYPE_CHECKING:
    from zeus_runtime.config import Redactor
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.run.graph import Graph, Saver
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.tools import Toolset
    from zeus_runtime.tools.sandboxes import Sandboxes

_log = logging.getLogger(__name__)


class OpenToolsets:
    """The open toolsets of an agent; they open at the first call of ``opened``.

    Args:
        plan: names the toolsets.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._toolsets: dict[str, Toolset] = {}
        self._opening: asyncio.Task[None] | None = None
        self._untold: list[Notice] = []
        self._listeners: list[Callable[[Event], None]] = []

    def serves(self, plan: Plan) -> bool:
        """Whether ``plan`` has the same toolsets with the same settings."""

        def needs(each: Plan) -> object:
            config = each.config
            given = [(one.name, one.value) for one in each.opens]
            # Whoever has a workspace alone has servers that see this one.
            place = each.context.workspace.root if config.workspace.per is not None else None
            return config.mcp_servers, config.connectors, given, place

        return plan is self._plan or needs(plan) == needs(self._plan)

    def is_of(self, plan: Plan) -> bool:
        """Whether they were opened for that plan."""
        return self._plan is plan

    async def opened(self) -> Mapping[str, Toolset]:
        """The toolsets by component name, opened at the first call; concurrent callers wait for the same opening.

        Later calls give each toolset the chance to open what failed to open before.

        Raises:
            MissingError: a toolset lacks a dependency.
        """
        if not self._plan.opens:
            return {}
        if self._opening is not None and self._opening.done():
            # Not while the first opening runs: that one tries everything by itself.
            await asyncio.gather(*(each.resume() for each in self._toolsets.values()))
        if self._opening is None:
            # A task and not the caller's own work: it must outlive the caller, which may be cancelled while others
            # wait.
            self._opening = asyncio.create_task(self._open(), name="open toolsets")
        # Shielded: other callers may wait for the same opening, so one cancelled caller must not stop it.
        await asyncio.shield(self._opening)
        return self._toolsets

    async def _open(self) -> None:
        plan = self._plan
        # Its own: while it is undone after `aclose`, the next run may open others.
        toolsets: dict[str, Toolset] = {}
        openings: list[asyncio.Future[None]] = []
        try:
            for planned in plan.opens:
                toolsets[planned.name] = planned.create(plan.context)
            openings += [
                asyncio.ensure_future(each.open(self._tell, self._count)) for each in toolsets.values()
            ]
            await asyncio.gather(*openings)
            self._toolsets = toolsets
        except BaseException:
            for opening in openings:
                opening.cancel()
            try:
                await finished(self._close_failed(openings, toolsets.values()))
            finally:
                # A failed opening is forgotten, so that the next run tries again. `aclose` may have done so before.
                if self._opening is asyncio.current_task():
                    self._opening = None
            raise

    async def _close_failed(
        self, openings: Sequence[asyncio.Future[None]], toolsets: Iterable[Toolset]
    ) -> None:
        """Close the toolsets of a failed opening: the next run creates others."""
        # First their ends: what still opens would stay open.
        await asyncio.gather(*openings, return_exceptions=True)
        closings = (each.aclose() for each in toolsets)
        for problem in await asyncio.gather(*closings, return_exceptions=True):
            if problem is not None:
                # Only logged, since the user must learn why the opening failed.
                _log.warning("a toolset could not be closed", exc_info=problem)

    def _count(self, text: str) -> int:
        # Toolsets count what they got before it is masked, and a counter may be a service.
        return self._plan.token_counter.text(mask_known(text))

    def _tell(self, code: str, message: str) -> None:
        notice = Notice(code, message)
        if not self._listeners:
            self._untold.append(notice)
        for listener in tuple(self._listeners):
            listener(notice)

    @contextmanager
    def telling(self, emit: Callable[[Event], None]) -> Iterator[None]:
        """Inside the block, notices of toolsets also go to ``emit``, first those that no run has received yet."""
        # Taken by one run only, so that a notice is not told in each.
        untold, self._untold = self._untold, []
        for notice in untold:
            emit(notice)
        self._listeners.append(emit)
        try:
            yield
        finally:
            self._listeners.remove(emit)

    async def aclose(self) -> None:
        """Close every toolset, and cancel an opening that is still in progress; return when it is undone."""
        # Exchanged before the first await: a run that begins meanwhile opens others.
        opening, self._opening = self._opening, None
        toolsets, self._toolsets = self._toolsets, {}
        if opening is not None and not opening.done():
            opening.cancel()
            # A task of another event loop, which has ended, cannot be awaited.
            if opening.get_loop() is asyncio.get_running_loop():
                await asyncio.wait([opening])
        await all_tried(*(each.aclose for each in toolsets.values()), at_once=True)


@dataclass(frozen=True)
class Connections:
    """The open connections of an agent, shared with its sub-agents.

    Args:
        database, log: hold the messages.
        saver, graph: hold the checkpoints and run the steps.
        redactor: the known secrets of the agent and its sub-agents.
        models: the open models, by the ``id()`` of their plan.
        role_models: those for parts of the work, by the key under ``models`` and the ``id()`` of their plan.
        circuits: their circuit breakers.
        toolsets: the open toolsets.
        given_model: replaces every model that a plan names.
        recorded: wraps a model in a recorder if calls are recorded.
        loop: the event loop in which they were opened.
        alike: by the ``id()`` of a plan, the plan of the same config whose models it uses.
    """

    database: Database
    log: ThreadLog
    saver: Saver
    graph: Graph
    redactor: Redactor
    # By the `id()` of the agent's own plan or a sub-agent's, which live as long as the connections; `alike` leads other
    # plans to these.
    models: dict[int, tuple[OpenModel, ...]]
    role_models: dict[tuple[str, int], tuple[OpenModel, ...]]
    circuits: Circuits
    toolsets: list[OpenToolsets]
    given_model: Model | None
    recorded: Callable[[Model], Model]
    loop: asyncio.AbstractEventLoop
    alike: dict[int, Plan] = field(default_factory=dict)

    def model_of(self, plan: Plan) -> Model:
        """The model of the agent or of one of its sub-agents, opened once; of a chain, the first one."""
        return self.recorded(self.given_model or self._opened(plan)[0].patient)

    def chain_of(self, plan: Plan) -> tuple[OpenModel, ...]:
        """The models of a plan's chain; empty for a single model, and if a given one replaces them."""
        return () if self.given_model is not None or plan.config.chain is None else self._opened(plan)

    def role_of(self, plan: Plan, role: str) -> tuple[OpenModel, ...]:
        """The models of a plan for a part of the work; empty if it names none, and if a given one replaces them.

        Args:
            role: the key under ``models``.
        """
        plan = self.alike.get(id(plan), plan)
        if self.given_model is not None or not plan.roles[role]:
            return ()
        key, config = (role, id(plan)), plan.config
        if key not in self.role_models:
            written = getattr(config.models, role)
            self.role_models[key] = open_models(plan.roles[role], written, config.retry, self.circuits)
        return self.role_models[key]

    def share(self, plan: Plan, other: Plan) -> None:
        """Let a further plan of the same config, with its sub-agents, use the models of ``plan``."""
        for own, further in zip(plans(plan), plans(other), strict=True):
            self.alike[id(further)] = own

    async def unshare(self, plan: Plan) -> None:
        """Forget a plan that ``share`` was told of, and close the toolsets that it has alone."""
        for each in plans(plan):
            self.alike.pop(id(each), None)
            for opened in [one for one in self.toolsets if one.is_of(each)]:
                self.toolsets.remove(opened)
                await opened.aclose()

    def _opened(self, plan: Plan) -> tuple[OpenModel, ...]:
        plan = self.alike.get(id(plan), plan)
        if id(plan) not in self.models:
            config = plan.config
            self.models[id(plan)] = open_models(plan.models, config.model, config.retry, self.circuits)
        return self.models[id(plan)]

    def toolsets_of(self, plan: Plan) -> OpenToolsets:
        """The toolsets of the agent or of one of its sub-agents; plans with the same toolsets share them."""
        for each in self.toolsets:
            if each.serves(plan):
                return each
        # Those of the agent's own plan stay open, where a session's end with its plan while others use them.
        opened = OpenToolsets(self.alike.get(id(plan), plan))
        self.toolsets.append(opened if opened.serves(plan) else OpenToolsets(plan))
        return self.toolsets[-1]

    async def close_toolsets(self) -> None:
        """Close all open toolsets."""
        await all_tried(*(each.aclose for each in self.toolsets), at_once=True)


class ConnectionPool:
    """The connections of an agent: opened at first use, and opened again in a new event loop.

    Args:
        plan: the agent's.
        model: replaces every model that the plan and its sub-agents' plans name.
        redactor: the known secrets of the agent and its sub-agents.
        recorded: wraps a model in a recorder if calls are recorded.
        owner: the user of a service, whose sessions alone are used; None for all sessions.
    """

    def __init__(
        self,
        plan: Plan,
        model: Model | None,
        redactor: Redactor,
        recorded: Callable[[Model], Model],
        owner: Owner | None = None,
    ) -> None:
        self._plan = plan
        self._owner = owner
        self._model = model
        self._redactor = redactor
        self._recorded = recorded
        self._open: Connections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def open(self) -> Connections:
        """The open connections."""
        loop = asyncio.get_running_loop()
        # A lock belongs to one event loop, so a new loop needs a new lock.
        if self._loop is not loop:
            self._loop, self._opening = loop, asyncio.Lock()
        async with self._opening:
            if self._open is not None and self._open.loop is not loop:
                # Opened in an earlier `asyncio.run`, which closed part of it when it ended.
                await self.aclose()
            if self._open is None:
                try:
                    self._open = await self._opened()
                except BaseException:
                    # Each further try opens its own: of a database that is away for hours, many.
                    await finished(self.aclose())
                    raise
            return self._open

    @property
    def is_open(self) -> bool:
        """Whether the connections are open in this event loop."""
        return self._open is not None and self._open.loop is asyncio.get_running_loop()

    @property
    def log(self) -> ThreadLog:
        """The open log."""
        assert self._open is not None
        return self._open.log

    async def aclose(self) -> None:
        """Close all open connections."""
        await self._stack.aclose()
        self._open = None

    async def _opened(self) -> Connections:
        from zeus_runtime.run.graph import build_graph
        from zeus_runtime.store.database import Database
        from zeus_runtime.store.thread_log import ThreadLog
        from zeus_runtime.store.threads import acting_for

        plan, stack = self._plan, self._stack
        # The stack closes in reverse order: toolsets first, the database last, after all that write to it.
        database = Database(
            plan.config.storage.url,
            directory=plan.context.directory,
            acting=acting_for(self._owner),
            connections=plan.config.storage.connections,
        )
        stack.push_async_callback(database.close)
        for each in plans(plan):
            if each.context.memory is not None:
                stack.push_async_callback(each.context.memory.aclose)
            if each.context.knowledge is not None:
                stack.push_async_callback(each.context.knowledge.aclose)
        for each in plans(plan):
            stack.push_async_callback(each.context.closing.aclose)
        for sandboxes in sandboxes_of(plan):
            stack.push_async_callback(sandboxes.aclose)
        log = ThreadLog(database, owner=self._owner)
        await log.create_tables()
        saver = await stack.enter_async_context(plan.checkpointer.create(plan.context))
        opened = Connections(
            database,
            log,
            saver,
            build_graph(saver),
            self._redactor,
            models={},
            role_models={},
            circuits=Circuits(),
            toolsets=[],
            given_model=self._model,
            recorded=self._recorded,
            loop=asyncio.get_running_loop(),
        )
        # Opened now, so that a missing key or package is reported before the run begins.
        opened.model_of(plan)
        for role in plan.roles:
            opened.role_of(plan, role)
        stack.push_async_callback(opened.close_toolsets)
        return opened


def sandboxes_of(plan: Plan) -> Sequence[Sandboxes]:
    """The sandboxes of a plan and of its sub-agents."""
    return [each.context.sandboxes for each in plans(plan)]


def plans(plan: Plan) -> Iterator[Plan]:
    """A plan and the plans of all its sub-agents, at any depth."""
    yield plan
    for each in plan.agents.values():
        yield from plans(each.plan)


def differs_by_session(plan: Plan) -> bool:
    """Whether sessions have plans of their own: each has a workspace alone, or a sub-agent of it has."""
    return any(each.config.workspace.per == "session" for each in plans(plan))
