"""The database's index of words: the tokens of a text, and the items of a place that have a word.

FTS5 on SQLite, a ``tsvector`` with GIN on PostgreSQL, both over the same tokens, each prefixed with the key of its
place. So a word's entries are those of one user, project or session, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zeus_runtime.memory.retrieval.analysis import OR, query_tokens, search_tokens
from zeus_runtime.store.compiled_statements import sqlite_driver
from zeus_runtime.store.word_entries import Way, entries

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

WORD_CHARACTERS: Final = 64
"""A longer word is indexed by its beginning."""


@lru_cache(64)
def indexed_words(text: str) -> tuple[str, ...]:
    """The words of ``text`` as the index has them; a text is asked for three times while it is added."""
    return tuple(token[:WORD_CHARACTERS] for token in search_tokens(text))


def asked_words(query: str) -> list[str]:
    """The words of ``query`` to look for, as the index has them, each in all its forms (``analysis.query_tokens``)."""
    return [
        OR.join(dict.fromkeys(form[:WORD_CHARACTERS] for form in token.split(OR)))
        for token in query_tokens(query)
    ]


def word_column(place: int, words: Sequence[str], dialect: str) -> str:
    """What the column ``words`` of an item of ``place`` holds."""
    if dialect != "postgresql":
        return " ".join(f"{place}_{word}" for word in words)
    positions: dict[str, list[str]] = {}
    for position, word in enumerate(words, 1):
        # A tsvector has positions up to 16,383, and at most 256 of them for a word.
        positions.setdefault(word, []).append(str(min(position, 16_383)))
    return " ".join(f"'{place}_{word}':{','.join(places[:255])}" for word, places in positions.items())


class FoundWords(NamedTuple):
    """The items that have some words.

    Args:
        keys: of items, those of the first word first, ascending for each word.
        counts: how often a word occurs in each.
        ends: how many of these are of the words up to each.
        once: every count is 1.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.float64]
    ends: Sequence[int]
    once: bool


def where_words(connection: Connection, place: int, words: Sequence[str], way: Way) -> FoundWords:
    """The items of a place that have each of ``words``, by key, and how often."""
    terms = [f"{place}_{word}" for word in words]
    driver = sqlite_driver(connection)
    if driver is not None:
        return counted([driver.execute(_SQLITE, (term,)).fetchone()[0] or "" for term in terms])
    packed = entries(connection, place, terms, way)
    found = [_unpacked(*packed.get(term, (b"", b""))) for term in terms]
    counts = np.concatenate([counts for _, counts in found])
    ends = list(accumulate(len(keys) for keys, _ in found))
    return FoundWords(
        np.concatenate([keys for keys, _ in found]), counts, ends, once=bool((counts == 1).all())
    )


def _unpacked(packed: bytes, repeated: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Keys, ascending, and how often a word occurs in each."""
    keys = np.frombuffer(packed, ">i8").astype(np.int64)
    keys.sort()
    counts = np.ones(len(keys))
    often = np.frombuffer(repeated, _OFTEN)
    counts[np.searchsorted(keys, often["key"])] = often["often"]
    return keys, counts


_OFTEN: Final = np.dtype([("key", ">i8"), ("often", ">i4")])


def where_all_words(connection: Connection, place: int) -> dict[str, str] | None:
    """Each word of a place to its items by key, as ``counted`` reads them; None where they are had in one question."""
    driver = sqlite_driver(connection)
    if driver is None:
        return None
    start = f"{place}_"
    rows = driver.execute(_SQLITE_ALL, (start, f"{place}{_AFTER}"))
    return {term[len(start) :]: docs for term, docs in rows}


def counted(docs: Sequence[str]) -> FoundWords:
    """SQLite's result for each word: keys separated by commas, one for each occurrence of the word."""
    keys = np.fromstring(",".join(filter(None, docs)), np.int64, sep=",")
    ends = list(accumulate(doc.count(",") + 1 if doc else 0 for doc in docs))
    other = np.ones(len(keys), np.bool_)
    other[1:] = keys[1:] != keys[:-1]
    # The first key of the next word is another entry, even if it equals the last key of the word before.
    other[[end for end in ends if end < len(keys)]] = True
    if other.all():
        return FoundWords(keys, np.ones(len(keys)), ends, once=True)
    first = np.flatnonzero(other)
    counts = np.diff(first, append=len(keys)).astype(np.float64)
    return FoundWords(keys[first], counts, [int(np.count_nonzero(other[:end])) for end in ends], once=False)


_SQLITE: Final = "SELECT group_concat(doc) FROM memory_word WHERE term = ?"
"""As one text: a row for each place where a common word stands would take five times as long."""
_SQLITE_ALL: Final = (
    "SELECT term, group_concat(doc) FROM memory_word WHERE term >= ? AND term < ? GROUP BY term"
)
# The place 1 has the terms from "1_" to before "1`"; those of the place 12 begin with "12".
_AFTER: Final = chr(ord("_") + 1)
