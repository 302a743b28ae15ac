"""Write a file that only its user may read, such as memories and conversations."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

from zeus_runtime.errors import UsageError

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What is wrong with the disk, and not with the place that was named."""


def write_private(place: Path, text: str, name: str) -> None:
    """Write ``text`` to a file atomically, readable only by its user; links are followed.

    Args:
        name: of the file in an error.

    Raises:
        UsageError: there is no such folder, or nothing may be written there.
        OSError: the disk is full or failed; a file that was there is as it was.
    """
    try:
        if place.exists() and not place.is_file():
            # A pipe or a device (/dev/stdout) is written to, never replaced.
            place.write_text(text, encoding="utf-8", newline="\n")
        else:
            _replace(_target(place), text)
    except OSError as error:
        if error.errno in _DISK:
            raise
        raise UsageError(f"{name} cannot be written: {error.strerror}") from None


def _target(place: Path) -> Path:
    """The file that ``place`` or its links name; links in a circle are an OSError in every version of Python."""
    try:
        target = place.resolve()
    except RuntimeError:  # until Python 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    if target.is_symlink():  # from Python 3.13 on
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _replace(place: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=".zeus-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, place)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise
