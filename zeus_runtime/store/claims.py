"""A claim on a session: while one process runs it, no other may; the claim ends with the process, however it ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system without locks answers (some network file systems): there, only the log's own order protects."""


def claim(file: Path) -> Callable[[], None] | None:
    """Claim what the lock file ``file`` stands for.

    The operating system's lock on an open file is what counts, not that the file is there: one that a killed process
    left behind claims nothing.

    Returns:
        a function that gives the claim back, or None if somebody else has it.

    Raises:
        OSError: the file cannot be made.
    """
    try:
        import fcntl
    except ImportError:  # Windows: the thread log refuses the second of two writers
        return _nothing
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have removed the file between our opening and our lock.
            current = file.stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            current = False
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in _NO_LOCKS:
                return _nothing
            raise
        if current:
            break
        os.close(descriptor)

    def give_back() -> None:
        with suppress(OSError):
            file.unlink()
        os.close(descriptor)

    return give_back


def _nothing() -> None: ...
