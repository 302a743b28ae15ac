"""Where streamed Markdown is cut into blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.cli.terminal import split_blocks

LINES = st.sampled_from(
    ["", "text", "# head", "- item", "  deep", "```", "```py", "~~~", "````", "| a | b |", " "]
)


@given(st.lists(LINES), st.booleans())
def test_nothing_is_lost(lines: list[str], ended: bool) -> None:
    text = "\n".join(lines) + ("\n" if ended else "")
    blocks, rest = split_blocks(text)
    assert "".join(blocks) + rest == text


@given(st.lists(LINES, max_size=12), st.integers(min_value=1, max_value=5))
def test_it_does_not_matter_how_the_text_arrives(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    whole, _ = split_blocks(text)
    came: list[str] = []
    growing = ""
    for start in range(0, len(text), size):
        blocks, growing = split_blocks(growing + text[start : start + size])
        came += blocks
    assert came == whole


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\n\ntwo", ["one\n\n"]),
        ("one\ntwo\n", []),
        ("one\n\n", []),
        ("```\na\n\nb\n```\n\nafter", ["```\na\n\nb\n```\n\n"]),
        ("````\n```\n\n```\n````\n\nafter", ["````\n```\n\n```\n````\n\n"]),
        ("- a\n\n  more of a\n\nafter", ["- a\n\n  more of a\n\n"]),
    ],
)
def test_a_block_ends_at_a_blank_line_outside_a_fence(text: str, blocks: list[str]) -> None:
    assert split_blocks(text)[0] == blocks
