"""Write a file in one step: a command that is killed leaves the former file or the new one, never a part."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from zeus_runtime.cli.streams import complain
from zeus_runtime.disk_paths import real_path
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import printable
from zeus_runtime.tools import atomic
from zeus_runtime.tools.own_folders import own_path

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What is wrong with the disk, and not with the place that was named."""

_PRIVATE: Final = 0o600


def unnamed_place(place: Path, directory: Path) -> Path:
    """The place of a file whose name the user did not choose: a repository can bring a link there.

    Args:
        directory: the working directory.

    Raises:
        UsageError: it is a link that leads out of the working directory.
    """
    target = real_path(place)
    if place.is_symlink() and not Path(target).is_relative_to(real_path(directory)):
        raise UsageError(
            f"{place} is a link to {printable(target)}", remedy="Remove the link, or name that file itself."
        )
    return place


def write_whole(place: Path, text: str, name: str) -> None:
    """Write ``text`` to a file, which keeps its rights; newlines stay as they are.

    Links are followed, but not below the working directory, nor from ``.zeus`` on: a repository or an agent can make
    those.

    Args:
        name: of the file in an error.

    Raises:
        LinkedFolderError: ``.zeus`` or what follows it in the path is a link.
        UsageError: there is no such folder, nothing may be written there, or a link below the working directory leads
            there.
        OSError: the disk is full or failed; a file that was there is as it was.
    """
    _write(place, text, name, _replace)


def write_private(place: Path, text: str, name: str) -> None:
    """Write ``text``, such as memories and conversations, to a file that only its user may read; say so if the file had
    other rights.

    Args, Raises: as ``write_whole``.
    """
    _write(place, text, name, _replace_privately)


def _write(place: Path, text: str, name: str, replace: Callable[[Path, bytes], None]) -> None:
    data = text.encode()
    try:
        own_path(place.absolute())
        _refuse_links(place.absolute(), name)
        if place.exists() and not place.is_file():
            # A pipe or a device (/dev/stdout) is written to, never replaced.
            place.write_bytes(data)
        else:
            replace(_target(place), data)
    except OSError as error:
        if error.errno in _DISK:
            raise
        raise UsageError(f"{name} cannot be written: {error.strerror}") from None


def _refuse_links(place: Path, name: str) -> None:
    directory = real_path(Path.cwd())
    for each in (place, *place.parents):
        if each.is_symlink() and Path(real_path(each.parent)).is_relative_to(directory):
            raise UsageError(
                f"{name} cannot be written: {printable(str(each))} is a link to {printable(real_path(each))}",
                remedy="An agent or a repository can make such a link. To write to its target, name the target.",
            )


def _target(place: Path) -> Path:
    """The file that ``place`` or its links name; links in a circle are an OSError in every version of Python."""
    try:
        target = place.resolve()
    except RuntimeError:  # until Python 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    if target.is_symlink():  # from Python 3.13 on
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _replace(place: Path, data: bytes) -> None:
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            old = os.stat(place.name, dir_fd=folder)
        except FileNotFoundError:
            old = None
        if old is not None and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        atomic.replace(folder, place.name, data, old=old, publishing=nullcontext())
    finally:
        os.close(folder)


def _replace_privately(place: Path, data: bytes) -> None:
    # In the same folder, so that the replacement is one step of one file system; `mkstemp` makes it for the user alone.
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=".zeus-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        old = stat.S_IMODE(place.stat().st_mode) if place.exists() else _PRIVATE
        os.replace(temporary, place)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise
    if old != _PRIVATE:
        complain(f"only you may read and write {place} now: its mode was {old:o} and is {_PRIVATE:o}")
