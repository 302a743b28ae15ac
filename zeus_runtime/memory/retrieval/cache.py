"""What is kept in memory of a place's items: their figures, and where the words that were asked for stand.

Brought up to date by the place's count of changes, which any process raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import bindparam, select

from zeus_runtime.memory.items import MEMORY_TYPES, VISIBILITIES, MemoryItem
from zeus_runtime.memory.permissions import Grant
from zeus_runtime.memory.records.columns import SAID_MS, ms_or_none, to_ms
from zeus_runtime.memory.records.reading import searchable
from zeus_runtime.memory.retrieval.entries import Entries, WordEntries
from zeus_runtime.memory.retrieval.growing import grown
from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets
from zeus_runtime.memory.retrieval.lengths import Lengths
from zeus_runtime.memory.retrieval.named_times import NamedTimes, time_column
from zeus_runtime.memory.retrieval.packed_items import ALWAYS_MS, Columns, packed_items
from zeus_runtime.memory.retrieval.slots import Slots
from zeus_runtime.memory.retrieval.subjects import Subjects
from zeus_runtime.memory.retrieval.turns import Turns
from zeus_runtime.memory.retrieval.view import VisibleSlots
from zeus_runtime.memory.retrieval.words import WORD_CHARACTERS, indexed_words
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import GONE, ITEM
from zeus_runtime.store.word_entries import Way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.memory.retrieval.time_words import Period

_STALE: Final = 4_000
"""Changes after which a place is read anew; fewer than those for which removals are remembered."""
_GONE_KEPT: Final = 1_000
"""Slots of items that are gone which are not worth reading a place anew, beside half of all."""
_SMALL: Final = 4_000
"""Items of a place whose words are read with it: about 8 ms for each 1,000, where one word takes 0.06 to 0.15."""

_FIGURES: Final = {
    "confidence": np.float64,
    "words": np.float64,
    "valid_from": np.int64,
    "valid_until": np.int64,
    "said": np.int64,
    "updated": np.int64,
    "owner": np.int32,
    "visibility": np.int8,
    "memory_type": np.int8,
    "there": np.bool_,
}
_COLUMNS: Final = (
    ITEM.c.key,
    ITEM.c.id,
    ITEM.c.confidence,
    ITEM.c.word_count,
    ITEM.c.valid_from_ms,
    ITEM.c.valid_until_ms,
    ITEM.c.created_by,
    ITEM.c.visibility,
    ITEM.c.memory_type,
    ITEM.c.source_id,
    ITEM.c.subject,
    SAID_MS,
    ITEM.c.updated_ms,
    ITEM.c.times,
)


class PlaceCache:
    """The figures of a place's items that can be found, by slot, and the entries of words that were asked for.

    Args:
        secrets: an item that holds one is withheld: it keeps its slot, and counts as one that nobody may see.
    """

    def __init__(self, way: Way = "of the place", secrets: HeldSecrets | None = None) -> None:
        self._way = way
        self._secrets = HeldSecrets() if secrets is None else secrets
        self._clear()

    def _clear(self) -> None:
        self.reading: object = object()
        """Another one each time it is read anew: slots of before mean nothing then."""
        self.withheld: set[str] = set()
        """The ids of the items that hold a known secret."""
        self._searched = 0
        self._known_secrets = -1
        self._place: int | None = None
        self._changes = -1
        self._figures: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _FIGURES.items()}
        self._views: dict[tuple[tuple[Grant, ...], str], VisibleSlots] = {}
        self._slots = Slots()
        self._timed = 0
        self._owners: dict[str, int] = {}
        self._entries = WordEntries(None, self._slots, self._way)
        self.turns, self.subjects, self._times = Turns(), Subjects(), NamedTimes()
        self._lengths = Lengths(np.zeros(0), 0.0)

    def __len__(self) -> int:
        return len(self._slots)

    def figure(self, name: str) -> NDArray[Any]:
        """One of ``_FIGURES``, by slot; times are in milliseconds since 1970."""
        return self._figures[name][: len(self)]

    def lengths(self, mean: float) -> Lengths:
        """The texts' lengths beside a mean of so many words; kept until one of the two is another."""
        if self._lengths.mean != mean or len(self._lengths.words) != len(self):
            self._lengths = Lengths(self.figure("words"), mean)
        return self._lengths

    def in_time(self, times: Sequence[Period]) -> NDArray[np.bool_]:
        """Whether what an item says happened or is true in one of these times (``time_words.times_of``), by slot."""
        valid = self.figure("valid_from"), self.figure("valid_until")
        return self._times.meeting(times, self.figure("said"), valid, ALWAYS_MS)

    def key(self, slot: int) -> int:
        """The key of a slot's item."""
        return self._slots.key(slot)

    def id(self, slot: int) -> str:
        """The item of a slot."""
        return self._slots.id(slot)

    def ids(self, start: int) -> Sequence[str]:
        """The items of the slots from ``start`` on."""
        return self._slots.ids(start)

    def slot(self, item_id: str) -> int | None:
        """Where an item stands now."""
        return self._slots.now(item_id)

    def refresh(self, connection: Connection, now: tuple[int, int] | None) -> None:
        """Bring it up to date. Not after writing in the same transaction: what is rolled back would stay here.

        Args:
            now: the place's key and count of changes; None if it has no row.
        """
        if now is None:
            self._clear()
            return
        place, changes = now
        if place == self._place and changes == self._changes:
            self._withhold_by_words(connection)
            return
        # A smaller count is that of a database that was restored; after `_STALE` the list of removals may lack some.
        fresh = place != self._place or not self._changes <= changes <= self._changes + _STALE
        if fresh or self._is_worn:
            self._read(connection, place)
        else:
            self._catch_up(connection)
        self._place, self._changes = place, changes
        self._withhold_by_words(connection)

    def _withhold_by_words(self, connection: Connection) -> None:
        """Withhold the items that hold a known secret, as far as its words tell them.

        Before any search, so that not even how rare a word is depends on what was found before.
        """
        known = self._secrets.known
        first = self._searched if known == self._known_secrets else 0
        self._searched, self._known_secrets = len(self), known
        words = [each[:WORD_CHARACTERS] for each in self._secrets.words()]
        if first == len(self) or not words:
            return
        found = {slot for each in self.entries(connection, words) for slot in each.slots.tolist()}
        slots = [slot for slot in sorted(found) if slot >= first and self._figures["there"][slot]]
        keys = [self.key(slot) for slot in slots]
        for start in range(0, len(keys), _READ_AT_ONCE):
            asked = _TEXTS.where(ITEM.c.key.in_(keys[start : start + _READ_AT_ONCE]))
            for item_id, content, subject in connection.execute(asked):
                if self._secrets.within(content, subject):
                    self.withhold(item_id)

    def withhold(self, item_id: str) -> bool:
        """Count an item as one that nobody may see; False if it is not here, or was withheld already."""
        slot = self._slots.now(item_id)
        if slot is None or item_id in self.withheld:
            return False
        self.withheld.add(item_id)
        self._hide(slot)
        return True

    @property
    def _is_worn(self) -> bool:
        """Whether so many slots are of items that are gone that it is better read anew."""
        return self._slots.gone > len(self) // 2 + _GONE_KEPT

    def _read(self, connection: Connection, place: int) -> None:
        self._clear()
        self._entries = WordEntries(place, self._slots, self._way)
        if connection.dialect.name == "postgresql":
            self._append_columns(packed_items(connection, place))
            return
        self._append(_FOUND.rows(connection, {"place": place}))
        if len(self) <= _SMALL:
            self._entries.read_all(connection)

    def _catch_up(self, connection: Connection) -> None:
        since = {"place": self._place, "since": self._changes}
        rows = _CHANGED.rows(connection, since)
        # All changed items lose their slots first: one that can still be found gets a new slot below.
        for row in (*_GONE.rows(connection, since), *rows):
            self._take_away(row[0])
        found = [tuple(row) for row in rows if row[-2]]
        first = len(self)
        self._append([row[: len(_COLUMNS)] for row in found])
        # By the contents that were just read, so that the index need not be asked.
        self._entries.add(first, [row[-1] for row in found])

    def follow(self, before: tuple[int, int], gone: Iterable[str], key: int, item: MemoryItem) -> None:
        """Apply the change that this process writes in the current transaction, without reading it.

        If the transaction is rolled back, the cache is invalid.

        Args:
            before: the place's key and its count of changes before this one; nothing is done if they are others here,
                or if the place is to be read anew anyway.
            gone: ids of items that cannot be found any more.
            key: of the item that can be found now.
        """
        # The figures here are older than that: the next refresh reads the changes between, and this one.
        if before != (self._place, self._changes) or self._is_worn:
            return
        for slot in [slot for each in gone if (slot := self._slots.now(each)) is not None]:
            self._take_away(self._slots.key(slot))
        slot = len(self)
        self._append_item(key, item)
        self._entries.add(slot, [item.content])
        # As `records.changed` counts it in the same transaction.
        self._changes += 1

    def _append_item(self, key: int, item: MemoryItem) -> None:
        """As ``_append`` does, for one item: the code for many takes three times as long."""
        slot, words = len(self), len(indexed_words(item.content))
        self._make_room(slot + 1)
        valid = _valid(ms_or_none(item.valid_from), ms_or_none(item.valid_until))
        owner = self._owners.setdefault(item.created_by, len(self._owners))
        kinds = (_VISIBILITY[item.visibility], TYPE_NUMBERS[item.memory_type])
        times = (to_ms(item.said_at), to_ms(item.updated_at))
        figures = (item.confidence, words, *valid, *times, owner, *kinds, True)
        for column, figure in zip(self._figures.values(), figures, strict=True):
            column[slot] = figure
        self._timed += sum(time != always for time, always in zip(valid, _ALWAYS, strict=True))
        self._slots.add_one(key, item.id)
        # The gate has refused a text that holds a secret.
        if self._searched == slot:
            self._searched += 1
        self.turns.add([item.source_id])
        self.subjects.add([item.subject])
        self._times.add([time_column(item.content, item.said_at)])
        for (grants, user_id), view in self._views.items():
            own = item.created_by == user_id
            view.add_one(any(grant.covers(item.visibility, own=own) for grant in grants), words)

    def _take_away(self, key: int) -> None:
        slot = self._slots.take_away(key)
        if slot is not None:
            self.withheld.discard(self.id(slot))
            self._hide(slot)

    def _hide(self, slot: int) -> None:
        self._figures["there"][slot] = False
        for view in self._views.values():
            view.take_away(slot, self._figures["words"][slot])

    def _append(self, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        columns = list(zip(*rows, strict=True))
        keys, ids, confidences, words, froms, untils, owners, visibilities, types, *about = columns
        self._append_columns(
            Columns(
                keys,
                ids,
                confidences,
                words,
                [_ALWAYS[0] if time is None else time for time in froms],
                [_ALWAYS[1] if time is None else time for time in untils],
                owners,
                list(map(_VISIBILITY.__getitem__, visibilities)),
                list(map(TYPE_NUMBERS.__getitem__, types)),
                *about,
            )
        )

    def _append_columns(self, new: Columns) -> None:
        if not len(new.ids):
            return
        start, end = len(self), len(self) + len(new.ids)
        self._make_room(end)
        column = self._figures
        column["confidence"][start:end] = new.confidences
        column["words"][start:end] = new.words
        column["valid_from"][start:end] = new.valid_from
        column["valid_until"][start:end] = new.valid_until
        for owner in dict.fromkeys(new.owners):
            self._owners.setdefault(owner, len(self._owners))
        column["said"][start:end] = new.said
        column["updated"][start:end] = new.updated
        column["owner"][start:end] = list(map(self._owners.__getitem__, new.owners))
        column["visibility"][start:end] = new.visibilities
        column["memory_type"][start:end] = new.types
        column["there"][start:end] = True
        self._timed += int(
            np.count_nonzero(column["valid_from"][start:end] != _ALWAYS[0])
            + np.count_nonzero(column["valid_until"][start:end] != _ALWAYS[1])
        )
        self._slots.add(new.keys, new.ids)
        self.turns.add(new.source_ids)
        self.subjects.add(new.subjects)
        self._times.add(new.times)
        for (grants, user_id), view in self._views.items():
            view.add(self._covered(grants, user_id, start), self._figures["words"][start:end])

    def _make_room(self, end: int) -> None:
        room = len(self._figures["there"])
        if end > room:
            room = max(end, room * 3 // 2 + 64) if len(self) else end
            self._figures = {name: grown(column, len(self), room) for name, column in self._figures.items()}

    def visible(self, grants: tuple[Grant, ...], user_id: str, now_ms: int) -> VisibleSlots:
        """The slots that the grants cover and that are valid now."""
        key = (grants, user_id)
        view = self._views.get(key)
        if view is None:
            view = VisibleSlots()
            view.add(self._covered(grants, user_id, 0), self.figure("words"))
            self._views[key] = view
        # Never counted down: an expired or removed item only costs this comparison.
        if not self._timed:
            return view
        valid = (self.figure("valid_from") <= now_ms) & (now_ms < self.figure("valid_until"))
        now = VisibleSlots()
        now.add(view.slots & valid, self.figure("words"))
        return now

    def _covered(self, grants: tuple[Grant, ...], user_id: str, start: int) -> NDArray[np.bool_]:
        allowed = np.zeros(len(self) - start, np.bool_)
        # No item has the owner -1: this user has written none here.
        owner = self._owners.get(user_id, -1)
        for grant in grants:
            granted = np.zeros(len(_VISIBILITY), np.bool_)
            granted[[_VISIBILITY[each] for each in grant.visibilities]] = True
            covered = granted[self.figure("visibility")[start:]]
            if grant.own:
                covered &= self.figure("owner")[start:] == owner
            allowed |= covered
        return np.asarray(allowed & self.figure("there")[start:])

    def entries(self, connection: Connection, words: Sequence[str]) -> list[Entries]:
        """Of each word the slots that have it; some may be of items that are gone."""
        return self._entries.of(connection, words)


def _valid(since: int | None, until: int | None) -> tuple[int, int]:
    """When an item is valid, in milliseconds since 1970."""
    return (_ALWAYS[0] if since is None else since, _ALWAYS[1] if until is None else until)


_FOUND: Final = Prepared(
    select(*_COLUMNS).where(ITEM.c.place == bindparam("place"), searchable()).order_by(ITEM.c.key)
)
_CHANGED: Final = Prepared(
    select(*_COLUMNS, searchable(), ITEM.c.content)
    .where(ITEM.c.place == bindparam("place"), ITEM.c.changed > bindparam("since"))
    .order_by(ITEM.c.key)
)
_GONE: Final = Prepared(
    select(GONE.c.item).where(GONE.c.place == bindparam("place"), GONE.c.changed > bindparam("since"))
)
_TEXTS: Final = select(ITEM.c.id, ITEM.c.content, ITEM.c.subject)
_READ_AT_ONCE: Final = 500
_ALWAYS: Final = (-ALWAYS_MS, ALWAYS_MS)
_VISIBILITY: Final = {name: number for number, name in enumerate(VISIBILITIES)}
TYPE_NUMBERS: Final = {name: number for number, name in enumerate(MEMORY_TYPES)}
