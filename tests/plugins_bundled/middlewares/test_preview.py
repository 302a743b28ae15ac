"""The preview of an evicted text: its first lines, cut, within its bounds, the same every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.eviction.preview import preview


def test_the_first_lines_are_shown_and_all_are_counted() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 31))
    shown, count, total = preview(text, 10, 500, max_bytes=10_000)
    assert shown.splitlines() == [f"line {number}" for number in range(1, 11)]
    assert (count, total) == (10, 30)


def test_a_long_line_is_cut_and_says_how_long_it_is() -> None:
    shown, count, total = preview("x" * 100_000, 10, 500, max_bytes=10_000)
    assert shown == "x" * 500 + "... [the line has 100,000 characters]"
    assert (count, total) == (1, 1)


@given(st.text(max_size=3_000), st.integers(0, 12), st.integers(1, 200), st.integers(1, 2_000))
def test_it_stays_within_its_bounds(text: str, lines: int, line_chars: int, max_bytes: int) -> None:
    shown, count, total = preview(text, lines, line_chars, max_bytes=max_bytes)
    assert count <= lines
    assert count <= total
    assert (count == 0) == (lines == 0)
    assert len(shown.encode(errors="surrogatepass")) <= max_bytes + 4 * 20 + 60 * max(count, 1)
    starts = [line.partition("... [the line has")[0] for line in shown.split("\n")] if count else []
    assert all(mine == theirs[: len(mine)] for mine, theirs in zip(starts, text.split("\n"), strict=False))
