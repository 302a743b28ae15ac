"""The tools ls and read_file, which show the workspace to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from zeus_plugins.tools.filesystem.limits import countdown
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.results import line, listed, page_result
from zeus_plugins.tools.filesystem.texts import SNIFFED_BYTES, binary_kind
from zeus_runtime.plugin import Minimum, printable
from zeus_runtime.plugin.model import keep_picture, most_picture_bytes
from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_plugins.tools.filesystem.seen import SeenFiles
    from zeus_runtime.plugin import Redactor
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.model import Picture


def reading_tools(
    files: WorkspaceFiles, options: Options, seen: SeenFiles | None, *, sees: bool
) -> Sequence[Tool]:
    """``ls`` and ``read_file``.

    Args:
        seen: notes which content the model knows; None where it changes no file.
        sees: whether the model can be shown pictures.
    """
    return [_ls(files, options), _read_file(files, options, seen, sees=sees)]


def _ls(files: WorkspaceFiles, options: Options) -> Tool:
    @tool(category="filesystem", access="read", paths=["path"], replayable_result=True)
    def ls(path: str = "/") -> str:
        """List a folder: names, a / after folders, sizes of files.

        Args:
            path: Folder; / is the workspace.
        """
        entries = files.entries(path, sizes=True)
        where = printable(files.normalize(path))
        if not entries:
            return f"[{where} is empty]"
        return listed([line(entry) for entry in entries], options)

    return ls


def _read_file(files: WorkspaceFiles, options: Options, seen: SeenFiles | None, *, sees: bool) -> Tool:
    @tool(category="filesystem", access="read", paths=["path"], replayable_result=True)
    def read_file(
        path: str,
        run: ToolRun,
        offset: Annotated[int, Minimum(1)] = 1,
        limit: Annotated[int | None, Minimum(1)] = None,
    ) -> ToolResult:
        """Read a text file, whole or by pages.

        Each line is shown as number, tab, text; a note at the end says what is left.

        Args:
            path: File, such as /src/main.py.
            offset: First line to read, counted from 1.
            limit: Most lines to read.
        """
        from zeus_plugins.tools.filesystem.pages import PageLimits, read_page

        lines = min(limit or options.max_read_lines, options.max_read_lines)
        limits = PageLimits(lines, options.max_line_chars, options.max_result_chars)
        remaining = countdown(options)
        with files.open(path) as file:
            where = printable(files.normalize(path))
            start = file.read(SNIFFED_BYTES)
            kind = binary_kind(start)
            if (
                sees
                and kind is not None
                and (picture := _picture(file, where, files, run.secrets)) is not None
            ):
                return ToolResult(picture.label, pictures=(picture,))
            if kind is not None:
                return ToolResult(
                    f"{where} is {kind} ({_size(file):,} bytes); read_file shows UTF-8 text only.",
                    is_error=True,
                )
            # Before the page is read: if the file changes in between, a later edit is refused, and not made unseen.
            state = {} if seen is None else _state(file, path, seen)
            file.seek(0)
            page = read_page(file, offset, limits, lambda: remaining() <= 0, run.secrets)
            return replace(page_result(page, where, _size(file)), state=state)

    if not sees:
        return read_file
    seeing = read_file.description.replace("by pages.", "by pages; or look at a picture.", 1)
    return replace(read_file, description=seeing)


def _picture(file: BinaryIO, where: str, files: WorkspaceFiles, secrets: Redactor) -> Picture | None:
    """A stored copy of the picture in the file; None if the file is not a picture or is too large."""
    file.seek(0)
    most = most_picture_bytes()
    data = file.read(most + 1)
    return keep_picture(data, where, files, secrets) if len(data) <= most else None


def _state(file: BinaryIO, path: str, seen: SeenFiles) -> dict[str, Any]:
    """What the result stores of the whole file; nothing of one that is too large to be changed."""
    file.seek(0)
    data = file.read(seen.max_bytes + 1)
    return seen.state(path, data) if len(data) <= seen.max_bytes else {}


def _size(file: BinaryIO) -> int:
    from os import fstat

    return fstat(file.fileno()).st_size
