"""Chunks come back from the rows that they are packed to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.knowledge.chunks import Chunk
from zeus_runtime.knowledge.parts import CHUNKS, ChunkGroup, packed_parts, unpacked_chunks
from zeus_runtime.knowledge.word_numbers import WordNumbers, word_numbers

TEXT = st.text(st.characters() | st.sampled_from("\0\ud800\n船"), max_size=20)
CHUNK = st.builds(Chunk, TEXT, TEXT, TEXT)


def packed(documents: list[list[Chunk]], first: int = 0) -> tuple[list[list[ChunkGroup]], list[bytes]]:
    texts = [each.embedded for some in documents for each in some]
    digests = [number.to_bytes(16, "big") for number in range(len(texts))]
    return packed_parts(documents, texts, digests, WordNumbers(), first=first), digests


@given(st.lists(st.lists(CHUNK, max_size=3), max_size=4))
def test_each_document_has_its_own_chunks_again(documents: list[list[Chunk]]) -> None:
    found, _ = packed(documents)
    assert [[unpacked_chunks(part.places, part.texts) for part in parts] for parts in found] == [
        [some] if some else [] for some in documents
    ]


@pytest.mark.parametrize("count", [CHUNKS - 1, CHUNKS, CHUNKS + 1, 3 * CHUNKS])
def test_a_long_document_has_several_parts_which_say_where_they_stand(count: int) -> None:
    long = [
        Chunk("Ports", f"line {number}", f"Port {number} is {number} days off.") for number in range(count)
    ]
    (before, parts), digests = packed([[Chunk("", "line 1", "alone")], long], first=7)
    assert [part.number for part in (*before, *parts)] == [7, *range(7, 7 + count, CHUNKS)]
    assert [each for part in parts for each in unpacked_chunks(part.places, part.texts)] == long
    assert b"".join(part.digests for part in parts) == b"".join(digests[1:])
    lengths = np.concatenate([np.frombuffer(part.lengths, "<u4") for part in parts])
    assert lengths.tolist() == [len(word_numbers(each.embedded)) for each in long]
    assert all(len(part.words) == 4 * np.frombuffer(part.lengths, "<u4").sum() for part in parts)
