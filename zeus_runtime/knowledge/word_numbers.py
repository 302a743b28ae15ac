"""The words of texts as numbers, all texts of a batch at once: those of memory's ``search_tokens``.

A word is a 32-bit number (CRC-32 of its UTF-8 text). In a vocabulary of 200,000 words, 0.005 % share one with another
and count as that where it stands: nothing that a rank would show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from zeus_runtime.memory.retrieval.fusion import indexed, plain_words, search_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIDDEN: Final = bytes((*range(9), *range(14, 28), 127))
"""Control characters that ``normalise`` takes out, so that they part no word."""
_SPACED: Final = bytes(
    byte | 32 if 65 <= byte <= 90 else byte if 48 <= byte <= 57 or 97 <= byte <= 122 else 32
    for byte in range(256)
)
_SPACE: Final = 32
_NOT_INDEXED: Final = -1
_KEPT_BYTES: Final = 4_000_000
_MOST_SLOT_BITS: Final = 18
_REMEMBERED: Final = 200_000
_LONG: Final = 16
"""Bytes of a word that is looked up as two integers."""
_MULTIPLIERS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd, so that words of up to eight bytes have keys of their own; of longer ones two share one in 2^64."""


def word_numbers(text: str) -> NDArray[np.uint32]:
    """The words of a text as numbers, in order."""
    return np.array([_number(token) for token in search_tokens(text)], np.uint32)


class WordNumbers:
    """What the words that were met are numbered. For one thread at a time.

    A word of an ASCII text, where folding changes nothing but case, is eight or sixteen bytes, read as integers and
    looked up by array operations: a hash table whose slots hold one word each, the first that came. All other words
    are looked up one by one.

    Args:
        slot_bits: of the table when it is new: 2^12 slots by default. It grows with the words, so that few are more
            than the processor's cache holds.
    """

    def __init__(self, slot_bits: int = 12) -> None:
        # Once a block of this size was freed, glibc keeps as much for later, instead of giving the memory of each array
        # back to the system and taking it anew, page by page: on virtual machines a page fault is 2 microseconds.
        np.empty(_KEPT_BYTES, np.uint8)
        self._table_keys: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._table_numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._grow(slot_bits)
        self._numbers = _Remembered(lambda word: _number_or_not(indexed(word)))

    def of(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of all words of all texts, and of each the place of its text; in no order.

        A word that is not indexed has the number -1.
        """
        ascii_places = [place for place, text in enumerate(texts) if text.isascii()]
        numbers, counts = self._of_ascii([texts[place] for place in ascii_places])
        places = np.repeat(np.array(ascii_places, np.int64), counts)
        if len(ascii_places) < len(texts):
            others = [(place, plain_words(text)) for place, text in enumerate(texts) if not text.isascii()]
            more = [self._numbers[word] for _, words in others for word in words]
            where = np.repeat([place for place, _ in others], [len(words) for _, words in others])
            numbers, places = (
                np.concatenate((numbers, np.array(more, np.int64))),
                np.concatenate((places, where)),
            )
        return numbers, places

    def _of_ascii(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of all words in order, and how many words each text has."""
        folded = [text.encode().translate(_SPACED, _HIDDEN) for text in texts]
        # A space before the first text and after each, and eight bytes more for who reads eight from the last on.
        data = b" ".join((b"", *folded, b"       "))
        is_letter = np.frombuffer(data, np.uint8) != _SPACE
        edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
        starts, ends = edges[::2], edges[1::2]
        text_ends = np.cumsum([len(each) + 1 for each in folded], dtype=np.int64)
        counts = np.diff(np.searchsorted(starts, text_ends), prepend=0)
        return self._looked_up(data, starts, ends), counts

    def _looked_up(
        self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        sizes = ends - starts
        keys = _keys(data, starts, sizes)
        homes = self._homes(keys)
        numbers = self._table_numbers[homes]
        away = np.flatnonzero((self._table_keys[homes] != keys) & (sizes <= _LONG))
        if len(away):
            distinct, first, which = np.unique(keys[away], return_index=True, return_inverse=True)
            late = [
                self._number_away(key, home, data[start:end])
                for key, home, start, end in zip(
                    distinct.tolist(),
                    homes[away[first]].tolist(),
                    starts[away[first]].tolist(),
                    ends[away[first]].tolist(),
                    strict=True,
                )
            ]
            numbers[away] = np.array(late, np.int64)[which]
            if self._used * 4 > len(self._table_keys) and self._slot_bits < _MOST_SLOT_BITS:
                self._grow(self._slot_bits + 2)
        for place in np.flatnonzero(sizes > _LONG).tolist():
            numbers[place] = self._numbers[data[starts[place] : ends[place]].decode()]
        return numbers

    def _number_away(self, key: int, home: int, word: bytes) -> int:
        number = self._numbers[word.decode()]
        if not self._table_keys[home]:
            self._table_keys[home], self._table_numbers[home] = key, number
            self._used += 1
        return number

    def _homes(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slot of each key: its highest bits, which a multiplication mixes best."""
        return (keys >> np.uint64(64 - self._slot_bits)).view(np.int64)

    def _grow(self, slot_bits: int) -> None:
        """Make the table one of 2^``slot_bits`` slots, with what it has."""
        known = np.flatnonzero(self._table_keys)
        keys, numbers = self._table_keys[known], self._table_numbers[known]
        self._slot_bits = slot_bits
        self._table_keys = np.zeros(1 << slot_bits, np.uint64)
        self._table_numbers = np.zeros(1 << slot_bits, np.int64)
        homes = self._homes(keys)
        self._table_keys[homes], self._table_numbers[homes] = keys, numbers
        self._used = len(known)


class _Remembered(dict[str, int]):
    """Values of a function, each worked out once."""

    def __init__(self, value_of: Callable[[str], int]) -> None:
        super().__init__()
        self._value_of = value_of

    def __missing__(self, word: str) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[word] = self._value_of(word)
        return found


def _number_or_not(token: str | None) -> int:
    return _NOT_INDEXED if token is None else _number(token)


def _number(token: str) -> int:
    return crc32(token.encode("utf-8", "surrogatepass"))


_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def _keys(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for each word of at most sixteen bytes; none is 0."""
    eights: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    keys = eights[starts] & _MASKS.take(sizes, mode="clip")
    keys *= _MULTIPLIERS[0]
    longer = np.flatnonzero(sizes > 8)
    rest = eights[starts[longer] + 8] & _MASKS.take(sizes[longer] - 8, mode="clip")
    keys[longer] ^= rest * _MULTIPLIERS[1]
    return keys
