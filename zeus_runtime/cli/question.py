"""A question as it is shown to the user: every argument exactly, a change as a diff. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.cli.diff import DiffLine, difference
from zeus_runtime.cli.streams import Style
from zeus_runtime.cli.table import columns, one_line
from zeus_runtime.cli.wording import tool_label
from zeus_runtime.escaping import exact, exact_json, exact_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.tools.approval import PendingApproval
    from zeus_runtime.tools.preview import Change

MOST_CHARACTERS: Final = 4_000
MOST_LINES: Final = 40
"""Of an argument or a diff, unless all of it is wanted."""

_STYLES: Final[Mapping[str, Style]] = {"-": "red", "+": "green", "@": "dim", " ": "plain"}
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_OWN: Final = frozenset({"answer", "because", "until"})
"""Words that lines of ours begin with."""
_BLOCK: Final = "    │ "
_GOES_ON: Final = "    ┊ "


class Line(NamedTuple):
    """A line to write, and how it looks."""

    text: str
    style: Style = "plain"


def question_lines(
    pending: PendingApproval, answers: Sequence[str] = (), *, whole: bool = False, width: int | None = None
) -> list[Line]:
    """What would be done, why it is asked, and until when.

    Two different calls never look the same, and no line of a value looks like one of ours: values of several lines
    stand behind a bar, and a line that is longer than ``width`` goes on behind a dotted one.

    Args:
        answers: the parts of the answer to a question.
        whole: long values and diffs in full, and the arguments that a diff stands for.
        width: columns of a line; None for no limit.
    """
    shown = list(_lines(pending, answers, whole=whole))
    return [part for line in shown for part in folded(line, width)]


def _lines(pending: PendingApproval, answers: Sequence[str], *, whole: bool) -> Iterator[Line]:
    waits = "asks" if pending.is_question else "waits for approval"
    yield Line(f"{tool_label(pending.tool)} {waits} ({pending.id})", "yellow")
    preview = pending.preview
    hidden = preview.stands_for if preview is not None and preview.changes and not whole else ()
    for name, value in pending.arguments.items():
        if name not in hidden:
            yield from _argument(_named(str(name)), value, whole=whole)
    if preview is not None:
        for change in preview.changes:
            yield from _change(change, whole=whole)
        if preview.problem:
            yield Line(f"  no diff: {one_line(preview.problem)}")
    yield from (Line(f"  answer: {each}") for each in answers)
    if pending.reason and not pending.is_question:
        yield Line(f"  because: {one_line(pending.reason)}")
    if pending.expires_ms is not None:
        until = datetime.fromtimestamp(pending.expires_ms / 1000, UTC).astimezone()
        yield Line(f"  until {until:%Y-%m-%d %H:%M:%S}, then: {pending.on_timeout}")


def _argument(name: str, value: Any, *, whole: bool) -> Iterator[Line]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    kept = text if whole else _cut(text)
    if isinstance(value, str) and "\n" in text:
        yield Line(f"  {name}:")
        yield from (Line(f"{_BLOCK}{exact(line)}") for line in kept.split("\n"))
    elif isinstance(value, str):
        quoted = _needs_quotes(text)
        shown = exact_json(json.dumps(kept, ensure_ascii=False)) if quoted else exact(kept)
        yield Line(f"  {name}: {shown}")
    else:
        yield Line(f"  {name}: {exact_json(kept)}")
    if len(kept) < len(text):
        yield Line(f"    … {len(text) - len(kept):,} more characters; v shows all", "yellow")


def _named(name: str) -> str:
    """An argument's name, quoted where it could be taken for more than a name."""
    if _NAME.fullmatch(name) and name not in _OWN:
        return name
    return exact_json(json.dumps(name, ensure_ascii=False))


def _needs_quotes(text: str) -> bool:
    """Whether a text of one line could be taken for a value of another type, or has ends that cannot be seen."""
    if text != text.strip() or not text or "\t" in text:
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _cut(text: str) -> str:
    return "\n".join(text[:MOST_CHARACTERS].split("\n")[:MOST_LINES])


def _change(change: Change, *, whole: bool) -> Iterator[Line]:
    found = difference(change.before or "", change.after)
    removed, added = (sum(each.kind == kind for each in found) for kind in "-+")
    if change.before is None:
        did = f"new file, {added:,} {'line' if added == 1 else 'lines'}"
    else:
        did = f"{removed:,} removed, {added:,} added" if found else "no line changes"
    yield Line(f"  {exact_line(change.path)}: {did}", "bold")
    kept = found if whole else _cut_diff(found)
    for each in kept:
        yield from _diff_line(each)
    if len(kept) < len(found):
        characters = sum(len(each.text) for each in found[len(kept) :])
        more = f"{len(found) - len(kept):,} more lines ({characters:,} characters)"
        yield Line(f"    … {more}; v shows all", "yellow")


def _cut_diff(found: Sequence[DiffLine]) -> Sequence[DiffLine]:
    size = 0
    for place, each in enumerate(found[:MOST_LINES]):
        size += len(each.text)
        if size > MOST_CHARACTERS:
            return found[:place]
    return found[:MOST_LINES]


def _diff_line(line: DiffLine) -> Iterator[Line]:
    if line.kind == "@":
        yield Line(f"    @@ line {line.text}", "dim")
        return
    text = line.text.removesuffix("\n")
    yield Line(f"    {line.kind} {exact(text)}", _STYLES[line.kind])
    if text == line.text:
        yield Line("    \\ no newline at the end", "dim")


def folded(line: Line, width: int | None) -> Iterator[Line]:
    """A line in pieces that fit, so that no terminal begins a part of a value where our own lines begin."""
    text = line.text
    room = None if width is None else max(20, width - 1)
    while room is not None and _columns(text) > room:
        end = min(len(text), room)
        while _columns(text[:end]) > room:
            end -= 1
        yield Line(text[:end], line.style)
        text = _GOES_ON + text[end:]
    yield Line(text, line.style)


def _columns(text: str) -> int:
    """At most so many: a tab takes up to eight."""
    return columns(text) + 7 * text.count("\t")
