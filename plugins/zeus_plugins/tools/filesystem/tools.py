"""The six filesystem tools: what the model sees of the workspace and what it can do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, BinaryIO

from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.patterns import (
    PathFilter,
    PathTest,
    compile_filter,
    compile_glob,
    expand_braces,
    literal_prefix,
    parts_of,
)
from zeus_plugins.tools.filesystem.texts import SNIFFED_BYTES, binary_kind, plural
from zeus_runtime import (
    MAX_PICTURE_BYTES,
    Maximum,
    Minimum,
    Tool,
    ToolResult,
    WorkspaceError,
    ZeusError,
    keep_picture,
    printable,
    tool,
)

if TYPE_CHECKING:
    from zeus_plugins.tools.filesystem.pages import Page
    from zeus_plugins.tools.filesystem.search import Findings
    from zeus_runtime import Build, FileEntry, Picture, WorkspaceFiles


class PatternError(ZeusError):
    """A pattern in the options cannot be used (exit 3)."""

    exit_code = 3
    code = "pattern"


def create(options: Options, build: Build) -> Sequence[Tool]:
    """``ls read_file write_file edit_file glob grep`` over the build's workspace; without the writers if read-only.

    Raises:
        PatternError: a pattern of the options stands for too many.
    """
    for pattern in (*options.ignore, *options.protected):
        try:
            expand_braces(pattern)
        except ValueError as error:
            raise PatternError(f"filesystem: {error}", remedy="Write several patterns.") from None
    files = build.workspace
    reads = [_ls(files, options), _read_file(files, options, sees=build.profile.vision)]
    writes = [] if options.read_only else [_write_file(files, options), _edit_file(files, options)]
    return [*reads, *writes, _glob(files, options), _grep(files, options)]


def _ls(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", replayable_result=True)
    def ls(path: str = "/") -> str:
        """List a folder: names, a / after folders, sizes of files.

        Args:
            path: Folder; / is the workspace.
        """
        entries = files.entries(path, sizes=True)
        where = printable(files.normalize(path))
        if not entries:
            return f"[{where} is empty]"
        return _listed([_line(entry) for entry in entries], options)

    return ls


def _read_file(files: WorkspaceFiles, options: Options, *, sees: bool) -> Tool:
    @tool(category="filesystem", access="read", replayable_result=True)
    def read_file(
        path: str,
        offset: Annotated[int, Minimum(1)] = 1,
        limit: Annotated[int | None, Minimum(1)] = None,
    ) -> ToolResult:
        """Read a text file, whole or by pages.

        Each line comes as number, tab, text; a note at the end says what is left.

        Args:
            path: File, such as /src/main.py.
            offset: First line to read, from 1.
            limit: Most lines to read.
        """
        from zeus_plugins.tools.filesystem.pages import PageLimits, read_page

        lines = min(limit or options.max_read_lines, options.max_read_lines)
        limits = PageLimits(lines, options.max_line_chars, options.max_result_chars)
        remaining = _countdown(options)
        with files.open(path) as file:
            where = printable(files.normalize(path))
            start = file.read(SNIFFED_BYTES)
            kind = binary_kind(start)
            if sees and kind is not None and (picture := _picture(file, where, files)) is not None:
                return ToolResult(picture.label, pictures=(picture,))
            if kind is not None:
                return ToolResult(
                    f"{where} is {kind} ({_size(file):,} bytes); read_file shows UTF-8 text only.",
                    is_error=True,
                )
            file.seek(0)
            page = read_page(file, offset, limits, lambda: remaining() <= 0)
            return _page_result(page, where, _size(file))

    if not sees:
        return read_file
    seeing = read_file.description.replace("by pages.", "by pages; or look at a picture.", 1)
    return replace(read_file, description=seeing)


def _picture(file: BinaryIO, where: str, files: WorkspaceFiles) -> Picture | None:
    """The picture that the file is, kept as it is now; None for another file or one that is too large."""
    file.seek(0)
    data = file.read(MAX_PICTURE_BYTES + 1)
    return keep_picture(data, where, files) if len(data) <= MAX_PICTURE_BYTES else None


def _write_file(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="write", replayable_arguments=("content",))
    def write_file(path: str, content: str) -> str:
        """Write a whole file; an old one is replaced.

        Folders are made as needed. To change a part of a file, use edit_file.

        Args:
            path: File, such as /notes/todo.md.
            content: The complete text.
        """
        try:
            data = content.encode()
        except UnicodeEncodeError:
            raise WorkspaceError(
                "content holds characters that UTF-8 cannot write (lone surrogates)."
            ) from None
        if len(data) > options.max_write_bytes:
            raise WorkspaceError(
                f"content has {len(data):,} bytes; at most {options.max_write_bytes:,} can be written.",
                remedy="Write several smaller files.",
            )
        created = files.write(path, data, guard=_guard(options))
        lines = plural(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
        where = printable(files.normalize(path))
        return f"{'Created' if created else 'Replaced'} {where} ({lines}, {plural(len(data), 'byte')})."

    return write_file


def _edit_file(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="write", replayable_arguments=("old", "new"))
    def edit_file(path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replace an exact piece of text in a file.

        Read the file first. The piece must be there exactly once, spaces and line breaks included, unless
        replace_all is set.

        Args:
            path: File to change.
            old: Text to replace, without the line numbers read_file shows.
            new: Text to put in its place.
            replace_all: Replace every occurrence.
        """
        from zeus_plugins.tools.filesystem.edits import replace_text

        lines: tuple[int, ...] = ()

        def change(data: bytes) -> bytes:
            nonlocal lines
            edited = replace_text(data, old, new, replace_all=replace_all)
            lines = edited.lines
            return edited.data

        files.edit(path, change, max_bytes=options.max_write_bytes, guard=_guard(options))
        listed = ", ".join(str(line) for line in lines[:20]) + (", ..." if len(lines) > 20 else "")
        where = printable(files.normalize(path))
        return f"Edited {where}: replaced {plural(len(lines), 'occurrence')} (line {listed})."

    return edit_file


def _glob(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", replayable_result=True)
    def glob(pattern: str, path: str = "/") -> str:
        """Find files by name, sorted by path.

        ** stands for any folders, * for anything within a name, {a,b} for either; a pattern that ends in / finds
        folders.

        Args:
            pattern: Such as **/*.py or src/**/test_*.{py,js}.
            path: Folder to search in.
        """
        wanted = parts_of(pattern)
        if not wanted or ".." in wanted:
            raise WorkspaceError(
                f"{pattern!r} is no pattern for glob.", remedy="Give one such as **/*.py, without '..'."
            )
        matches = _glob_test(pattern)
        base = "/" if pattern.startswith("/") else files.normalize(path)
        start = files.normalize("/".join((base, *wanted[: literal_prefix(wanted)])))
        depth = len(parts_of(base))
        kinds = ("directory",) if pattern.endswith("/") else ("file", "link", "other")
        remaining = _countdown(options)
        found: list[str] = []
        unread: list[str] = []
        for entry in _walk(files, start, compile_filter(options.ignore), unread):
            if remaining() <= 0:
                unread.append(f"stopped after {options.timeout_seconds:g} seconds; narrow path or pattern")
                break
            if entry.kind in kinds and matches(parts_of(entry.path)[depth:]):
                found.append(_shown_path(entry))
                if len(found) > options.max_results:
                    break
        return _glob_result(found, pattern, printable(base), unread, options)

    return glob


def _grep(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", replayable_result=True)
    def grep(
        pattern: str,
        path: str = "/",
        include: str | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        context: Annotated[int, Minimum(0), Maximum(20)] = 0,
        files_only: bool = False,
    ) -> str:
        """Search the lines of text files for a regular expression.

        Each file's path is followed by its matching lines with their numbers.

        Args:
            pattern: Regular expression, or plain text with literal.
            path: Folder or file to search.
            include: Only files that match this glob, such as *.py or src/**/*.{js,ts}.
            ignore_case: Upper and lower case are the same.
            literal: The pattern is plain text.
            context: Lines to show before and after a match.
            files_only: Give only the paths of files with a match.
        """
        from zeus_plugins.tools.filesystem.search import Query, search

        if not pattern:
            raise WorkspaceError("pattern is empty.", remedy="Give the text or expression to search for.")
        remaining = _countdown(options)
        where = files.normalize(path)
        single = files.entry(path).kind == "file"
        unread: list[str] = []
        paths = (
            [where] if single else _searched(files, where, compile_filter(options.ignore), include, unread)
        )
        query = Query(pattern, literal, ignore_case, 0 if files_only else context, one_per_file=files_only)
        findings = search(files, paths, query, options.max_results, remaining)
        if single and findings.skipped:
            raise WorkspaceError(f"{printable(where)} is not a text file.")
        return _grep_result(findings, pattern, printable(where), files_only, unread, options)

    return grep


def _countdown(options: Options) -> Callable[[], float]:
    from time import monotonic

    end = monotonic() + options.timeout_seconds
    return lambda: end - monotonic()


def _guard(options: Options) -> Callable[[str], str | None]:
    protected = compile_filter([pattern.casefold() for pattern in options.protected])

    def guard(path: str) -> str | None:
        if protected(parts_of(path.casefold())):
            return f"{printable(path)} is protected and cannot be changed with these tools."
        return None

    return guard


def _walk(files: WorkspaceFiles, start: str, ignored: PathFilter, unread: list[str]) -> Iterator[FileEntry]:
    # What the caller names itself is searched, even inside an ignored folder.
    depth = len(parts_of(start))
    return files.walk(
        start,
        skip=lambda entry: ignored(parts_of(entry.path), depth),
        on_error=lambda error: unread.append(f"not searched: {error.message}"),
    )


def _searched(
    files: WorkspaceFiles, start: str, ignored: PathFilter, include: str | None, unread: list[str]
) -> Iterator[str]:
    depth = len(parts_of(start))
    included = None if include is None else _glob_test(include if "/" in include else f"**/{include}")
    for entry in _walk(files, start, ignored, unread):
        if entry.kind == "file" and (included is None or included(parts_of(entry.path)[depth:])):
            yield entry.path


def _glob_test(pattern: str) -> PathTest:
    try:
        return compile_glob(pattern)
    except ValueError as error:
        raise WorkspaceError(str(error)) from None


def _size(file: BinaryIO) -> int:
    from os import fstat

    return fstat(file.fileno()).st_size


def _line(entry: FileEntry) -> str:
    if entry.kind == "directory":
        return f"{printable(entry.name)}/"
    note = {"link": "link", "other": "not a file"}.get(entry.kind)
    return f"{printable(entry.name)} ({note or plural(entry.size or 0, 'byte')})"


def _shown_path(entry: FileEntry) -> str:
    return printable(entry.path) + ("/" if entry.kind == "directory" else "")


def _page_result(page: Page, where: str, size: int) -> ToolResult:
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
            f"lines {page.first}-{page.last} of a file of {size:,} bytes; go on with offset={page.last + 1}"
        )
    elif page.last < page.total:
        notes.append(f"lines {page.first}-{page.last} of {page.total}; go on with offset={page.last + 1}")
    if page.windows:
        notes.append("lines end with CRLF, which edit_file keeps")
    return ToolResult("\n".join([page.text, *(f"[{note}]" for note in notes)]))


def _listed(lines: list[str], options: Options) -> str:
    cut = _within(lines[: options.max_results], options)
    note = (
        [f"[{len(cut)} of {len(lines)} entries; glob finds files by name]"] if len(cut) < len(lines) else []
    )
    return "\n".join([*cut, *note])


def _glob_result(found: list[str], pattern: str, where: str, unread: list[str], options: Options) -> str:
    if found:
        lines = found[: options.max_results]
    else:
        deep = "" if "**" in pattern else f" Use **/{pattern.lstrip('/')} to search all folders below."
        lines = [f"No file matches {pattern!r} in {where}.{deep}"]
    cut = _within(lines, options)
    notes = _shortened(unread)
    if len(cut) < len(found):
        notes.append(f"the first {len(cut)}; there are more: narrow path or pattern")
    return "\n".join([*cut, *(f"[{note}]" for note in notes)])


def _grep_result(
    findings: Findings, pattern: str, where: str, files_only: bool, unread: list[str], options: Options
) -> str:
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
    if findings.long_lines:
        notes.append("of lines longer than 1 MiB only the start was searched")
    if findings.files:
        lines = [printable(path) for path in findings.files] if files_only else list(_found_lines(findings))
    else:
        found = "No match yet" if findings.stopped else "No match"
        lines = [f"{found} for {pattern!r} in {where} ({plural(findings.searched, 'file')} searched)."]
    cut = _within(lines, options)
    if len(cut) < len(lines):
        notes.append("cut here: narrow path, include or pattern")
    return "\n".join([*cut, *(f"[{note}]" for note in notes)])


def _within(lines: list[str], options: Options) -> list[str]:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > options.max_result_chars:
            return lines[:number]
    return lines


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
