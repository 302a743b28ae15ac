"""One similarity from vectors and words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.embedding import Calibration
from zeus_runtime.memory.retrieval.analysis import OR, query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import K1, Corpus, Fusion, bm25, corpus, fusion, lexical_similarity

SHARE = st.floats(0, 1)
COSINE = st.floats(-1, 1)
TOKENS = st.lists(st.sampled_from("alpha beta gamma delta epsilon 茶 树".split()), max_size=12)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The user likes green tea", ["user", "like", "green", "tea"]),
        ("我喜欢绿茶", ["喜", "欢", "绿", "茶"]),
        ("用Python写的API", ["用", "python", "写", "api"]),
        ("categories, classes; bus", ["categori", "class", "bus"]),
        ("ＰＯＲＴ　8080", ["port", "8080"]),
        ("...", []),
    ],
)
def test_texts_are_words_and_single_characters(text: str, tokens: list[str]) -> None:
    assert search_tokens(text) == tokens


def test_singular_and_plural_are_one_word() -> None:
    assert search_tokens("allergies") == search_tokens("allergy")


@given(st.text())
def test_tokens_hold_no_spaces_and_no_capitals(text: str) -> None:
    for token in search_tokens(text):
        assert token == token.casefold()
        assert not any(each.isspace() for each in token)


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("How much luggage should I take to them?", ["luggag", "take"]),
        ("What happens in May in the US?", ["happen", "may", "us"]),
        ("孩子什么时候上学？", ["孩", "子", "上", "学"]),
        ("哪个服务器多久重启？", ["服", "务", "器", "重", "启"]),
        ("几何题和哪吒", ["几", "何", "题", "哪", "吒"]),
        ("should we then?", ["should", "then"]),
        ("谁？", ["谁"]),
        ("", []),
    ],
)
def test_words_that_only_ask_are_not_searched_for_unless_alone(query: str, tokens: list[str]) -> None:
    assert query_tokens(query) == tokens


@given(st.text())
def test_a_query_has_words_where_the_index_would_have_some(query: str) -> None:
    indexed = set(search_tokens(query))
    # A query tells its language less surely than it has forms for: one of them is English.
    assert all(set(token.split(OR)) for token in query_tokens(query))
    assert not indexed or query_tokens(query)
    assert bool(query_tokens(query)) == bool(search_tokens(query))


def test_bm25_as_in_the_paper() -> None:
    texts = [["tea", "green"], ["tea", "tea", "black", "pot"], ["coffee"]]
    known = corpus(texts)
    assert (known.texts, known.mean_length, known.texts_with["tea"]) == (3, pytest.approx(7 / 3), 2)
    weight = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    long = 1.2 * (1 - 0.75 + 0.75 * 4 / (7 / 3))
    assert bm25(["tea"], texts[1], known) == pytest.approx(weight * 2 * 2.2 / (2 + long))


@given(TOKENS, st.lists(TOKENS, max_size=6))
def test_lexical_similarity_is_of_the_weights_and_needs_a_common_word(
    query: list[str], texts: list[list[str]]
) -> None:
    known = corpus(texts)
    for text in texts:
        share = lexical_similarity(query, text, known)
        assert 0 <= share <= K1 + 1
        assert (share > 0) == bool(set(query) & set(text))


@given(st.sampled_from("alpha beta".split()), st.integers(0, 1000))
def test_a_rare_word_tells_more_than_a_common_one(token: str, having: int) -> None:
    fewer = Corpus(1000, 5, {token: having})
    more = Corpus(1000, 5, {token: min(1000, having + 1)})
    assert fewer.weight(token) >= more.weight(token) > 0


def test_nothing_known_of_no_texts() -> None:
    assert lexical_similarity([], ["tea"], corpus([])) == 0
    assert bm25(["tea"], [], corpus([])) == 0


@given(COSINE, SHARE, SHARE)
def test_more_evidence_is_never_less_similar(cosine: float, one: float, other: float) -> None:
    fusion = Fusion()
    low, high = sorted((one, other))
    assert fusion.similarity(cosine, low) <= fusion.similarity(cosine, high) + 1e-12
    assert fusion.similarity(cosine, None) <= fusion.similarity(cosine, low) + 1e-12
    assert fusion.similarity(None, low) <= fusion.similarity(cosine, low) + 1e-12


@given(COSINE, COSINE, SHARE)
def test_similarity_grows_with_the_cosine(one: float, other: float, lexical: float) -> None:
    low, high = sorted((one, other))
    assert Fusion().similarity(low, lexical) <= Fusion().similarity(high, lexical) + 1e-12


@given(st.none() | COSINE, st.none() | SHARE)
def test_similarity_is_a_share(cosine: float | None, lexical: float | None) -> None:
    assert 0 <= Fusion().similarity(cosine, lexical) <= 1


def test_no_signal_is_no_similarity_and_not_relevant() -> None:
    assert Fusion().similarity(None, None) == 0
    assert not Fusion(floor=0).relevant(0)


def test_the_floor_itself_is_relevant() -> None:
    assert Fusion(floor=0.4).relevant(0.4)
    assert not Fusion(floor=0.4).relevant(0.399)


def test_a_cosine_is_brought_to_the_common_scale() -> None:
    fusion = Fusion(cosine_zero=0.2, cosine_one=0.8)
    assert [fusion.dense(each) for each in (-1, 0.2, 0.5, 0.8, 1)] == pytest.approx([0, 0, 0.5, 1, 4 / 3])


@pytest.mark.parametrize(
    "wrong",
    [{"cosine_zero": 0.9}, {"cosine_one": 1.1}, {"dense_trust": 1.1}, {"lexical_trust": -0.1}, {"floor": 2}],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"cosine_zero|between 0 and 1"):
        Fusion(**wrong)


MODEL = Calibration(cosine_zero=0.1, cosine_one=0.7, trust=0.8)


def test_without_a_model_words_are_all_there_is() -> None:
    assert fusion(None, 1) == Fusion()
    assert fusion(MODEL, 0).similarity(None, 0.5) == Fusion().similarity(None, 0.5)


@given(SHARE, SHARE, SHARE)
def test_words_count_less_the_more_a_model_knows_the_query(one: float, other: float, lexical: float) -> None:
    less, more = (fusion(MODEL, coverage) for coverage in sorted((one, other)))
    assert more.lexical_trust <= less.lexical_trust
    assert more.dense_trust >= less.dense_trust
    assert fusion(MODEL, 1).similarity(None, lexical) > 0 or lexical < 1e-9


@pytest.mark.parametrize("coverage", [-1, 0, 0.5, 1, 2])
def test_a_coverage_beyond_its_range_counts_as_the_end_of_it(coverage: float) -> None:
    assert fusion(MODEL, coverage) == fusion(MODEL, min(1, max(0, coverage)))


def test_a_word_in_common_is_found_beside_a_model_that_sees_nothing_alike() -> None:
    trusted = fusion(Calibration(cosine_zero=0.1, cosine_one=0.7, trust=1), 1)
    assert trusted.relevant(trusted.similarity(0.0, 1.0))
