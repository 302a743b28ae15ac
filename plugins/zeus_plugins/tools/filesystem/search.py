"""grep: regular expressions over the lines of files, bounded in time, memory and output."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_plugins.tools.filesystem.pages import bounded_lines, masked_line, masked_whole
from zeus_plugins.tools.filesystem.texts import BOM, SNIFFED_BYTES, binary_kind, line_text
from zeus_runtime.plugin import cut_place
from zeus_runtime.plugin.files import AccessAsked, WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.plugin import Redactor
    from zeus_runtime.plugin.files import WorkspaceFiles

_SEARCHED_LINE_BYTES = 1 << 20
_EXCERPT_CHARS = 300
_CONTINUATIONS = (
    f"x{string.digits}{string.ascii_letters}{string.punctuation} \n\n",
    "\n\n",
)
"""Two continuations that a cut line may have: characters of many kinds, or none. Newlines keep ``$`` from matching."""


class Query(NamedTuple):
    """A search: its pattern, the lines of context around a match, and whether it stops at a file's first match."""

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    one_per_file: bool = False


class FoundLine(NamedTuple):
    """A line to show: a match, or a line of context around one."""

    number: int
    text: str
    is_match: bool


@dataclass
class Findings:
    """The results of a search so far, in the order of the files.

    Args:
        files: path to lines.
        matches: number of matching lines.
        searched: number of files searched.
        skipped: number of files skipped as binary or unreadable.
        unapproved: number of files skipped because reading them needs an approval.
        long_lines: whether a line is longer than 1 MiB, so that only its start was searched.
        stopped: why the search ended early: ``time`` or ``matches``.
    """

    files: dict[str, list[FoundLine]] = field(default_factory=dict)
    matches: int = 0
    searched: int = 0
    skipped: int = 0
    unapproved: int = 0
    long_lines: bool = False
    stopped: str | None = None


def compiled(query: Query) -> Any:
    """The query's pattern.

    Raises:
        WorkspaceError: it is not a regular expression; the error says where and what to do.
    """
    import regex

    flags = regex.IGNORECASE if query.ignore_case else 0
    try:
        return regex.compile(regex.escape(query.pattern) if query.literal else query.pattern, flags)
    except regex.error as error:
        raise WorkspaceError(
            f"{query.pattern!r} is not a regular expression: {error}.",
            remedy="Escape special characters with a backslash, or set literal=true.",
        ) from None
    except (RecursionError, OverflowError, ValueError) as error:
        raise WorkspaceError(
            f"The pattern is too complex ({type(error).__name__}).", remedy="Simplify it."
        ) from None


def search(
    files: WorkspaceFiles,
    paths: Iterable[str],
    query: Query,
    max_matches: int,
    remaining: Callable[[], float],
    secrets: Redactor | None = None,
) -> Findings:
    """The matching lines of ``paths``.

    Args:
        paths: regular files, in the order to report.
        max_matches: the search stops after this many.
        remaining: seconds left; the search stops at 0, even within a line.
        secrets: masked before a file is cut into lines. The pattern is tried on the masked text only, so that a model
            cannot find a secret by guessing patterns.

    Raises:
        WorkspaceError: the pattern is not a regular expression.
    """
    pattern = compiled(query)
    findings = Findings()
    for path in paths:
        if remaining() <= 0:
            findings.stopped = "time"
            break
        try:
            _search_file(files, path, pattern, query, max_matches, remaining, secrets, findings)
        except WorkspaceError:
            findings.skipped += 1
        except AccessAsked:
            findings.unapproved += 1
        except TimeoutError:
            findings.stopped = "time"
        if findings.stopped:
            break
    return findings


def _search_file(
    files: WorkspaceFiles,
    path: str,
    pattern: Any,
    query: Query,
    max_matches: int,
    remaining: Callable[[], float],
    secrets: Redactor | None,
    findings: Findings,
) -> None:
    with files.open(path) as file:
        start = file.read(SNIFFED_BYTES)
        if binary_kind(start) is not None:
            findings.skipped += 1
            return
        file.seek(len(BOM) if start.startswith(BOM) else 0)
        findings.searched += 1
        shown_file, secrets = masked_whole(file, secrets)
        before: deque[FoundLine] = deque(maxlen=query.context)
        after = 0
        for line in bounded_lines(shown_file, _SEARCHED_LINE_BYTES):
            is_cut = line.length > len(line.kept)
            text = masked_line(line_text(line.kept), secrets, is_cut=is_cut)
            findings.long_lines = findings.long_lines or is_cut
            match = _match(pattern, text, remaining, is_cut=is_cut)
            if match is not None:
                # Only a further match tells that there are more.
                if findings.matches == max_matches:
                    findings.stopped = "matches"
                    return
                shown = findings.files.setdefault(path, [])
                shown.extend(before)
                before.clear()
                shown.append(FoundLine(line.number, _excerpt(text, *match), is_match=True))
                findings.matches += 1
                if query.one_per_file:
                    return
                after = query.context
            elif after:
                findings.files[path].append(FoundLine(line.number, _excerpt(text, 0, 0), is_match=False))
                after -= 1
            elif query.context:
                before.append(FoundLine(line.number, _excerpt(text, 0, 0), is_match=False))


def _match(
    pattern: Any, text: str, remaining: Callable[[], float], *, is_cut: bool
) -> tuple[int, int] | None:
    """The start and end of a line's match; None without one.

    The end of a cut line is unknown. So a match counts only if it is one with each continuation: ``$`` does not match
    at the cut, and ``[^z]*$`` does not match because a z may follow.
    """
    for further in _CONTINUATIONS if is_cut else ("",):
        # concurrent releases the GIL, so that the event loop's thread can run; timeout ends a runaway pattern.
        match = pattern.search(text + further, timeout=max(remaining(), 0.001), concurrent=True)
        if match is None or (is_cut and match.start() >= len(text)):
            return None
    return match.start(), min(match.end(), len(text))


def _excerpt(text: str, start: int, end: int) -> str:
    if len(text) <= _EXCERPT_CHARS:
        return text
    first = max(0, min(start - 60, len(text) - _EXCERPT_CHARS)) if end > _EXCERPT_CHARS else 0
    first, last = cut_place(text, first), cut_place(text, first + _EXCERPT_CHARS)
    return f"{'...' if first else ''}{text[first:last]}{'...' if last < len(text) else ''}"
