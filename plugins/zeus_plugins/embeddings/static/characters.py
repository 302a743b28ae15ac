"""Computes vectors for words that are not in the table, from their characters.

A hash gives each character and each pair of neighbouring characters its direction, so texts that share characters are
near each other (hashing trick; Weinberger et al. 2009). These vectors compare spelling, not meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from zeus_plugins.embeddings.static.wordpiece import ideographic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_COMMON: Final = frozenset(
    "的了是在和也就都而及与着或我你他她它们这那个一会要把被让给到从对以为上下里中后前请可能"
)
"""Common Chinese characters that say nothing about a sentence's topic."""
_COMMON_WEIGHT: Final = 0.25
_CHARACTER: Final = 0.8
_PAIR: Final = 0.4
_TRIPLE: Final = 0.4
"""The weights with which paraphrases find 24 Chinese statements best (README.md)."""


def features(word: str) -> list[tuple[str, float]]:
    """Return the characters and pairs of ``word``, each with its weight."""
    if not ideographic(word[0]):
        marked = f"\x02{word}\x03"
        triples = [(marked[start : start + 3], _TRIPLE) for start in range(len(word))]
        return [(marked, 1.0), *triples] if len(word) > 1 else triples
    common = [each in _COMMON for each in word]
    single = [
        (each, _CHARACTER * (_COMMON_WEIGHT if often else 1))
        for each, often in zip(word, common, strict=True)
    ]
    pairs = [
        (word[at : at + 2], _PAIR * (_COMMON_WEIGHT if common[at] and common[at + 1] else 1))
        for at in range(len(word) - 1)
    ]
    return single + pairs


def written(words: Sequence[str], dimension: int) -> NDArray[np.float32]:
    """Return the weighted sum of the directions of the characters and pairs in ``words``.

    Each direction has length 1 and is nearly orthogonal to all others.

    Args:
        dimension: a multiple of 8, at most 512.
    """
    import numpy as np

    found = [feature for word in words for feature in features(word)]
    digests = b"".join(
        blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=dimension // 8).digest()
        for feature, _ in found
    )
    bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8)).reshape(len(found), dimension)
    weights = np.array([weight for _, weight in found], dtype=np.float32)
    # A bit b means the sign 2b - 1.
    total: NDArray[np.float32] = (2 * (weights @ bits) - weights.sum()) / np.sqrt(np.float32(dimension))
    return total.astype(np.float32)
