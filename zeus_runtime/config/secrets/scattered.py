"""Find a secret whose pieces something stands between: what programs put before and behind each line of a wrapped one.

Only a whole secret is found, so no guess at a part of it is confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from zeus_runtime.config.secrets.encoded import Runs

_LEAST: Final = 20
"""Characters of a secret that is looked for in pieces."""
_GRAM: Final = 8
"""Characters by which a piece is known; one with less is only the first or the last of a secret."""
_FIRST: Final = 4 * _GRAM
"""Characters at a secret's beginning of which a text has a gram: of its first piece, or else of its second one."""
_COPIED: Final = 2 * _GRAM
"""A shorter piece may be a word: the `postgres` of an address."""
_MOST_BETWEEN: Final = 1_000
_WORK: Final = 1
"""Steps of a search for each character of a text."""
_LEAST_WORK: Final = 100_000
_WORK_OF_PIECE: Final = 50
_BASE64: Final = re.compile("[A-Za-z0-9+/_-]+")


class _Piece(NamedTuple):
    """A piece of a text, and where it begins in the secret."""

    start: int
    end: int
    at: int


class Scattered:
    """Secrets that are looked for in pieces.

    Args:
        forms: text to placeholder.
    """

    def __init__(self, forms: Mapping[str, str]) -> None:
        self._forms = {form: shown for form, shown in forms.items() if len(form) >= _LEAST}

    def found(self, text: str, runs: Runs) -> Iterator[tuple[int, int, str, str]]:
        """Where each piece starts and ends in a folded text, its placeholder, and which piece it is.

        Args:
            runs: the ``long_runs`` of the text.
        """
        # The steps are as long as a gram: a piece of twice its length has one, and a long text takes linear time.
        steps = (at for start, end in runs for at in range(start, end - _GRAM + 1, _GRAM))
        grams = self._grams
        hits = [(at, gram) for at in steps if (gram := text[at : at + _GRAM]) in grams] if grams else []
        hits += [
            (each.start(), gram)
            for gram in self._mixed
            if gram in text
            for each in re.finditer(re.escape(gram), text)
        ]
        if not hits:
            return
        search = _Search(text)
        found: dict[str, set[tuple[str, int]]] = {}
        for place, gram in hits:
            for form, at in (*grams.get(gram, ()), *self._mixed.get(gram, ())):
                for start, end, piece in search.pieces(form, place, at):
                    if end - start < _COPIED:
                        yield start, end, self._forms[form], f"piece {piece}"
                    else:
                        found.setdefault(text[start : start + _GRAM], set()).add((form, piece))
        # The text has all of the secret, so each copy of a piece is one of it.
        for start in range(len(text) - _GRAM + 1) if found else ():
            for form, piece in found.get(text[start : start + _GRAM], ()):
                if (length := search.common(start, form, piece)) >= _COPIED:
                    yield start, start + length, self._forms[form], f"piece {piece}"

    @cached_property
    def _grams(self) -> Mapping[str, list[tuple[str, int]]]:
        """Those at the beginnings of secrets, which a text has in its long runs."""
        found: dict[str, list[tuple[str, int]]] = {}
        for form in self._forms:
            if _BASE64.fullmatch(form[:_FIRST]):
                for at in range(min(len(form), _FIRST) - _GRAM + 1):
                    found.setdefault(form[at : at + _GRAM], []).append((form, at))
        return found

    @cached_property
    def _mixed(self) -> Mapping[str, list[tuple[str, int]]]:
        """Those of secrets with other signs there, for which the whole text is searched."""
        found: dict[str, list[tuple[str, int]]] = {}
        for form in self._forms:
            if not _BASE64.fullmatch(form[:_FIRST]):
                for at in (0, _GRAM):
                    found.setdefault(form[at : at + _GRAM], []).append((form, at))
        return found


class _Search:
    """A search in one text, which takes a time in proportion to its length.

    Only a program that prints parts of a secret thousands of times uses it up; it could also print it backwards.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen: set[tuple[str, int, int]] = set()
        self._left = _LEAST_WORK + _WORK * len(text)

    def pieces(self, form: str, start: int, at: int) -> list[_Piece]:
        """The pieces of a secret of which one has ``form[at:]`` from ``start`` on; empty if it is not all there."""
        text, found = self._text, list[_Piece]()
        while at and start and text[start - 1] == form[at - 1]:
            start, at = start - 1, at - 1
        if at:
            head = text.rfind(form[:at], max(0, start - _MOST_BETWEEN), start)
            if head < 0:
                return []
            found.append(_Piece(head, head + at, 0))
        while (form, start, at) not in self._seen and self._left > 0:
            self._seen.add((form, start, at))
            self._left -= _WORK_OF_PIECE
            length = self.common(start, form, at)
            if at + length == len(form):
                return [*found, _Piece(start, start + length, at)] if found else []
            # The text between two pieces may begin as the next piece does: `a.txt:2:` before its `a`.
            for own in range(length, max(0, length - _GRAM), -1):
                after = self._next(form, at + own, start, start + own)
                if after >= 0:
                    found.append(_Piece(start, start + own, at))
                    start, at = after, at + own
                    break
            else:
                break
        return []

    def common(self, start: int, form: str, at: int) -> int:
        """How many characters are the same from these places on."""
        text, length = self._text, 0
        most = min(len(text) - start, len(form) - at, max(0, self._left))
        for step in (256, 16, 1):
            while length + step <= most and text.startswith(
                form[at + length : at + length + step], start + length
            ):
                length += step
        self._left -= length // _GRAM
        return length

    def _next(self, form: str, at: int, start: int, end: int) -> int:
        """Where the secret goes on with ``form[at:]`` behind its piece from ``start`` to ``end``; -1 if nowhere."""
        text, last = self._text, end + _MOST_BETWEEN
        wanted = form[at : at + _GRAM]
        own, found = form[max(0, at - _GRAM) : at], end - 1
        while (found := text.find(wanted, found + 1, last)) >= 0:
            # Not in a copy of the whole: the piece would be another secret's beginning, such as `sk-proj-`.
            if not text.endswith(own, 0, found) and (len(wanted) == _GRAM or self._may_be_rest(start, found)):
                return found
        return -1

    def _may_be_rest(self, start: int, place: int) -> bool:
        """Whether a few characters may be the rest of a secret; they are in any word by chance.

        They begin a word, or stand behind what the piece that starts at ``start`` does.
        """
        before = self._text[place - 1]
        return not (before.isascii() and before.isalnum()) or (start > 0 and before == self._text[start - 1])
