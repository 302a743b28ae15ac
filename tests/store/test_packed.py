"""Packed texts come back as they were, and a damaged one is not passed off as another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.context.ledger import Step
from zeus_runtime.store.packed import pack, unpack


@given(st.text())
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert unpack(pack(text)) == text


def test_a_row_of_the_ledger_takes_a_third() -> None:
    sources = {"user": 9, "assistant": 644, "tool:write_todos": 132, "tool:grep": 67, "tool:lookup": 4810}
    row = Step(
        number=512,
        run_id="0788a1b6",
        cursor=1024,
        edits=0,
        model="openai/gpt-5.2",
        input_limit_tokens=272_000,
        fixed="d98afdbbd68b83029e3fcf53",
        fixed_tokens=4066,
        view_tokens=5662,
        by_source=sources,
        messages=1023,
        duration_ms=3.1,
    ).to_json()
    assert len(pack(row)) < len(row) / 2.5


def test_what_was_not_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(b"\xff\xff not packed")
