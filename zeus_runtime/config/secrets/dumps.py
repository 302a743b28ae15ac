"""Read the bytes that `xxd`, `od` and `hexdump` show of a file, and where each of them is written."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple

_LINE: Final = r"^(?:[<>+-] ?)?(?:[ \t]*[0-9]+\t|[0-9]{1,7}[:-](?=H{6}| ))?"
"""A line of a dump may be one of a diff, and have the number that ``read_file`` or `grep -n` shows."""
# Eight digits may also be the first group of a dump without offsets; alone, they are the length at the end.
_START: Final = rf"{_LINE}(?!H{{8}}\r?$)[ \t]*(?:(?:H{{6,7}}|H{{4,16}}:|H{{8,16}}(?=  HH[ \r\n]))[ \t]+)?"
_BEGIN: Final = r"\n(?=[<>+\-0-9 \t]|HH)"
_OFFSET: Final = rf"{_LINE}H{{6,16}}:?[ \t]+"
_END: Final = r"(?=[ \t:,]{1,2}H{0,7}$|[ \t]*\r?$|[ \t]{2})"
"""Half a group may be at the end of a text that was cut."""
_MOST_IN_CELL: Final = 8
_GROUP: Final = f"(?:0x)?(?:HH){{1,{_MOST_IN_CELL}}}"
_NAMES: Final = (
    "nul soh stx etx eot enq ack bel bs ht nl vt ff cr so si "
    "dle dc1 dc2 dc3 dc4 nak syn etb can em sub esc fs gs rs us sp"
)
_CHARACTERS: Final = {name: code for code, name in enumerate(_NAMES.split())} | {
    "": ord(" "), r"\0": 0, r"\a": 7, r"\b": 8, r"\t": 9, r"\n": 10, r"\v": 11, r"\f": 12, r"\r": 13,
}  # fmt: skip
"""As `od -a` and `od -c` show them."""


class _DumpForm(NamedTuple):
    """One way to read lines as those of a dump; what is none in one way may be one in another.

    Args:
        line: the pattern of a line, with a group for its bytes.
        cell: the pattern of one or more bytes in this group.
        base: of the numbers there; 16 has several bytes in a cell, and 0 are characters.
        swapped: the last byte of a cell comes first, as in words of a little-endian machine.
    """

    line: str
    cell: str
    base: int
    swapped: bool = False

    def bytes_of(self, cells: str) -> bytes:
        """Those of a line."""
        found = _compiled(self.cell).findall(cells)
        if self.base == 16:
            order = -1 if self.swapped else 1
            return b"".join([bytes.fromhex(each)[::order] for each in found])
        if self.base:
            return bytes([int(each, self.base) % 256 for each in found])
        return bytes(map(_character, found))

    def places(self, line: re.Match[str]) -> list[tuple[int, int]]:
        """Where each byte of a line starts and ends."""
        places: list[tuple[int, int]] = []
        for cell in _compiled(self.cell).finditer(line.string, *line.span("cells")):
            start, end = cell.span()
            if self.base == 16:
                digits = [(at, at + 2) for at in range(start, end, 2)]
                places += reversed(digits) if self.swapped else digits
            elif self.base == 10 and line.string[max(0, end - 3) : end].strip(" ").isdigit():
                # Its blanks would tell how many digits there are.
                places.append((max(0, end - 3), end))
            else:
                places.append((end - max(1, len(cell[0].lstrip(" "))), end))
        return places


_EVEN: Final = (
    rf"{_START}(?P<cells>{_GROUP}(?:(?P<sep>[ \t]{{1,2}}|, ?|:){_GROUP}(?:(?P=sep){_GROUP})*)?),?{_END}"
)
"""One sign between all groups, so that a text column behind two blanks is none."""
_UNEVEN: Final = rf"{_START}(?P<cells>{_GROUP}(?:[ \t]+{_GROUP})*){_END}"
_FORMS: Final = (
    *(
        _DumpForm(line, "(?!0x)(?:HH)+", 16, swapped)
        for line in (_EVEN, _UNEVEN)
        for swapped in (False, True)
    ),
    *(
        _DumpForm(rf"{_START}(?P<cells>{number}(?:[ \t]+{number})*){_END}", number, base)
        for number, base in (("[0-3][0-7]{2}", 8), ("[0-9]{1,3}", 10), ("[01]{8}", 2))
    ),
    _DumpForm(
        rf"{_LINE}(?:H{{6,16}})?(?P<cells>(?: {{3}}[ -~]| {{2}}(?:\\[0-z]|[a-z][a-z0-9])| [0-9a-z]{{3}})+){_END}",
        "(?s:.{4})",
        0,
    ),
)


class DumpPiece(NamedTuple):
    """A part of some bytes in a dump.

    Args:
        start: where it starts in the text.
        end: where it ends.
        notation: how it is written, and which of the bytes it shows; nothing of the bytes themselves.
    """

    start: int
    end: int
    notation: str


class Dump:
    """All lines of a text that one reading takes for lines of dumps.

    Args:
        lines: a match for each.
        parts: their bytes.
        reading: the reading.

    Attributes:
        text: one character for each byte.
    """

    def __init__(self, lines: Sequence[re.Match[str]], parts: Sequence[bytes], reading: _DumpForm) -> None:
        self.text = b"".join(parts).decode("latin-1")
        self._lines = lines
        self._firsts = list(accumulate(map(len, parts), initial=0))
        self._reading = reading
        self._places: dict[int, list[tuple[int, int]]] = {}

    def begins(self, at: int) -> int:
        """Where the line with the byte ``at`` starts."""
        return self._lines[bisect_right(self._firsts, at) - 1].start()

    def pieces(self, start: int, end: int) -> Iterator[DumpPiece]:
        """Where these bytes are written, in the groups of each line and in its text column."""
        for number in range(bisect_right(self._firsts, start) - 1, bisect_left(self._firsts, end)):
            line, first, after = self._lines[number], self._firsts[number], self._firsts[number + 1]
            begin, stop = max(start, first), min(end, after)
            which = f"{self._reading.base} {self._reading.swapped} {begin - start}-{end - start}"
            for at, (left, right) in enumerate(self._runs(number, begin - first, stop - first)):
                yield DumpPiece(left, right, f"dump {which} {at} {self._layout(line.string[left:right])}")
            column = _column(line, after - first) - first
            # Only if it shows these bytes: else other text would be hidden.
            shown = line.string[column + begin : column + stop]
            if shown == re.sub("[^ -~]", ".", self.text[begin:stop]):
                yield DumpPiece(column + begin, column + stop, f"text of dump {which}")

    def _runs(self, number: int, begin: int, stop: int) -> list[tuple[int, int]]:
        """Where bytes of a line are written, without those that a swapped cell has between them."""
        places = self._places.get(number) or self._reading.places(self._lines[number])
        self._places[number] = places
        wanted = set(places[begin:stop])
        runs: list[tuple[int, int]] = []
        is_open = False
        for place in sorted(places[max(0, begin - _MOST_IN_CELL) : stop + _MOST_IN_CELL]):
            if place in wanted:
                left, _ = runs.pop() if is_open else place
                runs.append((left, place[1]))
            is_open = place in wanted
        return runs

    def _layout(self, written: str) -> str:
        if self._reading.base != 16:
            return str(len(written)) if self._reading.base == 10 else ""
        return re.sub("[0-9A-Fa-f]", ".", written) + str(re.search("[A-F]", written) is not None)


def dumps(text: str) -> Iterator[Dump]:
    """The dumps that ``text`` may have, one for each way to read it in which they differ."""
    seen: set[tuple[bytes, int]] = set()
    found: dict[str, list[re.Match[str]]] = {}
    # Other lines are not looked at, which makes this cheap for prose.
    begins = [0, *(each.end() for each in _compiled(_BEGIN).finditer(text))]
    for reading in _FORMS:
        if (lines := found.get(reading.line)) is None:
            matches = (_compiled(reading.line).match(text, begin) for begin in begins)
            lines = found[reading.line] = [each for each in matches if each]
        parts = [reading.bytes_of(line["cells"]) for line in lines]
        data = b"".join(parts)
        # `od -tx1 -c` shows the same bytes in other lines.
        if data and (data, lines[0].start()) not in seen:
            seen.add((data, lines[0].start()))
            yield Dump(lines, parts, reading)


def open_dump(text: str, most: int) -> int:
    """Where the lines of a dump at the end of a growing text begin, or its length if there are none.

    Only lines with an offset: a list of numbers, which a model writes, must not wait.

    Args:
        most: no line before so many characters at the end counts.
    """
    found = begin = text.rfind("\n") + 1
    last = text[begin:]
    # The last group may be half there, or no group.
    words = last[: max(last.rfind(" "), last.rfind("\t")) + 1]
    shapes = (last, words, last.rstrip("0123456789ABCDEFabcdef").rstrip(":,"))
    is_begun = _compiled(_OFFSET).fullmatch(words) is not None
    if len(last) > most or not (is_begun or any(_is_line(each, 0) for each in shapes)):
        found = len(text)
    while text[begin - 1 : begin] == "\n" and len(text) - begin < most:
        begin = text.rfind("\n", 0, begin - 1) + 1
        if not _is_line(text, begin):
            break
        found = begin
    return found


def _is_line(text: str, begin: int) -> bool:
    has_offset = _compiled(_OFFSET).match(text, begin) is not None
    return has_offset and any(_compiled(each.line).match(text, begin) for each in _FORMS)


def _column(line: re.Match[str], count: int) -> int:
    """Where the text column of a line with so many bytes begins, if it has one."""
    text, end = line.string, line.string.find("\n", line.end())
    shown = text[line.end() : end if end >= 0 else len(text)].rstrip("\r")
    framed = shown.strip(" ")
    if len(framed) == count + 2 and framed[0] + framed[-1] in ("||", "><"):
        return line.end() + shown.index(framed) + 1
    return line.end() + max(2, len(shown) - count)


def _character(cell: str) -> int:
    name = cell.strip(" ")
    if len(name) == 1:
        return ord(name)
    return _CHARACTERS.get(name, int(name, 8) % 256 if re.fullmatch("[0-7]{3}", name) else 0)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Not at import: most commands mask nothing.
    return re.compile(pattern.replace("H", "[0-9A-Fa-f]"), re.MULTILINE)
