"""The words of texts as numbers, all texts of a batch at once: those of memory's analysis.

A word is a 32-bit number (CRC-32 of its UTF-8 text). In a vocabulary of 200,000 words, 0.005 % share one with another
and count as that where it stands: nothing that a rank would show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from zeus_runtime.memory.retrieval.analysis import OR, language_of, plain_words, query_tokens, word_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIDDEN: Final = bytes((*range(9), *range(14, 28), 127))
"""Control characters that ``normalise`` takes out, so that they part no word."""
_LETTERS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KINDS: Final = bytes(1 if byte in _LETTERS else 2 if byte in _HIDDEN else 0 for byte in range(256))
_NOT_INDEXED: Final = 0
_NO_NUMBERS: Final = np.zeros(0, np.uint32)
_NO_COUNTS: Final = np.zeros(0, np.int64)
_JUDGED: Final = 300
"""Characters of a text by which its language is judged: about fifty words, of which twenty are stop words."""
_KEPT_BYTES: Final = 4_000_000
_MOST_SLOT_BITS: Final = 18
_REMEMBERED: Final = 200_000
_LONG: Final = 16
"""Bytes of a word that is looked up as two integers."""
_LOWER: Final = np.uint64(0x2020202020202020)
"""The bit that makes a letter small; digits have it."""
_MULTIPLIERS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd, so that words of up to eight bytes have unique keys; two longer words share a key with a chance of 1 in 2^64."""


def text_language(text: str) -> str:
    """The language of a text by the words at its end: its beginning may be names and headings, without stop words."""
    return language_of(text[-_JUDGED:].lower().split())


def word_numbers(text: str) -> NDArray[np.uint32]:
    """The words of a text as numbers, in order."""
    language = text_language(text)
    return np.array(
        [number_of_word(token) for word in plain_words(text) for token in word_tokens(word, language)],
        np.uint32,
    )


def query_numbers(query: str) -> list[NDArray[np.uint32]]:
    """The numbers of each word of a query, in all forms that texts may have of it."""
    tokens = dict.fromkeys(query_tokens(query))
    return [np.unique(np.array([*map(number_of_word, token.split(OR))], np.uint32)) for token in tokens]


class WordNumbers:
    """Numbers for the words that were met, in texts of any language. For one thread at a time.

    Args:
        slot_bits: as ``_LanguageNumbers`` has them.
    """

    def __init__(self, slot_bits: int = 14) -> None:
        self._of_language = cache(lambda language: _LanguageNumbers(language, slot_bits))

    def of(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The numbers of all words that are indexed, text after text, and how many each text has.

        Within a text they are in no order.
        """
        runs = [self._of_language(language).of([*some]) for language, some in groupby(texts, text_language)]
        numbers, counts = zip(*runs, strict=True) if runs else ((_NO_NUMBERS,), (_NO_COUNTS,))
        return np.concatenate(numbers), np.concatenate(counts)


class _LanguageNumbers:
    """Numbers for the words of texts in one language.

    A word in ASCII, where folding changes only case, is eight or sixteen bytes, read as integers and looked up by array
    operations. The table is a hash table whose slots hold one word each, the first that came. All other words are
    looked up
    one by one.

    Args:
        slot_bits: of the table when it is new, such as 14 for 2^14 slots. It grows with the words, so that few are more
            than the processor's cache holds.
    """

    def __init__(self, language: str, slot_bits: int) -> None:
        # After a block of this size was freed, glibc keeps as much for later. Otherwise it returns the memory of each
        # array to
        # the system and gets it again, page by page; on virtual machines a page fault takes 2 microseconds.
        np.empty(_KEPT_BYTES, np.uint8)
        self._table_keys: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._table_numbers: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._grow(slot_bits)
        self._numbers = _Remembered(lambda word: [*map(number_of_word, word_tokens(word, language))])

    def of(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """As ``WordNumbers.of``."""
        if all(map(str.isascii, texts)):
            return self._of_ascii(texts)
        parted = [_parted(text) for text in texts]
        numbers, counts = self._of_ascii([plain for plain, _ in parted])
        more = [
            [number for word in plain_words(other) for number in self._numbers[word]] for _, other in parted
        ]
        sizes = np.fromiter(map(len, more), np.int64, len(more))
        places = np.cumsum(counts).repeat(sizes)
        inserted = np.fromiter(chain.from_iterable(more), np.uint32, len(places))
        return np.insert(numbers, places, inserted), counts + sizes

    def _of_ascii(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        # A space before the first text and after each, and eight bytes more for who reads eight from the last on.
        data = " ".join(("", *texts, "       ")).encode()
        kinds = data.translate(_KINDS)
        # Rare: the texts are read once more without these characters, which then part no word.
        if b"\2" in kinds:
            return self._of_ascii([text.encode().translate(None, _HIDDEN).decode() for text in texts])
        is_letter = np.frombuffer(kinds, np.bool_)
        edges = np.flatnonzero(is_letter[1:] != is_letter[:-1])
        starts = np.ascontiguousarray(edges[::2])
        # An edge is the place before a word's first letter, so in `data[1:]` the word begins at its edge.
        found = self._looked_up(data[1:], starts, edges[1::2] - starts)
        kept = np.flatnonzero(found != _NOT_INDEXED)  # of numbers it takes five times as long
        text_ends = np.fromiter(map(len, texts), np.int64, len(texts)).cumsum()
        text_ends += np.arange(1, len(texts) + 1)
        return found.take(kept), np.diff(kept.searchsorted(starts.searchsorted(text_ends)), prepend=0)

    def _looked_up(
        self, data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.uint32]:
        keys = _keys(data, starts, sizes)
        homes = self._homes(keys)
        numbers = self._table_numbers.take(homes)
        is_long = sizes > _LONG
        away = np.flatnonzero((self._table_keys.take(homes) != keys) & ~is_long)
        if len(away):
            distinct, first, which = np.unique(keys[away], return_index=True, return_inverse=True)
            places = away[first]
            late = self._numbers_of(_words(data, starts[places], sizes[places]))
            numbers[away] = late[which]
            self._remember(distinct, homes[places], late)
        long = np.flatnonzero(is_long)
        if len(long):
            numbers[long] = self._numbers_of(_words(data, starts[long], sizes[long]))
        return numbers

    def _numbers_of(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Of words in ASCII, which have one token or none."""
        found = (numbers[0] if (numbers := self._numbers[word]) else _NOT_INDEXED for word in words)
        return np.fromiter(found, np.uint32, len(words))

    def _remember(
        self, keys: NDArray[np.uint64], homes: NDArray[np.int64], numbers: NDArray[np.uint32]
    ) -> None:
        """Put words into slots that are free; of two with one slot the last stays."""
        free = np.flatnonzero(self._table_keys[homes] == 0)
        self._table_keys[homes[free]], self._table_numbers[homes[free]] = keys[free], numbers[free]
        self._used += len(free)
        # A quarter full: with one word for a slot, a fuller table would send many words to the slow way.
        if self._used * 4 > len(self._table_keys) and self._slot_bits < _MOST_SLOT_BITS:
            self._grow(self._slot_bits + 2)

    def _homes(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slot of each key: its highest bits, which a multiplication mixes best."""
        return (keys >> np.uint64(64 - self._slot_bits)).view(np.int64)

    def _grow(self, slot_bits: int) -> None:
        """Make the table one of 2^``slot_bits`` slots, with what it has."""
        known = np.flatnonzero(self._table_keys)
        keys, numbers = self._table_keys[known], self._table_numbers[known]
        self._slot_bits = slot_bits
        self._table_keys = np.zeros(1 << slot_bits, np.uint64)
        self._table_numbers = np.zeros(1 << slot_bits, np.uint32)
        homes = self._homes(keys)
        self._table_keys[homes], self._table_numbers[homes] = keys, numbers
        self._used = len(known)


class _Remembered(dict[str, Sequence[int]]):
    """Values of a function, each worked out once."""

    def __init__(self, value_of: Callable[[str], Sequence[int]]) -> None:
        super().__init__()
        self._value_of = value_of

    def __missing__(self, word: str) -> Sequence[int]:
        # A bound for texts of random words; the common ones are back at once.
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[word] = self._value_of(word)
        return found


def _words(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[str]:
    edges = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return b" ".join([data[start:end] for start, end in edges]).lower().decode().split(" ")


def _parted(text: str) -> tuple[str, str]:
    """What stands between spaces in ASCII, and the rest: a space is a border to whatever folds or joins characters."""
    if text.isascii():
        return text, ""
    between = text.split()
    return " ".join(filter(str.isascii, between)), " ".join([each for each in between if not each.isascii()])


def number_of_word(token: str) -> int:
    """The number of a word as it is indexed."""
    # 0 means that a word is not indexed.
    return crc32(token.encode("utf-8", "surrogatepass")) or 1


_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def _keys(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for each word of at most sixteen bytes, whatever its case; none is 0."""
    # The eight bytes from each place on, as one integer each; no byte is copied.
    eights: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    keys = eights.take(starts)
    keys |= _LOWER
    # A word of more than eight bytes keeps all eight here, and its rest below.
    keys &= _MASKS.take(sizes, mode="clip")
    keys *= _MULTIPLIERS[0]
    longer = np.flatnonzero(sizes > 8)
    rest = eights.take(starts[longer] + 8)
    rest |= _LOWER
    rest &= _MASKS.take(sizes[longer] - 8, mode="clip")
    rest *= _MULTIPLIERS[1]
    keys[longer] ^= rest
    return keys
