"""The files of a session: originals that context policies archived, and copies of attachments.

Its tools may read them, but not another session's. They are deleted with the session, except for files that another
session names too.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.archive import HISTORY_ROUTE, RESULTS_ROUTE, Archive, argument_path
from zeus_runtime.errors import RunError
from zeus_runtime.models.content import is_users_payload
from zeus_runtime.tools import WorkspaceError
from zeus_runtime.tools.attachments import ROUTE as ATTACHED_ROUTE
from zeus_runtime.tools.attachments import forget
from zeus_runtime.tools.own_folders import ARCHIVES, OWN_SANDBOXES, SANDBOXES
from zeus_runtime.tools.sandbox_folders import session_folder

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)

_KEPT: Final = (*ARCHIVES, SANDBOXES)
# In "see /attached_files/ab12.txt." it takes the point too, which `note_message` also leaves out. A quote, a bracket or
# a space ends the name.
_NAMED: Final = re.compile(rf"(?:{'|'.join(_KEPT)})/[^\s\"'`<>()\[\]{{}},;:*?|\\]+")


class SessionFiles:
    """The files of the archive that a session's tools may read: its own, and those that it was given by name.

    A name in the text of a tool's result gives no access: the model decides what a tool repeats, and an error repeats
    the path that it asked for. Only files count that the tool itself saved (``ToolResult.files``).

    Args:
        above: whether the parent session may read a path. A session can be given no more than that.
        session: its id, by which the folder of its sandbox is named.

    Attributes:
        asked_for: files that the user named, until ``give`` says which of them the user may give. A service's user may
            know or guess the path of another user's file.
    """

    def __init__(self, above: Callable[[str], bool] | None = None, session: str = "") -> None:
        self.asked_for: set[str] = set()
        self._above = above
        self._own: set[str] = set()
        sandbox = str(session_folder(Path("/", OWN_SANDBOXES), session))
        self._in_sandbox = f"{sandbox}/"
        _add(self._own, [sandbox])
        self._given: set[str] = set()

    def __call__(self, path: str) -> bool:
        """Whether the path is one of them, or a folder that contains one."""
        # A set of paths and folders: asked for each file that a tool opens, and never a search of the history.
        if path in self._own or path.startswith(self._in_sandbox):
            return True
        return path in self._given and (self._above is None or self._above(path))

    def note_edit(self, payload: str) -> None:
        """Add the files of an edit of the session, given as JSON, even if a rollback set it aside."""
        try:
            edit = json.loads(payload)
            _add(self._own, _paths(edit) if edit.get("handle") else ())
        except (ValueError, AttributeError, TypeError):
            return  # the transcript reports it in `problems`

    def note_message(self, payload: str, *, is_given: bool) -> None:
        """Add the files of a message of the session, given as JSON.

        Args:
            is_given: whether the message is inherited from another session.
        """
        from zeus_runtime.store.file_references import files_named

        _add(self._given if is_given else self._own, files_named(payload))
        if not any(name in payload for name in _KEPT):
            return
        # A message of the runtime may quote the model, which must not give itself a right to files by naming them.
        if is_given or is_users_payload(json.loads(payload)):
            found = _NAMED.findall(payload)
            self.asked_for.update(f"/{name}" for each in found for name in (each, each.rstrip(".")))
            if self._above is not None:
                self.give(self.asked_for)

    def give(self, paths: Iterable[str]) -> None:
        """Let the session read those of the files that the user named; the others are forgotten."""
        _add(self._given, paths)
        self.asked_for = set()


def _add(known: set[str], paths: Iterable[str]) -> None:
    for path in paths:
        known.add(path)
        # The folders too, so that a listing shows the way to a file.
        known.update(map(str, PurePosixPath(path).parents))


def files_of(connection: Connection, thread: Thread, files: WorkspaceFiles) -> list[str]:
    """The paths of the files that only this session names, read inside a transaction.

    Only paths under the routes of such files count, because an edit may name one of the user's files instead.
    """
    from zeus_runtime.store.file_references import edits_with_handles, named_elsewhere, noted

    # Of this session by its name, so no other session can name it as its own.
    own = {Archive(files, thread.session).history_handle}
    named = {
        each for each in noted(connection, thread.key) if each.startswith((RESULTS_ROUTE, ATTACHED_ROUTE))
    }
    left = named - named_elsewhere(connection, thread.key, named)
    try:
        # For the arguments of calls, which have files beside the handle's own.
        edits = edits_with_handles(connection, thread.key)
    except RunError as error:
        _log.warning("originals of %s stay: %s", thread.session, error.message)
        return sorted(own | {each for each in left if each.startswith(ATTACHED_ROUTE)})
    return sorted(own.union(left, *(_paths(each) for each in edits if each["handle"] in left)))


def _paths(edit: Mapping[str, Any]) -> set[str]:
    handle = edit["handle"]
    return {handle, *(argument_path(handle, name) for name in edit.get("arguments") or ())}


def remove_files(files: WorkspaceFiles, paths: Iterable[str]) -> None:
    """Remove files; a missing file is not an error, and a failure is logged. Blocks on the disk."""
    for path in paths:
        assert path.startswith((RESULTS_ROUTE, HISTORY_ROUTE, ATTACHED_ROUTE)), "files_of gives no others"
        try:
            if path.startswith(ATTACHED_ROUTE):
                forget(path, files)
            else:
                files.runtime.remove(path)
        except (OSError, WorkspaceError) as error:
            _log.warning("the file %s of a session stays: %s", path, error)
