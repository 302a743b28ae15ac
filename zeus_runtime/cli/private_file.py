"""A file that a command writes for its user alone: memories and conversations are nobody else's to read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zeus_runtime.errors import UsageError


def write_private(place: Path, text: str, name: str) -> None:
    """Write ``text`` to a file, whole or not at all, for nobody else to read; what a link names is written.

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
            _replace(place.resolve(), text)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise UsageError(f"{name} cannot be written: {error.strerror}") from None
    except RuntimeError:
        raise UsageError(f"{name} cannot be written: it is a link that leads to itself") from None


def _replace(place: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, place)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise
