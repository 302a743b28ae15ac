"""The results of the tools as text of bounded length: listings, pages, search results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zeus_plugins.tools.filesystem.limits import within
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.texts import plural
from zeus_runtime.plugin import printable
from zeus_runtime.plugin.tool import ToolResult

if TYPE_CHECKING:
    from zeus_plugins.tools.filesystem.pages import LinePage
    from zeus_plugins.tools.filesystem.search import Findings
    from zeus_runtime.plugin.files import FileEntry


def line(entry: FileEntry) -> str:
    """The line that ``ls`` shows for an entry of a folder."""
    if entry.kind == "directory":
        return f"{printable(entry.name)}/"
    note = {"link": "link", "other": "not a file"}.get(entry.kind)
    return f"{printable(entry.name)} ({note or plural(entry.size or 0, 'byte')})"


def shown_path(entry: FileEntry) -> str:
    """An entry's path; the path of a folder ends in /."""
    return printable(entry.path) + ("/" if entry.kind == "directory" else "")


def listed(lines: list[str], options: Options) -> str:
    """The result of ``ls``."""
    cut = within(lines[: options.max_results], options)
    note = (
        [f"[{len(cut)} of {len(lines)} entries; glob finds files by name]"] if len(cut) < len(lines) else []
    )
    return "\n".join([*cut, *note])


def page_result(page: LinePage, where: str, size: int) -> ToolResult:
    """The result of ``read_file``: the text, and a note that says what is left.

    Args:
        size: of the file, in bytes.
    """
    count = page.last - page.first + 1
    if count == 0:
        if page.total == 0:
            return ToolResult(f"[{where} is empty]")
        if page.total is None:
            return ToolResult(
                f"Line {page.first:,} of {where} ({size:,} bytes) could not be reached in time. Use a smaller offset.",
                is_error=True,
            )
        return ToolResult(
            f"offset {page.first:,} is past the end: {where} has {plural(page.total, 'line')}.", is_error=True
        )
    notes = []
    if page.total is None:
        notes.append(
            f"lines {page.first}-{page.last} of a file of {size:,} bytes; continue with offset={page.last + 1}"
        )
    elif page.last < page.total:
        notes.append(f"lines {page.first}-{page.last} of {page.total}; continue with offset={page.last + 1}")
    if page.windows:
        notes.append("lines end with CRLF, which edit_file keeps")
    return ToolResult("\n".join([page.text, *(f"[{note}]" for note in notes)]))


def glob_result(found: list[str], pattern: str, where: str, unread: list[str], options: Options) -> str:
    """The result of ``glob``; ``unread`` has a note for each part that was not searched."""
    if found:
        lines = found[: options.max_results]
    else:
        deep = "" if "**" in pattern else f" Use **/{pattern.lstrip('/')} to search all folders below."
        lines = [f"No file matches {pattern!r} in {where}.{deep}"]
    cut = within(lines, options)
    notes = _shortened(unread)
    if len(cut) < len(found):
        notes.append(f"the first {len(cut)}; there are more: narrow path or pattern")
    return "\n".join([*cut, *(f"[{note}]" for note in notes)])


def grep_result(
    findings: Findings, pattern: str, where: str, files_only: bool, unread: list[str], options: Options
) -> str:
    """The result of ``grep``; ``unread`` has a note for each part that was not searched."""
    notes = _shortened(unread)
    if findings.stopped == "time":
        notes.append(
            f"stopped after {options.timeout_seconds:g} seconds and {plural(findings.searched, 'file')}; "
            "narrow path or include, or simplify the pattern"
        )
    elif findings.stopped == "matches":
        most = plural(options.max_results, "match")
        notes.append(f"the first {most}; there are more: narrow path, include or pattern")
    if findings.skipped:
        notes.append(f"{plural(findings.skipped, 'file')} not searched: binary or unreadable")
    if findings.unapproved:
        count = plural(findings.unapproved, "file")
        notes.append(f"{count} not searched: reading needs an approval; name one file as path to ask for it")
    if findings.long_lines:
        notes.append("in lines longer than 1 MiB, only the start was searched")
    if findings.files:
        lines = [printable(path) for path in findings.files] if files_only else list(_found_lines(findings))
    else:
        found = "No match yet" if findings.stopped else "No match"
        lines = [f"{found} for {pattern!r} in {where} ({plural(findings.searched, 'file')} searched)."]
    cut = within(lines, options)
    if len(cut) < len(lines):
        notes.append("cut here: narrow path, include or pattern")
    return "\n".join([*cut, *(f"[{note}]" for note in notes)])


def _shortened(notes: list[str]) -> list[str]:
    return [*notes[:3], f"and {len(notes) - 3} more like these"] if len(notes) > 4 else notes


def _found_lines(findings: Findings) -> Iterator[str]:
    for path, found in findings.files.items():
        yield printable(path)
        previous = None
        has_context = any(not line.is_match for line in found)
        for line in found:
            if has_context and previous is not None and line.number > previous + 1:
                yield "--"
            previous = line.number
            yield f"{line.number}{':' if line.is_match else '-'}{line.text}"
