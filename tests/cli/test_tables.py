"""Tables: aligned, and as wide as the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.cli.table import columns, most_columns, shortened, table

words = st.text(st.sampled_from("ab\u4dc0☰漢\u0301\U0001f525-\x1b\u202e"), min_size=1, max_size=12)
cells = st.lists(words, max_size=8).map(" ".join)


def test_a_cell_that_is_too_long_breaks_at_spaces() -> None:
    rows = [("session_1", "a title of many words that go on"), ("session_2", "short")]
    assert table(rows, ("ID", "BEGINS"), width=30) == (
        "ID         BEGINS\nsession_1  a title of many\n           words that go on\nsession_2  short"
    )


def test_a_word_that_is_too_long_ends_in_an_ellipsis() -> None:
    assert table([("key", "x" * 50 + " tail")], width=30) == f"key  {'x' * 24}…\n     tail"


def test_a_table_that_nobody_watches_is_as_wide_as_it_needs() -> None:
    assert table([("a" * 300, "b")]) == f"{'a' * 300}  b"


def test_a_cell_is_one_line_without_controls() -> None:
    assert table([("a\nb\tc\x1b[2J", "\u202ex")]) == "a\\nb\\tc\\x1b[2J  \\u202ex"


@given(rows=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=4), width=st.integers(50, 120))
def test_a_table_fits_and_loses_no_word_but_at_an_ellipsis(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    made = table(rows, width=width)
    assert all(most_columns(line) <= width for line in made.splitlines())
    if "…" not in made:
        shown = made.replace("\n", " ").split()
        wanted = table(rows, width=10_000).replace("\n", " ").split()
        assert sorted(shown) == sorted(wanted)


@given(text=cells, most=st.integers(1, 40))
def test_shortened_text_fits_and_shows_where_it_is_cut(text: str, most: int) -> None:
    short = shortened(text, most)
    assert most_columns(short) <= most
    assert short.endswith("…") or short == shortened(text, 10_000)


def test_symbols_whose_width_changed_with_unicode_16_count_two_where_a_line_must_fit() -> None:
    for char in ("\u2630", "\u2637", "\u268a", "\u4dc0", "\u4dff", "\U0001d300", "\U0001d360"):
        assert (columns(char), most_columns(char)) == (1, 2)
        assert shortened(char * 50, 40) == char * 19 + "…"
    assert most_columns("é…—Я\u0301漢") == columns("é…—Я\u0301漢") == 6


def test_a_table_that_fits_keeps_its_columns_beneath_each_other() -> None:
    assert table([("✓", "a"), ("x", "b")], width=20) == "✓  a\nx  b"
