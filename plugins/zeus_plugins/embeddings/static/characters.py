"""Vectors for words of which a table knows nothing, from the characters they are written with.

Each character and each pair of neighbours has a direction of its own, drawn by a hash: texts that share them are near,
others are not (hashing trick; Weinberger et al. 2009). It knows no meaning, only what is written alike.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from zeus_plugins.embeddings.static.wordpiece import ideographic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_COMMON: Final = frozenset(
    "的了是在和也就都而及与着或我你他她它们这那个一会要把被让给到从对以为上下里中后前请可能"
)
"""Characters of Chinese that stand in sentences about anything."""
_COMMON_WEIGHT: Final = 0.25
_CHARACTER: Final = 0.8
_PAIR: Final = 0.4
_TRIPLE: Final = 0.4
"""The shares with which 24 Chinese statements are found best by their paraphrases (docs in the plugin's README)."""


def features(word: str) -> list[tuple[str, float]]:
    """What ``word`` is written with, and how much each counts."""
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


@lru_cache(maxsize=8_192)
def direction(feature: str, dimension: int) -> NDArray[np.float32]:
    """A vector of length 1 for ``feature``; nearly at right angles to every other feature's.

    Args:
        dimension: a multiple of 8, at most 512.
    """
    import numpy as np

    digest = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=dimension // 8).digest()
    signs = np.unpackbits(np.frombuffer(digest, dtype=np.uint8)).astype(np.float32) * 2 - 1
    signs /= np.sqrt(np.float32(dimension))
    signs.flags.writeable = False
    return signs
