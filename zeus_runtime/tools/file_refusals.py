"""Why a file of the workspace cannot be read or written, in words."""

from __future__ import annotations

import errno
import os
import stat

from zeus_runtime.escaping import printable
from zeus_runtime.tools.paths import IsFolderError, WorkspaceError, join
from zeus_runtime.tools.safe_open import OpenFolder

_SPECIAL = {
    stat.S_IFIFO: "a FIFO, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
    stat.S_IFLNK: "a link that was made just now; nothing was read or written",
}

_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.ELOOP: "a part of the path became a link while it was being opened",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
}


def refused(error: OSError, parts: tuple[str, ...]) -> WorkspaceError:
    """What the system refused, in words."""
    reason = _REASONS.get(error.errno or 0, error.strerror or "the system refused")
    return WorkspaceError(f"{printable(join(parts))}: {reason}.")


def require_file(status: os.stat_result, parts: tuple[str, ...]) -> None:
    """See to it that what is there is a regular file.

    Raises:
        WorkspaceError: it is something else.
    """
    if stat.S_ISREG(status.st_mode):
        return
    path = printable(join(parts))
    if stat.S_ISDIR(status.st_mode):
        raise IsFolderError(f"{path} is a folder.", remedy="Use ls for folders.")
    raise WorkspaceError(f"{path} is {_SPECIAL.get(stat.S_IFMT(status.st_mode), 'not a regular file')}.")


def replaceable(place: OpenFolder, parts: tuple[str, ...]) -> os.stat_result | None:
    """The file at ``place``, which may be written anew; None where nothing is.

    Raises:
        WorkspaceError: it is read-only, or no regular file.
    """
    status = place.status()
    if status is None:
        return None
    require_file(status, parts)
    if not status.st_mode & 0o222:
        raise WorkspaceError(
            f"{printable(join(parts))} is read-only.", remedy="Leave it, or ask the user to make it writable."
        )
    return status
