"""Memories by the words they have in common with a query, scored as ``fusion.lexical_similarity`` scores.

How rare a word is follows from what the caller may see alone; the databases' own scores would count everybody's texts.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import bindparam, select

from zeus_runtime.memory.items import MemoryItem, MemoryType
from zeus_runtime.memory.permissions import Reach
from zeus_runtime.memory.retrieval.analysis import OR
from zeus_runtime.memory.retrieval.cache import TYPE_NUMBERS, PlaceCache
from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets
from zeus_runtime.memory.retrieval.ranking import SCOPE_PRIORITY
from zeus_runtime.memory.retrieval.view import VisibleSlots
from zeus_runtime.store.compiled_statements import Prepared, server_driver
from zeus_runtime.store.memory_tables import PLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.store.word_entries import Way

_ITEMS_KEPT: Final = 2_000_000
_SOMETHING: Final = 1e-12


_PLACE: Final = Prepared(
    select(PLACE.c.key, PLACE.c.changes).where(
        PLACE.c.scope == bindparam("scope"), PLACE.c.scope_id == bindparam("scope_id")
    )
)
_PLACES: Final = (
    "SELECT scope, scope_id, key, changes FROM memory_place WHERE (scope, scope_id) IN ({places})"
)


def _places(connection: Connection, reach: Sequence[Reach]) -> dict[tuple[str, str], tuple[int, int]]:
    """The key and count of changes of each place that has a row: one round trip where there are any."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    if reach and connection.dialect.name == "postgresql":
        query = _PLACES.format(places=", ".join(["(%s, %s)"] * len(reach)))
        wanted = [each for part in reach for each in (part.scope, part.scope_id)]
        rows = server_driver(connection).execute(query, wanted)
        return {(scope, of): (key, changes) for scope, of, key, changes in rows}
    for part in reach:
        for key, changes in _PLACE.rows(connection, {"scope": part.scope, "scope_id": part.scope_id}):
            found[part.scope, part.scope_id] = (key, changes)
    return found


@dataclass(frozen=True)
class ShelfMatches:
    """What a query finds on one shelf.

    Args:
        visible: by slot; the caller may see it and it is of the type asked for.
        lexical: by slot; ``fusion.lexical_similarity``, 0 without a common word; with what turns around it and its
            subject add, if that was asked for.
        priority: the scope's.
    """

    shelf: PlaceCache
    visible: NDArray[np.bool_]
    lexical: NDArray[np.float64]
    priority: float

    @property
    def confidence(self) -> NDArray[np.float64]:
        """By slot."""
        return self.shelf.figure("confidence")

    def best_by_words(self, at_least: float, count: int) -> list[int]:
        """The slots that fit the words best, and at least so well, the best first."""
        slots = np.flatnonzero(self.visible & (self.lexical >= max(at_least, _SOMETHING)))
        order = np.argsort(-self.lexical[slots], kind="stable")
        return [int(slot) for slot in slots[order[:count]]]


class Lexicon:
    """The shelves that were asked for, the last used ones kept. For one thread at a time.

    ``way`` is how entries of words are asked for (PostgreSQL).

    Args:
        secrets: items that hold one are withheld.
    """

    def __init__(self, secrets: HeldSecrets | None = None) -> None:
        self.way: Way = "of the place"
        self._secrets = HeldSecrets() if secrets is None else secrets
        self._shelves: OrderedDict[tuple[str, str, str], PlaceCache] = OrderedDict()
        self._items = 0
        self._doubted = False

    def find(
        self,
        connection: Connection,
        words: Sequence[str],
        reach: Sequence[Reach],
        user_id: str,
        *,
        now_ms: int,
        memory_type: MemoryType | None = None,
        in_context: bool = False,
        known: Mapping[tuple[str, str], tuple[int, int]] | None = None,
    ) -> list[ShelfMatches]:
        """Each part of the reach with how well its items fit ``words``, of ``indexed_words`` or ``asked_words``.

        The rarity of a word follows from all items that the caller may see within the reach, of any type.

        Args:
            now_ms: items that are not valid at this time are left out.
            in_context: subjects and the turns around a turn count too.
            known: key and count of changes of every place of the reach that has a row, if that was read already.
        """
        if self._doubted:
            self._doubted, self._items = False, 0
            self._shelves.clear()
        places = _places(connection, reach) if known is None else known
        shelves = [
            self._shelf(connection, part, user_id, places.get((part.scope, part.scope_id))) for part in reach
        ]
        seen = [
            shelf.visible(part.grants, user_id, now_ms) for shelf, part in zip(shelves, reach, strict=True)
        ]
        lexical = _scores(connection, words, list(zip(shelves, seen, strict=True)), in_context=in_context)
        parts = []
        for shelf, part, visible, share in zip(shelves, reach, seen, lexical, strict=True):
            wanted = visible.slots
            if memory_type is not None:
                wanted = wanted & (shelf.figure("memory_type") == TYPE_NUMBERS[memory_type])
            parts.append(ShelfMatches(shelf, wanted, share, SCOPE_PRIORITY[part.scope]))
        return parts

    def follow(
        self, whose: str, before: tuple[int, int], gone: Iterable[str], key: int, item: MemoryItem
    ) -> None:
        """Take in what ``whose`` transaction writes to the item's place (``Shelf.follow``), if it was asked for."""
        shelf = self._shelves.get((item.scope, item.scope_id, whose))
        if shelf is not None:
            self._items -= len(shelf)
            shelf.follow(before, gone, key, item)
            self._items += len(shelf)

    def withhold(self, items: Iterable[MemoryItem]) -> bool:
        """Leave those out from now on that hold a known secret; whether there is one that could be found."""
        held = [each.id for each in items if self._secrets.within(each.content, each.subject)]
        return sum(shelf.withhold(each) for each in held for shelf in self._shelves.values()) > 0

    def doubt(self) -> None:
        """Read everything anew: what was followed may not have been committed. For any thread."""
        # Only noted: another thread may be reading the shelves, and the next `find` drops them.
        self._doubted = True

    def kept(self, parts: Sequence[Reach], user_id: str) -> int | None:
        """How many items of these places are in memory; None if one of the places was not asked for yet."""
        shelves = [self._shelves.get((part.scope, part.scope_id, user_id)) for part in parts]
        return None if None in shelves else sum(len(shelf) for shelf in shelves if shelf is not None)

    def _shelf(
        self, connection: Connection, part: Reach, user_id: str, now: tuple[int, int] | None
    ) -> PlaceCache:
        # A project's rows may differ by who asks (row-level security), so each member has a copy.
        key = (part.scope, part.scope_id, user_id)
        known = self._shelves.pop(key, None)
        shelf = PlaceCache(self.way, self._secrets) if known is None else known
        self._items -= len(shelf)
        shelf.refresh(connection, now)
        self._items += len(shelf)
        self._shelves[key] = shelf
        while len(self._shelves) > 1 and self._items > _ITEMS_KEPT:
            self._items -= len(self._shelves.popitem(last=False)[1])
        return shelf


def _scores(
    connection: Connection,
    words: Sequence[str],
    shelves: Sequence[tuple[PlaceCache, VisibleSlots]],
    *,
    in_context: bool,
) -> list[NDArray[np.float64]]:
    texts = sum(view.texts for _, view in shelves)
    if not texts or not words:
        return [np.zeros(len(shelf)) for shelf, _ in shelves]
    mean = sum(view.words for _, view in shelves) / texts
    forms = {word: word.split(OR) for word in sorted(set(words))}
    wanted = [form for each in forms.values() for form in each]
    known = [dict(zip(wanted, shelf.entries(connection, wanted), strict=True)) for shelf, _ in shelves]

    # The inverse document frequency of BM25; the added 1 keeps it above 0 for words that most texts have.
    def weight(having: int) -> float:
        having = min(having, texts)
        return math.log(1 + (texts - having + 0.5) / (having + 0.5))

    weights: dict[str, float] = {}
    best, by_subject = 0.0, [np.zeros(len(shelf)) for shelf, _ in shelves]
    for own in forms.values():
        about = [shelf.subjects.slots_of(own) if in_context else _NOWHERE for shelf, _ in shelves]
        if any(map(len, about)):
            # A name: who is spoken to by it is not what a text is about, so it counts once, however short the text.
            about = [
                np.unique(np.concatenate([slots, *(entries[form].slots for form in own)]))
                for slots, entries in zip(about, known, strict=True)
            ]
            tells = weight(sum(view.seen(slots) for slots, (_, view) in zip(about, shelves, strict=True)))
            for scores, slots in zip(by_subject, about, strict=True):
                scores[slots] += tells
        else:
            tells = weight(
                sum(
                    view.seen(entries[form].slots)
                    for form in own
                    for entries, (_, view) in zip(known, shelves, strict=True)
                )
            )
            weights |= dict.fromkeys(own, tells)
        best += tells
    found = []
    for (shelf, view), entries, named in zip(shelves, known, by_subject, strict=True):
        scores = shelf.lengths(mean).scores(
            list(weights), [entries[form] for form in weights], list(weights.values())
        )
        if in_context:
            scores = shelf.turns.in_context(scores, view.slots) + named
        # `best` is a text's score that has every word; so the scores of all places compare.
        found.append(scores / best)
    return found


_NOWHERE: Final = np.zeros(0, np.int64)
