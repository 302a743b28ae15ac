"""Blocks of a text, and the short ways by which most texts are cut: each gives what the long one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.knowledge.blocks import TextLines, blocks, stretches
from zeus_runtime.knowledge.long_blocks import _parted, parts

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "a b",
            "# ",
            "## T\n",
            "\n",
            "\n\n",
            "\n \n",
            "\n\u3000\n",
            "```",
            "~~~\n",
            "---",
            "\n===\n",
            "|x|",
            " ",
        ]
    ),
    max_size=30,
).map("".join)


@given(MARKDOWN)
def test_an_even_stretch_is_its_blocks_joined_by_an_empty_line(text: str) -> None:
    lines = TextLines(text)
    for stretch in stretches(lines, "markdown"):
        found = list(blocks(lines, stretch, "markdown"))
        joined = "\n\n".join(lines.text(start, end) for _, start, end in found)
        if stretch.is_even and found:
            assert joined == lines.text(stretch.start, stretch.end)
            assert all(kind != "heading" for kind, _, _ in found)


@pytest.mark.parametrize(
    ("text", "is_even"),
    [
        ("a\nb\n\nc", True),
        ("a\n\n\n```\n\n\n\nx\n```\n\nb", False),
        ("a\n\n```\n\n\n\nx\n```\n\nb", True),
        ("a\n```\nx\n```", False),
        ("```\nx\n```\nb", False),
        ("a\n \nb", False),
        ("\n \n\na\n\n\n", True),
        ("a\n---", False),
        ("a\n\n- b\n- c", True),
    ],
)
def test_a_stretch_is_even_if_nothing_else_parts_its_blocks(text: str, is_even: bool) -> None:
    (stretch,) = stretches(TextLines(text), "markdown")
    assert stretch.is_even is is_even


@given(st.lists(st.text("ab ", max_size=30), min_size=1, max_size=20), st.integers(min_value=1, max_value=60))
def test_a_long_block_is_parted_alike_with_and_without_looking_at_each_line(
    lines: list[str], limit: int
) -> None:
    assert list(parts("code", lines, limit)) == list(_parted(lines, limit, is_table=False))
