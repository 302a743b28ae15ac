"""The changes that a call made, as the log keeps them beside its result: for people, never sent to a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zeus_runtime.strict_json import well_formed
from zeus_runtime.tools.diff import DiffGap, DiffLine, cut_diff, difference
from zeus_runtime.tools.preview import Change

CHANGES: Final = "changes"
"""Key of a result's artifact in the log."""

MOST_LINES: Final = 400
MOST_CHARACTERS: Final = 20_000
"""Of all changes of one result together; a line that does not fit is left out whole."""


@dataclass(frozen=True)
class KeptChange:
    """A text that a call changed.

    Args:
        path: as the preview of the call names it.
        is_new: the call made the text.
        removed: how many lines; with ``uncompared``, at least so many.
        added: how many lines; with ``uncompared``, at least so many.
        is_compared: as of ``Diff``.
        lines: the diff, cut where it is long; empty where a list leaves them out.
        uncompared: how many lines, of both texts, may have stayed or changed: the texts are too large to tell.
    """

    path: str
    is_new: bool
    removed: int
    added: int
    is_compared: bool = True
    lines: Sequence[DiffLine | DiffGap] = ()
    uncompared: int = 0

    def as_json(self) -> dict[str, Any]:
        """A small JSON object: a line is its kind and its text, a gap an object.

        If a text has bytes that are not UTF-8 (``surrogateescape``), which no database and no socket accepts,
        ``escaped`` says that the path and the lines are written as JSON writes a text between its quotes.
        """
        texts = [self.path, *(each.text for each in self.lines if isinstance(each, DiffLine))]
        is_escaped = any(well_formed(each) != each for each in texts)
        written = _escaped if is_escaped else str
        return {
            "path": written(self.path),
            **({"escaped": True} if is_escaped else {}),
            "new": self.is_new,
            "removed": self.removed,
            "added": self.added,
            **({} if self.is_compared else {"compared": False}),
            **({"uncompared": self.uncompared} if self.uncompared else {}),
            "lines": [
                each.kind + written(each.text)
                if isinstance(each, DiffLine)
                else {"left": each.lines, "characters": each.characters, "removed": each.is_removed}
                for each in self.lines
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeptChange:
        """The change that ``as_json`` made."""
        read = _unescaped if value.get("escaped") else str
        lines = [
            DiffLine(each[0], read(each[1:]))  # type: ignore[arg-type]
            if isinstance(each, str)
            else DiffGap(each["left"], each["characters"], each["removed"])
            for each in value.get("lines", ())
        ]
        return cls(
            read(value["path"]),
            value["new"],
            value["removed"],
            value["added"],
            value.get("compared", True),
            lines,
            value.get("uncompared", 0),
        )


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))


def kept(changes: Iterable[Change]) -> list[KeptChange]:
    """What the log keeps of changes; one that changed no text is left out. May take seconds of CPU."""
    found: list[KeptChange] = []
    lines, characters = MOST_LINES, MOST_CHARACTERS
    for each in changes:
        diff = difference(each.before or "", each.after)
        old_left, new_left, characters_left = each.left
        if not diff.lines and each.before is not None and not characters_left:
            continue
        removed, added, uncompared = _counts(each, diff.lines)
        shown = cut_diff([_moved(line, each.first_line - 1) for line in diff.lines], lines, characters)
        lines = max(0, lines - len(shown))
        characters -= sum(len(line.text) for line in shown if isinstance(line, DiffLine))
        if characters_left:
            shown.append(DiffGap(old_left + new_left, characters_left))
        found.append(
            KeptChange(each.path, each.before is None, removed, added, diff.is_compared, shown, uncompared)
        )
    return found


def _counts(change: Change, lines: Sequence[DiffLine]) -> tuple[int, int, int]:
    """How many lines were at least removed and added, and how many may have stayed as well.

    Lines that differ where a part ends may be among those that it leaves out: they moved there.
    """
    removed, added = (sum(line.kind == kind for line in lines) for kind in "-+")
    old_left, new_left, characters_left = change.left
    if change.before is None or not characters_left:
        return removed + old_left, added + new_left, 0
    size = next((size for size, line in enumerate(reversed(lines)) if line.kind in " @"), len(lines))
    end = [line.kind for line in lines[len(lines) - size :]]
    open_old, open_new = end.count("-") if new_left else 0, end.count("+") if old_left else 0
    old, new = open_old + old_left, open_new + new_left
    return removed - open_old + max(0, old - new), added - open_new + max(0, new - old), old + new


def _moved(line: DiffLine, lines: int) -> DiffLine:
    return DiffLine("@", f"{int(line.text) + lines}") if lines and line.kind == "@" else line


def changes_of(payload: Mapping[str, Any]) -> list[KeptChange]:
    """The changes that the log keeps beside a message, given as its payload; none for other messages."""
    artifact = payload.get("artifact")
    found = artifact.get(CHANGES, ()) if isinstance(artifact, Mapping) else ()
    return [KeptChange.from_json(each) for each in found]
