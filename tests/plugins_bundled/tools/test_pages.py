"""Pages of files of any size."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.tools.filesystem.pages import LinePage, PageLimits, bounded_lines, read_page

LIMITS = PageLimits(lines=3, line_chars=20, chars=1_000)


def page(data: bytes, first: int = 1, limits: PageLimits = LIMITS) -> LinePage:
    return read_page(io.BytesIO(data), first, limits, lambda: False)


def test_a_short_file_is_one_page() -> None:
    assert page(b"a\nb\n") == LinePage("1\ta\n2\tb", 1, 2, 2, windows=False)


def test_a_last_line_without_an_end_counts() -> None:
    assert page(b"a\nb").total == 2
    assert page(b"a\nb\nc\nd").total == 4
    assert page(b"a\nb\nc\nd\n").total == 4


def test_an_empty_file_has_no_lines() -> None:
    assert page(b"") == LinePage("", 1, 0, 0, windows=False)


def test_a_page_in_the_middle_knows_the_whole() -> None:
    data = b"".join(b"line %d\n" % n for n in range(1, 11))
    assert page(data, 4) == LinePage("4\tline 4\n5\tline 5\n6\tline 6", 4, 6, 10, windows=False)


@pytest.mark.parametrize(("data", "total"), [(b"a\nb\n", 2), (b"a\nb", 2), (b"", 0)])
def test_a_page_past_the_end_tells_how_many_lines_there_are(data: bytes, total: int) -> None:
    for first in (total + 1, total + 2, total + 50):
        assert page(data, first)[1:4] == (first, first - 1, total)


def test_only_newlines_end_lines() -> None:
    assert page("a\x0bb\x0cc\u2028d\x85e\n".encode()).total == 1


def test_crlf_is_not_shown_but_told() -> None:
    assert page(b"a\r\nb\r\n") == LinePage("1\ta\n2\tb", 1, 2, 2, windows=True)


def test_a_bom_is_not_shown() -> None:
    assert page(b"\xef\xbb\xbfa\n").text == "1\ta"


def test_undecodable_bytes_are_escaped() -> None:
    assert page(b"caf\xe9\n").text == "1\tcaf\\xe9"


def test_a_long_line_is_cut_with_its_size_also_between_bytes_of_a_character() -> None:
    text = page("é".encode() * 1_000 + b"\nnext\n").text
    assert text == f"1\t{'é' * 20}... [cut: the line has 2,001 bytes; grep shows parts of it]\n2\tnext"


def test_a_page_ends_at_the_character_limit_but_has_at_least_one_line() -> None:
    tight = PageLimits(lines=10, line_chars=100, chars=10)
    assert page(b"abcdefghijklmnop\nb\n", 1, tight)[1:4] == (1, 1, 2)
    assert page(b"a\nb\nc\n", 1, tight)[1:4] == (1, 2, 3)


def test_when_time_runs_out_the_total_is_unknown() -> None:
    data = b"x\n" * 10
    assert read_page(io.BytesIO(data), 1, LIMITS, lambda: True).total is None
    assert read_page(io.BytesIO(data), 8, LIMITS, lambda: True)[1:4] == (8, 7, None)


class Endless(io.RawIOBase):
    """A file of one endless line that counts what is asked of it at a time."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.largest = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = min(len(buffer), self.left)
        self.largest = max(self.largest, count)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


def test_a_huge_line_is_never_held_whole() -> None:
    raw = Endless(50_000_000)
    [line] = bounded_lines(io.BufferedReader(raw), 100)  # type: ignore[arg-type]
    assert (line.number, len(line.kept), line.length) == (1, 100, 50_000_000)
    assert raw.largest <= 2_000_000


@given(st.binary(max_size=200), st.integers(1, 30), st.integers(1, 5))
def test_pages_put_together_are_the_file(data: bytes, keep: int, lines: int) -> None:
    limits = PageLimits(lines=lines, line_chars=1_000, chars=100_000)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    shown: list[str] = []
    first = 1
    while True:
        current = page(data, first, limits)
        assert current.total == len(expected)
        if current.last < first:
            break
        shown.extend(current.text.split("\n"))
        first = current.last + 1
    assert [line.partition("\t")[0] for line in shown] == [str(n + 1) for n in range(len(expected))]
    assert [line.length for line in bounded_lines(io.BytesIO(data), keep)] == [
        len(part) + (index < len(data.split(b"\n")) - 1) for index, part in enumerate(expected)
    ]
