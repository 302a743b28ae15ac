"""A claim on a session: while one process runs it, no other may; the claim ends with the process, however it ends.

A claim can be lost while its holder lives on, so each one raises the session's epoch (``thread.epoch``), and what is
written for a session is written in the epoch of its claim or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from zeus_runtime.errors import RunError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system without locks answers (some network file systems): there, only the log's own order protects."""

EPOCH: Final = "__zeus_epoch"
"""Under which key of a graph's ``configurable`` a checkpointer finds the epoch of the session's claim."""

_ONE_AT_A_TIME: Final = "One process at a time may run a session; continue it where the other one left it."


class LogConflictError(RunError):
    """Another process wrote to the same place of the same thread, or has taken its session since."""

    code = "session_conflict"

    def __init__(self, message: str, *, remedy: str = _ONE_AT_A_TIME) -> None:
        super().__init__(message, remedy=remedy)


def claim_lost(what: str, session: str) -> LogConflictError:
    """What is said where a claim was lost."""
    return LogConflictError(f"{what} of {session} was not written: another process has taken the session")


def epoch_of(configurable: Mapping[str, Any]) -> int | None:
    """The epoch in which a checkpoint may be written; None where nothing is claimed."""
    epoch: int | None = configurable.get(EPOCH)
    return epoch


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
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
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
