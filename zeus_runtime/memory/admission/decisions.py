"""The input and the answers of the gate."""

from __future__ import annotations

from typing import Final, TypeAlias

from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import MemoryItem, Trust


@dataclass(frozen=True)
class Passed:
    """A text that may be stored, unless a stored one forbids it.

    Args:
        content: normalised.
        trust: ``quarantined`` if it reads like an instruction.
        rule: why it is quarantined, fit for a log; None otherwise.
        subject: its topic, normalised to one line; None if none was given.
    """

    content: str
    trust: Trust
    rule: str | None = None
    subject: str | None = None


@dataclass(frozen=True)
class Rejected:
    """A text that is not kept.

    Args:
        code: for programs, one of ``REJECTIONS``.
        message: one sentence for the model: what is wrong and what to do. It never quotes the text.
        rule: which rule found something sensitive, fit for a log; None otherwise.
    """

    code: str
    message: str
    rule: str | None = None


SAME_WORDS: Final = "same words"
"""Why a text that has the words of a stored one is its duplicate."""


@dataclass(frozen=True)
class StoredAlone:
    """A separate memory."""


@dataclass(frozen=True)
class Duplicate:
    """Nothing new: ``of`` says it already, for the reason given. It replaces ``replaced``, which were named."""

    of: MemoryItem
    reason: str
    replaced: tuple[MemoryItem, ...] = ()


@dataclass(frozen=True)
class Superseded:
    """A memory that takes the place of ``of``, for the reason given, and of ``also``: older texts it replaces too."""

    of: MemoryItem
    reason: str
    also: tuple[MemoryItem, ...] = ()

    @property
    def all(self) -> tuple[MemoryItem, ...]:
        """Every memory that it takes the place of."""
        return (self.of, *self.also)


Decision: TypeAlias = StoredAlone | Duplicate | Superseded | Rejected


@dataclass(frozen=True)
class Neighbour:
    """An active item of the same scope and ``scope_id`` that may say the same.

    Args:
        cosine: with the new text; None where one of the two has no vector of this model.
        lexical: ``fusion.lexical_similarity`` with the new text as the query; None where it was not found by words.
        editable: whether the caller may edit it; what they may not edit cannot be superseded by them.
        same: whether it has the words of the new text (``same_words``), where that is known already.
    """

    item: MemoryItem
    cosine: float | None = None
    lexical: float | None = None
    editable: bool = True
    same: bool | None = None
