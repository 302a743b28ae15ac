"""A chunk's words packed to bytes, and BM25 over packed chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.knowledge.word_numbers import WordNumbers, word_numbers
from zeus_runtime.memory.retrieval.fusion import K1, B

if TYPE_CHECKING:
    from numpy.typing import NDArray


def packed_words(texts: Sequence[str], numbers: WordNumbers) -> list[tuple[int, bytes]]:
    """How many words each text has, and each of them once, ascending, then how often: four bytes and two for each."""
    return [
        each
        for start in range(0, len(texts), _AT_ONCE)
        for each in _packed(texts[start : start + _AT_ONCE], numbers)
    ]


_AT_ONCE: Final = 64
"""Many, since an array's operations cost more than what they do to the words of one text; not so many that the arrays
leave the processor's cache, and that memory is taken from the system for each of them anew."""


def _packed(texts: Sequence[str], numbers: WordNumbers) -> list[tuple[int, bytes]]:
    words, places = numbers.of(texts)
    keys = places << 32 | words
    keys.sort()
    keys = keys[np.searchsorted(keys, 0) :]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else keys
    distinct = keys[first]
    packed = distinct.astype("<u4").tobytes()
    often = np.minimum(np.diff(first, append=len(keys)), 65_535).astype("<u2").tobytes()
    edges = np.arange(len(texts) + 1, dtype=np.int64) << 32
    lengths = np.diff(np.searchsorted(keys, edges)).tolist()
    ends = np.searchsorted(distinct, edges).tolist()
    return [
        (length, packed[start * 4 : end * 4] + often[start * 2 : end * 2])
        for length, (start, end) in zip(lengths, pairwise(ends), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Postings:
    """The words of many chunks.

    Args:
        words, counts: of all chunks one after the other.
        slots: whose each entry is.
        lengths: words of each chunk.
    """

    words: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    slots: NDArray[np.int32]
    lengths: NDArray[np.int32]


def postings(blobs: Sequence[bytes], lengths: Sequence[int]) -> Postings:
    """What ``packed_words`` made of chunks, together."""
    sizes = np.array([len(blob) // 6 for blob in blobs], np.int64)
    words = b"".join(blob[: size * 4] for blob, size in zip(blobs, sizes.tolist(), strict=True))
    counts = b"".join(blob[size * 4 :] for blob, size in zip(blobs, sizes.tolist(), strict=True))
    return Postings(
        np.frombuffer(words, "<u4"),
        np.frombuffer(counts, "<u2"),
        np.repeat(np.arange(len(blobs), dtype=np.int32), sizes),
        np.array(lengths, np.int32),
    )


def bm25_scores(query: str, shelves: Sequence[Postings]) -> list[NDArray[np.float64]]:
    """Okapi BM25 of each chunk of each shelf, all shelves one collection; 0 without a common word."""
    scores = [np.zeros(len(shelf.lengths)) for shelf in shelves]
    texts = sum(map(len, scores))
    if not texts:
        return scores
    mean = sum(int(shelf.lengths.sum()) for shelf in shelves) / texts or 1.0
    for number in np.unique(word_numbers(query)):
        found = [np.flatnonzero(shelf.words == number) for shelf in shelves]
        having = sum(map(len, found))
        weight = math.log(1 + (texts - having + 0.5) / (having + 0.5))
        for shelf, score, places in zip(shelves, scores, found, strict=True):
            slots, counts = shelf.slots[places], shelf.counts[places].astype(np.float64)
            long = 1 - B + B * shelf.lengths[slots] / mean
            score[slots] += weight * (K1 + 1) * counts / (counts + K1 * long)
    return scores
