"""Text in the columns of a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.columns import columns, hanging, most_columns, shortened, shortened_title
from zeus_runtime.cutting import cut_again, cut_text
from zeus_runtime.escaping import terminal_text

words = st.text(st.sampled_from("ab\u4dc0☰漢\u0301\U0001f525-\x1b\u202e"), min_size=1, max_size=12)
cells = st.lists(words, max_size=8).map(" ".join)


@given(text=cells, most=st.integers(1, 60))
def test_shortened_text_fits_and_shows_where_it_is_cut(text: str, most: int) -> None:
    short = shortened(text, most)
    assert most_columns(short) <= most
    whole = shortened(text, 10_000)
    end = f"… ({len(whole):,} characters)" if most >= 40 else "…"
    assert short == whole or (short.endswith(end) and whole.startswith(short.removesuffix(end)))


def test_symbols_whose_width_changed_with_unicode_16_count_two_where_a_line_must_fit() -> None:
    for char in ("\u2630", "\u2637", "\u268a", "\u4dc0", "\u4dff", "\U0001d300", "\U0001d360"):
        assert (columns(char), most_columns(char)) == (1, 2)
        assert shortened(char * 50, 39) == char * 19 + "…"
    assert most_columns("é…—Я\u0301漢") == columns("é…—Я\u0301漢") == 6


@given(text=cells.map(terminal_text), most=st.integers(6, 60))
def test_a_line_in_lines_that_fit_keeps_all_its_characters(text: str, most: int) -> None:
    first, *later = hanging(text, most, "  ").split("\n")
    assert all(most_columns(line) <= most for line in (first, *later))
    assert all(line.startswith("  ") for line in later)
    assert "".join([first, *later]).replace(" ", "") == text.replace(" ", "")
    assert hanging(text, 10_000, "  ") == text


@given(st.text(st.sampled_from("ab 漢"), min_size=110, max_size=200), st.sampled_from(["", " (from step 3)"]))
def test_a_title_that_is_cut_again_keeps_the_size_of_the_whole(text: str, end: str) -> None:
    stored = cut_text(text, 80)
    title = (cut_again(stored, 80 - len(end)) if end else stored) + end
    shown = shortened_title(title, 60)
    assert most_columns(shown) <= 60
    assert f"… ({len(text):,} characters)" in title
    assert f"… ({len(text):,} characters)" in shown
    assert shown.count("…") == 1
    assert cut_again(stored, 40).startswith(cut_text(text, 40).partition("…")[0])


def test_a_title_that_nobody_cut_is_cut_as_any_text() -> None:
    title = "word " * 16
    assert shortened_title(title, 60) == shortened(title, 60)
    assert cut_again(title, 40) == cut_text(title, 40)
    assert cut_again("short", 40) == "short"
    of_a_fork = "a… (900 characters) (from step 3)"
    assert cut_again(of_a_fork, 40) == of_a_fork
    claimed = cut_text("a… (900 characters) " + "word " * 100, 80)
    assert shortened_title(claimed, 60).endswith("… (520 characters)")
