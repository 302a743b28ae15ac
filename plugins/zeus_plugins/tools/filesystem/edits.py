"""The replacement that edit_file makes, and its errors where the text is not found. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from zeus_plugins.tools.filesystem.loose_match import LooseMatch, loose_matches, without_line_numbers
from zeus_plugins.tools.filesystem.texts import binary_kind, decode, encode, plural
from zeus_runtime.plugin.files import WorkspaceError

_MAX_NEAREST_LINES = 5_000
_MAX_SHOWN_LINES = 8
_MAX_LINE_NUMBERS = 10


class Edited(NamedTuple):
    """A file's new bytes, and the line number of each replacement in the old text.

    Args:
        is_loose: the text was found only without its line numbers, or with other white space at the ends of lines.
    """

    data: bytes
    lines: tuple[int, ...]
    is_loose: bool = False


def replace_text(
    data: bytes, old: str, new: str, *, replace_all: bool, placeholders: Sequence[str] = ()
) -> Edited:
    """``data`` with ``old`` replaced by ``new``; the BOM, other line ends and bytes that are not UTF-8 do not change.

    A line end in ``old`` matches LF and CRLF. Line ends in ``new`` become those of the file. If ``old`` is nowhere
    exactly, whole lines match that differ in white space at their ends, and line numbers of read_file are ignored.

    Args:
        placeholders: texts that are changed as a whole or not at all: a match that begins or ends inside one is none.

    Raises:
        WorkspaceError: there is nothing to change, the file is not text, or ``old`` is not found (the error shows the
            nearest lines), found more than once, or found only with a part of a placeholder.
    """
    if not old:
        raise WorkspaceError(
            "old is empty.", remedy="Give the exact text to replace; write_file writes whole files."
        )
    if old == new:
        raise WorkspaceError("old and new are the same: there is nothing to change.")
    kind = binary_kind(data)
    if kind is not None:
        raise WorkspaceError(f"The file is {kind}, not text.", remedy="edit_file changes text only.")
    decoded = decode(data)
    plain, wanted = _plain(decoded.text), _plain(old)
    closed = _Closed(plain, placeholders)
    replacement = _plain(new)
    places = _places(wanted, closed)
    found = [LooseMatch(place, place + len(wanted), replacement) for place in places]
    # If the exact text is there, but only inside a placeholder, a loose match would change another place.
    is_loose = not found and wanted not in plain
    if is_loose:
        found = _loose(closed, plain, wanted, replacement)
    if not found:
        if wanted in plain:
            raise _within(closed.at(plain.find(wanted), len(wanted)))
        raise _not_found(plain, wanted, replacement)
    places = [each.start for each in found]
    lines = _line_numbers(plain, places)
    if not replace_all:
        # `aa` occurs twice in `aaa`, and `places` has the first only: which one is meant is not clear.
        overlapping = -1 if is_loose else closed.find(wanted, places[0] + 1)
        if len(places) > 1 or overlapping >= 0:
            raise _ambiguous(lines if len(places) > 1 else _line_numbers(plain, [places[0], overlapping]))
    try:
        return Edited(
            encode(decoded._replace(text=_spliced(decoded.text, found, decoded.newline))), lines, is_loose
        )
    except UnicodeEncodeError:
        raise WorkspaceError("new contains characters that UTF-8 cannot encode (lone surrogates).") from None


def _loose(closed: _Closed, plain: str, wanted: str, new: str) -> list[LooseMatch]:
    """The matches that are not exact; with copied line numbers, exact ones without the numbers come first."""
    if (bare := without_line_numbers(wanted, new)) is not None:
        wanted, new = bare
        if places := _places(wanted, closed) if wanted else []:
            return [LooseMatch(place, place + len(wanted), new) for place in places]
    return [each for each in loose_matches(plain, wanted, new) if not closed.tears(each.start, each.end)]


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


class _Closed:
    """A text in which nothing is found that begins or ends inside one of the placeholders."""

    def __init__(self, plain: str, placeholders: Sequence[str]) -> None:
        self._plain = plain
        # No placeholder holds a "<" but its first, so no two overlap.
        self._spans = sorted(
            (place, place + len(each)) for each in placeholders for place in _places_of(plain, each)
        )
        self._starts = [start for start, _ in self._spans]

    def find(self, wanted: str, start: int) -> int:
        """The next place of ``wanted``; -1 if there is none."""
        place = self._plain.find(wanted, start)
        while place >= 0 and self.at(place, len(wanted)):
            place = self._plain.find(wanted, place + 1)
        return place

    def at(self, place: int, length: int) -> str:
        """The placeholder of which a text there has only a part; empty if there is none."""
        # An edge at the very start or end of a placeholder tears nothing, so both comparisons are strict.
        for edge in (place, place + length):
            number = bisect_left(self._starts, edge) - 1
            if number >= 0 and edge < self._spans[number][1]:
                return self._plain[slice(*self._spans[number])]
        return ""

    def tears(self, start: int, end: int) -> bool:
        """Whether a text from ``start`` to ``end`` has only a part of a placeholder."""
        return bool(self.at(start, end - start))


def _places_of(plain: str, wanted: str) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(wanted), plain)]


def _places(wanted: str, closed: _Closed) -> list[int]:
    places: list[int] = []
    place = closed.find(wanted, 0)
    while place >= 0:
        places.append(place)
        place = closed.find(wanted, place + len(wanted))
    return places


def _spliced(text: str, found: list[LooseMatch], newline: str) -> str:
    """``text`` with each match replaced; places count a CRLF as one character."""
    returns: list[int] = []
    place = text.find("\r\n")
    while place >= 0:
        # In the text with LF alone, where each earlier CRLF is one character shorter.
        returns.append(place - len(returns))
        place = text.find("\r\n", place + 2)
    pieces: list[str] = []
    end = 0
    for start, plain_end, new in found:
        pieces += [text[end : start + bisect_left(returns, start)], new.replace("\n", newline)]
        end = plain_end + bisect_left(returns, plain_end)
    return "".join([*pieces, text[end:]])


def _line_numbers(plain: str, places: list[int]) -> tuple[int, ...]:
    numbers: list[int] = []
    line, position = 1, 0
    for place in places:
        line += plain.count("\n", position, place)
        position = place
        numbers.append(line)
    return tuple(numbers)


def _ambiguous(lines: tuple[int, ...]) -> WorkspaceError:
    listed = ", ".join(str(line) for line in lines[:_MAX_LINE_NUMBERS])
    more = f" and {len(lines) - _MAX_LINE_NUMBERS} more" if len(lines) > _MAX_LINE_NUMBERS else ""
    return WorkspaceError(
        f"old occurs {plural(len(lines), 'time')} (lines {listed}{more}); nothing was changed.",
        remedy="Add surrounding lines until it occurs only once, or set replace_all.",
    )


def _within(placeholder: str) -> WorkspaceError:
    return WorkspaceError(
        f"old was found only with a part of the placeholder {placeholder}, which stands for a secret; nothing was"
        " changed.",
        remedy="Give an old that holds the whole placeholder, or only text outside it. A placeholder keeps its name"
        " where the variable gets another one.",
    )


def _not_found(text: str, old: str, new: str) -> WorkspaceError:
    message = "old was not found; nothing was changed."
    wanted = old.split("\n")
    if (bare := without_line_numbers(old, new)) is not None:
        old, new = bare
        wanted = old.split("\n")
    if new and new in text:
        return WorkspaceError(
            message, remedy="The file already contains new: the edit may have been made before."
        )
    lines = text.split("\n")
    start = _same_but_for_spaces(lines, wanted)
    if start is not None:
        difference = "Text that differs only in spaces, so that the indentation of new is not clear,"
    else:
        start, difference = _nearest(lines, wanted), "The nearest text"
    if start is None:
        return WorkspaceError(message, remedy="The file contains nothing similar: read the file again.")
    end = min(start + min(len(wanted), _MAX_SHOWN_LINES), len(lines))
    shown = "\n".join(f"{number + 1}\t{lines[number][:300]}" for number in range(start, end))
    shown = shown.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return WorkspaceError(message, remedy=f"{difference} is at line {start + 1}; copy it exactly:\n{shown}")


def _same_but_for_spaces(lines: list[str], wanted: list[str]) -> int | None:
    target = "\n".join(line.strip() for line in wanted).strip("\n")
    if not target.strip():
        return None
    stripped = "\n".join(line.strip() for line in lines)
    place = stripped.find(target)
    return None if place < 0 else stripped.count("\n", 0, place)


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    from difflib import SequenceMatcher

    # By its longest line: a short one, such as `}`, is in many places.
    index, telling = max(enumerate(wanted), key=lambda entry: len(entry[1].strip()))
    matcher = SequenceMatcher(autojunk=False)
    # The second sequence stays: difflib analyses it once, and each line is compared with it.
    matcher.set_seq2(telling.strip()[:300])
    best, best_ratio = None, 0.6
    for number, line in enumerate(lines[:_MAX_NEAREST_LINES]):
        matcher.set_seq1(line.strip()[:300])
        # Both are upper bounds of `ratio` and much cheaper: most lines end here.
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
    return None if best is None else max(best - index, 0)
