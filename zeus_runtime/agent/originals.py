"""The files in which context policies kept a session's originals: they go when the session is deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.context.archive import HISTORY_ROUTE, RESULTS_ROUTE, Archive, argument_path
from zeus_runtime.errors import RunError
from zeus_runtime.tools import WorkspaceError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.thread_log import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)


def files_of(connection: Connection, thread: Thread, files: WorkspaceFiles) -> list[str]:
    """The paths that hold originals of this session and of no other one, inside a transaction.

    Only what lies where archived originals go: an edit may name a file of the user's instead.
    """
    from zeus_runtime.store.handles import edits_with_handles, named_elsewhere

    own = {Archive(files, thread.session).history_handle}
    try:
        edits = edits_with_handles(connection, thread.key)
        named = {each["handle"] for each in edits if each["handle"].startswith(RESULTS_ROUTE)}
        shared = named_elsewhere(connection, thread.key, named)
    except RunError as error:
        _log.warning("archived originals of %s stay: %s", thread.session, error.message)
        return sorted(own)
    left = [each for each in edits if each["handle"] in named - shared]
    return sorted(own.union(*map(_paths, left)))


def _paths(edit: Mapping[str, Any]) -> set[str]:
    handle = edit["handle"]
    return {handle, *(argument_path(handle, name) for name in edit.get("arguments") or ())}


def remove_files(files: WorkspaceFiles, paths: Iterable[str]) -> None:
    """Remove them; one that is not there is no error, one that cannot go is said in the log. Blocks on the disk."""
    for path in paths:
        assert path.startswith((RESULTS_ROUTE, HISTORY_ROUTE)), "files_of gives no others"
        try:
            files.remove(path)
        except (OSError, WorkspaceError) as error:
            _log.warning("the archived originals in %s stay: %s", path, error)
