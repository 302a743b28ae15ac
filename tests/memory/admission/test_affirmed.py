"""Which clauses of a text affirm something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.admission.statement import affirmed
from zeus_runtime.memory.normalise import normalise

AFFIRMED = [
    ("Dr. Smith, who eats no meat, uses Rust", "Dr. Smith., uses Rust"),
    ("The user isn't a nurse; he works as a baker", ".; he works as a baker"),
    ("The user never writes Java, C or Lua, but he writes Rust", ".., but he writes Rust"),
    ("The user has no TypeScript and JavaScript projects", ". ."),
    ("The user writes Java 3.10, no Rust", "The user writes Java 3.10."),
    ("The user writes no Java. Only Rust", ".. Only Rust"),
    ("The user writes no Java. And Rust", ".. And Rust"),
    ("The user has no time for Dr. Smith", "."),
    ("The user writes Java, C and Lua", "The user writes Java, C and Lua"),
    ("The user used to write Java and now writes Rust", ". and now writes Rust"),
    ("The user doesn’t write Java", "."),
    ("The user likes no-code tools", "The user likes no-code tools"),
    ("Der Nutzer isst kein Fleisch, aber er schreibt Rust", "., aber er schreibt Rust"),
    ("用戶不會用Java，會用Python編程", ".,會用Python編程"),
    ("用户不用Java、Python", ".."),
    ("用户特别喜欢无论什么音乐", "用户特别喜欢无论什么音乐"),
]
WORDS = st.sampled_from(
    "The user writes no not never Java Rust and but , . ; is Dr. 2.5 用户 不 会用 、 ， kein aber 不错 used to".split()
)


@pytest.mark.parametrize(("text", "rest"), AFFIRMED)
def test_a_clause_that_denies_something_is_left_out_with_those_that_go_on_with_it(
    text: str, rest: str
) -> None:
    assert affirmed(text) == rest


@given(st.lists(WORDS, max_size=14).map(" ".join) | st.text())
def test_what_is_affirmed_stands_in_the_text_and_denies_nothing_more(text: str) -> None:
    rest = affirmed(text)
    assert affirmed(rest) == rest
    left = iter(normalise(text).replace("’", "'"))
    # A full stop may stand for a clause.
    assert all(each == "." or each in left for each in rest)
