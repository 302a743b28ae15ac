"""Search: the nearest vectors of the vector store, the words of whole bases in memory, and their ranks fused.

A base's words are read once and then updated by document; its ``changes`` show whether an update is needed. A vector is
used only if its digest is its chunk's, so what the store has of another text, model or chunk is never found. A chunk
that holds a known secret is withheld: neither its words nor its vector count for anything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sqlalchemy import and_, false, or_, select

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.knowledge.chunks import TOKEN_BYTES, with_context
from zeus_runtime.knowledge.parts import unpacked_chunks
from zeus_runtime.knowledge.records import BaseInfo, embedded_by, is_read_now
from zeus_runtime.knowledge.vectors import PLACE_BITS, number_of
from zeus_runtime.knowledge.word_numbers import number_of_word
from zeus_runtime.knowledge.words import (
    PackedWords,
    Postings,
    bm25_scores,
    of_slots,
    parted,
    postings,
    together,
)
from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets
from zeus_runtime.memory.vectors import DIGEST_BYTES, FoundVector, VectorCollection
from zeus_runtime.store.knowledge_tables import DOCUMENT, PART

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.knowledge.chunks import Chunk

RRF_CONSTANT: Final = 60
VECTOR_WEIGHT: Final = 0.6
WORD_WEIGHT: Final = 0.4
DEPTH: Final = 3
"""SPEC section 10: each leg gives 3 × top_k, fused by reciprocal ranks with constant 60, weights 0.6 and 0.4."""

_BYTES_KEPT: Final = 1_000_000_000
_BLOCK: Final = 200
_LOOKED_AT: Final = 100
"""Chunks whose text is read at once: a statement of SQLite has 999 parameters at most."""


@dataclass(frozen=True)
class Hit:
    """A chunk that was found.

    Args:
        base: the name of its base.
        source: the document: a path below what was added.
        heading: the headings above it.
        position: lines or page.
        score: of the fusion; at most (0.6 + 0.4) / 61.
        vector_rank, word_rank: from 1; None where that leg did not give it.
    """

    base: str
    source: str
    heading: str
    position: str
    content: str
    score: float
    vector_rank: int | None
    word_rank: int | None

    @property
    def citation(self) -> str:
        """Its place, for a person."""
        return " · ".join(filter(None, (f"{self.base}/{self.source}", self.heading, self.position)))


def fused(vectors: Sequence[int], words: Sequence[int]) -> list[tuple[int, float]]:
    """Keys by reciprocal rank fusion, the best first; of equals the one that the vectors put first.

    ``0.6 / (60 + rank by vector) + 0.4 / (60 + rank by words)``, ranks from 1 (Cormack, Clarke and Büttcher, 2009).
    """
    scores: dict[int, float] = {}
    for keys, weight in ((vectors, VECTOR_WEIGHT), (words, WORD_WEIGHT)):
        for rank, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + weight / (RRF_CONSTANT + rank)
    # Stable, and the vectors' keys come first in their order. Two keys of words alone are never equal. Rounded, because
    # 0.6 / 93 and 0.4 / 62 are equal but their floats may differ.
    return sorted(scores.items(), key=lambda each: -round(each[1], 15))


class KnowledgeIndex:
    """The bases that were searched, the last used ones kept. For one thread at a time.

    Args:
        collection_of: a base's vectors in the vector store; None if it has none there yet.
        secrets: a search answers as if chunks that hold one of these were not there.
    """

    def __init__(
        self, collection_of: Callable[[BaseInfo], VectorCollection | None], secrets: Redactor | None = None
    ) -> None:
        self._collection_of = collection_of
        self._secrets = HeldSecrets(secrets)
        self._shelves: OrderedDict[int, _Shelf] = OrderedDict()

    def search(
        self,
        connection: Connection,
        bases: Sequence[BaseInfo],
        query: str,
        vectors: Mapping[tuple[str, int], NDArray[np.float32]],
        *,
        top_k: int,
        is_closed: Callable[[str], bool],
    ) -> list[Hit]:
        """The best chunks of several bases, taken as one collection.

        Args:
            is_closed: whether the document of a path, as it is stored, is not searched.
            vectors: the query's by model and dimension, of length 1; a base of another is searched by words alone.
        """
        shelves = [self._shelf(connection, base) for base in bases]
        # Asked for each chunk, and both legs may ask about one document; the rules may look at the disk.
        is_closed = cache(is_closed)
        while True:
            by_vector = self._by_vector(connection, bases, shelves, vectors, DEPTH * top_k, is_closed)
            said = _best(
                bm25_scores(query, [shelf.postings for shelf in shelves]),
                shelves,
                DEPTH * top_k,
                above=0.0,
                is_closed=is_closed,
            )
            # Both whole lists, as a chunk that is found by one of them moves those behind it.
            met = {*by_vector, *said}
            # Each further round is without at least one chunk more, so the loop ends.
            if not any(shelf.withhold(connection, met) for shelf in shelves):
                break
        ranked = fused(by_vector, said)[:top_k]
        names = {base.key: base.name for base in bases}
        return _hits(connection, ranked, names, by_vector, said)

    def _by_vector(
        self,
        connection: Connection,
        bases: Sequence[BaseInfo],
        shelves: Sequence[_Shelf],
        vectors: Mapping[tuple[str, int], NDArray[np.float32]],
        count: int,
        is_closed: Callable[[str], bool],
    ) -> list[int]:
        near: list[tuple[float, int]] = []
        for base, shelf in zip(bases, shelves, strict=True):
            vector = vectors.get((base.embedding, base.dimension))
            if vector is None:
                continue
            vector = np.asarray(vector, np.float32)
            collection = self._collection_of(base)
            if collection is not None:
                near += shelf.nearest(collection.nearest(connection, vector), count, is_closed)
            near += _scored(shelf.cosines(vector), shelf, count, above=-2.0, is_closed=is_closed)
        return [key for _, key in sorted(near)[:count]]

    def missing(self, connection: Connection, base: BaseInfo) -> int:
        """How many of a base's vectors the store lacks; counted once after each change of the base."""
        shelf = self._shelf(connection, base)
        if shelf.missing is None:
            collection = self._collection_of(base)
            size = 0 if collection is None or not shelf.expected else collection.size(connection)
            shelf.missing = max(0, shelf.expected - size)
        return shelf.missing

    def older(self, connection: Connection, base: BaseInfo) -> int:
        """How many of a base's documents an older version read."""
        return self._shelf(connection, base).older

    def _shelf(self, connection: Connection, base: BaseInfo) -> _Shelf:
        # Popped and put back at the end: the order is that of the last use. A refresh that fails leaves no half of a
        # base.
        shelf = self._shelves.pop(base.key, None) or _Shelf(self._secrets)
        shelf.refresh(connection, base)
        self._shelves[base.key] = shelf
        while len(self._shelves) > 1 and sum(each.size for each in self._shelves.values()) > _BYTES_KEPT:
            self._shelves.popitem(last=False)
        return shelf


@dataclass(frozen=True, eq=False)
class _Document:
    """A document's path and chunks, and the model of their vectors with its dimension.

    Args:
        digests: of the vectors in the store; zeros for chunks without.
        vectors: of chunks from before revision 0014; empty where all are in the store.
    """

    path: str
    model: str
    keys: NDArray[np.int64]
    digests: bytes
    vectors: bytes
    postings: Postings

    def without(self, withheld: Collection[int]) -> _Document:
        """The document as if it had not these chunks, given by key."""
        slots = [slot for slot, key in enumerate(self.keys.tolist()) if key not in withheld]
        width = len(self.vectors) // max(1, len(self.keys))
        return replace(
            self,
            keys=self.keys[slots],
            digests=_picked(self.digests, slots, DIGEST_BYTES),
            vectors=_picked(self.vectors, slots, width),
            postings=of_slots(self.postings, slots),
        )


def _picked(rows: bytes, slots: Sequence[int], width: int) -> bytes:
    return b"".join([rows[slot * width : (slot + 1) * width] for slot in slots])


class _Shelf:
    """A base in memory.

    Args:
        secrets: chunks that hold one are withheld.

    Attributes:
        paths: of the documents.
        documents: by slot, the place of the chunk's document among the paths.
        keys: by slot, the number of the chunk's vector; ascending.
        expected: how many vectors the store should have.
        missing: how many of them it lacks; None before they are counted.
        older: how many documents an older version read.
    """

    def __init__(self, secrets: HeldSecrets) -> None:
        self._secrets = secrets
        self._known_secrets = -1
        self._clean: set[int] = set()
        self._withheld: set[int] = set()
        self._changes = -1
        self._model = "", 0
        self._characters = 1
        self._documents: dict[int, _Document] = {}
        self.paths: Sequence[str] = ()
        self.documents: NDArray[np.int64] = np.zeros(0, np.int64)
        self.keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self.postings: Postings = postings([])
        self.expected = 0
        self.missing: int | None = None
        self.older = 0
        self._digests = b""
        self._in_rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    @property
    def size(self) -> int:
        """Bytes, about; packed once by document and once together."""
        return 2 * (len(self._digests) + self._vectors.nbytes + self.postings.words.nbytes * 2)

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """By slot, of vectors that are in rows; -3 for all others."""
        # -3 is below every cosine and below the limit -2 of the search.
        found = np.full(len(self.keys) if len(self._in_rows) else 0, -3.0, np.float32)
        if len(found):
            # Not BLAS: for one vector its threads cost more than they save, and they keep spinning afterwards.
            found[self._in_rows] = np.einsum("ij,j->i", self._vectors, query)
        return found

    def nearest(
        self, found: Iterable[FoundVector], count: int, is_closed: Callable[[str], bool]
    ) -> list[tuple[float, int]]:
        """The first vectors that are of a chunk's present text, as (- cosine, number)."""
        taken: list[tuple[float, int]] = []
        for number, digest, cosine in found:
            slot = int(self.keys.searchsorted(number))
            # Another process has added the vector since, or it is left over from a document that is gone.
            if slot == len(self.keys) or self.keys[slot] != number:
                continue
            if self._digests[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] != digest:
                continue
            if not is_closed(self.paths[self.documents[slot]]):
                taken.append((-cosine, number))
                if len(taken) == count:
                    break
        return taken

    def refresh(self, connection: Connection, base: BaseInfo) -> None:
        known = self._secrets.known
        # Each transaction that changes a base raises its count, so equal counts are equal contents.
        if (base.changes, known) == (self._changes, self._known_secrets):
            return
        query = select(DOCUMENT.c.key, DOCUMENT.c.path, DOCUMENT.c.made_with)
        rows = connection.execute(query.where(DOCUMENT.c.base == base.key, DOCUMENT.c.ready.is_(True))).all()
        self.older = sum(not is_read_now(row.made_with) for row in rows)
        there = {key: (path, embedded_by(made_with)) for key, path, made_with in rows}
        # A ready document's parts never change, and its key is never used again: only new keys are read.
        found = {key: each for key, each in self._documents.items() if key in there}
        found |= _read(connection, {key: there[key] for key in sorted(there.keys() - found.keys())})
        self._documents = found
        self._model = f"{base.embedding}|{base.dimension}", base.dimension
        self._characters = base.chunk_tokens * TOKEN_BYTES
        if known != self._known_secrets:
            self._clean.clear()
        self._compose()
        self.missing = None
        # Before any search, so that not even how rare a word is depends on what was found before.
        words = [*map(number_of_word, self._secrets.words())]
        self.withhold(connection, self.keys[self.postings.having(words)].tolist())
        self._changes, self._known_secrets = base.changes, known

    def withhold(self, connection: Connection, keys: Iterable[int]) -> bool:
        """Leave those of these chunks out from now on that hold a known secret; whether there is one.

        Args:
            keys: also of other shelves, which are skipped.
        """
        if not self._secrets:
            return False
        asked = {key for key in keys if key >> PLACE_BITS in self._documents} - self._clean - self._withheld
        held = _held(connection, asked, self._secrets, 1 + self._secrets.longest // self._characters)
        self._clean |= asked - held
        if held:
            self._withheld |= held
            self._compose()
        return bool(held)

    def _compose(self) -> None:
        """Put the documents together, without the chunks that are withheld."""
        withheld = self._withheld = {key for key in self._withheld if key >> PLACE_BITS in self._documents}
        cut = {key >> PLACE_BITS for key in withheld}
        whole = [self._documents[key] for key in sorted(self._documents)]
        ordered = [
            self._documents[key].without(withheld) if key in cut else self._documents[key]
            for key in sorted(self._documents)
        ]
        self.paths = [each.path for each in ordered]
        self.documents = np.repeat(
            np.arange(len(ordered)), np.array([len(each.keys) for each in ordered], np.int64)
        )
        self.keys = np.concatenate([np.zeros(0, np.int64), *(each.keys for each in ordered)])
        self.postings = together([each.postings for each in ordered])
        self._own(ordered)
        # The store has the vectors of withheld chunks too.
        self.expected = _vectors_in([each.digests for each in whole if each.model == self._model[0]])

    def _own(self, ordered: Sequence[_Document]) -> None:
        """A document that was embedded by another model is found by its words until it is read again."""
        model, dimension = self._model
        nothing = [bytes(DIGEST_BYTES * len(each.keys)) for each in ordered]
        digests = [
            each.digests if each.model == model else none for each, none in zip(ordered, nothing, strict=True)
        ]
        self._digests = b"".join(digests)
        is_old = [bool(each.vectors) and each.model == model for each in ordered]
        vectors = b"".join([each.vectors for each, old in zip(ordered, is_old, strict=True) if old])
        rows = np.frombuffer(vectors, "<f4").reshape(-1, dimension or 1)
        # A vector of zeros is of a chunk of which the model knows no word.
        meant = rows.any(axis=1)
        slots = np.flatnonzero(np.array(is_old, np.bool_)[self.documents]) if ordered else self._in_rows[:0]
        self._in_rows, self._vectors = slots[meant], rows[meant]


def _vectors_in(digests: Sequence[bytes]) -> int:
    """How many of these are of a vector."""
    return int(np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES).any(axis=1).sum())


def _read(connection: Connection, there: Mapping[int, tuple[str, str]]) -> dict[int, _Document]:
    documents = list(there)
    found: dict[int, _Document] = {}
    columns = (
        *(PART.c.document, PART.c.number, PART.c.chunks),
        *(PART.c.lengths, PART.c.words, PART.c.digests, PART.c.vectors),
    )
    for start in range(0, len(documents), _BLOCK):
        some = documents[start : start + _BLOCK]
        query = select(*columns).where(PART.c.document.in_(some)).order_by(PART.c.document, PART.c.number)
        rows: dict[int, list[_Row]] = {key: [] for key in some}
        for document, *row in connection.execute(query):
            rows[document].append(_Row(*row))
        found |= _documents(there, rows)
    return found


class _Row(NamedTuple):
    number: int
    chunks: int
    lengths: bytes
    words: bytes
    digests: bytes
    vectors: bytes


def _documents(
    there: Mapping[int, tuple[str, str]], rows: Mapping[int, Sequence[_Row]]
) -> dict[int, _Document]:
    ends = accumulate(sum(row.chunks for row in some) for some in rows.values())
    every = postings([PackedWords(row.lengths, row.words) for some in rows.values() for row in some])
    return {
        document: _Document(
            *there[document],
            np.array(
                [number_of(document, row.number + place) for row in some for place in range(row.chunks)],
                np.int64,
            ),
            b"".join([row.digests or bytes(DIGEST_BYTES * row.chunks) for row in some]),
            b"".join([row.vectors for row in some]),
            words,
        )
        for (document, some), words in zip(rows.items(), parted(every, [*ends]), strict=True)
    }


def _best(
    scores: Sequence[NDArray[Any]],
    shelves: Sequence[_Shelf],
    count: int,
    *,
    above: float,
    is_closed: Callable[[str], bool],
) -> list[int]:
    """The keys of the greatest scores of all shelves, the greatest first, of equals the smaller key."""
    found: list[tuple[float, int]] = []
    for score, shelf in zip(scores, shelves, strict=True):
        found += _scored(score, shelf, count, above=above, is_closed=is_closed)
    return [key for _, key in sorted(found)[:count]]


def _scored(
    score: NDArray[Any], shelf: _Shelf, count: int, *, above: float, is_closed: Callable[[str], bool]
) -> list[tuple[float, int]]:
    """The greatest scores of a shelf and all equal to the last of them, as (- score, key).

    Only documents that would be among them are asked about; the scores of those that are closed are lost.
    """
    while len(score):
        taken = min(count, len(score))
        least = np.partition(score, len(score) - taken)[len(score) - taken]
        places = np.flatnonzero((score >= least) & (score > above))
        documents = np.unique(shelf.documents[places])
        closed = [each for each in documents if is_closed(shelf.paths[each])]
        if not closed:
            return [(-float(score[place]), int(shelf.keys[place])) for place in places]
        # At `above` they are never taken; each round closes at least one document, so the loop ends.
        score[np.isin(shelf.documents, closed)] = above
    return []


def _hits(
    connection: Connection,
    ranked: Sequence[tuple[int, float]],
    names: dict[int, str],
    near: Sequence[int],
    said: Sequence[int],
) -> list[Hit]:
    found = _chunks(connection, [key for key, _ in ranked])
    by_vector = {key: rank for rank, key in enumerate(near, 1)}
    by_words = {key: rank for rank, key in enumerate(said, 1)}
    return [
        Hit(names[row.base], row.label, *chunk, score, by_vector.get(key), by_words.get(key))
        for key, score in ranked
        if key in found
        for row, chunk in (found[key],)
    ]


def _held(connection: Connection, keys: Collection[int], secrets: HeldSecrets, reach: int) -> set[int]:
    """The chunks that hold a known secret, or a part of one whose rest is in those before or after.

    Args:
        reach: how many chunks before and after may have the rest.
    """
    held: set[int] = set()
    listed = sorted(keys)
    for start in range(0, len(listed), _LOOKED_AT):
        some = listed[start : start + _LOOKED_AT]
        found = _chunks(connection, some, around=reach)
        for key in some:
            if key not in found:
                continue
            row, chunk = found[key]
            there = [each for each in range(key - reach, key + reach + 1) if each in found]
            context = with_context([found[each][1] for each in there], there.index(key))
            if secrets.within(row.label, chunk.heading, chunk.content) or secrets.across(*context):
                held.add(key)
    return held


def _chunks(connection: Connection, keys: Iterable[int], *, around: int = 0) -> dict[int, tuple[Any, Chunk]]:
    """These chunks, as far as they are there, each with the row of its part and document.

    Args:
        around: so many before and after each are wanted too.
    """
    columns = (PART.c.document, PART.c.number, DOCUMENT.c.base, DOCUMENT.c.label, PART.c.places, PART.c.texts)
    query = select(*columns).join(DOCUMENT, DOCUMENT.c.key == PART.c.document)
    wanted = [(key >> PLACE_BITS, key & (1 << PLACE_BITS) - 1) for key in keys]
    holding = [
        and_(
            PART.c.document == document,
            PART.c.number <= place + around,
            PART.c.number + PART.c.chunks > place - around,
        )
        for document, place in wanted
    ]
    found: dict[int, tuple[Any, Chunk]] = {}
    # With `false`, no hits select no rows; an empty `or_` would be no condition.
    for row in connection.execute(query.where(or_(false(), *holding))):
        for place, chunk in enumerate(unpacked_chunks(row.places, row.texts), row.number):
            found[number_of(row.document, place)] = (row, chunk)
    return found
