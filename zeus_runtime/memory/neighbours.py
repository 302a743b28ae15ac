"""The memories near a new text: those that it may repeat or replace, and those that stay beside it, linked."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from zeus_runtime.memory import records
from zeus_runtime.memory.admission.decisions import Decision, Duplicate, Neighbour, Rejected, Superseded
from zeus_runtime.memory.admission.gate import of_others
from zeus_runtime.memory.items import Caller, MemoryItem, MemorySettings, Scope
from zeus_runtime.memory.permissions import may, reach
from zeus_runtime.memory.retrieval.ranking import said_last
from zeus_runtime.memory.retrieval.words import indexed_words
from zeus_runtime.memory.vectors import VectorQuery

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.embedding import Calibration, Embedded
    from zeus_runtime.memory.retrieval.search_index import SearchIndex

_NEAR_WORDS: Final = 0.1
_NEAR_SHARE: Final = 0.3
"""Of the way from unrelated to the same; both signals together may make a neighbour near (``near``)."""
_MOST: Final = 3
"""By words, and so many by vector: of the labelled pairs, among 650 texts, more find no further one."""
_MOST_HELD: Final = 8
"""The number of neighbours by words for a text about something that a person has once: only its rare name differs."""

MOST_NEAR: Final = 3
"""How many near memories a save names and links."""
LEAST_NEAR: Final = 0.55
"""With vectors: 98 % of the updates in the tests' stories find the memory that they change, 0.5 others a statement."""
LEAST_NEAR_BY_WORDS: Final = 0.25
"""The same without vectors: 97 %, and 0.4 others."""


def neighbours(
    connection: Connection,
    index: SearchIndex,
    caller: Caller,
    scope: Scope,
    content: str,
    embedded: Embedded | None,
    settings: MemorySettings,
    *,
    now_ms: int,
    place: records.MemoryPlace | None = None,
) -> list[Neighbour]:
    """The active memories of the scope that say the same as ``content`` or are near it by words or by vector.

    Those that hold a known secret are as if they were not there: a guess at a word of it would be near them.

    Args:
        embedded: of the content; None if there is no vector of it.
        place: the scope's, if its row was read already.
    """
    from zeus_runtime.memory.admission.comparison import tells_change
    from zeus_runtime.memory.admission.statement import parse

    parts = reach(caller, "read", scope)
    known: dict[tuple[str, str], tuple[int, int]] | None = None
    if place is not None:
        # One scope has one place, and the caller holds its row.
        known = {(part.scope, part.scope_id): (place.key, place.changes) for part in parts}
    words = indexed_words(content)
    found = index.lexicon.find(connection, words, parts, caller.user_id, now_ms=now_ms, known=known)
    lexical: dict[str, float] = {}
    least_words, most = (_NEAR_WORDS, _MOST) if parse(content).held is None else (0.0, _MOST_HELD)
    for part in found:
        slots = part.best_by_words(least_words, most)
        lexical |= {part.shelf.id(slot): float(part.lexical[slot]) for slot in slots}
    cosines: dict[str, float] = {}
    query = None
    if embedded is not None:
        zero, same = embedded.calibration.cosine_zero, settings.duplicate_from(embedded.calibration)
        related = settings.related_from(embedded.calibration, told=tells_change(content))
        least = min(related, zero + (same - zero) * _NEAR_SHARE)
        query = VectorQuery(embedded.vector, embedded.embedding, parts, caller.user_id, at_least=least)
        withheld = {each for part in found for each in part.shelf.withheld}
        nearest = index.vectors.nearest(connection, query)
        cosines = dict(islice((each for each in nearest if each[0] not in withheld), _MOST))
    near = lexical.keys() | cosines.keys()
    items = {
        item.id: (item, same)
        for item, same in records.alike(connection, content, near, parts, caller.user_id)
    }
    if index.lexicon.withhold(item for item, _ in items.values()):
        return neighbours(
            connection,
            index,
            caller,
            scope,
            content,
            embedded,
            settings,
            now_ms=now_ms,
            place=place,
        )
    if query is not None and (unknown := items.keys() - cosines.keys()):
        # Also of those that only words found: the gate weighs both.
        cosines |= index.vectors.cosines(connection, query, unknown)
    for part in found:
        # Those that only the vector or equal words found have a lexical score too, below the best ones.
        for item_id in items.keys() - lexical.keys():
            slot = part.shelf.slot(item_id)
            if slot is not None:
                lexical[item_id] = float(part.lexical[slot])
    return [
        Neighbour(item, cosines.get(key), lexical.get(key), may(caller, "edit", item), same)
        for key, (item, same) in items.items()
        if item.status == "active"
    ]


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
