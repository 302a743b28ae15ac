"""A batch of memory changes undone: what it added goes, and what it replaced comes back, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.memory.records.batches import Replaced

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from zeus_runtime.memory.items import Caller, MemoryItem
    from zeus_runtime.memory.removal import Removal


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


class UndoEffect(NamedTuple):
    """What an undo would do now: the memories as they are now. Whoever may edit a memory may read it."""

    removed: tuple[MemoryItem, ...]
    restored: tuple[MemoryItem, ...]


class _Undoing(NamedTuple):
    """What a batch did to its memories.

    Args:
        added: the ids of those that it added.
        before: those that it changed, as they were.
        found: each of both that is still there, as the batch left it; None if it was deleted.
    """

    added: Sequence[str]
    before: Mapping[str, Replaced]
    found: Mapping[str, MemoryItem | None]


def undo_effect(connection: Connection, caller: Caller, batch_id: str) -> UndoEffect:
    """The effect that ``undo_batch`` would have; ``MemoryBatches.undo`` has the errors."""
    from zeus_runtime.memory import records

    added, _, found = _steps(
        connection, caller, batch_id, lambda name: records.find(connection, name, caller, "edit")
    )
    there = [item for item in found.values() if item is not None]
    return UndoEffect(
        tuple(item for item in there if item.id in added),
        tuple(item for item in there if item.id not in added),
    )


def _steps(
    connection: Connection, caller: Caller, batch_id: str, find: Callable[[str], MemoryItem | None]
) -> _Undoing:
    """What is to be undone.

    Raises:
        UsageError: as ``MemoryBatches.undo``.
    """
    from zeus_runtime.memory import records

    batch = records.batch_of(connection, caller.user_id, batch_id)
    if batch is None:
        raise NotFoundError(
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
            # Of several steps the last: undoing needs the memory as the batch left it.
            expected[each.id] = each.version
            # Of several steps the first: it has the times from before the batch.
            before.setdefault(each.id, each)
    found = {name: find(name) for name in sorted(expected)}
    _refuse_later(
        connection,
        batch_id,
        added,
        expected,
        {name: item for name, item in found.items() if item is not None},
    )
    return _Undoing(added, before, found)


def undo_batch(
    connection: Connection, removal: Removal, caller: Caller, batch_id: str, now: datetime
) -> Undone:
    """Undo a batch in the transaction of ``connection``; ``MemoryBatches.undo`` has the errors."""
    from zeus_runtime.memory import records

    added, before, found = _steps(
        connection, caller, batch_id, lambda name: _locked(connection, caller, name)
    )
    removed, restored = [], []
    going: dict[tuple[str, str], list[MemoryItem]] = {}
    for name, item in found.items():
        if item is None:
            continue
        # Read again: an earlier memory of the same place has raised the count.
        place = records.changed(connection, records.lock_place(connection, item.scope, item.scope_id))
        if name in added:
            going.setdefault((item.scope, item.scope_id), []).append(item)
            removed.append(name)
            continue
        former = {"valid_from": before[name].valid_from, "valid_until": before[name].valid_until}
        back = records.new_version(item, now, status="active", superseded_by=None, embedding=None, **former)
        records.rewrite(connection, back, place)
        records.record(connection, "restored", caller.user_id, now, back)
        removal.forget_vectors(connection, [name])
        restored.append(name)
    for items in going.values():
        place = records.lock_place(connection, items[0].scope, items[0].scope_id)
        removal.remove(connection, items, records.changed(connection, place), caller.user_id)
    records.set_state(connection, batch_id, "undone")
    gone = tuple(name for name, item in found.items() if item is None)
    return Undone(batch_id, tuple(removed), tuple(restored), gone)


def _locked(connection: Connection, caller: Caller, name: str) -> MemoryItem | None:
    from zeus_runtime.memory import records

    held = records.held(connection, name, caller, "edit")
    return None if held is None else held[0]


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
            remedy=f"`{zeus_command('memory', 'history', later[0])}` shows them. Undo later batches first, or change"
            " the memories one by one.",
        )
