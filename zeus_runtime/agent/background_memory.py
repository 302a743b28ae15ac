"""Work on memory that no answer waits for: facts are extracted after runs, and when the agent closes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.model import ExtractEvery
from zeus_runtime.errors import BusyError, ZeusError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from zeus_runtime.events import Event
    from zeus_runtime.memory.batches import AskForm, FormedAnswer
    from zeus_runtime.memory.document_facts import DocumentPart
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.run.connections import ConnectionPool, Connections
    from zeus_runtime.run.usage import UsageMeter

_log = logging.getLogger(__name__)

CLOSING_SECONDS: Final = 30.0
"""How long a closing agent waits for extractions; the next start does the others."""

PURPOSE: Final = "memory"
"""Of the model calls, in events and spans."""


class BackgroundMemory:
    """Extracts memories from an agent's sessions.

    Args:
        plan: the agent's.
        pool: its connections.
        emitter: gives what receives a session's events.
        running: whether a session has a run now.
    """

    def __init__(
        self,
        plan: Plan,
        pool: ConnectionPool,
        emitter: Callable[[str], Callable[[Event], None]],
        running: Callable[[str], bool],
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._emitter = emitter
        self._running = running
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._has_run: set[str] = set()
        self._looked = False
        memory = plan.config.memory
        self._when = "off" if memory is None else memory.extract

    async def begin(self, session: str) -> None:
        """Note that a session gets new messages, before its run begins: a killed run is searched by the next start."""
        memory = self._plan.context.memory
        if self._when == "off" or memory is None:
            return
        # Before the row is written: `_leftovers` must not take this session for one of an earlier process.
        self._has_run.add(session)
        try:
            await memory.batches.set_due(session, self._plan.config.name)
        except ZeusError as error:
            _log.warning("%s: its memories may not be extracted: %s", session, error.message)

    def ended(self, session: str) -> None:
        """Start what is due after a run."""
        if self._when == "off":
            return
        if isinstance(self._when, ExtractEvery):
            self._start(session, self._after_prompts(session, self._when.every))
        if not self._looked:
            self._looked = True
            self._start("", self._leftovers())

    async def aclose(self) -> None:
        """Finish the extractions that are running, and those that are due at the end of a session."""
        if self._when == "end_of_session" and self._pool.is_open:
            for session in sorted(self._has_run):
                self._start(session, self._extract(session))
        tasks = [*self._tasks.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=CLOSING_SECONDS)
        # A cancelled extraction loses nothing: its session stays due, and the cursor moves only with a finished part.
        for task in late:
            task.cancel()
        if late:
            _log.warning("%d extractions of memories are left for the next start", len(late))
            await asyncio.wait(late)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        # One extraction for a session at a time; the one that runs reads the new messages too, or the next does.
        if name in self._tasks:
            # A coroutine that is never awaited would be reported by Python.
            work.close()
            return

        async def heard() -> None:
            try:
                await work
            except ZeusError as error:
                _log.warning(
                    "memories of %s are extracted another time: %s", name or "sessions", error.message
                )
            except Exception:  # noqa: BLE001 - the edge of work that nobody waits for: only the log says it
                _log.exception("memories of %s are extracted another time", name or "sessions")

        task = asyncio.get_running_loop().create_task(heard(), name=f"memories of {name}")
        self._tasks[name] = task
        # The dict also keeps the task alive: the event loop refers to tasks only weakly.
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def _after_prompts(self, session: str, every: int) -> None:
        from zeus_runtime.sessions.extraction import new_messages

        memory, connections = self._memory(session), await self._pool.open()
        cursor = await memory.batches.cursor(session)
        messages = await new_messages(connections.log, session, cursor.seq)
        if sum(each.by == "user" for each in messages) >= every:
            await self._extract(session)

    async def _leftovers(self) -> None:
        """Search the sessions that an earlier process left."""
        memory, connections = self._memory(""), await self._pool.open()
        for session in await memory.batches.due_sessions(self._plan.config.name):
            # The end of a run here starts the extraction of its session.
            if session in self._has_run or self._running(session) or not await connections.log.has(session):
                continue
            if isinstance(self._when, ExtractEvery):
                await self._after_prompts(session, self._when.every)
            else:
                await self._extract(session)

    def _memory(self, session: str) -> MemoryService:
        memory = self._plan.context.memory
        assert memory is not None, "otherwise `extract` is off"
        return memory.for_session(session) if session else memory

    async def _extract(self, session: str) -> None:
        from zeus_runtime.sessions.extraction import extract

        connections = await self._pool.open()
        memory = self._memory(session)
        # Held before the call, so that of two processes that are due one pays.
        release = await connections.database.hold(f"{session}.memories")
        if release is None:
            return
        try:
            calls = await extract(memory, connections.log, session, await self._asking(connections, session))
        finally:
            release()
        if calls and await self._is_full(memory):
            await self.consolidate()

    async def _is_full(self, memory: MemoryService) -> bool:
        """Whether so many memories are new that they are consolidated."""
        config = self._plan.config.memory
        after = None if config is None else config.consolidate_after
        return after is not None and await memory.batches.new_memories() >= after

    async def consolidate(self) -> str | None:
        """Merge, date and retire the user's memories; the batch, None without memories.

        Raises:
            BusyError: another process does it.
            ZeusError: the model or the database failed.
        """
        from hashlib import blake2b

        from zeus_runtime.memory.consolidation import consolidate

        connections, memory = await self._pool.open(), self._memory("")
        user = blake2b(memory.caller.user_id.encode(), digest_size=8).hexdigest()
        release = await connections.database.hold(f"user_{user}.consolidation")
        if release is None:
            raise BusyError("another process consolidates the memories of this user", remedy="Wait for it.")
        try:
            return await consolidate(memory, await self._asking(connections, ""))
        finally:
            release()

    async def documents(
        self, parts: Sequence[DocumentPart], progress: Callable[[int, int], None]
    ) -> list[str]:
        """Extract facts from documents; the batches.

        Raises:
            ZeusError: the model or the database failed.
        """
        from zeus_runtime.memory.document_facts import extract_from

        connections = await self._pool.open()
        return await extract_from(self._memory(""), parts, await self._asking(connections, ""), progress)

    async def _asking(self, connections: Connections, session: str) -> AskForm:
        model, meter = await self._model(connections, session)

        async def ask(system: str, text: str, schema: dict[str, Any]) -> FormedAnswer:
            return await _asked(self._plan, model, meter, system, text, schema)

        return ask

    async def _model(self, connections: Connections, session: str) -> tuple[Model, UsageMeter]:
        """The model of policies, else the agent's own, and its meter, which counts the session's last turn too."""
        from zeus_runtime.plan.redaction import behind_mask, masked_for
        from zeus_runtime.run.assembly import role_model
        from zeus_runtime.run.cost_limit import spent_before
        from zeus_runtime.run.links import ChainedModel
        from zeus_runtime.run.usage import Metered, UsageMeter

        plan = self._plan
        secrets = masked_for(plan, connections.redactor)
        limit = plan.config.limits.max_cost_usd
        meter = UsageMeter(plan.profile, plan.token_counter, limit_usd=limit, session=session)
        meter.emit = self._emitter(session)
        if limit is not None and session:
            thread = await connections.log.find(session)
            memory = self._memory(session)
            meter.before_usd = await spent_before(connections.log, thread, None, memory=memory)
        links = [
            ChainedModel(each, lambda opened: behind_mask(connections.recorded(opened), secrets))
            for each in connections.role_of(plan, "summary")
        ]
        own = behind_mask(connections.model_of(plan), secrets)
        return role_model(plan, "summary", links, meter) or Metered(own, meter, plan.profile), meter


async def _asked(
    plan: Plan, model: Model, meter: UsageMeter, system: str, text: str, schema: dict[str, Any]
) -> FormedAnswer:
    """Ask for an answer with a form; once more, if it does not fit."""
    from langchain_core.messages import HumanMessage

    from zeus_runtime.memory.batches import CallPrice, FormedAnswer
    from zeus_runtime.models.interface import ModelRequest, ModelResponse
    from zeus_runtime.plan.output import internal_output
    from zeus_runtime.run.output import judged

    form = internal_output(schema, [each.profile for each in plan.summary or plan.models])
    messages: list[Any] = [HumanMessage(text)]
    # The meter counts several calls, and the price is for this question alone.
    before = meter.totals.prompt_tokens, meter.totals.completion_tokens, meter.totals.cost_usd or 0.0
    value = None
    for _ in range(form.repairs + 1):
        request = ModelRequest(
            system=f"{system}\n{form.told}",
            messages=messages,
            tools=[form.tool] if form.tool else [],
            settings=form.settings,
            purpose=PURPOSE,
        )
        answer = None
        async for piece in model.stream(request):
            if isinstance(piece, ModelResponse):
                answer = piece.message
        judgement = None if answer is None else judged(form, answer)
        if judgement is not None and not judgement.problems:
            value = judgement.value
            break
        problems = ("there is no answer",) if judgement is None else judgement.problems
        messages = [HumanMessage(text), HumanMessage(f"An earlier answer did not fit: {'; '.join(problems)}")]
    totals = meter.totals
    cost = None if totals.cost_usd is None else totals.cost_usd - before[2]
    price = CallPrice(
        model.name, totals.prompt_tokens - before[0], totals.completion_tokens - before[1], cost
    )
    return FormedAnswer(value, price)
