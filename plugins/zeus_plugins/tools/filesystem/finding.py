"""The tools glob and grep, with which the model finds files by name and by content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from zeus_plugins.tools.filesystem.limits import countdown
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.results import glob_result, grep_result, shown_path
from zeus_runtime.plugin import Maximum, Minimum, printable
from zeus_runtime.plugin.files import WorkspaceError, compile_filter, compile_glob, literal_prefix, parts_of
from zeus_runtime.plugin.tool import Tool, ToolRun, tool

if TYPE_CHECKING:
    from zeus_runtime.plugin import Redactor
    from zeus_runtime.plugin.files import FileEntry, PathFilter, PathTest, WorkspaceFiles

_PLAIN: Final = {ord(sign): number for number, sign in enumerate("/[]", 0xF0000)}
_SHOWN: Final = {number: sign for sign, number in _PLAIN.items()}
"""What a placeholder has that separates names or is a wildcard; in its place are signs for private use."""


def finding_tools(files: WorkspaceFiles, options: Options) -> Sequence[Tool]:
    """``glob`` and ``grep``."""
    return [_glob(files, options), _grep(files, options)]


def _glob(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", paths=["path"], replayable_result=True)
    def glob(pattern: str, run: ToolRun, path: str = "/") -> str:
        """Find files by name, sorted by path.

        ** matches any number of folders, * any characters within a name, {a,b} either one; a pattern that ends
        in / finds folders.

        Args:
            pattern: Such as **/*.py or src/**/test_*.{py,js}.
            path: Folder to search in.
        """
        wanted = parts_of(_in_one_part(pattern, run.secrets))
        if not wanted or ".." in wanted:
            raise WorkspaceError(
                f"{pattern!r} is not a valid pattern for glob.",
                remedy="Give one such as **/*.py, without '..'.",
            )
        matches = _glob_test(pattern, run.secrets)
        base = "/" if pattern.startswith("/") else files.normalize(path)
        beginning = "/".join(wanted[: literal_prefix(wanted)]).translate(_SHOWN)
        start = files.normalize(f"{base}/{beginning}")
        depth = len(parts_of(base))
        kinds = ("directory",) if pattern.endswith("/") else ("file", "link", "other")
        remaining = countdown(options)
        found: list[str] = []
        unread: list[str] = []
        for entry in _walk(files, start, compile_filter(options.passed_over), unread):
            if remaining() <= 0:
                unread.append(f"stopped after {options.timeout_seconds:g} seconds; narrow path or pattern")
                break
            if entry.kind in kinds and matches(parts_of(entry.path)[depth:]):
                found.append(shown_path(entry))
                # One more than is shown tells that there are more.
                if len(found) > options.max_results:
                    break
        return glob_result(found, pattern, printable(base), unread, options)

    return glob


def _grep(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", paths=["path"], replayable_result=True)
    def grep(
        pattern: str,
        run: ToolRun,
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
            ignore_case: Treat upper and lower case as the same.
            literal: The pattern is plain text.
            context: Lines to show before and after a match.
            files_only: Show only the paths of files with a match.
        """
        from zeus_plugins.tools.filesystem.search import Query, search

        if not pattern:
            raise WorkspaceError("pattern is empty.", remedy="Give the text or expression to search for.")
        remaining = countdown(options)
        where = files.normalize(path)
        single = files.entry(path).kind == "file"
        if single:
            # Opening the file asks for an approval if one is needed; a search would skip the file.
            files.open(where).close()
        unread: list[str] = []
        paths = (
            [where]
            if single
            else _searched(files, where, compile_filter(options.passed_over), include, unread, run.secrets)
        )
        query = Query(pattern, literal, ignore_case, 0 if files_only else context, one_per_file=files_only)
        findings = search(files, paths, query, options.max_results, remaining, run.secrets)
        if single and findings.skipped:
            raise WorkspaceError(f"{printable(where)} is not a text file.")
        return grep_result(findings, pattern, printable(where), files_only, unread, options)

    return grep


def _walk(files: WorkspaceFiles, start: str, ignored: PathFilter, unread: list[str]) -> Iterator[FileEntry]:
    # A path that the caller names is searched, even inside an ignored folder.
    depth = len(parts_of(start))
    return files.walk(
        start,
        skip=lambda entry: ignored(parts_of(entry.path), depth),
        on_error=lambda error: unread.append(f"not searched: {error.message}"),
    )


def _searched(
    files: WorkspaceFiles,
    start: str,
    ignored: PathFilter,
    include: str | None,
    unread: list[str],
    secrets: Redactor,
) -> Iterator[str]:
    depth = len(parts_of(start))
    included = None if include is None else _glob_test(_as_path(include, secrets), secrets)
    for entry in _walk(files, start, ignored, unread):
        if entry.kind == "file" and (included is None or included(parts_of(entry.path)[depth:])):
            yield entry.path


def _glob_test(pattern: str, secrets: Redactor) -> PathTest:
    """A test of paths as the model sees them: else a pattern would find out a secret in a name letter by letter."""
    try:
        matches = compile_glob(_in_one_part(pattern, secrets), is_search=True)
    except ValueError as error:
        raise WorkspaceError(str(error)) from None

    def fits(parts: Sequence[str]) -> bool:
        path = "/".join(parts)
        shown = secrets.text(path)
        return matches(parts if shown == path else parts_of(_in_one_part(shown, secrets)))

    return fits


def _as_path(include: str, secrets: Redactor) -> str:
    return include if "/" in _in_one_part(include, secrets) else f"**/{include}"


def _in_one_part(text: str, secrets: Redactor) -> str:
    """A path or a pattern whose placeholders are a part of a name, without a wildcard."""
    for each in secrets.placeholders_in(text):
        text = text.replace(each, each.translate(_PLAIN))
    return text
