"""A turn of a service, shown and decided at the command line as a run of this machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.run_loop import drive
from zeus_runtime.client.errors import ServiceNotFoundError, ServiceRequestError
from zeus_runtime.errors import RunError, UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    Notice,
    RunFailed,
    RunStarted,
    SubAgentEvent,
    ToolCallResult,
    ToolCallStarted,
)
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.preview import Change, Preview
from zeus_runtime.tools.question import tool_label

if TYPE_CHECKING:
    from zeus_runtime.cli.approval_prompt import Asking
    from zeus_runtime.cli.views import RunView
    from zeus_runtime.client.clients import AsyncServiceClient
    from zeus_runtime.client.results import ServiceApproval, ServiceEvent
    from zeus_runtime.events import RunCompleted


class RemoteTurn:
    """One turn, until it ends or waits for a call that the user does not decide.

    Args:
        client: the service.
        run: the turn's run.
        asking: asks the user about calls; None if no user is there.
    """

    def __init__(self, client: AsyncServiceClient, run: str, asking: Asking | None) -> None:
        self._client = client
        self._run = run
        self._asking = asking
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._open: dict[str, asyncio.Task[Decision | None]] = {}
        self._over: set[str] = set()
        self._taken_back: set[str] = set()
        self._late: set[str] = set()
        self._again: dict[str, Notice] = {}
        self._told: set[str] = set()
        self._cancelling: asyncio.Task[Any] | None = None

    def cancel(self, session: str) -> bool:
        """Cancel the turn; its stream then ends by itself."""
        self._cancelling = asyncio.create_task(self._client.cancel(self._run))
        return True

    async def shown(self, view: RunView) -> RunCompleted | RunFailed:
        """Show the turn, and return its terminal event."""
        try:
            return await drive(self, self._events(), view, self._asking)
        finally:
            tasks: list[asyncio.Future[Any]] = [*self._open.values(), *self._asked.values()]
            for task in tasks:
                task.cancel()
            # It also takes the errors of tasks that were not awaited.
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._cancelling is not None:
                with suppress(Exception):
                    await self._cancelling

    async def _events(self) -> AsyncIterator[Event]:
        """The events of the turn, as a run of this machine yields them: a decision is part of it, and no end."""
        async with aclosing(self._read()) as events:
            async for each in events:
                # Also those of its sub-agents, which name runs of their own.
                if each.event is None or self._is_repeated(each.event):
                    continue
                if isinstance(each.event, ApprovalRequested) and self._asking is not None:
                    await self._ask(each.event.id)
                if each.waits:
                    async for request in self._unasked(each.event):
                        yield request
                        async for after in self._after(request):
                            yield after
                    if await self._decided():
                        continue
                if notice := self._notice_before(each.event):
                    yield notice
                yield self._as_here(each.event)
                async for after in self._after(each.event):
                    yield after
                if each.waits or each.ends:
                    return
        turn = await self._client.turn(self._run)
        if turn.ending is None:
            raise RunError(f"the turn of {turn.session} ended without an event; it is {turn.state}")
        # A turn that was cancelled while it waited has no event.
        yield RunFailed(turn.session, "cancelled", "The turn was cancelled.", exit_code=130)

    async def _read(self) -> AsyncGenerator[ServiceEvent, None]:
        """The service's events, which are read also while a question is open: one that is over is taken back."""
        came: asyncio.Queue[ServiceEvent | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async with aclosing(self._client.events(run=self._run)) as events:
                    async for each in events:
                        if isinstance(each.event, ApprovalDecided):
                            self._over.add(each.event.id)
                            if (question := self._open.get(each.event.id)) is not None:
                                question.cancel()
                        came.put_nowait(each)
            finally:
                # The turn is over, or out of reach: no answer can count.
                for question in self._open.values():
                    question.cancel()
                came.put_nowait(None)

        reading = asyncio.create_task(read())
        try:
            while (each := await came.get()) is not None:
                yield each
            await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _notice_before(self, event: Event) -> Notice | None:
        """Why a question was taken back that the event is the decision on; one of the time says so itself."""
        if (
            not isinstance(event, ApprovalDecided)
            or event.id not in self._taken_back
            or event.by == "timeout"
        ):
            return None
        return _decided_elsewhere(event, "")

    async def _after(self, event: Event) -> AsyncIterator[Event]:
        """What follows on the user's answer if the event is a question: it came too late, or is asked for again."""
        while isinstance(event, ApprovalRequested) and event.id in self._asked:
            await asyncio.wait({self._asked[event.id]})
            if event.id in self._late:
                yield _decided_elsewhere(event, " first: this answer does not count")
            if (why := self._again.pop(event.id, None)) is None:
                return
            yield why
            if await self._ask(event.id) is None:
                return
            yield event

    def _is_repeated(self, event: Event) -> bool:
        """Whether the event was shown before the user decided: a resumed run tells its waiting calls again."""
        if isinstance(event, RunStarted):
            return (event.resumed and "started" in self._told) or not self._new("started")
        if isinstance(event, SubAgentEvent):
            told = event.event
            # Here a sub-agent goes on while its user is asked; in a service its run ends, and is resumed.
            if self._asking is not None and told.get("code") == "approval_needed":
                return True
            return self._is_repeated_call(told["type"], f"{event.session} {told.get('call_id')}")
        if isinstance(event, ToolCallStarted | ToolCallResult):
            return self._is_repeated_call(event.type, event.call_id)
        if isinstance(event, ApprovalRequested):
            return event.id in self._asked
        if isinstance(event, ApprovalDecided):
            return not self._new(f"decided {event.id}")
        return False

    def _is_repeated_call(self, kind: str, call: str) -> bool:
        if kind == ToolCallResult.type:
            # A resumed run repeats no call with a result: another one of the same id is a call of its own.
            self._told.discard(f"call {call}")
        return kind == ToolCallStarted.type and not self._new(f"call {call}") and bool(self._asked)

    def _as_here(self, event: Event) -> Event:
        """The event as a run of this machine tells it: the service resumes a run for each decision of this user."""
        if isinstance(event, ApprovalDecided) and event.id in self._asked:
            return replace(event, former=False)
        return event

    def _new(self, name: str) -> bool:
        is_new = name not in self._told
        self._told.add(name)
        return is_new

    async def _unasked(self, waits: Event) -> AsyncIterator[Event]:
        """Ask about each call that the turn waits for and that no event asked about."""
        pending = waits.details.get("pending", ()) if isinstance(waits, RunFailed) else ()
        for each in pending if self._asking is not None else ():
            if each["id"] not in self._asked:
                asked = await self._ask(each["id"])
                if asked is None:
                    continue
                yield ApprovalRequested(
                    asked.id,
                    asked.session,
                    asked.call_id,
                    asked.tool,
                    asked.arguments,
                    asked.reason,
                    subagent=asked.agent,
                )

    async def _ask(self, name: str) -> PendingApproval | None:
        """Begin to ask the user; None if the call does not wait any more."""
        assert self._asking is not None
        try:
            pending = pending_of(await self._client.approval(name))
        except ServiceNotFoundError:
            self._asked[name] = asyncio.get_running_loop().create_future()
            self._asked[name].set_result(True)
            return None
        self._open[name] = question = asyncio.create_task(self._asking.ask(pending))
        if name in self._over:
            question.cancel()
        self._asked[name] = asyncio.create_task(self._answered(pending))
        # So that the task has begun to wait before the event is shown.
        await asyncio.sleep(0)
        return pending

    async def _answered(self, pending: PendingApproval) -> bool:
        """Send the user's decision at once, as a run here stores it; whether the call is decided, by whomever.

        A later question may never be answered, and while it is open the time of this call may pass.
        """
        asking = self._open[pending.id]
        await asyncio.wait({asking})
        del self._open[pending.id]
        if asking.cancelled():
            self._taken_back.add(pending.id)
            return True
        if (given := asking.result()) is None:
            return False
        asks = f"{tool_label(pending.tool)} ({pending.id})"
        try:
            await self._decide(pending, pending.counting(given))
        except UsageError as error:
            self._again[pending.id] = Notice(
                "not_sent", f"{asks} stays open: {error.message}. {error.remedy}"
            )
            return False
        except (ServiceNotFoundError, ServiceRequestError):
            now_ms = time.time() * 1000
            for each in await self._client.approvals():
                if each.id == pending.id and (each.expires_ms is None or each.expires_ms > now_ms):
                    if (await self._client.approval(each.id)).seen == pending.shown:
                        raise
                    self._again[each.id] = Notice(
                        "changed",
                        f"{asks} would make another change now than the one that you saw: this answer does not count.",
                    )
                    return False
            self._late.add(pending.id)
        return True

    async def _decided(self) -> bool:
        """Whether every call that was asked about is decided, by whomever, so that the turn continues.

        Raises:
            ServiceError: a decision was refused; the others are sent all the same.
        """
        if not self._asked:
            return False
        await asyncio.wait(self._asked.values())
        return all(task.result() for task in self._asked.values())

    async def _decide(self, pending: PendingApproval, decision: Decision) -> None:
        await self._client.decide(
            pending.id,
            decision.answer,
            reason=decision.reason,
            changed=decision.arguments,
            instruction=decision.instruction,
            always=decision.always,
            seen=pending.shown,
            automatic=decision.by == "automatic",
        )


def _decided_elsewhere(event: ApprovalRequested | ApprovalDecided, first: str) -> Notice:
    return Notice(
        "decided_elsewhere", f"{tool_label(event.tool_name)} ({event.id}) was decided elsewhere{first}."
    )


def pending_of(approval: ServiceApproval) -> PendingApproval:
    """A waiting call as the terminal asks about it."""
    is_question = approval.answer_schema is not None
    anything: Mapping[str, Any] = {"type": "object"}
    schema = approval.answer_schema if is_question else anything if approval.may_change else None
    changes = tuple(Change(each["path"], each["before"], each["after"]) for each in approval.changes)
    return PendingApproval(
        id=approval.id,
        session=approval.session,
        run_id="",
        # The real places are the service's.
        place={"question": "0.1", "file": "0:0"}.get(approval.kind, "0.1" if is_question else "0"),
        digest="",
        tool=approval.tool_name,
        arguments=approval.parameters,
        call_id=approval.call_id,
        reason=approval.reason,
        schema=schema,
        may_remember=approval.may_remember,
        needs_person=approval.needs_person,
        on_timeout=approval.on_timeout,
        created_ms=approval.created_ms,
        expires_ms=approval.expires_ms,
        shown=approval.seen,
        told=approval.parameters_told,
        interrupted=approval.interrupted,
        begun_with=approval.begun_with,
        outdated=approval.outdated,
        approved_before=approval.approved_before,
        approved_with=approval.approved_with,
        facts=approval.tool_facts,
        preview=Preview(changes, approval.stands_for, approval.problem, approval.facts),
        agent=approval.subagent,
        session_agent=approval.agent,
        user=approval.user,
        project=approval.project,
    )
