"""The tools write_file and edit_file, with which the model changes the workspace."""

from __future__ import annotations

from collections.abc import Sequence

from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.texts import binary_kind, plural, whole_text
from zeus_runtime.plugin import Redactor, printable
from zeus_runtime.plugin.files import (
    NoSuchFileError,
    WorkspaceError,
    WorkspaceFiles,
    edited_masked,
    placeholders_left,
    written_masked,
)
from zeus_runtime.plugin.tool import Change, Preview, Tool, ToolRun, tool


def changing_tools(files: WorkspaceFiles, options: Options) -> Sequence[Tool]:
    """``write_file`` and ``edit_file``."""
    return [_write_file(files, options), _edit_file(files, options)]


def _write_file(files: WorkspaceFiles, options: Options) -> Tool:
    def preview(path: str, content: str, secrets: Redactor) -> Preview:
        before = _text_of(files, path, options)
        data = written_masked(content.encode(), lambda: _held(files, path, options), secrets)
        return Preview((_change(files, path, before, whole_text(data)),), ("content",))

    @tool(category="filesystem", access="write", replayable_arguments=("content",), preview=preview)
    def write_file(path: str, content: str, run: ToolRun) -> str:
        """Write a whole file; an existing file is replaced.

        Missing folders are created. To change a part of a file, use edit_file.

        Args:
            path: File, such as /notes/todo.md.
            content: The complete text.
        """
        try:
            data = content.encode()
        except UnicodeEncodeError:
            raise WorkspaceError(
                "content contains characters that UTF-8 cannot encode (lone surrogates)."
            ) from None
        if len(data) > options.max_write_bytes:
            raise WorkspaceError(
                f"content has {len(data):,} bytes; at most {options.max_write_bytes:,} can be written.",
                remedy="Write several smaller files.",
            )
        data = written_masked(data, lambda: _held(files, path, options), run.secrets)
        created = files.write(path, data)
        lines = plural(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
        where, left = printable(files.normalize(path)), placeholders_left(data, run.secrets)
        return f"{'Created' if created else 'Replaced'} {where} ({lines}, {plural(len(data), 'byte')}).{left}"

    return write_file


def _edit_file(files: WorkspaceFiles, options: Options) -> Tool:
    def preview(path: str, old: str, new: str, secrets: Redactor, replace_all: bool = False) -> Preview:
        from zeus_plugins.tools.filesystem.edits import replace_text

        def replaced(data: bytes, placeholders: Sequence[str]) -> bytes:
            return replace_text(data, old, new, replace_all=replace_all, placeholders=placeholders).data

        data = files.read(path, max_bytes=options.max_write_bytes)
        edited = edited_masked(data, replaced, secrets)
        change = _change(files, path, whole_text(data), whole_text(edited))
        return Preview((change,), ("old", "new", "replace_all"))

    @tool(category="filesystem", access="write", replayable_arguments=("old", "new"), preview=preview)
    def edit_file(path: str, old: str, new: str, run: ToolRun, replace_all: bool = False) -> str:
        """Replace an exact piece of text in a file.

        Read the file first. The text must occur exactly once, with the same spaces and line breaks, unless
        replace_all is set.

        Args:
            path: File to change.
            old: Text to replace, without the line numbers read_file shows.
            new: Text to put in its place.
            replace_all: Replace every occurrence.
        """
        from zeus_plugins.tools.filesystem.edits import replace_text

        lines: tuple[int, ...] = ()
        left = ""

        def replaced(data: bytes, placeholders: Sequence[str]) -> bytes:
            nonlocal lines
            edited = replace_text(data, old, new, replace_all=replace_all, placeholders=placeholders)
            lines = edited.lines
            return edited.data

        def change(data: bytes) -> bytes:
            nonlocal left
            changed = edited_masked(data, replaced, run.secrets)
            left = placeholders_left(changed, run.secrets)
            return changed

        files.edit(path, change, max_bytes=options.max_write_bytes)
        listed = ", ".join(str(line) for line in lines[:20]) + (", ..." if len(lines) > 20 else "")
        where = printable(files.normalize(path))
        return f"Edited {where}: replaced {plural(len(lines), 'occurrence')} (line {listed}).{left}"

    return edit_file


def _change(files: WorkspaceFiles, path: str, before: str | None, after: str) -> Change:
    return Change(files.real(path), before, after, files.identity(path))


def _held(files: WorkspaceFiles, path: str, options: Options) -> bytes:
    """The file's present bytes, which may hold the secret of a placeholder; empty if it does not exist.

    Raises:
        WorkspaceError: the file cannot be read, so its secret would be lost.
    """
    try:
        return files.read(path, max_bytes=options.max_write_bytes)
    except NoSuchFileError:
        return b""
    except WorkspaceError as error:
        raise WorkspaceError(
            f"content has a placeholder, and the file, which may hold its secret, cannot be read: {error.message}",
            remedy="Ask the user to make this change.",
        ) from error


def _text_of(files: WorkspaceFiles, path: str, options: Options) -> str | None:
    """The text of a file; None if the file does not exist.

    Raises:
        WorkspaceError: the file is not text, or cannot be read.
    """
    try:
        data = files.read(path, max_bytes=options.max_write_bytes)
    except NoSuchFileError:
        return None
    if (kind := binary_kind(data)) is not None:
        raise WorkspaceError(f"the old file is {kind} ({plural(len(data), 'byte')})")
    return whole_text(data)
