"""The writes that the service gives to a memory backend: a new memory, or a change of one. The gate decides here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import ChangedError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.admission.decisions import (
    Decision,
    Duplicate,
    Neighbour,
    Passed,
    Rejected,
    Superseded,
)
from zeus_runtime.memory.backend import FoundMemory, MemoryWrite, Written
from zeus_runtime.memory.items import Caller, Holds, MemoryItem, MemorySettings, Scope
from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.memory.permissions import may

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.admission.comparison import OfAKind
    from zeus_runtime.memory.operations import AddedMemory
    from zeus_runtime.memory.records import Action, HistoryEntry
    from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets


class _OfItem(MemoryWrite):
    """A write in the place of its item."""

    item: MemoryItem

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        return self.item.scope

    @property
    def scope_id(self) -> str:  # type: ignore[override]
        return self.item.scope_id


@dataclass(frozen=True)
class Elsewhere:
    """What a memory of an export had where it came from.

    Args:
        history: what happened to it.
        near: the memories, by their ids here, that it was linked with.
    """

    history: tuple[HistoryEntry, ...] = ()
    near: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NewMemory(_OfItem):
    """A text that passed the checks which need no stored memory.

    Args:
        item: as it would be stored.
        explicit: the user asked for it in words.
        replaces: the ids that a model or a person named; None: the rules decide.
        answer: the model's answer that saves it.
        along: writes in the same transaction, in Zeus's database.
        extractions: how often the agent saved on its own initiative; a backend in Zeus's database counts itself.
        beside: memories that it does not affect, since it was decided elsewhere that both are true.
        elsewhere: what it had, if it comes from an export.
        asks: what the gate would say; nothing is stored.
        withheld: memories that hold one of these secrets are as if they were not there, unless they are named.
    """

    caller: Caller
    passed: Passed
    item: MemoryItem
    settings: MemorySettings
    explicit: bool = True
    replaces: Sequence[str] | None = None
    answer: str | None = None
    extractions: int = 0
    along: Callable[[Connection, AddedMemory], None] | None = None
    of_a_kind: OfAKind | None = None
    beside: frozenset[str] = frozenset()
    elsewhere: Elsewhere | None = None
    asks: bool = False
    withheld: HeldSecrets | None = None

    @property
    def content(self) -> str:  # type: ignore[override]
        return self.passed.content

    @property
    def ids(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(each.strip() for each in self.replaces or () if each.strip()))

    def decide(self, found: Sequence[FoundMemory]) -> Written:
        from zeus_runtime.memory.admission import gate
        from zeus_runtime.memory.neighbours import near

        item, now = self.item, self.item.updated_at
        # A backend elsewhere may return more than it should: an unreadable memory must not show by a decision.
        readable = [each for each in found if may(self.caller, "read", each.item)]
        named: list[MemoryItem] | None = None
        if self.replaces is not None:
            asked = named_memories(
                self.caller, item, self.ids, {each.item.id: each.item for each in readable}
            )
            if isinstance(asked, Rejected):
                return Written(asked)
            named = asked
        known = [
            Neighbour(each.item, None, each.similarity, may(self.caller, "edit", each.item))
            for each in readable
            if each.item.status == "active"
            and (each.item.scope, each.item.scope_id) == (item.scope, item.scope_id)
            and not stays_beside(self.beside, each.item, self.content)
            and not (self.withheld and self.withheld.within(each.item.content, each.item.subject))
        ]
        decision = gate.decide(
            self.content,
            known,
            extractions=self.extractions,
            explicit=self.explicit,
            settings=self.settings,
            trust=self.passed.trust,
            subject=item.subject,
            holds=Holds(item.valid_from, item.valid_until, now),
            of_a_kind=self.of_a_kind,
            replaces=named,
        )
        if item.said_at < now:
            decision = unless_outdated(decision, item.said_at)
        if self.asks or isinstance(decision, Rejected):
            return Written(decision)
        if isinstance(decision, Duplicate):
            return Written(decision, changes=self._succeeded(decision.replaced, decision.of))
        gone = decision.all if isinstance(decision, Superseded) else ()
        beside = near(known, decision, item.subject, self.settings, None)
        action: Action = "stored" if self.elsewhere is None else "imported"
        before = () if self.elsewhere is None else self.elsewhere.history
        return Written(decision, item, beside, ((action, item), *self._succeeded(gone, item)), before)

    def _succeeded(self, gone: Sequence[MemoryItem], by: MemoryItem) -> tuple[tuple[Action, MemoryItem], ...]:
        from zeus_runtime.memory.superseding import succeeded

        return tuple(succeeded(each, by.id, self.item.updated_at, by.valid_from) for each in gone)


@dataclass(frozen=True, eq=False)
class MemoryEdit(_OfItem):
    """A change of a memory that the caller may edit.

    Args:
        item: the memory as it is.
        changes: field to new value.
        edited: the memory as it will be, for its vector.
        now: the clock, UTC.
        version: the version that is edited; None for any.
    """

    caller: Caller
    item: MemoryItem
    changes: Mapping[str, Any]
    edited: MemoryItem
    now: Callable[[], datetime]
    version: int | None = None
    content: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.item.id,)

    def refuse_changed(self, old: MemoryItem) -> None:
        """Check that the memory has the version that is edited.

        Raises:
            ChangedError: it has another.
        """
        if self.version is not None and old.version != self.version:
            raise ChangedError(
                f"{old.id} was changed since you read it",
                remedy="Read it again, then edit what is there now.",
            )

    def decide(self, found: Sequence[FoundMemory]) -> Written:
        there = {each.item.id: each.item for each in found}
        # As the backend has it now, not as it was when the edit began.
        old = there.get(self.item.id)
        if old is None or not may(self.caller, "edit", old):
            return Written(None)
        self.refuse_changed(old)
        item = replace(old, **self.changes, updated_at=self.now(), version=old.version + 1)
        from zeus_runtime.memory.records import action_of

        return Written(None, item, changes=((action_of(old, item), item),))


@dataclass(frozen=True, eq=False)
class PastMemory(_OfItem):
    """An archived or superseded memory that was exported elsewhere; it affects no other.

    Args:
        item: as it is stored.
        elsewhere: what it had.
    """

    caller: Caller
    item: MemoryItem
    elsewhere: Elsewhere = Elsewhere()
    content: str | None = None
    ids: tuple[str, ...] = ()

    def decide(self, found: Sequence[FoundMemory]) -> Written:
        return Written(None, self.item, changes=(("imported", self.item),), before=self.elsewhere.history)


def stays_beside(beside: frozenset[str], item: MemoryItem, content: str) -> bool:
    """Whether a memory is one of ``beside``, and does not say the same as ``content``."""
    return item.id in beside and duplicate_key(item.content) != duplicate_key(content)


def named_memories(
    caller: Caller, item: MemoryItem, wanted: Sequence[str], found: Mapping[str, MemoryItem]
) -> list[MemoryItem] | Rejected:
    """The memories that ``item`` is to replace, without those that were replaced or archived already."""
    named = []
    for each in wanted:
        old = found.get(each)
        if old is None or old.trust == "quarantined":
            return Rejected(
                "unknown_memory",
                f"There is no memory {each!r} that could be replaced: use the ids that memory_search shows, "
                "or save it without replaces.",
            )
        if (old.scope, old.scope_id) != (item.scope, item.scope_id):
            return Rejected(
                "other_scope",
                f"{each} is of the scope {old.scope}: save with that scope, or without replaces.",
            )
        if not may(caller, "edit", old) or (item.trust, old.trust) == ("untrusted", "trusted"):
            return Rejected("forbidden", f"You may not replace {each}: save it without replaces.")
        # One that has given way already is skipped: the model may have seen it before that.
        if old.status == "active":
            named.append(old)
    return named


def unless_outdated(decision: Decision, said_at: datetime) -> Decision:
    """Return the decision about an older text, such as one of an import: a later memory stays, unless both agree."""
    if not isinstance(decision, Superseded):
        return decision
    replaced = decision.also if decision.reason in _AGREES else decision.all
    later = max(replaced, key=lambda each: each.said_at, default=None)
    if later is None or later.said_at <= said_at:
        return decision
    return Rejected(
        "outdated",
        f"{later.id} says otherwise and was said later, on {later.said_at:%Y-%m-%d}: "
        "delete that one first, if this is what holds.",
    )


_AGREES: Final = frozenset(("trusted more",))
"""Reasons for which a text replaces another one without contradicting it."""
