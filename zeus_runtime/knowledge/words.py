"""A chunk's words packed to bytes, and BM25 over packed chunks: the same words as memory's (``search_tokens``).

A word is a 32-bit number (CRC-32 of its UTF-8 text). In a vocabulary of 200,000 words, 0.005 % share one with another
and count as that where it stands: nothing that a rank would show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from zeus_runtime.memory.retrieval.fusion import K1, B, search_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ASCII_WORD: Final = re.compile(r"[0-9A-Za-z]+")
_HIDDEN: Final = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
_NOTHING: Final = -1


def word_numbers(text: str) -> NDArray[np.uint32]:
    """The words of a text as numbers, in order; those of ``search_tokens``."""
    if text.isascii() and not _HIDDEN.search(text):
        # Folding changes nothing but case here, so that each word is looked up for itself, and most are known.
        numbers = [number for word in _ASCII_WORD.findall(text) if (number := _number_of(word)) != _NOTHING]
    else:
        numbers = [crc32(token.encode("utf-8", "surrogatepass")) for token in search_tokens(text)]
    return np.array(numbers, np.uint32)


@lru_cache(maxsize=200_000)
def _number_of(word: str) -> int:
    tokens = search_tokens(word)
    return crc32(tokens[0].encode()) if tokens else _NOTHING


def packed(numbers: NDArray[np.uint32]) -> bytes:
    """Each word once, ascending, then how often: four bytes and two for each."""
    words, counts = np.unique(numbers, return_counts=True)
    often = np.minimum(counts, 65_535).astype("<u2")
    return words.astype("<u4").tobytes() + often.tobytes()


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
    """What ``packed`` made of chunks, together."""
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
