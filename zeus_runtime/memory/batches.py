"""Memory changes that a model proposed: applied once each, listed with their price, and undone together."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zeus_runtime.errors import UsageError
from zeus_runtime.memory.admission.decisions import Duplicate, Rejected, Superseded
from zeus_runtime.memory.drafts import Draft
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.proposals import MemoryChange, NewMemory, Proposal, as_json, from_json
from zeus_runtime.memory.records.batches import (
    Batch,
    BatchKind,
    BatchState,
    BatchStep,
    Replaced,
    SearchCursor,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.operations import Operations, Written
    from zeus_runtime.memory.outcomes import Saved


class CallPrice(NamedTuple):
    """The model of a call, and what it used.

    Args:
        cost_usd: None where no price is known.
    """

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class FormedAnswer(NamedTuple):
    """A model's answer to a question with a form.

    Args:
        value: None if it does not fit the form.
    """

    value: Any
    price: CallPrice


AskForm: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[FormedAnswer]]
"""Asks a model: (system, text, JSON Schema) to its answer."""


class ListedBatch(NamedTuple):
    """A batch, and the number of its proposals by outcome."""

    batch: Batch
    outcomes: Mapping[str, int]


class Undone(NamedTuple):
    """The effect of an undo: ids of memories.

    Args:
        removed: the batch had added them.
        restored: the batch had replaced them.
        gone: changed by the batch, and deleted since.
    """

    batch: str
    removed: tuple[str, ...]
    restored: tuple[str, ...]
    gone: tuple[str, ...]


class MemoryBatches:
    """The batches of one caller.

    Args:
        opened: where the memories are.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._shared = opened
        self._caller = caller

    async def _acting(self) -> tuple[Operations, Caller]:
        return await self._shared.operations(), await self._shared.acting(self._caller)

    async def set_due(self, session: str, agent: str) -> None:
        """Note that a session of an agent may have new messages."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        await operations.database.write(
            lambda connection: records.set_due(connection, session, caller.user_id, agent), caller
        )

    async def due_sessions(self, agent: str) -> list[str]:
        """The user's sessions of an agent that may have new messages."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: records.due_sessions(connection, caller.user_id, agent), caller
        )

    async def set_searched(self, session: str, due: int) -> None:
        """Note that the messages of ``due`` runs were searched."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        await operations.database.write(
            lambda connection: records.set_searched(connection, session, due), caller
        )

    async def cursor(self, session: str) -> SearchCursor:
        """How far a session was searched for facts."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: records.cursor_of(connection, session), caller
        )

    async def unfinished(self, session: str | None) -> list[Batch]:
        """The batches of a session, or of none, whose proposals are not all saved."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: records.open_batches(connection, caller.user_id, session), caller
        )

    async def begin(
        self,
        kind: BatchKind,
        proposals: Sequence[Proposal] | None,
        price: CallPrice,
        *,
        session: str | None = None,
        seqs: tuple[int, int] = (0, 0),
    ) -> Batch | None:
        """Store an answer's proposals, and in the same transaction that its messages were searched.

        Args:
            proposals: None for an answer that cannot be read.
            seqs: the first and the last of the messages.

        Returns:
            the batch; None if another process has searched these messages meanwhile.
        """
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        state: BatchState = "unreadable" if proposals is None else "open" if proposals else "done"
        batch = Batch(
            f"batch_{os.urandom(6).hex()}",
            caller.user_id,
            kind,
            session,
            *seqs,
            state,
            [as_json(each) for each in proposals or ()],
            price.model,
            price.input_tokens,
            price.output_tokens,
            price.cost_usd,
            operations.database.time(),
        )

        def work(connection: Connection) -> bool:
            if session is not None:
                records.lock(connection, f"extractions of {session}")
                if records.cursor_of(connection, session).seq >= seqs[0]:
                    return False
                records.searched(connection, session, seqs[1])
            records.put_batch(connection, batch)
            return True

        return batch if await operations.database.write(work, caller) else None

    async def apply(self, batch: Batch) -> None:
        """Save the proposals that are not saved yet, each through the gate and together with its step."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        steps = await operations.database.read(
            lambda connection: records.steps_of(connection, batch.id), caller
        )
        done = {each.number for each in steps}
        for number, written in enumerate(batch.proposals):
            if number not in done:
                await self._save(batch, number, from_json(written))
        await operations.database.write(
            lambda connection: records.set_state(connection, batch.id, "done"), caller
        )

    async def _save(self, batch: Batch, number: int, proposal: Proposal) -> None:
        if isinstance(proposal, MemoryChange):
            await self._change(batch, number, proposal)
            return
        saved = await self._tried(batch, number, proposal, proposal.replaces)
        if saved.code in _MAY_NOT_REPLACE and batch.kind == "extraction":
            # The fact is kept beside the memories that it may not replace.
            saved = await self._tried(batch, number, proposal, ())
        if saved.code is not None:
            await self._note(batch, BatchStep(number, saved.code, None, ()))

    async def _change(self, batch: Batch, number: int, change: MemoryChange) -> None:
        from zeus_runtime.memory import records

        outcome = "retired" if change.retires else "dated"

        def along(connection: Connection, old: MemoryItem) -> None:
            if old.version != change.version:
                raise _ChangedSinceError
            since = Replaced(old.id, old.version + 1, old.valid_from, old.valid_until)
            records.put_step(connection, batch.id, BatchStep(number, outcome, None, (since,)))

        operations, caller = await self._acting()
        changes: dict[str, Any] = {"valid_from": change.valid_from, "valid_until": change.valid_until}
        if change.retires:
            changes = {"status": "archived"}
        try:
            changed = await operations.change(caller, change.id, changes, None, along=along)
        except _ChangedSinceError:
            changed = None
        if changed is None:
            await self._note(batch, BatchStep(number, "outdated", None, ()))
        else:
            self._shared.backfill_soon(self._caller)

    async def _tried(self, batch: Batch, number: int, proposal: NewMemory, replaces: Sequence[str]) -> Saved:
        from zeus_runtime.memory import records
        from zeus_runtime.memory.writing import Writing

        def along(connection: Connection, written: Written) -> None:
            if not isinstance(written.decision, Rejected):
                records.put_step(connection, batch.id, _step(number, written))

        draft = Draft(
            proposal.content,
            proposal.memory_type,
            proposal.scope,
            proposal.confidence,
            proposal.source,
            proposal.source_id,
            subject=proposal.subject,
            valid_from=proposal.valid_from,
            valid_until=proposal.valid_until,
        )
        _, caller = await self._acting()
        writing = Writing(self._shared, caller)
        # What is kept already and only tidied is no extraction.
        explicit = batch.kind == "consolidation"
        return await writing.save(draft, explicit=explicit, replaces=replaces, answer=batch.id, along=along)

    async def _note(self, batch: Batch, step: BatchStep) -> None:
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        await operations.database.write(
            lambda connection: records.put_step(connection, batch.id, step), caller
        )

    async def new_memories(self) -> int:
        """How many memories the caller made since the last consolidation."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: records.new_since_consolidation(connection, caller.user_id), caller
        )

    async def listed(self) -> list[ListedBatch]:
        """The user's batches, newest first."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()

        def work(connection: Connection) -> list[ListedBatch]:
            counted = records.outcome_counts(connection, caller.user_id)
            found = records.batches(connection, caller.user_id)
            return [ListedBatch(each, counted.get(each.id, {})) for each in reversed(found)]

        return await operations.database.read(work, caller)

    async def undo(self, batch_id: str) -> Undone:
        """Remove the memories that a batch added, and restore those that it replaced, in one transaction.

        Raises:
            UsageError: there is no such batch, it is not finished or undone already, or a later change depends on it.
        """
        operations, caller = await self._acting()
        undone = await operations.undo(caller, batch_id)
        self._shared.forget_used(undone.removed)
        self._shared.backfill_soon(self._caller)
        await self._draw_again()
        return undone

    async def _draw_again(self) -> None:
        """Draw the profiles that were drawn before: restored memories are new versions, which their lines lack."""
        from zeus_runtime.memory.profile.profiles import MemoryProfiles

        profiles = MemoryProfiles(self._shared, self._caller)
        for kind in ("user", "project"):
            if await profiles.news(kind) and await profiles.is_drawn(kind):
                await profiles.draw(kind)


class _ChangedSinceError(Exception):
    """A memory was changed since the model saw it."""


_MAY_NOT_REPLACE = frozenset(("unknown_memory", "other_scope", "forbidden"))


def _step(number: int, written: Written) -> BatchStep:
    decision = written.decision
    if isinstance(decision, Superseded):
        gone: tuple[MemoryItem, ...] = decision.all
    else:
        gone = decision.replaced if isinstance(decision, Duplicate) else ()
    outcome = "duplicate" if written.item is None else "superseded" if gone else "stored"
    changed = tuple(Replaced(each.id, each.version + 1, each.valid_from, each.valid_until) for each in gone)
    return BatchStep(number, outcome, None if written.item is None else written.item.id, changed)


def undo_batch(operations: Operations, connection: Connection, caller: Caller, batch_id: str) -> Undone:
    """Undo a batch in the transaction of ``connection``; ``MemoryBatches.undo`` has the errors."""
    from zeus_runtime.memory import records

    batch = records.batch_of(connection, caller.user_id, batch_id)
    if batch is None:
        raise UsageError(
            f"there is no batch {batch_id!r}", remedy="`zeus memory undo` lists those there are."
        )
    if batch.state == "open":
        raise UsageError(f"{batch_id} is not finished", remedy="Run the agent once, which finishes it.")
    if batch.state == "undone":
        raise UsageError(f"{batch_id} is undone already")
    steps = records.steps_of(connection, batch_id)
    added = [each.item for each in steps if each.item is not None]
    expected = dict.fromkeys(added, 1)
    before: dict[str, Replaced] = {}
    for step in steps:
        for each in step.replaced:
            expected[each.id] = each.version
            before.setdefault(each.id, each)
    found = {name: _held(connection, caller, name) for name in sorted(expected)}
    _refuse_later(
        connection, batch_id, added, expected, {name: each[0] for name, each in found.items() if each}
    )
    now, removed, restored = operations.database.time(), [], []
    going: dict[tuple[str, str], list[MemoryItem]] = {}
    for name, held in found.items():
        if held is None:
            continue
        item, place = held
        place = records.changed(connection, records.lock_place(connection, item.scope, item.scope_id))
        if name in added:
            going.setdefault((item.scope, item.scope_id), []).append(item)
            removed.append(name)
            continue
        former = {"valid_from": before[name].valid_from, "valid_until": before[name].valid_until}
        back = records.new_version(item, now, status="active", superseded_by=None, embedding=None, **former)
        records.rewrite(connection, back, place)
        records.record(connection, "restored", caller.user_id, now, back)
        operations.removal.forget_vectors(connection, [name])
        restored.append(name)
    for items in going.values():
        place = records.lock_place(connection, items[0].scope, items[0].scope_id)
        operations.removal.remove(connection, items, records.changed(connection, place), caller.user_id)
    records.set_state(connection, batch_id, "undone")
    gone = tuple(name for name, held in found.items() if held is None)
    return Undone(batch_id, tuple(removed), tuple(restored), gone)


def _held(connection: Connection, caller: Caller, name: str) -> Any:
    from zeus_runtime.memory import records

    return records.held(connection, name, caller, "edit")


def _refuse_later(
    connection: Connection,
    batch_id: str,
    added: Sequence[str],
    expected: Mapping[str, int],
    found: Mapping[str, MemoryItem],
) -> None:
    """Refuse an undo if a memory was changed since, or one that the batch added took the place of another later."""
    from zeus_runtime.memory import records

    later = [name for name, item in found.items() if item.version != expected[name]]
    later += [
        each.id
        for each in records.superseded_by(connection, added)
        if each.id not in expected and each.superseded_by in added
    ]
    if later:
        names = ", ".join(later)
        raise UsageError(
            f"{batch_id} cannot be undone: later changes of {names} depend on it",
            remedy=f"`zeus memory history {later[0]}` shows them. Undo later batches first, or change the memories"
            " one by one.",
        )
