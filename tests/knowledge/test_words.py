"""Packed words are those of memory, and their BM25 is the reference's."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.knowledge.index import fused
from zeus_runtime.knowledge.word_numbers import WordNumbers, word_numbers
from zeus_runtime.knowledge.words import bm25_scores, packed_words, postings
from zeus_runtime.memory.retrieval.fusion import bm25, corpus, search_tokens

TEXTS = ["The ships of Pylos", "ships and more ships sail", "船は夜明けに出る", "no word in common"]


@given(st.text(max_size=80))
def test_the_words_are_those_of_memory(text: str) -> None:
    assert word_numbers(text).tolist() == [crc32(each.encode()) for each in search_tokens(text)]


SAID = st.text("ab Cs\x00\x0e\x1b\x1c\x7f_-1'\n船", max_size=40) | st.text("ab ", max_size=90)
"""Words in ASCII and not, and long ones."""


@given(st.lists(st.lists(SAID, max_size=5), max_size=3), st.integers(min_value=1, max_value=8))
def test_texts_packed_together_are_those_packed_alone(batches: list[list[str]], slot_bits: int) -> None:
    numbers = WordNumbers(slot_bits)
    for texts in batches:
        assert_packed(texts, packed_words(texts, numbers))


@pytest.mark.parametrize("letters", [1, 7, 8, 9, 15, 16, 17, 40])
def test_words_of_every_length_are_told_apart(letters: int) -> None:
    words = [f"{'x' * at}y{'x' * (letters - at - 1)}" for at in range(letters)]
    assert_packed([" ".join(words)], packed_words([" ".join(words)], WordNumbers()))
    assert_packed(words, packed_words(words, WordNumbers()))


def assert_packed(texts: list[str], packed: list[tuple[int, bytes]]) -> None:
    for text, (length, blob) in zip(texts, packed, strict=True):
        numbers = word_numbers(text).tolist()
        words = np.frombuffer(blob[: len(blob) // 6 * 4], "<u4").tolist()
        counts = np.frombuffer(blob[len(blob) // 6 * 4 :], "<u2").tolist()
        assert length == len(numbers)
        assert words == sorted(set(numbers))
        assert counts == [numbers.count(word) for word in words]


@pytest.mark.parametrize("query", ["ships", "Pylos ship", "船", "nothing like it"])
def test_scores_are_those_of_the_reference(query: str) -> None:
    tokens = [search_tokens(text) for text in TEXTS]
    known = corpus(tokens)
    expected = [bm25(search_tokens(query), each, known) for each in tokens]
    shelves = []
    for some in (TEXTS[:2], TEXTS[2:]):
        packed = packed_words(some, WordNumbers())
        shelves.append(postings([blob for _, blob in packed], [length for length, _ in packed]))
    assert np.concatenate(bm25_scores(query, shelves)) == pytest.approx(expected)


def test_ranks_are_fused_with_the_specified_weights() -> None:
    assert fused([7, 8], [8, 9]) == [
        (8, pytest.approx(0.6 / 62 + 0.4 / 61)),
        (7, pytest.approx(0.6 / 61)),
        (9, pytest.approx(0.4 / 62)),
    ]
