"""Chunks follow the structure of a text, keep to their size and say where they stand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.knowledge.chunks import Chunk, chunks, tokens_of
from zeus_runtime.knowledge.convert import Converted, Form, Page

GUIDE = """# Guide

Welcome.

## Install

First step.

```sh
pip install it

# not a heading
```

Setup
-----

| port | days |
|---|---|
| Pylos | 3 |
"""


def cut(text: str, tokens: int = 400, overlap: int = 0, form: Form = "markdown") -> list[Chunk]:
    return chunks(Converted(form, (Page(text),)), chunk_tokens=tokens, overlap_tokens=overlap)


def test_a_chunk_stands_under_its_headings_with_its_lines() -> None:
    found = [(each.heading, each.position) for each in cut(GUIDE)]
    assert found == [("Guide", "line 3"), ("Guide > Install", "lines 7-13"), ("Guide > Setup", "lines 18-20")]


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    assert "# not a heading" in cut(GUIDE)[1].content


def test_pages_are_named_and_do_not_mix() -> None:
    document = Converted("text", (Page("one", 1), Page("two\n\nthree", 2)))
    assert [(each.position, each.content) for each in chunks(document)] == [
        ("page 1, line 1", "one"),
        ("page 2, lines 1-3", "two\n\nthree"),
    ]


def test_a_table_that_is_parted_repeats_its_head() -> None:
    rows = "\n".join(f"| port {number} | {number} |" for number in range(100))
    found = cut(f"| port | days |\n|---|---|\n{rows}", tokens=60)
    assert len(found) > 5
    assert all(each.content.startswith("| port | days |\n|---|---|\n| port ") for each in found)
    assert sum(each.content.count("| port ") - 1 for each in found) == 100


def test_a_block_that_fits_is_not_parted() -> None:
    code = "```\n" + "\n".join(f"line {number}" for number in range(30)) + "\n```"
    found = cut(f"{'word ' * 60}\n\n{code}", tokens=100)
    assert found[1].content == code


def test_the_next_chunk_begins_with_the_end_of_the_last_in_prose() -> None:
    text = "\n\n".join(f"Sentence {number} says something. And more of it." for number in range(20))
    plain, lapped = cut(text, tokens=60), cut(text, tokens=60, overlap=15)
    assert plain[1].content.split("\n\n")[0] not in plain[0].content
    assert all(
        after.content.split("\n\n")[0] in before.content for before, after in itertools.pairwise(lapped)
    )


def test_code_is_parted_where_a_line_stands_at_the_margin() -> None:
    functions = [f"def f{number}():\n    a = 1\n\n    return a" for number in range(6)]
    found = cut("\n\n".join(functions), tokens=20, form="code")
    assert [each.content for each in found] == ["\n\n".join(functions[n : n + 2]) for n in (0, 2, 4)] or [
        each.content for each in found
    ] == functions


def test_a_heading_alone_is_found_too() -> None:
    assert [each.content for each in cut("# Only a title\n")] == ["Only a title"]
    assert cut("") == []


@given(
    st.text(alphabet="ab #|-`~.\n 航", max_size=600),
    st.integers(min_value=16, max_value=60),
    st.sampled_from(["markdown", "text", "code"]),
)
def test_nothing_is_lost_and_no_chunk_is_too_long(text: str, tokens: int, form: Form) -> None:
    found = cut(text, tokens, form=form)
    assert all(tokens_of(each.content) <= tokens * 1.5 + 4 for each in found)
    said = "".join("".join(f"{each.heading}{each.content}" for each in found).split())
    assert {letter for letter in "ab航" if letter in text} == {letter for letter in "ab航" if letter in said}
    assert sum(text.count(letter) for letter in "b航") <= sum(said.count(letter) for letter in "b航")


@pytest.mark.parametrize("overlap", [0, 20])
def test_a_line_without_end_is_parted(overlap: int) -> None:
    found = cut("word " * 2_000, tokens=100, overlap=overlap, form="text")
    assert all(tokens_of(each.content) <= 125 for each in found)
    assert sum(each.content.count("word") for each in found) >= 2_000
