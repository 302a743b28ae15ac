"""Texts and queries become the same words, in whatever language they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.retrieval.analysis import OR, query_tokens, search_tokens


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The user adopted two cats", "adopting a cat"),
        ("Carolina's allergies got worse", "Carolina allergy"),
        ("Die Katzen wohnen in den Häusern von Anna", "Katze Haus"),
        ("Elle mange des pommes dans les jardins", "pomme jardin"),
        ("Tomáš bydlí v Brně", "Tomas"),
        ("Où est le café de la gare ?", "cafe gare"),
        ("Любимый цвет: синий", "любимые цвета"),
        ("我喜欢绿茶", "绿茶"),
        ("오늘은 서울에서 일해요", "서울"),
    ],
)
def test_a_query_in_other_forms_finds_each_of_its_words(text: str, query: str) -> None:
    words = set(search_tokens(text))
    assert [token for token in query_tokens(query) if not words & set(token.split(OR))] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't work at home", ["work", "home"]),
        ("Ich bin nicht mit dem Hund gegangen", ["hund", "gegang"]),
        ("हिन्दी में लिखा", ["हिन्द", "लिख"]),
    ],
)
def test_stop_words_of_the_language_are_left_out_and_no_others(text: str, words: list[str]) -> None:
    assert search_tokens(text) == words


@given(st.text())
def test_a_token_can_stand_in_an_index(text: str) -> None:
    for token in (*search_tokens(text), *(form for each in query_tokens(text) for form in each.split(OR))):
        assert token
        assert not set(token) & set(" '\"|:,\\_")
