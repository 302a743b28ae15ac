"""Where a session's time went: its runs, model calls, tool calls, approvals and sub-agents, from the stored rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.models.content import calls_of
from zeus_runtime.models.messages import from_payload
from zeus_runtime.run.transcript import GIVEN
from zeus_runtime.store.branch import place_when_written
from zeus_runtime.store.session_tree import child_session

if TYPE_CHECKING:
    from zeus_runtime.store.branch import Rollback
    from zeus_runtime.store.snapshots import Snapshot
    from zeus_runtime.store.thread_log import LogEntry, StepEntry, ThreadLog
    from zeus_runtime.tools.approval import PendingApproval

Kind: TypeAlias = Literal["run", "model_call", "compaction", "tool_call", "approval"]


@dataclass(frozen=True)
class Span:
    """A part of a session that took time.

    Args:
        kind: what it is.
        name: the agent of a run, the model of a call, the tool of a call or of an approval.
        start_ms, end_ms: UTC milliseconds since 1970; ``end_ms`` is None if it has not ended.
        session, run: where it is stored.
        state: how it ended: a run as in ``zeus sessions list``, a model call with its finish reason or the code of its
            error, a tool call with ``ok`` or ``error``, an approval with its decision; empty if it has not ended.
        details: figures by name: tokens, US dollars (of a run, its sub-agents' included), the call's id, the tokens
            that context policies removed, what an approval is about (``PendingApproval.kind``).
        spans: its parts in order. A tool call begins when its answer is stored, so it includes its approvals.
    """

    kind: Kind
    name: str
    start_ms: int
    end_ms: int | None
    session: str
    run: str
    state: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    spans: Sequence[Span] = ()


async def trace_of(log: ThreadLog, session: str) -> Sequence[Span]:
    """The runs of a session, oldest first, those of its sub-agents inside the calls that they worked for.

    Messages that a rollback set aside are included: their time has passed.

    Raises:
        UsageError: there is no such session, or it is archived.
    """
    from zeus_runtime.store.approvals import approvals_of
    from zeus_runtime.store.rollbacks import rollbacks
    from zeus_runtime.store.snapshots import snapshots

    thread = await log.find(session)
    stored = _Stored(
        session=session,
        agent=(await log.info(thread)).agent,
        entries=[each for each in await log.read(thread) if not each.id.startswith(GIVEN)],
        steps=await log.steps(thread),
        snapshots=await snapshots(log, thread),
        approvals=await approvals_of(log, thread),
        rollbacks=await rollbacks(log, thread),
        children={each.session: await trace_of(log, each.session) for each in await log.children(session)},
    )
    return stored.runs()


@dataclass(frozen=True)
class _Stored:
    """The rows of a session, and the runs of its sub-agents' sessions by session."""

    session: str
    agent: str
    entries: Sequence[LogEntry]
    steps: Sequence[StepEntry]
    snapshots: Sequence[Snapshot]
    approvals: Sequence[PendingApproval]
    rollbacks: Sequence[Rollback]
    children: Mapping[str, Sequence[Span]]

    def runs(self) -> Sequence[Span]:
        # In the order of their places: an answer and its ledger entry are stored at almost the same time.
        parts: dict[str, list[tuple[int, bool, Span]]] = {}
        begun: dict[str, int] = {}
        for each in self.entries:
            begun.setdefault(_run_of(each.id), each.created_ms)
        # With the run: after a rollback two messages may have one place.
        answered = {(_run_of(each.id), self._place(each)): each.created_ms for each in self.entries}
        for step in self.steps:
            span = self._step(step, answered)
            if span is not None:
                begun.setdefault(span.run, span.start_ms)
                parts.setdefault(span.run, []).append((step.seq, False, span))
        for place, call in self._calls():
            parts.setdefault(call.run, []).append((place, True, call))
        return [
            # By place: a model call has that of the message before its answer, so it precedes the answer's tool calls.
            self._run(run, start_ms, [each for *_, each in sorted(parts.get(run, ()), key=itemgetter(0, 1))])
            for run, start_ms in begun.items()
        ]

    def _run(self, run: str, start_ms: int, parts: Sequence[Span]) -> Span:
        own = [each for each in self.snapshots if each.run_id == run]
        ended = own[-1] if own and own[-1].reason not in ("turn-start", "manual") else None
        helpers = [inner for each in parts for inner in each.spans if inner.kind == "run"]
        costs = [cost for each in (*parts, *helpers) if (cost := each.details.get("cost_usd")) is not None]
        return Span(
            kind="run",
            name=self.agent,
            start_ms=start_ms,
            end_ms=None if ended is None else max(ended.created_ms, start_ms),
            session=self.session,
            run=run,
            state="open" if ended is None else ended.reason,
            details={"cost_usd": sum(costs)} if costs else {},
            spans=parts,
        )

    def _step(self, entry: StepEntry, answered: Mapping[tuple[str, int], int]) -> Span | None:
        """The call of a ledger's entry, which ended when its answer was stored; None if the entry cannot be read."""
        try:
            step = StepRecord.from_json(entry.payload)
        except ValueError:
            return None
        usage = step.usage
        details: dict[str, Any] = {"step": step.number}
        if usage is not None:
            details |= {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "cached_tokens": usage.cache_read_tokens,
            }
        if step.cost_usd is not None:
            details["cost_usd"] = step.cost_usd
        if removed := sum(each.tokens_before - each.tokens_after for each in step.decisions if each.admitted):
            details["removed_tokens"] = removed
        end_ms = answered.get((step.run_id, step.cursor + 1), entry.created_ms)
        return Span(
            kind="model_call" if step.cause == "turn" else "compaction",
            name=step.model,
            start_ms=end_ms - round(step.duration_ms),
            end_ms=end_ms,
            session=self.session,
            run=step.run_id,
            state=step.error or step.finish_reason,
            details=details,
        )

    def _place(self, entry: LogEntry) -> int:
        """The message's place when it was written."""
        return place_when_written(self.rollbacks, entry.seq)

    def _calls(self) -> Iterator[tuple[int, Span]]:
        """The tool calls, with their answer's place; a result has the place that its answer reserved for it."""
        # With the run: after a rollback two messages may have one place.
        results: dict[tuple[str, int], tuple[int, str]] = {}
        made: list[tuple[LogEntry, int, int, Mapping[str, Any]]] = []
        for entry in self.entries:
            message, place = from_payload(json.loads(entry.payload)), self._place(entry)
            if message.type == "tool":
                state = "error" if getattr(message, "status", "") == "error" else "ok"
                results[_run_of(entry.id), place] = (entry.created_ms, state)
            elif message.type == "ai":
                made += [(entry, place, at, call) for at, call in enumerate(calls_of(message), 1)]
        for answer, place, at, call in made:
            ended = results.get((_run_of(answer.id), place + at), (None, ""))
            yield place, self._call(answer, place, at, call, *ended)

    def _call(
        self,
        answer: LogEntry,
        place: int,
        number: int,
        call: Mapping[str, Any],
        end_ms: int | None,
        state: str,
    ) -> Span:
        """Call ``number`` (from 1) of the answer at ``place``, and how it ended."""
        run = _run_of(answer.id)
        asked = [each for each in self.approvals if each.is_of(run, place + number, str(call["id"]))]
        return Span(
            kind="tool_call",
            name=call["name"] or "",
            start_ms=answer.created_ms,
            end_ms=end_ms,
            session=self.session,
            run=run,
            state=state,
            details={"call_id": str(call["id"])},
            spans=sorted(
                [*map(self._approval, asked), *self._helpers(run, place + number)],
                key=lambda span: span.start_ms,
            ),
        )

    def _helpers(self, run: str, place: int) -> Iterator[Span]:
        """The runs of the sub-agents that worked for the call at ``place``, also before its arguments were changed."""
        for number in count():
            child = child_session(self.session, run, place, number)
            if child not in self.children:
                return
            yield from self.children[child]

    def _approval(self, asked: PendingApproval) -> Span:
        decided = asked.decision
        return Span(
            kind="approval",
            name=asked.tool,
            start_ms=asked.created_ms,
            end_ms=asked.decided_ms,
            session=self.session,
            run=asked.run_id,
            state="" if decided is None else decided.answer,
            details={"id": asked.id, "kind": asked.kind},
        )


def _run_of(message_id: str) -> str:
    return message_id.rpartition(".")[0]
