"""The database's index of words: what it has of a text, and where in a place a word stands.

FTS5 on SQLite, a ``tsvector`` with GIN on PostgreSQL, both over the same tokens, each prefixed with the key of its
place. So a word's entries are those of one user, project or session, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from zeus_runtime.memory.retrieval.fusion import query_tokens, search_tokens
from zeus_runtime.store.prepared import sqlite_driver
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
    """The words of ``query`` to look for, as the index has them."""
    return [token[:WORD_CHARACTERS] for token in query_tokens(query)]


def word_column(place: int, words: Sequence[str], dialect: str) -> str:
    """What the column ``words`` of an item of ``place`` holds."""
    if dialect != "postgresql":
        return " ".join(f"{place}_{word}" for word in words)
    positions: dict[str, list[str]] = {}
    for position, word in enumerate(words, 1):
        positions.setdefault(word, []).append(str(min(position, 16_383)))
    return " ".join(f"'{place}_{word}':{','.join(places[:255])}" for word, places in positions.items())


Where: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"
"""Keys of items, ascending, and how often a word stands in each."""


def where_words(connection: Connection, place: int, words: Sequence[str], way: Way) -> dict[str, Where]:
    """The items of a place that have each of ``words``, by key, and how often."""
    terms = {f"{place}_{word}": word for word in words}
    driver = sqlite_driver(connection)
    if driver is not None:
        return {
            word: counted(driver.execute(_SQLITE, (term,)).fetchone()[0] or "")
            for term, word in terms.items()
        }
    found = dict.fromkeys(words, (_NO_KEYS, _NO_COUNTS))
    for term, (packed, repeated) in entries(connection, place, list(terms), way).items():
        keys = np.frombuffer(packed, ">i8").astype(np.int64)
        keys.sort()
        counts = np.ones(len(keys))
        often = np.frombuffer(repeated, _OFTEN)
        counts[np.searchsorted(keys, often["key"])] = often["often"]
        found[terms[term]] = keys, counts
    return found


_OFTEN: Final = np.dtype([("key", ">i8"), ("often", ">i4")])


def where_all_words(connection: Connection, place: int) -> dict[str, str] | None:
    """Each word of a place to its items by key, as ``counted`` reads them; None where they are had in one question."""
    driver = sqlite_driver(connection)
    if driver is None:
        return None
    start = f"{place}_"
    rows = driver.execute(_SQLITE_ALL, (start, f"{place}{_AFTER}"))
    return {term[len(start) :]: docs for term, docs in rows}


def counted(docs: str) -> Where:
    """Keys with commas between, one for each place where a word stands, as SQLite gives them."""
    found = np.fromstring(docs, np.int64, sep=",")
    if (found[1:] > found[:-1]).all():
        return found, np.ones(len(found))
    keys, counts = np.unique(found, return_counts=True)
    return keys, counts.astype(np.float64)


_SQLITE: Final = "SELECT group_concat(doc) FROM memory_word WHERE term = ?"
"""As one text: a row for each place where a common word stands would take five times as long."""
_SQLITE_ALL: Final = (
    "SELECT term, group_concat(doc) FROM memory_word WHERE term >= ? AND term < ? GROUP BY term"
)
_AFTER: Final = chr(ord("_") + 1)

_NO_KEYS: Final = np.zeros(0, np.int64)
_NO_COUNTS: Final = np.zeros(0, np.float64)
