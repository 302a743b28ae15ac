"""Writes a file in one step: readers see the old or the new content, never a part; a crash leaves no extra files."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TypeAlias

TEMPORARY_SUFFIX = ".zeus-tmp"


Identity: TypeAlias = tuple[int, int, int, int]
"""Device, inode, size and modification time in nanoseconds; equal values mean that the file is unchanged."""


def identity(status: os.stat_result) -> Identity:
    """Return the identity of a file from its status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def replace(
    directory: int,
    name: str,
    data: bytes,
    *,
    old: os.stat_result | None,
    publishing: AbstractContextManager[None],
    exclusive: bool = False,
) -> None:
    """Put ``data`` under ``name`` in the open ``directory``, durably.

    If the system supports it (Linux), the bytes are first written to an unnamed file, so that a crash leaves no file
    behind; the name is set at the very end. Mode (and, for root, the owner) are those of ``old``.

    Args:
        directory: file descriptor of the folder; nothing is looked up by path.
        old: status of the file that is replaced, None for a new one.
        publishing: entered when the data is safe on disk, left when it has its name; to leave the old file unchanged,
            it raises as it is entered.
        exclusive: whether only a new file may be made.

    Raises:
        FileExistsError: ``exclusive``, and there is one, perhaps since a moment ago.
        OSError: the system refused; the old file is untouched.
    """
    temporary = f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    descriptor = _unnamed(directory)
    named = descriptor is None
    if descriptor is None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=directory)
    try:
        _fill(descriptor, data, old)
        with publishing:
            # A link never replaces a name. Over a file, only a second name and a rename do it in one step.
            if exclusive and named:
                os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            elif exclusive:
                _link(descriptor, directory, name)
            elif named or old is not None or not _try_to_link(descriptor, directory, name):
                named = named or _try_to_link(descriptor, directory, temporary)
                os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                named = False
    finally:
        os.close(descriptor)
        if named:
            os.unlink(temporary, dir_fd=directory)
    # The rename itself is durable only when the folder is on disk.
    os.fsync(directory)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _unnamed(directory: int) -> int | None:
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.exists("/proc/self/fd"):  # noqa: PTH110
        return None
    try:
        return os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=directory)
    except OSError:
        # Not every file system has unnamed files; a named one does the same work.
        return None


def _try_to_link(descriptor: int, directory: int, name: str) -> bool:
    try:
        _link(descriptor, directory, name)
    except FileExistsError:
        return False
    return True


def _link(descriptor: int, directory: int, name: str) -> None:
    # Through /proc, because a link straight from the descriptor (AT_EMPTY_PATH) needs a capability.
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)


def _fill(descriptor: int, data: bytes, old: os.stat_result | None) -> None:
    write_all(descriptor, data)
    if old is not None:
        if os.geteuid() == 0:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, old.st_mode & 0o777)
    os.fsync(descriptor)
