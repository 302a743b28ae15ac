"""The archive: before an edit removes content from the view, the original is stored: append-only, complete, exact.

One file per session with dated sections (``/conversation_history/{session}.md``) holds messages that were dropped or
summarized. A tool result or a call's arguments have a file each (``/large_tool_results/…``). All paths lead through the
workspace's routes, so the model can read them with ``read_file``, and a deployment can choose where they are.

A section is Markdown with machine-readable lines. A comment before each message has its JSON without the text, and the
number of bytes of the text that follows, so that no text can be mistaken for structure. The JSON has long arguments of
calls on one line, so they are repeated below it for tools that read by lines.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.edits import DropBefore, Edit, Evict, Pin, Summarize, TruncateArguments, edit_kind
from zeus_runtime.context.retention import collect
from zeus_runtime.errors import RunError
from zeus_runtime.models.messages import from_payload, to_payload
from zeus_runtime.models.pictures import pictures_of
from zeus_runtime.tools import WorkspaceError
from zeus_runtime.tools.own_folders import LinkedFolderError, claim

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.tools import WorkspaceFiles

RESULTS_ROUTE: Final = "/large_tool_results/"
HISTORY_ROUTE: Final = "/conversation_history/"

_SECTION: Final = b"<!-- zeus:section "
_MESSAGE: Final = b"<!-- zeus:message "
_END: Final = b" -->\n"
# "call_1" and "a.b" are file names; ".hidden", "a/b" and names of more than 100 characters get a digest.
_SAFE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z")
_MAX_BYTES: Final = 1 << 31
_LONG_ARGUMENT_CHARS: Final = 1_000


class ArchiveError(RunError):
    """Originals could not be stored, so the edit was not made."""

    code = "archive"


@dataclass(frozen=True)
class Archived:
    """One message read back from an archive.

    Args:
        seq: its place in the history.
        message: as it is in the history.
    """

    seq: int
    message: BaseMessage


class Archive:
    """Stores one session's originals.

    Args:
        files: the workspace with its routes.
        session: the session's id, which names its file.
        now: the clock, for the dates of sections.
        max_age_days, max_megabytes: the limits of age and total size of archived files; None for no limit.
    """

    def __init__(
        self,
        files: WorkspaceFiles,
        session: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        max_age_days: float | None = None,
        max_megabytes: float | None = None,
    ) -> None:
        self._files = files
        self._session = session
        self._now = now
        self._max_age_days = max_age_days
        self._max_megabytes = max_megabytes
        self._written = False

    @property
    def history_handle(self) -> str:
        """The path of the session's file of dropped and summarized messages."""
        return f"{HISTORY_ROUTE}{_file_name(self._session)}.md"

    def result_handle(self, call_id: str) -> str:
        """The path of a call's archived result."""
        return f"{RESULTS_ROUTE}{_file_name(call_id)}"

    def arguments_handle(self, call_id: str) -> str:
        """The path of a call's archived arguments, as JSON."""
        return f"{RESULTS_ROUTE}{_file_name(call_id)}.arguments.json"

    def argument_handle(self, call_id: str, name: str) -> str:
        """The path of one argument's text, stored unchanged so that it can be read by lines."""
        return argument_path(self.arguments_handle(call_id), name)

    def message_handle(self, seq: int) -> str:
        """The path of the text of a message other than a tool result."""
        return f"{RESULTS_ROUTE}{_file_name(self._session)}.{seq}"

    def save(
        self, edits: Sequence[Edit], originals: Callable[[Edit], Mapping[int, BaseMessage]]
    ) -> list[Edit]:
        """Store the originals that ``edits`` remove from the view. Blocks on the disk.

        Args:
            originals: returns the messages that an edit removes or replaces, by ``seq``, as they are in the history.

        Returns:
            the edits, with their handles filled in, or changed where another text already has that path.

        Raises:
            ArchiveError: the workspace refused; no edit may be made.
        """
        # A full disk fails here, before the edit is in the log. So a view never hides what cannot be read again.
        try:
            if any(not isinstance(edit, Pin) for edit in edits):
                self._claim()
            return [self._saved(edit, originals(edit)) for edit in edits]
        except (WorkspaceError, LinkedFolderError, OSError) as error:
            raise ArchiveError(
                f"the originals could not be archived: {error}",
                remedy="Make the folders of /large_tool_results/ and /conversation_history/ writable"
                " (workspace.routes says where they are).",
            ) from error

    @property
    def written(self) -> bool:
        """Whether anything was archived here."""
        return self._written

    def collect(self) -> int:
        """Remove archived files beyond the limits. Blocks on the disk.

        Returns:
            the number of removed files.
        """
        return collect(
            self._folders,
            self._now().timestamp(),
            max_age_days=self._max_age_days,
            max_megabytes=self._max_megabytes,
        )

    @property
    def _folders(self) -> Sequence[Path]:
        routes = self._files.routes
        return [routes[route] for route in (RESULTS_ROUTE, HISTORY_ROUTE) if route in routes]

    def _claim(self) -> None:
        if not self._written:
            for folder in self._folders:
                # Marks a missing or empty folder as made by Zeus: `collect` removes files only in such folders.
                claim(folder)
            self._written = True

    def _saved(self, edit: Edit, originals: Mapping[int, BaseMessage]) -> Edit:
        if isinstance(edit, Pin):
            return edit
        if isinstance(edit, DropBefore | Summarize):
            if originals:
                # Before the edit is logged: a process killed in between appends the messages once more, and loses
                # none.
                self._files.append(self.history_handle, section(edit, originals, self._session, self._now()))
            return edit if edit.handle else replace(edit, handle=self.history_handle)
        message = originals[edit.seq]
        if isinstance(edit, TruncateArguments):
            call = next(each for each in message.tool_calls if each["id"] == edit.call_id)  # type: ignore[attr-defined]
            data = json.dumps(call["args"], ensure_ascii=False).encode()
            placed = self._placed(edit, edit.handle or self.arguments_handle(edit.call_id), data)
            # JSON puts a whole text on one line, and tools that read by lines do not show long lines completely.
            for name in edit.arguments:
                self._store(argument_path(placed.handle, name), str(call["args"][name]).encode())
            return placed
        text = message.content if isinstance(message.content, str) else _json(message.content)
        text = "\n".join([text, *(picture.label for picture in pictures_of(message))])
        return self._placed(edit, edit.handle, text.encode())

    def _placed(self, edit: Evict | TruncateArguments, handle: str, data: bytes) -> Edit:
        """Store ``data`` at ``handle``, or beside it if another text is there: nothing is overwritten."""
        wanted, path = handle, handle
        if not self._stored(path, data):
            # A digest, because a count would read all earlier texts of a call id that a model repeats.
            path = f"{wanted}.{hashlib.sha256(data).hexdigest()[:16]}"
            self._store(path, data)
        if path == edit.handle:
            return edit
        if isinstance(edit, Evict):
            return replace(edit, handle=path, content=edit.content.replace(wanted, path))
        moved = {name: text.replace(wanted, path) for name, text in edit.arguments.items()}
        return replace(edit, handle=path, arguments=moved)

    def _store(self, path: str, data: bytes) -> None:
        if not self._stored(path, data):
            raise ArchiveError(
                f"an original could not be archived: {path} holds another text",
                remedy="Move that file away: it was changed since it was archived.",
            )

    def _stored(self, path: str, data: bytes) -> bool:
        """Store ``data`` at ``path``; whether that is its content now. Another text there stays."""
        held = self._held(path)
        if held is None:
            self._refuse_outside(path)
            if self._files.create(path, data):
                return True
            # All sessions and users have one folder, and a model may number its calls: another run was first.
            held = self._held(path)
        # Equal if the same edit comes once more, after a kill or with another session's equal text.
        return held == data

    def _refuse_outside(self, path: str) -> None:
        """Allow the archive's routes only: an edit may point to a user's file, but must never create one."""
        if not path.startswith((RESULTS_ROUTE, HISTORY_ROUTE)) or self._files.normalize(path) != path:
            raise ArchiveError(
                f"a context policy would write an original to {path}, which is among the user's files",
                remedy="Give the edit a handle of the archive, such as context.archive.result_handle makes.",
            )

    def _held(self, path: str) -> bytes | None:
        try:
            return self._files.read(path, max_bytes=_MAX_BYTES)
        except WorkspaceError:
            return None


def argument_path(handle: str, name: str) -> str:
    """The path of the text of the argument ``name``, next to all arguments of its call at ``handle``."""
    return f"{handle}.{_file_name(name)}"


def section(
    edit: DropBefore | Summarize, originals: Mapping[int, BaseMessage], session: str, at: datetime
) -> bytes:
    """A dated section with every message of ``originals``, complete."""
    first, last = min(originals), max(originals)
    head = {
        "session": session,
        "at": at.isoformat(timespec="seconds"),
        "edit": edit_kind(edit),
        "policy": edit.policy,
        "messages": len(originals),
    }
    parts = [
        _SECTION + _json(head).encode() + _END,
        f"## {at:%Y-%m-%d %H:%M:%S} UTC · messages {first} to {last} left the window ({edit.policy})\n\n"
        f"{edit.reason}\n\n".encode(),
    ]
    parts.extend(_written(seq, originals[seq]) for seq in sorted(originals))
    return b"".join(parts)


def _written(seq: int, message: BaseMessage) -> bytes:
    payload = to_payload(message)
    text = b""
    if isinstance(payload["content"], str):
        text = payload.pop("content").encode()
    more = _long_arguments(message)
    # The length comes before the text, so a reader skips it and no text can look like the next entry.
    head = {"seq": seq, "bytes": len(text), **({"more": len(more)} if more else {}), "payload": payload}
    # `--` would end the comment.
    entry = _json(head).replace("--", "-\\u002d")
    name = f" {message.name}" if message.name else ""
    return (
        _MESSAGE
        + entry.encode()
        + _END
        + f"### {seq} · {payload['role']}{name}\n\n".encode()
        + text
        + more
        + b"\n\n"
    )


def _long_arguments(message: BaseMessage) -> bytes:
    """The long texts among a message's calls, unchanged; tools that read by lines could not show them completely."""
    parts = [
        f"\n\n#### {call['name']} · {name}\n\n{value}"
        for call in getattr(message, "tool_calls", ())
        for name, value in call["args"].items()
        if isinstance(value, str) and len(value) > _LONG_ARGUMENT_CHARS
    ]
    return "".join(parts).encode()


def read_archive(data: bytes) -> tuple[list[Archived], list[str]]:
    """Every readable message of an archive file, and the problems (byte offset and reason) of the others."""
    found: list[Archived] = []
    problems: list[str] = []
    for at, entry in _entries(data, problems):
        try:
            seq, size, payload = entry["seq"], entry["bytes"], dict(entry["payload"])
            start = data.index(b"\n\n", data.index(_END, at) + len(_END)) + 2
            if "content" not in payload:
                if start + size > len(data):
                    raise ValueError("it is cut off")
                payload["content"] = data[start : start + size].decode()
            found.append(Archived(int(seq), from_payload(payload)))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"byte {at}: {error}")
    return found, problems


def _entries(data: bytes, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    at = data.find(_MESSAGE)
    while at >= 0:
        end = data.find(_END, at)
        after = at + len(_MESSAGE)
        try:
            if end < 0:
                raise ValueError("it is cut off")
            entry = json.loads(data[after:end])
            yield at, entry
            # Behind the text: a message that quotes an archive must not be read as entries of this one.
            after = data.index(b"\n\n", end) + 2 + int(entry["bytes"]) + int(entry.get("more", 0))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"byte {at}: {error}")
        # After a damaged entry the search continues right behind its mark, so the following ones are found.
        at = data.find(_MESSAGE, after)


def _file_name(text: str) -> str:
    """``text`` as a file name: unchanged if it can be one, else its readable part and a digest."""
    if _SAFE.match(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:60].strip("_")
    return f"{readable}_{digest}" if readable else digest


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
