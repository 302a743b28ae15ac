"""edit_file's replacement: exact, keeping what it does not touch, helpful when the text is not there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.tools.filesystem.edits import replace_text
from zeus_plugins.tools.filesystem.texts import decode, encode

from zeus_runtime.plugin.files import WorkspaceError


def edit(data: bytes, old: str, new: str, *, replace_all: bool = False) -> bytes:
    return replace_text(data, old, new, replace_all=replace_all).data


def refusal(data: bytes, old: str, new: str) -> str:
    with pytest.raises(WorkspaceError) as caught:
        replace_text(data, old, new, replace_all=False)
    return str(caught.value)


def test_a_line_may_begin_with_any_number_of_digits() -> None:
    """Python reads no number of more than 4,300 digits."""
    digits = "9" * 5000
    assert edit(f"{digits}\ta\nb\n".encode(), f"{digits}\ta", "x") == b"x\nb\n"
    assert "old was not found" in refusal(b"a\nb\n", f"{digits}\ta", "x")


def test_one_occurrence_is_replaced_and_its_line_given() -> None:
    edited = replace_text(b"a\nb\nc\n", "b", "B", replace_all=False)
    assert edited == (b"a\nB\nc\n", (2,), False)


def test_all_occurrences_are_replaced_on_request() -> None:
    assert replace_text(b"x\ny x\nx", "x", "zz", replace_all=True) == (b"zz\ny zz\nzz", (1, 2, 3), False)


def test_what_looks_like_a_pattern_or_a_group_is_plain_text() -> None:
    assert edit(b"a.c (abc)\n", "a.c", r"\1 \g<0> $1") == b"\\1 \\g<0> $1 (abc)\n"


def test_crlf_is_matched_by_lf_and_kept() -> None:
    assert edit(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz") == b"x\r\ny\r\nz\r\nc\r\n"
    assert edit(b"a\r\nb\r\n", "a\r\nb", "x") == b"x\r\n"


def test_in_a_file_of_mixed_line_ends_the_rest_stays_mixed() -> None:
    assert edit(b"a\r\nb\nc\r\nd\r\n", "b\nc", "x\ny") == b"a\r\nx\r\ny\r\nd\r\n"


def test_a_bom_and_undecodable_bytes_survive() -> None:
    assert edit(b"\xef\xbb\xbfcaf\xe9 one\n", "one", "two") == b"\xef\xbb\xbfcaf\xe9 two\n"


@given(st.binary(max_size=60))
def test_decoding_loses_nothing(data: bytes) -> None:
    assert encode(decode(data)) == data


@given(
    before=st.text("ab\n\r", max_size=20),
    after=st.text("ab\n\r", max_size=20),
    new=st.text("xyz", max_size=5),
)
def test_only_the_piece_changes(before: str, after: str, new: str) -> None:
    data = f"{before}OLD{after}".encode()
    assert edit(data, "OLD", new) == f"{before}{new}{after}".encode()


@given(text=st.text("ab\r\n", max_size=30), old=st.text("ab\n", min_size=1, max_size=3))
def test_line_ends_match_as_a_pattern_with_optional_returns_would(text: str, old: str) -> None:
    pattern = re.compile(r"\r?\n".join(re.escape(part) for part in old.split("\n")))
    expected = pattern.sub("Z", text)
    if expected != text:
        assert edit(text.encode(), old, "Z", replace_all=True) == expected.encode()


def test_a_very_long_piece_is_replaced_at_once() -> None:
    piece = "x = compute(1, 2)\n" * 50_000
    assert edit(b"y\n" + piece.encode(), piece, "z\n") == b"y\nz\n"


def test_several_occurrences_are_counted_with_their_lines_and_nothing_changes() -> None:
    message = refusal(b"x\ny\nx\nx\n", "x", "z")
    assert "occurs 3 times (lines 1, 3, 4); nothing was changed" in message
    assert "replace_all" in message


def test_occurrences_that_overlap_are_ambiguous_too() -> None:
    assert "occurs 2 times (lines 1, 1)" in refusal(b"aaa", "aa", "b")


def test_a_near_miss_shows_the_nearest_lines() -> None:
    data = b"import os\n\ndef compute_total(items):\n    return sum(items)\n"
    message = refusal(data, "def compute_totals(items):\n    return sum(items)", "x")
    assert "The nearest text is at line 3" in message
    assert "3\tdef compute_total(items):\n4\t    return sum(items)" in message


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        ("if x:\n\tfoo()\n\tbar()\n", "if x:\n    foo()\n    bar()", "if y:\n    foo()", "if y:\n\tfoo()\n"),
        (
            "class A:\n    def f():\n        a\n",
            "def f():\n    a",
            "def g():\n    b\n\n    c",
            "class A:\n    def g():\n        b\n\n        c\n",
        ),
        ("a\n  b\n", "      b", "      b\n        c", "a\n  b\n    c\n"),
        ("a  \n\n  \nb\n", "a\n\n\nb\n", "c\n", "c\n"),
        ("foo\nbar\n", "1\tfoo\n2\tbar", "1\tfoo\n2\tbaz", "foo\nbaz\n"),
        ("foo\nbar\n", "     2\tbar\n", "baz\n", "foo\nbaz\n"),
        ("  foo\n  bar\n", "7\tfoo\n8\tbar", "7\tx\n8\ty", "  x\n  y\n"),
        ("foo\r\n  bar\r\n", "foo\nbar", "x\ny", None),
        ("  foo\r\n  bar\r\n", "foo\nbar", "x\ny", "  x\r\n  y\r\n"),
        ("\ta\n", "    a", "    a\n        b", None),
        ("x = 1\n", "x  =  1", "x = 2", None),
        ("a b\n", " a", " c", None),
        ("a\n\nb\n", "a\nb", "c", None),
        ("1\tfoo\n", "1\tfoo", "2\tfoo", "2\tfoo\n"),
        ("foo\nbar\n", "1\tfoo\n9\tbar", "x", None),
        ("a\n    b", "b\n", "c\n", None),
    ],
)
def test_white_space_at_the_ends_of_lines_and_copied_line_numbers_do_not_matter(
    data: str, old: str, new: str, expected: str | None
) -> None:
    if expected is None:
        assert "nothing was changed" in refusal(data.encode(), old, new)
    else:
        assert edit(data.encode(), old, new).decode() == expected


def test_loose_matches_must_be_unique_too() -> None:
    data = b"  a\n    a\n"
    assert "occurs 2 times (lines 1, 2)" in refusal(data, "\ta", "\tb")
    assert edit(data, "\ta", "\tb", replace_all=True) == b"  b\n    b\n"


def test_an_exact_match_is_the_only_one_where_there_is_one() -> None:
    assert replace_text(b"  a\n\ta\n", "\ta", "\tb", replace_all=False) == (b"  a\n\tb\n", (2,), False)


@given(
    lines=st.lists(st.sampled_from(["a", "b", "c d", ""]), min_size=1, max_size=5),
    shift=st.sampled_from(["  ", "\t"]),
    others=st.lists(st.sampled_from(["x", "  y", "\tz", ""]), max_size=3),
)
def test_an_indented_block_is_replaced_by_one_as_deep(
    lines: list[str], shift: str, others: list[str]
) -> None:
    """Whatever is around it; and nothing else changes."""
    if not any(lines):
        return
    block = [shift + each if each else each for each in lines]
    before, after = "\n".join(["START", *others]), "\n".join([*others, "END"])
    data = "\n".join([before, *block, after])
    new = [f"{each}!" if each else each for each in lines]
    deep = [shift + each if each else each for each in new]
    old = "\n".join(lines)
    if old in data:
        return
    assert edit(data.encode(), old, "\n".join(new)).decode() == "\n".join([before, *deep, after])


def test_an_edit_that_was_made_before_is_recognised() -> None:
    assert "made before" in refusal(b"value = 2\n", "value = 1", "value = 2")


def test_nothing_alike_says_so() -> None:
    assert "contains nothing similar" in refusal(b"alpha\n", "0123456789", "x")


@pytest.mark.parametrize(
    ("data", "old", "new", "reason"),
    [
        (b"a", "", "b", "old is empty"),
        (b"a", "a", "a", "nothing to change"),
        (b"\x89PNG\r\n", "a", "b", "PNG image"),
        (b"a\0b", "a", "b", "binary data"),
        (b"\xff\xfea\0", "a", "b", "UTF-16"),
        (b"a", "a", "\ud800", "lone surrogates"),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(data: bytes, old: str, new: str, reason: str) -> None:
    assert reason in refusal(data, old, new)


def test_the_search_for_the_nearest_line_is_bounded() -> None:
    data = b"\n".join(b"x = compute(%d, 'some argument of the call')" % n for n in range(200_000))
    assert "nearest" in refusal(data, "x = compute(3.5, 'some argument in a call')", "y")


HIDDEN = "<secret:OLD_TOKEN>"
FILE = f"OLD_TOKEN={HIDDEN}\r\nuse OLD_TOKEN\r\n".encode()


def test_a_match_that_begins_or_ends_inside_a_placeholder_is_none() -> None:
    edited = replace_text(FILE, "OLD_TOKEN", "NEW_TOKEN", replace_all=True, placeholders=[HIDDEN])
    assert edited == (f"NEW_TOKEN={HIDDEN}\r\nuse NEW_TOKEN\r\n".encode(), (1, 2), False)
    edited = replace_text(FILE, "use OLD", "use NEW", replace_all=False, placeholders=[HIDDEN])
    assert edited.lines == (2,)
    edited = replace_text(FILE, f"={HIDDEN}\n", "=\n", replace_all=False, placeholders=[HIDDEN])
    assert edited.data == FILE.replace(HIDDEN.encode(), b"")
    # Twice in the text, once outside a placeholder: not ambiguous.
    edited = replace_text(
        f"{HIDDEN} secret:".encode(), "secret:", "key:", replace_all=False, placeholders=[HIDDEN]
    )
    assert edited.data == f"{HIDDEN} key:".encode()


@pytest.mark.parametrize(
    "part", ["secret:", "<secret:", "TOKEN>", f"={HIDDEN[:-1]}", f"{HIDDEN[1:]}\n", HIDDEN[3:9]]
)
def test_a_text_that_is_found_only_with_a_part_of_a_placeholder_is_refused(part: str) -> None:
    with pytest.raises(WorkspaceError, match="only with a part of the placeholder <secret:OLD_TOKEN>"):
        replace_text(FILE, part, "x", replace_all=True, placeholders=[HIDDEN])
    assert edit(FILE, part, "x", replace_all=True) != FILE, "it is text where it stands for no secret"
