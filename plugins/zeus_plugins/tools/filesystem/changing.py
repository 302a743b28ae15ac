"""The tools write_file and edit_file, with which the model changes the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict

from zeus_plugins.tools.filesystem.changed_part import MOST_COMPARED, changed_part
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.seen import SeenFiles
from zeus_plugins.tools.filesystem.texts import binary_kind, plural, whole_text
from zeus_runtime.plugin import Redactor, printable
from zeus_runtime.plugin.files import (
    AccessAsked,
    NoSuchFileError,
    WorkspaceError,
    WorkspaceFiles,
    difference,
    edited_masked,
    placeholders_left,
    written_masked,
)
from zeus_runtime.plugin.tool import Change, Preview, Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_plugins.tools.filesystem.edits import Edited


_MOST_DIFF_CHARACTERS: Final = 3_000
_PIECE_BYTES: Final = 2**20


class Replacement(TypedDict):
    """A further replacement of edit_file."""

    old: str
    new: str
    replace_all: NotRequired[bool]


def changing_tools(files: WorkspaceFiles, options: Options, seen: SeenFiles) -> Sequence[Tool]:
    """``write_file`` and ``edit_file``."""
    return [_write_file(files, options, seen), _edit_file(files, options, seen)]


def _write_file(files: WorkspaceFiles, options: Options, seen: SeenFiles) -> Tool:
    def preview(path: str, content: str, secrets: Redactor) -> Preview:
        before = _text_of(files, path, options)
        data = written_masked(content.encode(), lambda: _held(files, path, options), secrets)
        return Preview((_change(files, path, before, whole_text(data)),), ("content",))

    @tool(
        category="filesystem",
        access="write",
        paths=["path"],
        replayable_arguments=("content",),
        preview=preview,
    )
    def write_file(path: str, content: str, run: ToolRun) -> ToolResult:
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
        # The model saw placeholders for secrets, so its text has them: the file's own secrets come back here.
        data = written_masked(data, lambda: _held(files, path, options), run.secrets)
        before = _replaced_by(files, path, options)
        if run.state(seen.name(path)) is not None:
            with suppress(NoSuchFileError):
                held = files.read(path, max_bytes=options.max_write_bytes)
                if held != data:  # the same: an interrupted call that is repeated
                    seen.refuse_changed(path, held, run)
        # Noted before the write: the next call of the same answer may run at once, and must know this content.
        with seen.writing(path, data, run):
            created = files.write(path, data)
        lines = plural(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
        where, left = printable(files.normalize(path)), placeholders_left(data, run.secrets)
        told = f"{'Created' if created else 'Replaced'} {where} ({lines}, {plural(len(data), 'byte')}).{left}"
        made = tuple(change for held in before for change in _made(files, path, held, data))
        return ToolResult(told, state=seen.state(path, data), changes=made)

    return write_file


def _edit_file(files: WorkspaceFiles, options: Options, seen: SeenFiles) -> Tool:
    def preview(
        path: str,
        old: str,
        new: str,
        secrets: Redactor,
        replace_all: bool = False,
        more: Sequence[Replacement] = (),
    ) -> Preview:
        def replaced(data: bytes, placeholders: Sequence[str]) -> bytes:
            return _replaced(data, _all(old, new, more, replace_all=replace_all), placeholders)[0]

        data = files.read(path, max_bytes=options.max_write_bytes)
        edited = edited_masked(data, replaced, secrets)
        change = _change(files, path, whole_text(data), whole_text(edited))
        return Preview((change,), ("old", "new", "replace_all", "more"))

    @tool(
        category="filesystem",
        access="write",
        paths=["path"],
        replayable_arguments=("old", "new", "more"),
        preview=preview,
    )
    def edit_file(
        path: str,
        old: str,
        new: str,
        run: ToolRun,
        replace_all: bool = False,
        more: list[Replacement] | None = None,
    ) -> ToolResult:
        """Replace a piece of text in a file, or several at once; returns a diff.

        Read the file first. The text must occur exactly once, unless replace_all is set.

        Args:
            path: File to change.
            old: Text to replace, without the line numbers read_file shows.
            new: Text to put in its place.
            replace_all: Replace every occurrence.
            more: Further replacements in the same file, made one after the other; all are made, or none.
        """
        replacements = _all(old, new, more or (), replace_all=replace_all)
        told, left, before, after = "", "", b"", b""

        def replaced(data: bytes, placeholders: Sequence[str]) -> bytes:
            nonlocal told
            changed, edits = _replaced(data, replacements, placeholders)
            told = _told(edits) + _diff(whole_text(data), whole_text(changed))
            return changed

        def change(data: bytes) -> bytes:
            nonlocal left, before, after
            # Inside `edit`, on the bytes that are changed: another look at the file could find others.
            seen.refuse_changed(path, data, run)
            before = data
            after = edited_masked(data, replaced, run.secrets)
            left = placeholders_left(after, run.secrets)
            writing.enter_context(seen.writing(path, after, run))
            return after

        with ExitStack() as writing:
            files.edit(path, change, max_bytes=options.max_write_bytes)
        where = printable(files.normalize(path))
        return ToolResult(
            f"Edited {where}: {told}{left}",
            state=seen.state(path, after),
            changes=_made(files, path, before, after),
        )

    return edit_file


def _all(old: str, new: str, more: Sequence[Replacement], *, replace_all: bool) -> Sequence[Replacement]:
    return [{"old": old, "new": new, "replace_all": replace_all}, *more]


def _replaced(
    data: bytes, replacements: Sequence[Replacement], placeholders: Sequence[str]
) -> tuple[bytes, Sequence[Edited]]:
    """The new bytes, and each replacement that was made.

    Raises:
        WorkspaceError: one of them cannot be made, so none is; it names the one.
    """
    from zeus_plugins.tools.filesystem.edits import replace_text

    edits: list[Edited] = []
    for number, each in enumerate(replacements, 1):
        try:
            edited = replace_text(
                data,
                each["old"],
                each["new"],
                replace_all=each.get("replace_all", False),
                placeholders=placeholders,
            )
        except WorkspaceError as error:
            if len(replacements) == 1:
                raise
            raise WorkspaceError(
                f"Replacement {number} of {len(replacements)}: {error.message}", remedy=error.remedy
            ) from error
        edits.append(edited)
        data = edited.data
    return data, edits


def _told(edits: Sequence[Edited]) -> str:
    """How often each text was replaced, and in which lines."""
    parts = []
    for each in edits:
        listed = ", ".join(str(line) for line in each.lines[:20]) + (", ..." if len(each.lines) > 20 else "")
        loose = ", found without regard to white space and line numbers" if each.is_loose else ""
        parts.append(f"replaced {plural(len(each.lines), 'occurrence')} (line {listed}{loose})")
    return f"{'; '.join(parts)}."


def _diff(before: str, after: str) -> str:
    """The changed lines with those around them, cut if they are many; a note for a file that is too large."""
    if len(before) > MOST_COMPARED:
        return "\n[no diff of a file of this size: read_file shows the change]"
    lines = []
    for each in difference(before, after).lines:
        text = each.text.removesuffix("\n").removesuffix("\r")
        lines.append(f"@ line {text}" if each.kind == "@" else f"{each.kind}{text}")
    text = "\n".join(lines).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if len(text) > _MOST_DIFF_CHARACTERS:
        end = text.rfind("\n", 0, _MOST_DIFF_CHARACTERS)
        text = f"{text[: max(end, 0)]}\n[the diff is cut: read_file shows the rest]"
    return f"\n{text}"


def _change(files: WorkspaceFiles, path: str, before: str | None, after: str) -> Change:
    return Change(files.real(path), before, after, files.identity(path))


def _made(files: WorkspaceFiles, path: str, before: bytes | None, after: bytes) -> tuple[Change]:
    """The change that a call made, for people."""
    part = changed_part(before, after)
    was = None if part.before is None else whole_text(part.before)
    change = _change(files, path, was, whole_text(part.after))
    return (replace(change, first_line=part.first_line, left=part.left),)


def _replaced_by(files: WorkspaceFiles, path: str, options: Options) -> list[bytes | None]:
    """The one content that a call replaces: bytes, or None if there is no file; none if the tool may not read it."""
    try:
        return [files.read(path, max_bytes=options.max_write_bytes)]
    except NoSuchFileError:
        return [None]
    except (
        WorkspaceError,
        AccessAsked,
    ):  # a diff for people is worth no question, and the write may be allowed
        return []


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
        WorkspaceError: the file is not text, or too large, or cannot be read.
    """
    try:
        with files.open(path) as file:
            data = file.read(options.max_write_bytes + 1)
            kind = "too large to compare" if len(data) > options.max_write_bytes else binary_kind(data)
            if kind is None:
                return whole_text(data)
            state = files.state(path, chain([data], iter(partial(file.read, _PIECE_BYTES), b"")))
            size = plural(file.tell(), "byte")
    except NoSuchFileError:
        return None
    # An approval is bound to these words, so they differ where the place or the content does.
    raise WorkspaceError(f"the old file {printable(files.real(path))} is {kind} ({size}, state {state})")
