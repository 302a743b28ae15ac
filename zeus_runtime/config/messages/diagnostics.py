"""Diagnostics: what is wrong with a config, where, and what to do; rendered as text, JSON or workflow commands."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from zeus_runtime.config.yaml.tree import Mark, Path
from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass

Severity: TypeAlias = Literal["error", "warning", "notice"]
Format: TypeAlias = Literal["text", "json", "github"]

CODES: Final = (
    "bad-dotenv",
    "bad-interpolation",
    "bad-set",
    "duplicate-key",
    "empty-file",
    "extends-cycle",
    "file-not-found",
    "invalid",
    "missing-key",
    "multiple-documents",
    "non-string-key",
    "not-a-mapping",
    "not-json",
    "not-utf8",
    "out-of-range",
    "preset-hides-file",
    "preset-of-project",
    "ref-shape",
    "too-large",
    "unknown-component",
    "unknown-key",
    "unknown-model",
    "unknown-preset",
    "unknown-tag",
    "unreadable-file",
    "unset-variable",
    "unsupported-version",
    "upgraded",
    "wrong-length",
    "wrong-pattern",
    "wrong-type",
    "wrong-value",
    "yaml-syntax",
)
"""Every code this package reports, each with an example in docs/reference/diagnostics.md."""


_LONG_LINE: Final = 240
_LONGEST_WORD: Final = 200
_NEAR: Final = 60
"""Characters of a long line that are shown before, at and after the place."""


@dataclass(frozen=True)
class Diagnostic:
    """One problem.

    Args:
        code: its stable name, one of ``CODES`` or another layer's own.
        message: what is wrong, one sentence without a period; holds no secret.
        path: where it is in the merged value.
        position: where it is written; None if the problem has no position.
        source_line: the line ``position`` is in, secrets masked.
        width: how many characters the caret underlines.
        related: further places, each with a sentence.
        hint: what to do about it.
        severity: only an ``error`` makes the config invalid.
    """

    code: str
    message: str
    path: Path = ()
    position: Mark | None = None
    source_line: str | None = None
    width: int = 1
    related: tuple[tuple[str, Mark | None], ...] = ()
    hint: str | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        return render([self])


class ConfigError(ZeusError):
    """The config is invalid (exit 3).

    Args:
        diagnostics: all problems found, sorted by position; at least one.
    """

    exit_code = 3
    code = "config"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        first = self.diagnostics[0]
        where = str(first.position) if first.position else None
        remedy = None if first.hint is None else _in_line(first.hint)
        super().__init__(_in_line(first.message), remedy=remedy, where=where)

    def __str__(self) -> str:
        return render(self.diagnostics)


def render(diagnostics: Sequence[Diagnostic], output: Format = "text") -> str:
    """Diagnostics for a person, a program or a GitHub workflow log.

    Args:
        diagnostics: in the order to show them; in ``text`` and ``github`` their unseen characters become escapes.
        output: ``text`` (position, code, message, source line, caret), ``json`` (one object), ``github`` (commands).
    """
    if output == "json":
        from json import dumps

        return dumps(
            {"diagnostics": [to_json(diagnostic) for diagnostic in diagnostics]}, ensure_ascii=False, indent=2
        )
    from zeus_runtime.escaping import terminal_text

    shown = _as_command if output == "github" else _as_text
    return terminal_text("\n".join(shown(diagnostic) for diagnostic in diagnostics))


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as a JSON object; ``line`` and ``column`` count from 1."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "path": list(diagnostic.path),
        **_place(diagnostic.position),
        "related": [{"message": message, **_place(mark)} for message, mark in diagnostic.related],
    }


def did_you_mean(word: str, known: Iterable[str], *, rather: Container[str] = ()) -> str | None:
    """The known word with the fewest edits from ``word``, or None if it takes more than a quarter of its characters.

    A word of the same letters in another order is near too.

    Args:
        rather: words that are preferred to other near words.
    """
    wanted = _folded(word)
    # `_edits` takes time by both lengths, and an unknown key may be a whole pasted text.
    if len(wanted) > _LONGEST_WORD:
        return None
    near: list[tuple[bool, int, int, str]] = []
    for place, candidate in enumerate(known):
        other = _folded(candidate)
        most = max(1, max(len(wanted), len(other)) // 4)
        if abs(len(wanted) - len(other)) > most:
            continue
        edits = _edits(wanted, other)
        if edits <= most or sorted(wanted) == sorted(other):
            near.append((candidate not in rather, edits, place, candidate))
    return min(near)[-1] if near else None


def _folded(word: str) -> str:
    return word.lower().replace("-", "_")


def _edits(one: str, other: str) -> int:
    """How many characters are added, left out, replaced or swapped with their neighbour (Damerau, restricted)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, char in enumerate(one):
        older, before, row = before, row, [place + 1]
        for column, wanted in enumerate(other):
            cost = min(before[column] + (char != wanted), before[column + 1] + 1, row[column] + 1)
            if place and column and char == other[column - 1] and one[place - 1] == wanted:
                cost = min(cost, older[column - 1] + 1)
            row.append(cost)
    return row[-1]


def suggestion(word: str, known: Iterable[str], *, rather: Container[str] = ()) -> str:
    """The tail of a message, ``; did you mean 'x'?``, or nothing; ``rather`` as for ``did_you_mean``."""
    near = did_you_mean(word, known, rather=rather)
    return f"; did you mean {near!r}?" if near is not None else ""


def listing(words: Iterable[str], *, most: int = 24) -> str:
    """Words for a hint, comma-separated, cut after ``most``."""
    from zeus_runtime.escaping import printable

    shown = [*map(printable, words)]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + rest if shown else "none"


def in_order(diagnostics: Iterable[Diagnostic], sources: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Diagnostics without repetitions, by source (in the order of ``sources``), line and column."""
    ranks = {source: rank for rank, source in enumerate(sources)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        mark = diagnostic.position
        return (ranks.get(mark.source, len(ranks)), mark.line, mark.column) if mark else (-1, 0, 0)

    return tuple(sorted(dict.fromkeys(diagnostics), key=place))


def _as_text(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.position}: " if diagnostic.position else ""
    severity = "" if diagnostic.severity == "error" else f"{diagnostic.severity}: "
    lines = [f"{place}{severity}{diagnostic.code}: {_in_line(diagnostic.message)}"]
    mark = diagnostic.position
    if mark and diagnostic.source_line is not None:
        number = "" if mark.source.startswith("--set ") else str(mark.line)
        before, marked, after = _excerpt(diagnostic.source_line, mark.column - 1, diagnostic.width)
        lines.append(f"  {number} | {before}{marked}{after}")
        lines.append(f"  {' ' * len(number)} | {_blank(before)}{'^' * max(1, _columns(marked))}")
    for message, related in diagnostic.related:
        lines.append(f"  note: {_in_line(message)}" + (f" ({related})" if related else ""))
    if diagnostic.hint:
        lines.append(f"  help: {_in_line(diagnostic.hint)}")
    return "\n".join(lines)


def _in_line(text: str) -> str:
    """A text in one line: a line end comes from a name or a value, whose lines could pass for Zeus's own."""
    return text.replace("\n", "\\n")


def _excerpt(line: str, start: int, width: int) -> tuple[str, str, str]:
    """The text before, at and after the caret, as it may be printed; a long line is cut to the part near the caret."""
    from zeus_runtime.escaping import terminal_text

    before, marked, after = line[:start], line[start : start + width], line[start + width :]
    if len(line) > _LONG_LINE:
        before = before if len(before) <= _NEAR else f"…{before[-_NEAR:]}"
        marked = marked if len(marked) <= _NEAR else f"{marked[:_NEAR]}…"
        after = after if len(after) <= _NEAR else f"{after[:_NEAR]}…"
    return terminal_text(before), terminal_text(marked), terminal_text(after)


def _as_command(diagnostic: Diagnostic) -> str:
    mark = diagnostic.position
    properties = {"title": diagnostic.code}
    if mark and not mark.source.startswith(("--set ", "<")):
        properties = {"file": mark.source, "line": str(mark.line), "col": str(mark.column), **properties}
    text = diagnostic.message + "".join(f"\n{message}" for message, _ in diagnostic.related)
    if diagnostic.hint:
        text += f"\n{diagnostic.hint}"
    listed = ",".join(f"{name}={_escape(value, ':,')}" for name, value in properties.items())
    return f"::{diagnostic.severity} {listed}::{_escape(text)}"


def _escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)


def _place(mark: Mark | None) -> dict[str, Any]:
    return {"file": mark.source, "line": mark.line, "column": mark.column} if mark else {"file": None}


def _blank(text: str) -> str:
    # A tab stays one, so that the caret stands below its place at any tab width.
    return "".join("\t" if char == "\t" else " " * _columns(char) for char in text)


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
