"""Give a task to a sub-agent: a separate session, which is found again after a resume and runs until it ends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeus_runtime.delegation.handed_down import handed_down, with_handles
from zeus_runtime.delegation.result import task_result
from zeus_runtime.errors import UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    SubAgentEvent,
)
from zeus_runtime.plan.redaction import masked_for
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.assembly import run_resources
from zeus_runtime.run.delegated_task import DelegatedTask
from zeus_runtime.run.emitter import Emitter
from zeus_runtime.run.stored_thread import step_of
from zeus_runtime.run.transcript import GIVEN
from zeus_runtime.run.turn import Session
from zeus_runtime.tools import ToolResult
from zeus_runtime.tools.approval import ApprovalPending
from zeus_runtime.tools.changed_arguments import is_same
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.run_to_completion import finished

if TYPE_CHECKING:
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.subagents import PlannedAgent
    from zeus_runtime.run.connections import Connections
    from zeus_runtime.run.resources import RunResources
    from zeus_runtime.store.threads import Thread


@dataclass(frozen=True)
class Dispatcher:
    """Gives a run's tasks to its sub-agents.

    Args:
        connections: shared by the agent and its sub-agents.
        plan: the run's.
        session: the run's.
        broker: asks the run's user.
    """

    connections: Connections
    plan: Plan
    session: str
    broker: ApprovalBroker

    async def resources(self) -> RunResources:
        """The resources of a run on the session, for agents and sub-agents alike."""
        connections, plan = self.connections, self.plan
        return run_resources(
            plan,
            connections.model_of(plan),
            self.session,
            self.broker,
            self,
            await connections.toolsets_of(plan).opened(),
            connections.redactor,
            connections.recorded,
            connections.chain_of(plan),
            connections.role_of(plan, "summary"),
            connections.role_of(plan, "vision"),
        )

    async def __call__(self, task: DelegatedTask) -> ToolResult:
        """Run the task and return the sub-agent's answer; its failure becomes an error result.

        Raises:
            ApprovalPending: it waits for a decision.
        """
        from zeus_runtime.store.approvals import withdraw
        from zeus_runtime.store.session_tree import children_of_call, open_child

        planned = self.plan.agents.get(task.agent)
        if planned is None:
            names = ", ".join(self.plan.agents)
            why = f"The agents are: {names}." if names else "You have none: do the work yourself."
            return ToolResult(f"There is no agent {task.agent!r} here. {why}", is_error=True)
        if not task.prompt.strip():
            return ToolResult("The prompt is empty: say what the agent is to do.", is_error=True)
        if task.handles and planned.spec.context != "slice":
            return ToolResult(
                f"The agent {planned.name} takes no handles: write into its prompt what it must know, or which files"
                " to read.",
                is_error=True,
            )
        log, limits = self.connections.log, self.plan.config.limits
        parent = await log.find(self.session)
        secrets = masked_for(planned.plan, self.connections.redactor)
        known = self.connections.redactor.masked
        begun_with = known(task.arguments)
        begun = await children_of_call(log, parent, task.run_id, task.place)
        # Only the session that began with these arguments continues: each other one worked for a call that a person
        # has changed since. Masked before they are compared: a secret may be known only since they were stored.
        number = next(
            (
                each
                for each, (_, former) in enumerate(begun)
                if former is None or is_same(known(former), begun_with)
            ),
            len(begun),
        )
        for each, other in enumerate(begun):
            if each != number:
                await withdraw(log, other.thread)
        thread = await open_child(
            log,
            parent,
            task.run_id,
            task.place,
            begun_with,
            number=number,
            agent=f"{self.plan.config.name}/{self.connections.redactor.text(planned.name)}",
            title=secrets.text(task.description or task.prompt),
            at_most=limits.max_subagents,
        )
        if thread is None:
            return ToolResult(
                f"This run has started {limits.max_subagents} agents, which is the most it may"
                " (limits.max_subagents). Continue without further ones.",
                is_error=True,
            )
        try:
            # The parent's claim is not enough: a process that lost it unknowingly may still run the child.
            give_back = await self.connections.database.claim(thread.session)
        except UsageError as error:
            return ToolResult(f"The agent {planned.name} cannot work now: {error.message}.", is_error=True)
        if (events := log.events.get(self.session)) is not None:
            # The parent's writer, so that both sessions' events have one order.
            log.events[thread.session] = events
        try:
            return await self._worked(planned, task, thread)
        finally:
            # While the session is still claimed: after that another run may write to it, with another writer of events.
            log.events.pop(thread.session, None)
            give_back()

    async def _worked(self, planned: PlannedAgent, task: DelegatedTask, thread: Thread) -> ToolResult:
        from zeus_runtime.store.approvals import open_approvals, withdraw

        log = self.connections.log
        state = (await log.info(thread)).state
        ending: Event | None = None
        prompt: str | None = None
        # Without a state the session has not run yet; any other session is resumed, without a prompt.
        if not state:
            try:
                secrets = masked_for(planned.plan, self.connections.redactor)
                prompt, left = with_handles(task, self.plan, planned, secrets)
            except WorkspaceError as error:
                return ToolResult(f"A handle cannot be read: {error}", is_error=True)
            await self._given(planned.spec, task, thread, left)
        events = log.events.get(thread.session)
        # A completed session runs again only to emit its end, if a kill prevented that the end was stored.
        while state != "complete" or (
            ending is None and events is not None and events.lacks_end(thread.session)
        ):
            ending = await self._ran(planned, task, thread, prompt)
            if not isinstance(ending, RunFailed) or ending.code != "approval_needed":
                break
            # Another process may have decided meanwhile; then the run is resumed at once.
            if pending := await open_approvals(log, thread.session):
                raise ApprovalPending(pending)
            prompt = None
        if isinstance(ending, RunFailed):
            # The call gets a result now, and nothing goes on after a decision.
            await withdraw(log, thread)
        return await self._told(planned, thread, ending)

    async def _ran(
        self, planned: PlannedAgent, task: DelegatedTask, thread: Thread, prompt: str | None
    ) -> RunCompleted | RunFailed:
        """Do one run of the sub-agent and return its last event."""
        connections, plan = self.connections, planned.plan
        endings: list[RunCompleted | RunFailed] = []

        def put(event: Event) -> None:
            if isinstance(event, RunCompleted | RunFailed):
                endings.append(event)
            if isinstance(event, ApprovalRequested | ApprovalDecided | SubAgentEvent):
                task.emit(event)
            else:
                wrapped = SubAgentEvent(thread.session, planned.name, task.call_id, event.to_wire())
                task.emit(wrapped if event.origin is None else wrapped.coming_from(event.origin))

        emit = Emitter(put, connections.redactor, thread.session, parent=task.run_id)
        secrets = masked_for(plan, connections.redactor)
        broker = ApprovalBroker(
            connections.log,
            user=self.broker.user,
            workspace=plan.context.workspace.folders_identity(),
            known=connections.redactor,
            secrets=secrets,
            emit=emit,
            channel=self.broker.channel,
            person=self.broker.person,
            signing=self.broker.signing,
            clocks=(*self.broker.clocks, task.clock),
            above=self.broker,
        )
        resources = replace(
            await Dispatcher(connections, plan, thread.session, broker).resources(), agent=planned.name
        )
        # Before the run: each call of the sub-agent is admitted by the limits of all runs above it.
        resources.meter.above = task.meter
        session = Session(thread, connections, maintenance=_nothing)
        with connections.toolsets_of(plan).telling(emit):
            await _apart(session.run(prompt, plan.mode, resources, emit))
        # `Session.run` emits exactly one, whatever happens.
        return endings[-1]

    async def _given(
        self, spec: SubAgent, task: DelegatedTask, thread: Thread, budget_tokens: int | None
    ) -> None:
        """Write the messages that a fork or slice inherits at the beginning of its log, after existing ones.

        A process that was killed may have written some of them.
        """
        from zeus_runtime.models.messages import to_payload

        if spec.context == "isolated":
            return
        log = self.connections.log
        last = spec.last_messages if spec.context == "slice" else None
        # They are written in order, so their number says where to continue.
        written = len(await log.read(thread))
        messages = handed_down(task.view(), last=last, budget_tokens=budget_tokens)
        for seq, message in enumerate(messages[written:], written + 1):
            payload = json.dumps(to_payload(message), ensure_ascii=False, separators=(",", ":"))
            await log.append(thread, seq, f"{GIVEN}{seq}", payload)

    async def _told(self, planned: PlannedAgent, thread: Thread, ending: Event | None) -> ToolResult:
        """The result of the call, from the sub-agent's log and ledger."""
        from zeus_runtime.models.messages import from_payload

        log = self.connections.log
        messages = [
            from_payload(json.loads(entry.payload))
            for entry in await log.read(thread)
            if not entry.id.startswith(GIVEN)
        ]
        steps = [step_of(entry) for entry in await log.steps(thread)]
        return task_result(planned, thread.session, ending, messages, steps)


async def _nothing() -> None: ...


async def _apart(work: Any) -> None:
    """Run ``work`` as a separate graph, not as part of the graph that makes this call.

    A cancellation is passed on to it, and continues here after it has ended.
    """
    from contextvars import copy_context

    from langchain_core.runnables.config import var_child_runnable_config

    context = copy_context()
    # LangGraph finds the surrounding graph's config in this variable.
    context.run(var_child_runnable_config.set, None)
    task = asyncio.get_running_loop().create_task(work, context=context)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # `shield` held the cancellation back, so the task is cancelled here, and its end awaited.
        task.cancel()
        await finished(asyncio.wait([task]))
        raise
