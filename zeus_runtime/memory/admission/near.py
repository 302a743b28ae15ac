"""The memories near a text that stay beside it: in doubt both are kept, linked, and shown together."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zeus_runtime.memory.admission.changed import same_words
from zeus_runtime.memory.admission.decisions import Decision, Duplicate, Neighbour, Rejected, Superseded
from zeus_runtime.memory.retrieval.ranking import said_last

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Calibration
    from zeus_runtime.memory.items import MemoryItem, MemorySettings

MOST_NEAR: Final = 3
"""How many near memories a save names and links."""


LEAST_NEAR: Final = 0.55
"""With vectors: 98 % of the updates in the tests' stories find the memory that they change, 0.5 others a statement."""
LEAST_NEAR_BY_WORDS: Final = 0.25
"""The same without vectors: 97 %, and 0.4 others."""


def near(
    neighbours: Sequence[Neighbour],
    decision: Decision,
    subject: str | None,
    settings: MemorySettings,
    calibration: Calibration | None,
) -> tuple[MemoryItem, ...]:
    """The nearest memories that the text is kept beside, newest first; none for a text that is not kept.

    Memories of another subject are left out, if both subjects are known.

    Args:
        calibration: of the model of the cosines; None without cosines.
    """
    if isinstance(decision, Rejected | Duplicate):
        return ()
    gone = {each.id for each in decision.all} if isinstance(decision, Superseded) else set()
    least = LEAST_NEAR_BY_WORDS if calibration is None else LEAST_NEAR
    beside = []
    for each in neighbours:
        nearness = _nearness(each, settings, calibration)
        kept = each.item.is_searchable and each.item.id not in gone and not of_others(subject, each.item)
        if kept and nearness >= least:
            beside.append((nearness, each.item))
    nearest = heapq.nlargest(MOST_NEAR, beside, key=lambda each: (each[0], each[1].id))
    return tuple(sorted((item for _, item in nearest), key=said_last, reverse=True))


def _nearness(neighbour: Neighbour, settings: MemorySettings, calibration: Calibration | None) -> float:
    """Words and vector as independent evidence, 0 to 1."""
    words = min(1.0, neighbour.lexical or 0.0)
    if calibration is None or neighbour.cosine is None:
        return words
    zero, same = calibration.cosine_zero, settings.duplicate_from(calibration)
    dense = min(1.0, max(0.0, (neighbour.cosine - zero) / (same - zero))) if same > zero else 0.0
    return 1 - (1 - words) * (1 - dense)


def of_others(subject: str | None, item: MemoryItem) -> bool:
    """Whether both subjects are known and differ."""
    return bool(subject and item.subject) and not same_words(subject or "", item.subject or "")


def nearest_first(neighbour: Neighbour) -> tuple[float, float, str]:
    """The order of neighbours."""
    return -(neighbour.cosine or 0.0), -(neighbour.lexical or 0.0), neighbour.item.id
