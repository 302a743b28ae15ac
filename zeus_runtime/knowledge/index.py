"""Search: vectors and words of whole bases in memory, exact, and their ranks fused.

A base is read once and then updated by document; its ``changes`` show whether an update is needed.
10,000 chunks of 256 dimensions take about 20 MB.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sqlalchemy import select

from zeus_runtime.knowledge.parts import unpacked_chunks
from zeus_runtime.knowledge.records import BaseInfo, embedded_by
from zeus_runtime.knowledge.words import PackedWords, Postings, bm25_scores, parted, postings, together
from zeus_runtime.store.knowledge_tables import DOCUMENT, PART

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

RRF_CONSTANT: Final = 60
VECTOR_WEIGHT: Final = 0.6
WORD_WEIGHT: Final = 0.4
DEPTH: Final = 3
"""SPEC section 10: each leg gives 3 × top_k, fused by reciprocal ranks with constant 60, weights 0.6 and 0.4."""

_BYTES_KEPT: Final = 1_000_000_000
_BLOCK: Final = 200


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
    """Keys by reciprocal rank fusion, the best first; of equals the one that the vectors put first, then the smaller.

    ``0.6 / (60 + rank by vector) + 0.4 / (60 + rank by words)``, ranks from 1 (Cormack, Clarke and Büttcher, 2009).
    """
    scores: dict[int, float] = {}
    for keys, weight in ((vectors, VECTOR_WEIGHT), (words, WORD_WEIGHT)):
        for rank, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + weight / (RRF_CONSTANT + rank)
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))


class KnowledgeIndex:
    """The bases that were searched, the last used ones kept. For one thread at a time."""

    def __init__(self) -> None:
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
        is_closed = cache(is_closed)
        near = _best(
            [
                shelf.cosines(vector)
                if (vector := vectors.get((base.embedding, base.dimension))) is not None
                else np.zeros(0, np.float32)
                for base, shelf in zip(bases, shelves, strict=True)
            ],
            shelves,
            DEPTH * top_k,
            above=-2.0,
            is_closed=is_closed,
        )
        said = _best(
            bm25_scores(query, [shelf.postings for shelf in shelves]),
            shelves,
            DEPTH * top_k,
            above=0.0,
            is_closed=is_closed,
        )
        ranked = fused(near, said)[:top_k]
        names = {base.key: base.name for base in bases}
        return _hits(connection, ranked, names, near, said)

    def _shelf(self, connection: Connection, base: BaseInfo) -> _Shelf:
        shelf = self._shelves.pop(base.key, None) or _Shelf()
        shelf.refresh(connection, base)
        self._shelves[base.key] = shelf
        while len(self._shelves) > 1 and sum(each.size for each in self._shelves.values()) > _BYTES_KEPT:
            self._shelves.popitem(last=False)
        return shelf


@dataclass(frozen=True, eq=False)
class _Document:
    """A document's path and chunks, and the model of their vectors with its dimension."""

    path: str
    model: str
    keys: NDArray[np.int64]
    vectors: bytes
    postings: Postings


class _Shelf:
    """A base in memory."""

    def __init__(self) -> None:
        self._changes = -1
        self._documents: dict[int, _Document] = {}
        self.paths: Sequence[str] = ()
        self.documents: NDArray[np.int64] = np.zeros(0, np.int64)
        self.keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self.postings: Postings = postings([])

    @property
    def size(self) -> int:
        """Bytes, about; packed once by document and once together."""
        return 2 * (self._vectors.nbytes + self.postings.words.nbytes * 2)

    def cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """By slot; -3 where a chunk has no vector, since its model knows none of its words."""
        # Not BLAS: for one vector its threads cost more than they save, and they keep spinning afterwards.
        found = np.einsum("ij,j->i", self._vectors, np.asarray(query, np.float32))
        found[~self._meant] = -3.0
        return np.asarray(found)

    def refresh(self, connection: Connection, base: BaseInfo) -> None:
        if base.changes == self._changes:
            return
        query = select(DOCUMENT.c.key, DOCUMENT.c.path, DOCUMENT.c.made_with)
        rows = connection.execute(query.where(DOCUMENT.c.base == base.key, DOCUMENT.c.ready.is_(True)))
        there = {key: (path, embedded_by(made_with)) for key, path, made_with in rows}
        found = {key: each for key, each in self._documents.items() if key in there}
        found |= _read(connection, {key: there[key] for key in sorted(there.keys() - found.keys())})
        self._documents = found
        ordered = [found[key] for key in sorted(found)]
        self.paths = [each.path for each in ordered]
        # By slot: the place of the chunk's document among the paths.
        self.documents = np.repeat(
            np.arange(len(ordered)), np.array([len(each.keys) for each in ordered], np.int64)
        )
        self.keys = np.concatenate([np.zeros(0, np.int64), *(each.keys for each in ordered)])
        self.postings = together([each.postings for each in ordered])
        # A document that was embedded by another model is found by its words until it is read again.
        model = f"{base.embedding}|{base.dimension}"
        width = 4 * base.dimension
        blobs = [each.vectors if each.model == model else bytes(width * len(each.keys)) for each in ordered]
        self._vectors = np.frombuffer(b"".join(blobs), "<f4").reshape(len(self.keys), base.dimension)
        self._meant = self._vectors.any(axis=1) if base.dimension else np.zeros(len(self.keys), np.bool_)
        self._changes = base.changes


def _read(connection: Connection, there: Mapping[int, tuple[str, str]]) -> dict[int, _Document]:
    documents = list(there)
    found: dict[int, _Document] = {}
    columns = (
        *(PART.c.document, PART.c.key, PART.c.chunks),
        *(PART.c.lengths, PART.c.words, PART.c.vectors),
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
    key: int
    chunks: int
    lengths: bytes
    words: bytes
    vectors: bytes


def _documents(
    there: Mapping[int, tuple[str, str]], rows: Mapping[int, Sequence[_Row]]
) -> dict[int, _Document]:
    ends = accumulate(sum(row.chunks for row in some) for some in rows.values())
    every = postings([PackedWords(row.lengths, row.words) for some in rows.values() for row in some])
    return {
        document: _Document(
            *there[document],
            np.array([_key(row.key, place) for row in some for place in range(row.chunks)], np.int64),
            b"".join([row.vectors for row in some]),
            words,
        )
        for (document, some), words in zip(rows.items(), parted(every, [*ends]), strict=True)
    }


_PLACE_BITS: Final = 16


def _key(part: int, place: int) -> int:
    """Of a chunk: its part's, and its place there."""
    return part << _PLACE_BITS | place


def _best(
    scores: Sequence[NDArray[Any]],
    shelves: Sequence[_Shelf],
    count: int,
    *,
    above: float,
    is_closed: Callable[[str], bool],
) -> list[int]:
    """The keys of the greatest scores of all shelves, the greatest first, of equals the smaller key.

    Only documents that would be among them are asked about; the scores of those that are closed are lost.
    """
    found: list[tuple[float, int]] = []
    for score, shelf in zip(scores, shelves, strict=True):
        while len(score):
            taken = min(count, len(score))
            least = np.partition(score, len(score) - taken)[len(score) - taken]
            places = np.flatnonzero((score >= least) & (score > above))
            documents = np.unique(shelf.documents[places])
            closed = [each for each in documents if is_closed(shelf.paths[each])]
            if not closed:
                found += [(-float(score[place]), int(shelf.keys[place])) for place in places]
                break
            score[np.isin(shelf.documents, closed)] = above
    return [key for _, key in sorted(found)[:count]]


def _hits(
    connection: Connection,
    ranked: Sequence[tuple[int, float]],
    names: dict[int, str],
    near: Sequence[int],
    said: Sequence[int],
) -> list[Hit]:
    columns = (PART.c.key, DOCUMENT.c.base, DOCUMENT.c.label, PART.c.places, PART.c.texts)
    query = select(*columns).join(DOCUMENT, DOCUMENT.c.key == PART.c.document)
    wanted = {key >> _PLACE_BITS for key, _ in ranked}
    rows = {row.key: row for row in connection.execute(query.where(PART.c.key.in_(sorted(wanted))))}
    chunks = {key: unpacked_chunks(row.places, row.texts) for key, row in rows.items()}
    by_vector = {key: rank for rank, key in enumerate(near, 1)}
    by_words = {key: rank for rank, key in enumerate(said, 1)}
    return [
        Hit(
            names[rows[part].base],
            rows[part].label,
            *chunks[part][key - _key(part, 0)],
            score,
            by_vector.get(key),
            by_words.get(key),
        )
        for key, score in ranked
        if (part := key >> _PLACE_BITS) in rows
    ]
