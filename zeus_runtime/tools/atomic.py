"""Writes a file in one step: readers see the old or the new content, never a part; a crash leaves no extra files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
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
) -> None:
    """Put ``data`` under ``name`` in the open ``directory``, durably, also if something else got this name meanwhile.

    Mode (and, for root, the owner) are those of ``old``.

    Args:
        directory: file descriptor of the folder; nothing is looked up by path.
        old: status of the file that is replaced, None for a new one.
        publishing: entered when the data is safe on disk, left when it has its name; to leave the old file unchanged,
            it raises as it is entered.

    Raises:
        OSError: the system refused; the old file is untouched.
    """
    with _written(directory, data, old) as file, publishing:
        file.replace(name, is_new=old is None)


def create(directory: int, name: str, data: bytes, *, publishing: AbstractContextManager[None]) -> None:
    """The same for a new file.

    Raises:
        FileExistsError: something has this name, perhaps since a moment ago; it is untouched.
        OSError: the system refused.
    """
    with _written(directory, data, None) as file, publishing:
        file.link(name)


class _File:
    """A file without a name, so that a crash leaves nothing behind; where that is impossible, with a temporary one."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._temporary = f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
        found = _unnamed(directory)
        self._is_named = found is None
        if found is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            found = os.open(self._temporary, flags, 0o666, dir_fd=directory)
        self.descriptor = found

    def link(self, name: str) -> None:
        """Give it a name that nothing has."""
        if self._is_named:
            os.link(self._temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        else:
            _link(self.descriptor, self._directory, name)

    def replace(self, name: str, *, is_new: bool) -> None:
        """Give it a name, in one step also if something has it.

        Args:
            is_new: nothing had it a moment ago.
        """
        # A link never replaces a name. Over a file, only a second name and a rename do it in one step.
        if not self._is_named:
            if is_new:
                with suppress(FileExistsError):
                    self.link(name)
                    return
            self.link(self._temporary)
            self._is_named = True
        os.rename(self._temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._is_named = False

    def close(self) -> None:
        os.close(self.descriptor)
        if self._is_named:
            os.unlink(self._temporary, dir_fd=self._directory)


@contextmanager
def _written(directory: int, data: bytes, old: os.stat_result | None) -> Iterator[_File]:
    """A file with this content that is safe on disk; it gets its name within."""
    with closing(_File(directory)) as file:
        _fill(file.descriptor, data, old)
        yield file
    # The name itself is durable only when the folder is on disk.
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
