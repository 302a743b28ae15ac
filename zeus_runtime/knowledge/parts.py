"""Pack a document's chunks into rows of the database and back: many chunks share a row, since each row has a cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.knowledge.chunks import Chunk
from zeus_runtime.knowledge.words import packed_words

if TYPE_CHECKING:
    from zeus_runtime.knowledge.word_numbers import WordNumbers

CHUNKS: Final = 32
"""Of a part, at most. To show one of them the part is read."""


class ChunkGroup(NamedTuple):
    """Some chunks of a document that follow each other.

    Args:
        number: of the first one in the document, from 0.
        chunks: how many.
        lengths, words: as ``knowledge.words`` packs them.
        places: the heading and position of each, and how many characters its text has; JSON.
        texts: their texts one after the other, in UTF-8.
        digests: of their vectors, one after the other; zeros for a chunk without a vector.
    """

    number: int
    chunks: int
    lengths: bytes
    words: bytes
    places: str
    texts: bytes
    digests: bytes


def packed_parts(
    documents: Sequence[Sequence[Chunk]],
    texts: Sequence[str],
    digests: Sequence[bytes],
    numbers: WordNumbers,
    *,
    first: int = 0,
) -> list[list[ChunkGroup]]:
    """The parts of each document.

    Args:
        documents: the chunks of each.
        texts: the search text of each chunk, over all documents.
        digests: of the vectors of those chunks.
        first: the number of each document's first chunk.
    """
    parted = [
        [some[start : start + CHUNKS] for start in range(0, len(some), CHUNKS)] or [some]
        for some in documents
    ]
    ends, end = [], 0
    for some in parted:
        for each in some:
            end += len(each)
            ends.append(end)
    rows = zip(packed_words(texts, ends, numbers), pairwise((0, *ends)), strict=True)
    return [
        [
            ChunkGroup(
                first + place * CHUNKS,
                len(each),
                *words,
                *_packed(each),
                b"".join(digests[start:end]),
            )
            # `rows` is one iterator for all documents. `zip` asks `enumerate` first, so its end takes no row of the
            # next document.
            for (place, each), (words, (start, end)) in zip(enumerate(some), rows, strict=False)
            if each
        ]
        for some in parted
    ]


def _packed(chunks: Sequence[Chunk]) -> tuple[str, bytes]:
    places = json.dumps([(each.heading, each.position, len(each.content)) for each in chunks])
    return places, "".join([each.content for each in chunks]).encode("utf-8", "surrogatepass")


def unpacked_chunks(places: str, texts: bytes) -> list[Chunk]:
    """The chunks of a part."""
    text, start = texts.decode("utf-8", "surrogatepass"), 0
    found = []
    for heading, position, size in json.loads(places):
        found.append(Chunk(heading, position, text[start : start + size]))
        start += size
    return found
