"""Memory changes that a model proposed: applied once each, listed with their price, and undone together."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zeus_runtime.errors import ErrorsMasked
from zeus_runtime.memory.admission.decisions import Duplicate, Rejected, Superseded
from zeus_runtime.memory.drafts import Draft
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.proposals import MemoryChange, Proposal, ProposedMemory, as_json, from_json
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

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.operations import AddedMemory, Operations
    from zeus_runtime.memory.outcomes import Saved
    from zeus_runtime.memory.undoing import UndoEffect, Undone


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


class MemoryBatches(ErrorsMasked):
    """The batches of one caller.

    Args:
        opened: where the memories are.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._shared = opened
        self._caller = caller

    def _error_mask(self) -> Redactor:
        return self._shared.source.secrets

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
                # Asked again under the lock: while the model answered, another process may have searched the same
                # messages.
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
            # A step is written in the transaction of its memory, so after a kill no proposal is saved twice.
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
        if saved.code in _MAY_NOT_REPLACE and batch.kind != "consolidation":
            # The fact is kept beside the memories that it may not replace.
            saved = await self._tried(batch, number, proposal, ())
        if saved.code is not None:
            # In another transaction: nothing was saved, so after a kill the proposal is only tried and refused again.
            await self._note(batch, BatchStep(number, saved.code, None, ()))

    async def _change(self, batch: Batch, number: int, change: MemoryChange) -> None:
        from zeus_runtime.memory import records

        outcome = "retired" if change.retires else "dated"

        def along(connection: Connection, old: MemoryItem) -> None:
            if old.version != change.version:
                # Raised inside the transaction, so that nothing of the change is written.
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

    async def _tried(
        self, batch: Batch, number: int, proposal: ProposedMemory, replaces: Sequence[str]
    ) -> Saved:
        from zeus_runtime.memory import records
        from zeus_runtime.memory.writing import Writing

        def along(connection: Connection, written: AddedMemory) -> None:
            # A refused proposal may be tried once more without `replaces`; its step is written when that is known.
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
        # Tidying changes memories that are kept already, and documents are read because a person says so.
        explicit = batch.kind != "extraction"
        return await writing.save(draft, explicit=explicit, replaces=replaces, answer=batch.id, along=along)

    async def _note(self, batch: Batch, step: BatchStep) -> None:
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        await operations.database.write(
            lambda connection: records.put_step(connection, batch.id, step), caller
        )

    async def spent(self, session: str, since: int) -> float:
        """The cost of the calls for the messages of a session from number ``since`` on, in US dollars."""
        from zeus_runtime.memory import records

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: records.spent(connection, session, since), caller
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

    async def undo_effect(self, batch_id: str) -> UndoEffect:
        """What ``undo`` would remove and restore now. If one of these memories changes, it is refused.

        Raises:
            UsageError: as ``undo`` does.
        """
        from zeus_runtime.memory.undoing import undo_effect

        operations, caller = await self._acting()
        return await operations.database.read(
            lambda connection: undo_effect(connection, caller, batch_id), caller
        )

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


def _step(number: int, written: AddedMemory) -> BatchStep:
    decision = written.decision
    if isinstance(decision, Superseded):
        gone: tuple[MemoryItem, ...] = decision.all
    else:
        gone = decision.replaced if isinstance(decision, Duplicate) else ()
    outcome = "duplicate" if written.item is None else "superseded" if gone else "stored"
    changed = tuple(Replaced(each.id, each.version + 1, each.valid_from, each.valid_until) for each in gone)
    return BatchStep(number, outcome, None if written.item is None else written.item.id, changed)
