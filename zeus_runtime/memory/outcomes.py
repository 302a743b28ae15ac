"""The outcomes of memory operations, and the sentences that report them to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from zeus_runtime.errors import UsageError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.admission.decisions import Decision, Duplicate, Rejected, StoredAlone, Superseded
from zeus_runtime.memory.items import MemoryItem

Outcome: TypeAlias = Literal["stored", "duplicate", "superseded", "rejected"]
Lost: TypeAlias = Literal["histories", "links", "profile lines"]
"""Parts of an export that a memory backend or a profile may have no place for."""


class UnknownMemoryError(UsageError):
    """There is no such memory, or none that the caller may do this with: the two look the same."""

    code = "unknown-memory"


class UnreadableMemoryError(UsageError):
    """The caller may delete the memory, and not read all that goes with it."""


@dataclass(frozen=True)
class Saved:
    """What became of a text.

    Args:
        outcome: what the gate decided.
        item: the memory that holds it now: the new one, or the one that said it already; None if rejected.
        replaced: the memory that it took the place of.
        also_replaced: further ones that it took the place of.
        code: why it was rejected, one of ``gate.REJECTIONS``.
        message: one sentence for the model: what happened and, if rejected, what to do.
        near: up to three memories that are near it and stay beside it, newest first: each may be out of date now.
    """

    outcome: Outcome
    item: MemoryItem | None
    message: str
    replaced: MemoryItem | None = None
    code: str | None = None
    also_replaced: tuple[MemoryItem, ...] = ()
    near: tuple[MemoryItem, ...] = ()

    @property
    def all_replaced(self) -> tuple[MemoryItem, ...]:
        """Every memory that it took the place of, the one that it is nearest to first."""
        return (self.replaced, *self.also_replaced) if self.replaced is not None else ()


@dataclass(frozen=True)
class RateLimit:
    """How many memories this session may still save without being asked within the window."""

    used: int
    allowed: int

    @property
    def remaining(self) -> int:
        return max(0, self.allowed - self.used)


@dataclass(frozen=True)
class MemoryStats:
    """Figures of all that the caller may read; those of ``by`` other than ``status`` count active memories.

    Args:
        by: ``status``, ``scope``, ``memory_type``, ``source``, ``trust``, ``embedding_model`` to value to number.
        waiting: memories that have no vector of the present embedding model yet.
    """

    active: int
    by: Mapping[str, Mapping[str, int]]
    waiting: int


def figures_of(items: Sequence[MemoryItem]) -> MemoryStats:
    """The figures of these memories, whose backend embeds in its own way."""
    active = [item for item in items if item.status == "active"]
    names = ("scope", "memory_type", "source", "trust")
    by = {name: dict(sorted(Counter(getattr(item, name) for item in active).items())) for name in names}
    status: Mapping[str, int] = dict(sorted(Counter(item.status for item in items).items()))
    return MemoryStats(len(active), {"status": status, **by, "embedding_model": {}}, 0)


@dataclass(frozen=True)
class Imported:
    """What became of the memories of an import.

    Args:
        outcomes: how many had which.
        refused: what was rejected, each with its number among the entries, from 1.
        left_out: how many were superseded by a memory that was not imported.
        past: how many that were stored are archived or superseded, as where they came from.
        lost: how many links and lines of profiles, and the histories of how many memories, have no place here.
        notes: what of the profiles was not imported, one sentence each.
    """

    outcomes: Mapping[Outcome, int]
    refused: tuple[tuple[int, Saved], ...] = ()
    left_out: int = 0
    past: int = 0
    lost: Mapping[Lost, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all that the entries have is here now."""
        return not (self.refused or self.left_out or self.lost or self.notes)

    @property
    def rejections(self) -> Mapping[str, int]:
        """Why those that were rejected were: code to number."""
        return Counter(saved.code for _, saved in self.refused if saved.code is not None)


def rejected(why: Rejected) -> Saved:
    """The outcome of a rejection by the gate."""
    return Saved("rejected", None, why.message, code=why.code)


def saved(decision: Decision, item: MemoryItem | None, near: tuple[MemoryItem, ...] = ()) -> Saved:
    """What a decision of the gate came to.

    Args:
        item: the new memory, if one was written.
        near: memories that stay beside it.
    """
    if isinstance(decision, Rejected):
        return rejected(decision)
    if isinstance(decision, Duplicate):
        if decision.of.trust == "quarantined":
            return Saved("duplicate", decision.of, f"Kept already, {_APART}")
        if decision.replaced:
            first, *others = decision.replaced
            message = f"This is kept already ({decision.reason}), now in place of an older memory."
            return Saved(
                "duplicate", decision.of, message, replaced=first, also_replaced=tuple(others), near=near
            )
        message = f"This is kept already ({decision.reason}): there is nothing to do."
        return Saved("duplicate", decision.of, message, near=near)
    if isinstance(decision, Superseded):
        return Saved(
            "superseded",
            item,
            f"Saved in place of an older memory ({decision.reason}).",
            replaced=decision.of,
            also_replaced=decision.also,
            near=near,
        )
    assert isinstance(decision, StoredAlone)
    if item is not None and item.trust == "quarantined":
        return Saved("stored", item, f"Kept {_APART}")
    return Saved("stored", item, "Saved.", near=near)


_APART: Final = "for a person to look at, and shown to no model: the text reads like an instruction."


def known(item: MemoryItem | None, memory_id: str) -> MemoryItem:
    """The memory, or the error that there is none."""
    if item is None:
        raise unknown(memory_id)
    return item


def refuse_shown(item: MemoryItem) -> MemoryItem:
    """The memory, if it is quarantined.

    Raises:
        UsageError: it is not.
    """
    if item.trust != "quarantined" or item.status != "active":
        raise UsageError(
            f"{item.id} is not quarantined", remedy="`zeus memory quarantine list` shows those there are."
        )
    return item


def unknown(memory_id: str) -> UnknownMemoryError:
    """The same words for a foreign memory and for one that is not there."""
    return UnknownMemoryError(
        f"there is no memory {memory_id!r} with which this could be done",
        remedy="`zeus memory list` shows those there are.",
    )


def refuse_unknown(**asked: tuple[str | None, tuple[str, ...]]) -> None:
    """Refuse a word that is none of those there are; None asks for all.

    Args:
        asked: by name, the word and those there are.

    Raises:
        UsageError: the first that is not there.
    """
    for name, (word, known_words) in asked.items():
        if word is not None and word not in known_words:
            raise UsageError(f"{name} is {word!r}", remedy=f"Use one of {', '.join(known_words)}.")
