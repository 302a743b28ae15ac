"""A chunk's words packed to bytes, and BM25 over packed chunks: the same words as memory's (``search_tokens``).

A word is a 32-bit number (CRC-32 of its UTF-8 text). In a vocabulary of 200,000 words, 0.005 % share one with another
and count as that where it stands: nothing that a rank would show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from zeus_runtime.memory.retrieval.fusion import K1, B, search_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIDDEN: Final = bytes((*range(9), *range(14, 28), 127))
"""Control characters that ``normalise`` takes out, so that they part no word."""
_SPACED: Final = bytes(
    byte | 32 if 65 <= byte <= 90 else byte if 48 <= byte <= 57 or 97 <= byte <= 122 else 32
    for byte in range(256)
)
_NOTHING: Final = -1
_REMEMBERED: Final = 200_000


class _Numbers(dict[bytes, int]):
    """Folded ASCII words to their numbers, each worked out once; ``_NOTHING`` for one that is not indexed."""

    def __missing__(self, word: bytes) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        tokens = search_tokens(word.decode())
        found = self[word] = crc32(tokens[0].encode()) if tokens else _NOTHING
        return found


_number_of: Final = _Numbers().__getitem__


def _numbers(text: str) -> tuple[int, Iterable[int]]:
    """How many words a text has, those that are not indexed included, and their numbers in order."""
    if text.isascii():
        # Folding changes nothing but case here, so that each word is looked up for itself, and most are known.
        words = text.encode().translate(_SPACED, _HIDDEN).split()
        return len(words), map(_number_of, words)
    tokens = search_tokens(text)
    return len(tokens), (crc32(token.encode("utf-8", "surrogatepass")) for token in tokens)


def word_numbers(text: str) -> NDArray[np.uint32]:
    """The words of a text as numbers, in order; those of ``search_tokens``."""
    count, numbers = _numbers(text)
    found = np.fromiter(numbers, np.int64, count)
    words: NDArray[np.uint32] = found[found != _NOTHING].astype(np.uint32)
    return words


def packed_words(texts: Sequence[str]) -> list[tuple[int, bytes]]:
    """How many words each text has, and each of them once, ascending, then how often: four bytes and two for each.

    Many texts at once, since an array's operations cost more than what they do to the words of one.
    """
    found = [_numbers(text) for text in texts]
    sizes = [size for size, _ in found]
    numbers = np.fromiter(chain.from_iterable(each for _, each in found), np.int64, sum(sizes))
    slots = np.repeat(np.arange(len(texts), dtype=np.int64), sizes)
    keys = ((slots << 32) | numbers)[numbers != _NOTHING]
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=len(keys))
    words = keys[first].astype("<u4").tobytes()
    often = np.minimum(counts, 65_535).astype("<u2").tobytes()
    edges = np.arange(len(texts) + 1, dtype=np.int64) << 32
    lengths = np.diff(np.searchsorted(keys, edges)).tolist()
    ends = np.searchsorted(keys[first], edges).tolist()
    return [
        (length, words[start * 4 : end * 4] + often[start * 2 : end * 2])
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
