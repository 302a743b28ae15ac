"""The form in which texts are stored and compared."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.escaping import is_unseen
from zeus_runtime.memory.normalise import duplicate_key, normalise


@given(st.text())
def test_a_second_time_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.text())
def test_nothing_invisible_is_left(text: str) -> None:
    left = normalise(text).replace("\n", "")
    assert not [each for each in left if unicodedata.category(each) in ("Cc", "Cf", "Cs")]
    assert left == left.strip()
    assert "  " not in left


def test_what_a_terminal_shows_as_an_escape_is_left_in_no_text() -> None:
    """But for characters that have a form in some font: private ones, and those of a later Unicode."""
    found = map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))
    unseen = "".join(
        each for each in found if is_unseen(each) and unicodedata.category(each) not in ("Cn", "Co")
    )
    assert not normalise(unseen)
    assert not normalise("\u2800")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  two   spaces ", "two spaces"),
        ("ＡＢＣ　１２３", "ABC 123"),
        ("pass\u200bword", "password"),
        ("a\u202eb\u2066c", "abc"),
        ("hid\U000e0041\U000e0042den", "hidden"),
        ("line\r\nline\rline\u2028line", "line\nline\nline\nline"),
        ("one\n\n\n\n\ntwo", "one\n\ntwo"),
        ("bell\x07 null\x00", "bell null"),
        ("e\u0301", "é"),
        ("\ud800lone", "lone"),
        ("heart❤\ufe0f", "heart❤"),
        ("in\ufffcvisi\u2d7fble\U0001d159", "invisible"),
        ("reserved\u2065 for\ufff0 such\U000e0fff", "reserved for such"),
        ("an icon \ue000, and an emoji of a later Unicode \U0001fae8\u0378",) * 2,
        ("", ""),
        ("\u200b \t", ""),
    ],
)
def test_what_looks_the_same_is_the_same(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user plays chess.", "the USER plays  chess"),
        ("用户下棋。", "用户下棋"),
        ("Ｔｈｅ user", "the user"),
    ],
)
def test_case_spacing_and_the_last_stop_make_no_difference(one: str, other: str) -> None:
    assert duplicate_key(one) == duplicate_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("key is userId", "key is userID"), ("port 80", "port 81"), ("C", "C++"), ("is it?", "is it")],
)
def test_what_says_something_else_keeps_its_own_key(one: str, other: str) -> None:
    assert duplicate_key(one) != duplicate_key(other)


@given(st.text())
def test_a_text_and_its_normal_form_have_one_key(text: str) -> None:
    assert duplicate_key(text) == duplicate_key(normalise(text))
