"""Packed words are those of memory's analysis, and their BM25 is the reference's."""

from __future__ import annotations

import math
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.knowledge.index import fused
from zeus_runtime.knowledge.word_numbers import WordNumbers, query_numbers, word_numbers
from zeus_runtime.knowledge.words import (
    PackedWords,
    Postings,
    bm25_scores,
    packed_words,
    parted,
    postings,
    together,
)
from zeus_runtime.memory.retrieval.analysis import query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import bm25, corpus

TEXTS = ["The ships of Pylos", "ships and more ships sail", "船は夜明けに出る", "no word in common"]


SENTENCES = (
    "The contracts were being signed in the harbours of the islands",
    "Die Verträge werden in den Häfen der Inseln unterschrieben und nicht verlängert",
    "Los contratos se firman en los puertos de las islas que no tienen bancos",
    "Договоры подписываются в портах, и они не продлеваются",
    "船は夜明けに港を出る",
    "항구에서 계약서에 서명한다",
    "สัญญาลงนามที่ท่าเรือ",
)


@pytest.mark.parametrize("text", SENTENCES)
def test_texts_have_the_words_that_memories_of_the_same_text_have(text: str) -> None:
    assert word_numbers(text).tolist() == [crc32(each.encode()) for each in search_tokens(text)]


def test_the_language_of_a_text_is_that_of_its_end() -> None:
    names = "The report of the harbours and what it is for\n" * 9
    german = word_numbers("Die Häfen werden von den Verträgen und der Inseln nicht genannt").tolist()
    assert (
        word_numbers(names + "Die Häfen werden von den Verträgen und der Inseln nicht genannt\n" * 6)[
            -len(german) :
        ].tolist()
        == german
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("signing a contract", SENTENCES[0]),
        ("Vertrag", SENTENCES[1]),
        ("¿Qué contrato se firmó?", SENTENCES[2]),
        ("договор порт", SENTENCES[3]),
        ("계약서", SENTENCES[5]),
    ],
)
def test_a_word_finds_its_other_forms(query: str, text: str) -> None:
    shelves = [postings(packed([text, "no word in common"], WordNumbers()))]
    ((found, other),) = bm25_scores(query, shelves)
    assert found > other == 0


def test_the_forms_of_a_word_weigh_as_one_word_and_each_adds_its_own() -> None:
    (forms,) = query_numbers("Verträge")
    assert len(forms) > 1
    counts, lengths = np.ones(2, np.uint16), np.full(1, 2, np.int32)
    ((score,),) = bm25_scores("Verträge", [Postings(forms[:2], counts, np.zeros(2, np.int32), lengths)])
    # The one text has the word, so the word tells little, whichever its forms.
    assert score == pytest.approx(2 * math.log(1 + 0.5 / 1.5))


SAID = st.lists(
    st.text("ab Cs\x00\x0e\x1b\x1c\x7f_-1'\n船", max_size=40)
    | st.text("ab ", max_size=90)
    | st.text("ab \u00a0\u0301\u200b\u3000\ufb01\u0130", max_size=20)
    | st.sampled_from(SENTENCES)
    | st.sampled_from("theships on_island don't the\u2014ships stra\u00dfe \u2460ships".split()),
    max_size=3,
).map(" ".join)
"""Words in ASCII and not, beside what joins or folds them, and long ones."""


@given(st.lists(st.lists(SAID, max_size=5), max_size=3), st.integers(min_value=1, max_value=8))
def test_texts_packed_together_are_those_packed_alone(batches: list[list[str]], slot_bits: int) -> None:
    numbers = WordNumbers(slot_bits)
    for texts in batches:
        assert_packed(texts, packed(texts, numbers))


@pytest.mark.parametrize("letters", [1, 7, 8, 9, 15, 16, 17, 40])
def test_words_of_every_length_are_told_apart(letters: int) -> None:
    words = [f"{'x' * at}y{'x' * (letters - at - 1)}" for at in range(letters)]
    for texts in ([" ".join(words)], words, [" ".join(words).upper()]):
        assert_packed(texts, packed(texts, WordNumbers()))


def test_more_texts_than_are_looked_up_at_once_stay_apart() -> None:
    texts = [f"ship{number} sails {'there ' * (number % 3)}" for number in range(300)]
    assert_packed(texts, packed(texts, WordNumbers(2)))


def packed(texts: list[str], numbers: WordNumbers) -> list[PackedWords]:
    return packed_words(texts, range(1, len(texts) + 1), numbers)


def assert_packed(texts: list[str], found: list[PackedWords]) -> None:
    for text, (length, words) in zip(texts, found, strict=True):
        numbers = word_numbers(text).tolist()
        assert np.frombuffer(length, "<u4").tolist() == [len(numbers)]
        assert sorted(np.frombuffer(words, "<u4").tolist()) == sorted(numbers)


@given(st.lists(SAID, max_size=6), st.integers(min_value=0, max_value=6))
def test_postings_have_each_word_of_a_text_once_with_its_number(texts: list[str], cut: int) -> None:
    ends = [min(cut, len(texts)), len(texts)]
    groups = packed_words(texts, ends, WordNumbers())
    whole = postings(groups)
    for found in (whole, together([postings([each]) for each in groups]), together(parted(whole, ends))):
        entries = zip(found.slots.tolist(), found.words.tolist(), found.counts.tolist(), strict=True)
        assert list(entries) == [
            (slot, word, numbers.count(word))
            for slot, text in enumerate(texts)
            for numbers in [word_numbers(text).tolist()]
            for word in sorted(set(numbers))
        ]
        assert found.lengths.tolist() == [len(word_numbers(text)) for text in texts]


@pytest.mark.parametrize(
    "query", ["ships", "Pylos ship", "船", "nothing like it", "sailing of the sailed ships"]
)
def test_scores_are_those_of_the_reference(query: str) -> None:
    tokens = [search_tokens(text) for text in TEXTS]
    known = corpus(tokens)
    expected = [bm25(query_tokens(query), each, known) for each in tokens]
    shelves = [postings(packed(some, WordNumbers())) for some in (TEXTS[:2], TEXTS[2:])]
    assert np.concatenate(bm25_scores(query, shelves)) == pytest.approx(expected)


def test_ranks_are_fused_with_the_specified_weights() -> None:
    assert fused([7, 8], [8, 9]) == [
        (8, pytest.approx(0.6 / 62 + 0.4 / 61)),
        (7, pytest.approx(0.6 / 61)),
        (9, pytest.approx(0.4 / 62)),
    ]
