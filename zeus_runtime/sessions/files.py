"""The files of a session: originals that context policies archived, and copies of attachments.

They are deleted with the session, except for files that another session names too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.context.archive import HISTORY_ROUTE, RESULTS_ROUTE, Archive, argument_path
from zeus_runtime.errors import RunError
from zeus_runtime.tools import WorkspaceError
from zeus_runtime.tools.attachments import ROUTE as ATTACHED_ROUTE
from zeus_runtime.tools.attachments import forget

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)


def files_of(connection: Connection, thread: Thread, files: WorkspaceFiles) -> list[str]:
    """The paths of the files that only this session names, read inside a transaction.

    Only paths under the routes of such files count, because an edit may name one of the user's files instead.
    """
    from zeus_runtime.store.file_references import edits_with_handles, named_elsewhere, noted

    own = {Archive(files, thread.session).history_handle}
    named = {
        each for each in noted(connection, thread.key) if each.startswith((RESULTS_ROUTE, ATTACHED_ROUTE))
    }
    left = named - named_elsewhere(connection, thread.key, named)
    own |= {each for each in left if each.startswith(ATTACHED_ROUTE)}
    try:
        edits = edits_with_handles(connection, thread.key)
    except RunError as error:
        _log.warning("originals of %s stay: %s", thread.session, error.message)
        return sorted(own)
    return sorted(own.union(*(_paths(each) for each in edits if each["handle"] in left)))


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
