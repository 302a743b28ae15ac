"""The files that belong to a session: originals that context policies kept, and what its messages brought along.

They go when the session is deleted, but for those that another session names too.
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
    """The paths of files that are this session's and no other one's, inside a transaction.

    Only what lies where such files go: an edit may name a file of the user's instead.
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
    """Remove them; one that is not there is no error, one that cannot go is said in the log. Blocks on the disk."""
    for path in paths:
        assert path.startswith((RESULTS_ROUTE, HISTORY_ROUTE, ATTACHED_ROUTE)), "files_of gives no others"
        try:
            if path.startswith(ATTACHED_ROUTE):
                forget(path, files)
            else:
                files.runtime.remove(path)
        except (OSError, WorkspaceError) as error:
            _log.warning("the file %s of a session stays: %s", path, error)
