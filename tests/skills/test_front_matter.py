"""Front matter is read as far as it can be, and what is wrong is a warning with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.skills.front_matter import read_skill_text


def told(data: bytes) -> list[tuple[int, int, str]]:
    return [(each.line, each.column, each.message) for each in read_skill_text(data).warnings]


def test_a_proper_file_has_no_warning() -> None:
    read = read_skill_text(
        b"---\nname: pdf\ndescription: Reads PDFs.\nlicense: MIT\nallowed-tools: Read\n---\n\nDo it.\n"
    )
    assert (read.name, read.description, read.body, read.license) == ("pdf", "Reads PDFs.", "Do it.", "MIT")
    assert read.warnings == ()


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter() -> None:
    plain = b"---\nname: pdf\ndescription: Reads PDFs.\n---\nDo it.\nThen rest.\n"
    assert read_skill_text(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")) == read_skill_text(plain)


def test_a_description_with_a_colon_is_read_and_warned_of_where_it_stands() -> None:
    data = b"---\nname: pdf\ndescription: Use when: a PDF is there\n---\nDo it.\n"
    assert read_skill_text(data).description == "Use when: a PDF is there"
    ((line, column, message),) = told(data)
    assert (line, column) == (3, 22)
    assert "not YAML" in message
    assert "quote" in message


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("'It''s: fine'", "It's: fine"),
        ('"a: b"', "a: b"),
        (">-\n  folded over\n  two lines", "folded over two lines"),
        ("|\n  first\n  second", "first second"),
        ("yes", "yes"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_every_form_of_a_scalar_is_one_line_of_text(written: str, description: str) -> None:
    read = read_skill_text(f"---\nname: on\ndescription: {written}\n---\nbody\n".encode())
    assert (read.name, read.description) == ("on", description)


def test_an_unknown_key_is_warned_of_where_it_stands() -> None:
    assert told(b"---\nname: a\ndescription: b\ncolour: red\n---\nx\n") == [
        (4, 1, "the key 'colour' is not read")
    ]


def test_without_a_name_the_folder_has_to_name_it() -> None:
    read = read_skill_text(b"---\ndescription: b\n---\nx\n")
    assert read.name == ""
    assert "the folder's" in read.warnings[0].message


def test_without_a_description_the_first_line_of_prose_stands_in() -> None:
    read = read_skill_text(b"---\nname: a\n---\n# Title\n\nFills tables.\n")
    assert read.description == "Fills tables."
    assert "no description" in read.warnings[0].message


def test_without_anything_there_is_no_description() -> None:
    assert read_skill_text(b"").description == ""


def test_front_matter_that_is_not_closed_is_read_to_the_first_blank_line() -> None:
    read = read_skill_text(b"---\nname: a\ndescription: b\n\nThe body.\n")
    assert (read.name, read.description, read.body) == ("a", "b", "The body.")
    assert "not closed" in read.warnings[0].message


def test_bytes_that_are_not_utf8_are_told_with_their_place() -> None:
    assert told(b"---\nname: a\ndescription: caf\xe9\n---\nx\n")[0][:2] == (3, 17)


def test_a_description_that_is_too_long_is_cut() -> None:
    read = read_skill_text(b"---\nname: a\ndescription: " + b"long " * 400 + b"\n---\nx\n")
    assert len(read.description) <= 1_024
    assert read.description.endswith("…")


def test_its_author_can_keep_a_skill_from_the_model() -> None:
    assert not read_skill_text(
        b"---\nname: a\ndescription: b\ndisable-model-invocation: true\n---\nx\n"
    ).for_model


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: f"---\n{t}\n---\nx".encode())))
def test_no_file_is_too_broken_to_be_read(data: bytes) -> None:
    read = read_skill_text(data)
    assert "\n" not in read.name + read.description
    assert all(each.line >= 1 and each.column >= 1 for each in read.warnings)


def test_a_descriptions_control_characters_stay() -> None:
    text = read_skill_text(b'---\nname: x\ndescription: "a\\e[8m b\\x85 \\u2028\\t c"\n---\nbody\n')
    assert text.description == "a\x1b[8m b\x85 \u2028 c"
