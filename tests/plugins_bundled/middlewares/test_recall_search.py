"""Searching what left the window: deterministic, whole phrases first, in any script."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.recall.absent import Absent
from zeus_plugins.middlewares.recall.searching import excerpt, search


def items(*texts: str) -> list[Absent]:
    return [Absent(number, "user", "left the window", text) for number, text in enumerate(texts, start=1)]


def test_the_phrase_comes_before_its_words_and_the_newest_of_equals_first() -> None:
    found = search(
        items("port and staging", "the Staging Port", "staging port", "port", "nothing"), "staging port"
    )
    assert [find.item.seq for find in found] == [3, 2, 1, 4]


def test_no_words_find_everything_oldest_first() -> None:
    assert [find.item.seq for find in search(items("a", "b"), "  ")] == [1, 2]


def test_chinese_is_found_without_spaces() -> None:
    assert [find.item.seq for find in search(items("数据库的端口是五四三二", "天气"), "端口")] == [1]


@given(st.text(min_size=1, max_size=400), st.integers(0, 400), st.integers(40, 100))
def test_an_excerpt_is_part_of_its_text(text: str, place: int, chars: int) -> None:
    cut = excerpt(text, min(place, len(text) - 1), chars)
    bare = cut.removeprefix("... ").removesuffix(" ...")
    assert "".join(bare.split()) in "".join(text.split())
    assert len(bare) <= chars


@given(st.text("ab ", max_size=30), st.text("abc ", min_size=1, max_size=10))
def test_what_has_a_word_is_found_and_what_has_none_is_not(text: str, query: str) -> None:
    found = bool(search(items(text), query))
    words = query.split()
    assert found == (not words or 2 * sum(word in text for word in set(words)) >= len(set(words)))
