"""What is kept in memory of a place's items: their figures, and where the words that were asked for stand.

Brought up to date by the place's count of changes, which any process raises.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import bindparam, select

from zeus_runtime.memory.items import MEMORY_TYPES, VISIBILITIES, MemoryItem
from zeus_runtime.memory.permissions import Grant
from zeus_runtime.memory.records.columns import ms_or_none
from zeus_runtime.memory.records.reading import searchable
from zeus_runtime.memory.retrieval.lengths import Lengths
from zeus_runtime.memory.retrieval.packed_items import ALWAYS_MS, Columns, packed_items
from zeus_runtime.memory.retrieval.words import Found, counted, indexed_words, where_all_words, where_words
from zeus_runtime.store.memory_tables import GONE, ITEM
from zeus_runtime.store.prepared import Prepared
from zeus_runtime.store.word_entries import Way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from sqlalchemy import Connection

_STALE: Final = 4_000
"""Changes after which a place is read anew; fewer than those for which removals are remembered."""
_GONE_KEPT: Final = 1_000
"""Slots of items that are gone which are not worth reading a place anew, beside half of all."""
_WORDS_KEPT: Final = 4_096
_SMALL: Final = 4_000
"""Items of a place whose words are read with it: about 8 ms for each 1,000, where one word takes 0.06 to 0.15."""
_ENTRIES_KEPT: Final = 8_000_000


class Entries:
    """Where a word stands in a place: slots of the shelf, and how often there."""

    def __init__(self, slots: NDArray[np.int64], counts: NDArray[np.float64], *, once: bool) -> None:
        self._slots = slots
        self._counts = counts
        self._taken = len(slots)
        self.once = once or bool((counts == 1).all())

    def __len__(self) -> int:
        return self._taken

    @property
    def slots(self) -> NDArray[np.int64]:
        return self._slots[: self._taken]

    @property
    def counts(self) -> NDArray[np.float64]:
        return self._counts[: self._taken]

    def add(self, slot: int, often: int) -> None:
        """One more slot, which is not there yet."""
        if self._taken == len(self._slots):
            room = self._taken * 3 // 2 + 16
            self._slots = grown(self._slots, self._taken, room)
            self._counts = grown(self._counts, self._taken, room)
        self._slots[self._taken] = slot
        self._counts[self._taken] = often
        self._taken += 1
        self.once = self.once and often == 1


_FIGURES: Final = {
    "key": np.int64,
    "confidence": np.float64,
    "words": np.float64,
    "valid_from": np.int64,
    "valid_until": np.int64,
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
)


class View:
    """The slots that somebody may see, with what BM25 needs to know of them all."""

    def __init__(self) -> None:
        self._slots = np.zeros(0, np.bool_)
        self._taken = 0
        self.texts = 0
        self.words = 0.0

    @property
    def slots(self) -> NDArray[np.bool_]:
        """Whether, by slot."""
        return self._slots[: self._taken]

    def add(self, visible: NDArray[np.bool_], words: NDArray[np.float64]) -> None:
        end = self._taken + len(visible)
        if end > len(self._slots):
            self._slots = grown(self._slots, self._taken, end * 3 // 2 + 64 if self._taken else end)
        self._slots[self._taken : end] = visible
        self._taken = end
        self.texts += int(np.count_nonzero(visible))
        self.words += float(words[visible].sum())

    def add_one(self, visible: bool, words: int) -> None:
        if self._taken == len(self._slots):
            self._slots = grown(self._slots, self._taken, self._taken * 3 // 2 + 64)
        self._slots[self._taken] = visible
        self._taken += 1
        if visible:
            self.texts += 1
            self.words += words

    def seen(self, slots: NDArray[np.int64]) -> int:
        """How many of ``slots`` are among these."""
        return len(slots) if self.texts == self._taken else int(np.count_nonzero(self.slots[slots]))

    def take_away(self, slot: int, words: float) -> None:
        if self._slots[slot]:
            self._slots[slot] = False
            self.texts -= 1
            self.words -= float(words)


def grown(column: NDArray[Any], taken: int, room: int) -> NDArray[Any]:
    """The column with room for more."""
    new = np.zeros(room, column.dtype)
    new[:taken] = column[:taken]
    return new


class Shelf:
    """The figures of a place's items that can be found, one slot each, and the entries of words that were asked for.

    A slot is never used again: an item that changed gets a new one.
    """

    def __init__(self, way: Way = "of the place") -> None:
        self._way = way
        self._clear()

    def _clear(self) -> None:
        self.reading: object = object()
        """Another one each time it is read anew: slots of before mean nothing then."""
        self._place: int | None = None
        self._changes = -1
        self._figures: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _FIGURES.items()}
        self._views: dict[tuple[tuple[Grant, ...], str], View] = {}
        self._taken = 0
        self._timed = 0
        self._gone = 0
        self._ascending = True
        self._slots: dict[str, int] = {}
        self._by_key: dict[int, str] = {}
        self._ids: list[str] = []
        self._owners: dict[str, int] = {}
        self._entries: OrderedDict[str, Entries] = OrderedDict()
        self._lengths = Lengths(np.zeros(0), 0.0)
        self._kept = 0
        self._unread: dict[str, str] | None = None
        self._unread_of = 0

    def __len__(self) -> int:
        return self._taken

    def figure(self, name: str) -> NDArray[Any]:
        """One of confidence, words, owner, visibility, memory_type, by slot."""
        return self._figures[name][: self._taken]

    def lengths(self, mean: float) -> Lengths:
        """The texts' lengths beside a mean of so many words; kept until one of the two is another."""
        if self._lengths.mean != mean or len(self._lengths.words) != self._taken:
            self._lengths = Lengths(self.figure("words"), mean)
        return self._lengths

    def id(self, slot: int) -> str:
        """The item of a slot."""
        return self._ids[slot]

    def ids(self, start: int) -> Sequence[str]:
        """The items of the slots from ``start`` on."""
        return self._ids[start:]

    def slot(self, item_id: str) -> int | None:
        """Where an item stands now."""
        return self._slots.get(item_id)

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
            return
        fresh = place != self._place or not self._changes <= changes <= self._changes + _STALE
        if fresh or self._is_worn:
            self._read(connection, place)
        else:
            self._catch_up(connection)
        self._place, self._changes = place, changes

    @property
    def _is_worn(self) -> bool:
        """Whether so many slots are of items that are gone that it is better read anew."""
        return self._gone > self._taken // 2 + _GONE_KEPT

    def _read(self, connection: Connection, place: int) -> None:
        self._clear()
        if connection.dialect.name == "postgresql":
            self._append_columns(packed_items(connection, place))
            return
        self._append(_FOUND.rows(connection, {"place": place}))
        if self._taken <= _SMALL:
            self._unread, self._unread_of = where_all_words(connection, place), self._taken

    def _catch_up(self, connection: Connection) -> None:
        since = {"place": self._place, "since": self._changes}
        rows = _CHANGED.rows(connection, since)
        for row in (*_GONE.rows(connection, since), *rows):
            self._take_away(row[0])
        found = [tuple(row) for row in rows if row[-2]]
        first = self._taken
        self._append([row[: len(_COLUMNS)] for row in found])
        self._add_entries(first, [row[-1] for row in found])

    def follow(self, before: tuple[int, int], gone: Iterable[str], key: int, item: MemoryItem) -> None:
        """Take in, without reading it, the change that this process writes in the transaction at hand.

        If that is rolled back, the shelf is of no use any more.

        Args:
            before: the place's key and its count of changes before this one; nothing is done if they are others here,
                or if the place is to be read anew anyway.
            gone: ids of what can be found no more.
            key: of the item that can be found now.
        """
        if before != (self._place, self._changes) or self._is_worn:
            return
        for slot in [self._slots[each] for each in gone if each in self._slots]:
            self._take_away(int(self._figures["key"][slot]))
        slot = self._taken
        self._append_item(key, item)
        self._add_entries(slot, [item.content])
        self._changes += 1

    def _append_item(self, key: int, item: MemoryItem) -> None:
        """As ``_append`` does, for one: what is made for many takes three times as long."""
        slot, words = self._taken, len(indexed_words(item.content))
        self._make_room(slot + 1)
        valid = _valid(ms_or_none(item.valid_from), ms_or_none(item.valid_until))
        owner = self._owners.setdefault(item.created_by, len(self._owners))
        kinds = (_VISIBILITY[item.visibility], TYPE_NUMBERS[item.memory_type])
        figures = (key, item.confidence, words, *valid, owner, *kinds, True)
        for column, figure in zip(self._figures.values(), figures, strict=True):
            column[slot] = figure
        self._timed += sum(time != always for time, always in zip(valid, _ALWAYS, strict=True))
        self._ascending = self._ascending and (not slot or bool(self._figures["key"][slot - 1] < key))
        self._ids.append(item.id)
        self._slots[item.id] = slot
        self._by_key[key] = item.id
        self._taken = slot + 1
        for (grants, user_id), view in self._views.items():
            own = item.created_by == user_id
            view.add_one(any(grant.covers(item.visibility, own=own) for grant in grants), words)

    def _take_away(self, key: int) -> None:
        item_id = self._by_key.pop(key, None)
        if item_id is not None:
            slot = self._slots.pop(item_id)
            self._figures["there"][slot] = False
            self._gone += 1
            for view in self._views.values():
                view.take_away(slot, self._figures["words"][slot])

    def _append(self, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        keys, ids, confidences, words, froms, untils, owners, visibilities, types = zip(*rows, strict=True)
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
            )
        )

    def _append_columns(self, new: Columns) -> None:
        if not len(new.ids):
            return
        start, end = self._taken, self._taken + len(new.ids)
        self._make_room(end)
        column = self._figures
        column["key"][start:end] = new.keys
        column["confidence"][start:end] = new.confidences
        column["words"][start:end] = new.words
        column["valid_from"][start:end] = new.valid_from
        column["valid_until"][start:end] = new.valid_until
        for owner in dict.fromkeys(new.owners):
            self._owners.setdefault(owner, len(self._owners))
        column["owner"][start:end] = list(map(self._owners.__getitem__, new.owners))
        column["visibility"][start:end] = new.visibilities
        column["memory_type"][start:end] = new.types
        column["there"][start:end] = True
        self._timed += int(
            np.count_nonzero(column["valid_from"][start:end] != _ALWAYS[0])
            + np.count_nonzero(column["valid_until"][start:end] != _ALWAYS[1])
        )
        self._ascending = self._ascending and (not start or column["key"][start - 1] < column["key"][start])
        self._ids.extend(new.ids)
        self._slots.update(zip(new.ids, range(start, end), strict=True))
        self._by_key.update(zip(column["key"][start:end].tolist(), new.ids, strict=True))
        self._taken = end
        for (grants, user_id), view in self._views.items():
            view.add(self._covered(grants, user_id, start), self._figures["words"][start:end])

    def _make_room(self, end: int) -> None:
        room = len(self._figures["key"])
        if end > room:
            room = max(end, room * 3 // 2 + 64) if self._taken else end
            self._figures = {name: grown(column, self._taken, room) for name, column in self._figures.items()}

    def visible(self, grants: tuple[Grant, ...], user_id: str, now_ms: int) -> View:
        """The slots that the grants cover and that are valid now."""
        key = (grants, user_id)
        view = self._views.get(key)
        if view is None:
            view = View()
            view.add(self._covered(grants, user_id, 0), self.figure("words"))
            self._views[key] = view
        if not self._timed:
            return view
        valid = (self.figure("valid_from") <= now_ms) & (now_ms < self.figure("valid_until"))
        now = View()
        now.add(view.slots & valid, self.figure("words"))
        return now

    def _covered(self, grants: tuple[Grant, ...], user_id: str, start: int) -> NDArray[np.bool_]:
        allowed = np.zeros(self._taken - start, np.bool_)
        owner = self._owners.get(user_id, -1)
        for grant in grants:
            granted = np.zeros(len(_VISIBILITY), np.bool_)
            granted[[_VISIBILITY[each] for each in grant.visibilities]] = True
            covered = granted[self.figure("visibility")[start:]]
            if grant.own:
                covered &= self.figure("owner")[start:] == owner
            allowed |= covered
        return np.asarray(allowed & self.figure("there")[start:])

    def _add_entries(self, first: int, contents: Iterable[str]) -> None:
        new = [Counter(indexed_words(content)) for content in contents]
        if self._unread is not None:
            self._read_now({word for words in new for word in words} - self._entries.keys())
        for slot, words in enumerate(new, first):
            for word, often in words.items():
                known = self._entries.get(word)
                if known is not None:
                    self._kept += 1
                    known.add(slot, often)

    def entries(self, connection: Connection, words: Sequence[str]) -> list[Entries]:
        """Of each word the slots that have it; some may be of items that are gone."""
        unknown = [word for word in words if word not in self._entries]
        if unknown and self._place is not None:
            self._read_entries(connection, self._place, unknown)
        known = [self._entries.get(word, _NONE) for word in words]
        for word in words:
            if word in self._entries:
                self._entries.move_to_end(word)
        while len(self._entries) > _WORDS_KEPT or (self._kept > _ENTRIES_KEPT and len(self._entries) > 1):
            self._kept -= len(self._entries.popitem(last=False)[1])
            self._unread = None
        return known

    def _read_entries(self, connection: Connection, place: int, words: Sequence[str]) -> None:
        """Of a small place they are at hand; else, and once words had to be forgotten, the index is asked."""
        if self._unread is not None:
            self._read_now(words)
            return
        self._take_in(words, where_words(connection, place, words, self._way), self._taken)

    def _read_now(self, words: Collection[str]) -> None:
        """What is unread speaks of the items as they were: those that changed since have got their entries."""
        assert self._unread is not None
        docs = [self._unread.pop(word, "") for word in words]
        self._take_in(words, counted(docs), self._unread_of)

    def _take_in(self, words: Iterable[str], found: Found, of: int) -> None:
        """Keep the entries of an index that knew the first ``of`` slots."""
        slots, known = self._placed(found.keys, of)
        counts, ends = found.counts, found.ends
        if not known.all():
            slots, counts = slots[known], counts[known]
            ends = [int(np.count_nonzero(known[:end])) for end in ends]
        start = 0
        for word, end in zip(words, ends, strict=True):
            self._entries[word] = Entries(slots[start:end], counts[start:end], once=found.once)
            start = end
        self._kept += start

    def _placed(self, keys: NDArray[np.int64], of: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slot of each key, and whether it has one among the first ``of``."""
        if not self._ascending:
            slots = np.array(
                [self._slots.get(self._by_key.get(key, ""), of) for key in keys.tolist()], np.int64
            )
            return slots, slots < of
        own = self.figure("key")
        slots = np.minimum(np.searchsorted(own, keys), max(0, self._taken - 1))
        return slots, own[slots] == keys if self._taken else np.zeros(len(keys), np.bool_)


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
_ALWAYS: Final = (-ALWAYS_MS, ALWAYS_MS)
_VISIBILITY: Final = {name: number for number, name in enumerate(VISIBILITIES)}
TYPE_NUMBERS: Final = {name: number for number, name in enumerate(MEMORY_TYPES)}
_NONE: Final = Entries(np.zeros(0, np.int64), np.zeros(0, np.float64), once=True)
