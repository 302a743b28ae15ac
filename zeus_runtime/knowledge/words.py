"""The words of chunks, packed to bytes where they are stored, and BM25 over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zeus_runtime.knowledge.word_numbers import WordNumbers, query_numbers
from zeus_runtime.memory.retrieval.fusion import K1, B

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PackedWords(NamedTuple):
    """The words of some texts.

    Args:
        lengths: how many words each text has; four bytes each.
        words: their numbers, text after text, within a text in no order; four bytes each.
    """

    lengths: bytes
    words: bytes


_AT_ONCE: Final = 128
"""Many, since an array's operations cost more than what they do to the words of one text; not so many that the arrays
leave the processor's cache, and that memory is taken from the system for each of them anew."""


def packed_words(texts: Sequence[str], ends: Sequence[int], numbers: WordNumbers) -> list[PackedWords]:
    """The words of texts, some texts together.

    Args:
        ends: where each group of texts ends, ascending; the first begins with the first text.
    """
    found = [numbers.of(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
    words = b"".join([each.astype("<u4", copy=False).tobytes() for each, _ in found])
    counts = np.concatenate([each for _, each in found]) if found else np.zeros(0, np.int64)
    lengths = counts.astype("<u4").tobytes()
    places = np.concatenate(([0], np.cumsum(counts)))[[0, *ends]].tolist()
    return [
        PackedWords(lengths[start * 4 : end * 4], words[first * 4 : last * 4])
        for (start, end), (first, last) in zip(pairwise((0, *ends)), pairwise(places), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Postings:
    """The words of many chunks.

    Args:
        words, counts: each word of a chunk once, and its count there; for all chunks, one after the other.
        slots: the chunk of each entry.
        lengths: words of each chunk.
    """

    words: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    slots: NDArray[np.int32]
    lengths: NDArray[np.int32]

    def having(self, words: Sequence[int]) -> NDArray[np.int32]:
        """The chunks that have one of these words, given by number; ascending."""
        return np.unique(self.slots[np.isin(self.words, np.array(words, np.uint32))])


def postings(packed: Sequence[PackedWords]) -> Postings:
    """What ``packed_words`` made of texts, together."""
    lengths = np.frombuffer(b"".join([each.lengths for each in packed]), "<u4").astype(np.int64)
    words = np.frombuffer(b"".join([each.words for each in packed]), "<u4")
    # The chunk in the high bits, the word in the low ones: one sort groups both, and equal neighbours are one word's
    # repeats.
    keys = np.repeat(np.arange(len(lengths)) << 32, lengths) | words
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    distinct = keys[first]
    return Postings(
        distinct.astype(np.uint32),
        np.minimum(np.diff(first, append=len(keys)), 65_535).astype(np.uint16),
        (distinct >> 32).astype(np.int32),
        lengths.astype(np.int32),
    )


def parted(whole: Postings, ends: Sequence[int]) -> list[Postings]:
    """The inverse of ``together``.

    Args:
        ends: behind the last chunk of each part, ascending.
    """
    edges = np.searchsorted(whole.slots, [0, *ends]).tolist()
    return [
        Postings(
            whole.words[first:last].copy(),
            whole.counts[first:last].copy(),
            whole.slots[first:last] - np.int32(start),
            whole.lengths[start:end].copy(),
        )
        for (start, end), (first, last) in zip(pairwise((0, *ends)), pairwise(edges), strict=True)
    ]


def of_slots(whole: Postings, slots: Sequence[int]) -> Postings:
    """As if there were only these chunks, ascending."""
    place = np.full(len(whole.lengths), -1, np.int32)
    place[slots] = np.arange(len(slots), dtype=np.int32)
    kept = np.flatnonzero(place[whole.slots] >= 0)
    return Postings(
        whole.words[kept], whole.counts[kept], place[whole.slots[kept]], whole.lengths[list(slots)]
    )


def together(some: Sequence[Postings]) -> Postings:
    """The chunks of all, one after the other."""
    if not some:
        return postings([])
    before = np.cumsum([0, *(len(each.lengths) for each in some[:-1])])
    return Postings(
        np.concatenate([each.words for each in some]),
        np.concatenate([each.counts for each in some]),
        np.concatenate([each.slots for each in some])
        + np.repeat(before, [len(each.slots) for each in some]).astype(np.int32),
        np.concatenate([each.lengths for each in some]),
    )


def bm25_scores(query: str, shelves: Sequence[Postings]) -> list[NDArray[np.float64]]:
    """Okapi BM25 of each chunk of each shelf, all shelves one collection; 0 without a common word."""
    scores = [np.zeros(len(shelf.lengths)) for shelf in shelves]
    texts = sum(map(len, scores))
    if not texts:
        return scores
    mean = sum(int(shelf.lengths.sum()) for shelf in shelves) / texts or 1.0
    for forms in query_numbers(query):
        found = [
            np.concatenate([np.flatnonzero(shelf.words == number) for number in forms]) for shelf in shelves
        ]
        having = min(texts, sum(map(len, found)))
        weight = math.log(1 + (texts - having + 0.5) / (having + 0.5))
        for shelf, score, places in zip(shelves, scores, found, strict=True):
            slots, counts = shelf.slots[places], shelf.counts[places].astype(np.float64)
            long = 1 - B + B * shelf.lengths[slots] / mean
            # A text that has two forms of a word is there twice.
            np.add.at(score, slots, weight * (K1 + 1) * counts / (counts + K1 * long))
    return scores
