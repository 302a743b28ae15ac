"""Giving work to a sub-agent: a session of its own, which is found again and run until it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.agent.approvals import Desk
from zeus_runtime.agent.conversation import GIVEN
from zeus_runtime.agent.errand import Errand, handed_down, with_handles
from zeus_runtime.agent.evidence import errand_result
from zeus_runtime.agent.outfitting import fresh_outfit
from zeus_runtime.agent.redaction import masked_for, redacted
from zeus_runtime.agent.session import Session
from zeus_runtime.context.ledger import Step
from zeus_runtime.errors import UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    SubAgentEvent,
)
from zeus_runtime.tools import ToolResult
from zeus_runtime.tools.approval import ApprovalPending
from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from zeus_runtime.agent.opening import OpenToolsets
    from zeus_runtime.agent.plan import Plan
    from zeus_runtime.agent.subagents import PlannedAgent
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.config.secrets import Redactor
    from zeus_runtime.models.interface import Model
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


@dataclass(frozen=True)
class Ground:
    """What an agent and its sub-agents share.

    Args:
        log, database: where messages are.
        saver, graph: where checkpoints are, and what steps.
        model_of: the model of a plan, opened once.
        toolsets_of: the toolsets of a plan.
        redactor: what all of them know of secrets.
    """

    log: ThreadLog
    database: Database
    saver: BaseCheckpointSaver[Any]
    graph: CompiledStateGraph[Any, Any, Any, Any]
    model_of: Callable[[Plan], Model]
    toolsets_of: Callable[[Plan], OpenToolsets]
    redactor: Redactor


@dataclass(frozen=True)
class Delegating:
    """One run's way to its agents.

    Args:
        ground: what they share.
        plan: of the run.
        session: of the run.
        desk: how its user is asked.
    """

    ground: Ground
    plan: Plan
    session: str
    desk: Desk

    async def __call__(self, errand: Errand) -> ToolResult:
        """What the sub-agent answered; its failure is an error result.

        Raises:
            ApprovalPending: it waits for a decision.
        """
        from zeus_runtime.store.family import open_child

        planned = self.plan.agents.get(errand.agent)
        if planned is None:
            names = ", ".join(self.plan.agents)
            why = f"The agents are: {names}." if names else "You have none: do the work yourself."
            return ToolResult(f"There is no agent {errand.agent!r} here. {why}", is_error=True)
        if not errand.prompt.strip():
            return ToolResult("The prompt is empty: say what the agent is to do.", is_error=True)
        if errand.handles and planned.spec.context != "slice":
            return ToolResult(
                f"The agent {planned.name} takes no handles: write into its prompt what it must know, or which files"
                " to read.",
                is_error=True,
            )
        log, limits = self.ground.log, self.plan.config.limits
        parent = await log.find(self.session)
        thread = await open_child(
            log,
            parent,
            errand.run_id,
            errand.place,
            agent=f"{self.plan.config.name}/{planned.name}",
            title=masked_for(planned.plan, self.ground.redactor).text(errand.description or errand.prompt),
            at_most=limits.max_subagents,
        )
        if thread is None:
            return ToolResult(
                f"This run has started {limits.max_subagents} agents, which is the most it may"
                " (limits.max_subagents). Go on without further ones.",
                is_error=True,
            )
        try:
            give_back = await self.ground.database.claim(thread.session)
        except UsageError as error:
            return ToolResult(f"The agent {planned.name} cannot work now: {error.message}.", is_error=True)
        try:
            return await self._worked(planned, errand, thread)
        finally:
            give_back()

    async def _worked(self, planned: PlannedAgent, errand: Errand, thread: Thread) -> ToolResult:
        from zeus_runtime.store.approvals import open_approvals

        log = self.ground.log
        state = (await log.info(thread)).state
        ending: Event | None = None
        prompt: str | None = None
        if not state:
            try:
                prompt, left = with_handles(errand, self.plan, planned.spec.budget_tokens)
            except WorkspaceError as error:
                return ToolResult(f"A handle cannot be read: {error}", is_error=True)
            await self._given(planned.spec, errand, thread, left)
        while state != "complete":
            ending = await self._ran(planned, errand, thread, prompt)
            if not isinstance(ending, RunFailed) or ending.code != "approval_needed":
                break
            if pending := await open_approvals(log, thread.session):
                raise ApprovalPending(pending)
            prompt = None  # somebody decided meanwhile
        return await self._told(planned, thread, ending)

    async def _ran(
        self, planned: PlannedAgent, errand: Errand, thread: Thread, prompt: str | None
    ) -> RunCompleted | RunFailed:
        """One run of the sub-agent; its last event."""
        ground, plan = self.ground, planned.plan
        endings: list[RunCompleted | RunFailed] = []

        def emit(event: Event) -> None:
            shown = redacted(event, ground.redactor)
            if isinstance(shown, RunCompleted | RunFailed):
                endings.append(shown)
            if isinstance(shown, ApprovalRequested | ApprovalDecided | SubAgentEvent):
                errand.emit(shown)
            else:
                errand.emit(SubAgentEvent(thread.session, planned.name, errand.call_id, shown.to_wire()))

        secrets = masked_for(plan, ground.redactor)
        desk = Desk(
            ground.log,
            user=self.desk.user,
            redact=ground.redactor.json,
            known=ground.redactor.masked,
            secrets=secrets,
            emit=emit,
            channel=self.desk.channel,
            person=self.desk.person,
            signing=self.desk.signing,
            clocks=(*self.desk.clocks, errand.clock),
        )
        delegate = Delegating(ground, plan, thread.session, desk)
        toolsets = ground.toolsets_of(plan)
        outfit = fresh_outfit(
            plan, ground.model_of(plan), thread.session, desk, delegate, await toolsets.opened(), secrets
        )
        outfit.meter.above = errand.meter
        session = Session(
            thread,
            log=ground.log,
            database=ground.database,
            saver=ground.saver,
            graph=ground.graph,
            upkeep=_nothing,
        )
        with toolsets.telling(emit):
            await _apart(session.run(prompt, plan.mode, outfit, emit))
        return endings[-1]

    async def _given(self, spec: SubAgent, errand: Errand, thread: Thread, budget_tokens: int | None) -> None:
        """Write what a fork or slice knows as the beginning of its log; what a killed process wrote of it stays."""
        from zeus_runtime.models.messages import to_payload

        if spec.context == "isolated":
            return
        log = self.ground.log
        last = spec.last_messages if spec.context == "slice" else None
        written = len(await log.read(thread))
        messages = handed_down(errand.view(), last=last, budget_tokens=budget_tokens)
        for seq, message in enumerate(messages[written:], written + 1):
            payload = json.dumps(to_payload(message), ensure_ascii=False, separators=(",", ":"))
            await log.append(thread, seq, f"{GIVEN}{seq}", payload)

    async def _told(self, planned: PlannedAgent, thread: Thread, ending: Event | None) -> ToolResult:
        """The result of the call, from what the sub-agent's log and ledger say."""
        from zeus_runtime.models.messages import from_payload

        log = self.ground.log
        messages = [
            from_payload(json.loads(entry.payload))
            for entry in await log.read(thread)
            if not entry.id.startswith(GIVEN)
        ]
        steps = [Step.from_json(entry.payload) for entry in await log.steps(thread)]
        return errand_result(planned, thread.session, ending, messages, steps)


async def _nothing() -> None: ...


async def _apart(work: Any) -> None:
    """Await ``work`` as a graph of its own, not as a part of the graph that this call stands in.

    A cancellation reaches it, is waited for, and goes on here.
    """
    from contextvars import copy_context

    from langchain_core.runnables.config import var_child_runnable_config

    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    task = asyncio.get_running_loop().create_task(work, context=context)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
