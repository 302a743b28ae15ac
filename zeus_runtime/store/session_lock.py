"""A claim on a session: only one process at a time can run it; the claim ends with the process, however that ends.

A claim can be lost while its holder continues. So each claim raises the session's epoch (``thread.epoch``), and writes
for a session happen in the epoch of its claim or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from zeus_runtime.errors import RunError

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""The errors of a file system without locks (some network file systems); there, only the log's order protects."""

EPOCH: Final = "__zeus_epoch"
"""Key in a graph's ``configurable`` under which a checkpointer finds the epoch of the session's claim."""

_ONE_AT_A_TIME: Final = "One process at a time may run a session; continue it where the other one left it."


class LogConflictError(RunError):
    """Another process wrote to the same place of the same session, or has claimed the session since."""

    code = "session_conflict"

    def __init__(self, message: str, *, remedy: str = _ONE_AT_A_TIME) -> None:
        super().__init__(message, remedy=remedy)


def claim_lost(what: str, session: str) -> LogConflictError:
    """The error for a write after a claim was lost."""
    return LogConflictError(f"{what} of {session} was not written: another process has taken the session")


def epoch_of(configurable: Mapping[str, Any]) -> int | None:
    """The epoch in which a checkpoint may be written; None without a claim."""
    epoch: int | None = configurable.get(EPOCH)
    return epoch


def claim(file: Path) -> Callable[[], None] | None:
    """Claim the session of the lock file ``file``.

    The operating system's lock on the open file decides, not the existence of the file: a file that a killed process
    left does not claim anything.

    Returns:
        a function that releases the claim, or None if the session is claimed elsewhere.

    Raises:
        OSError: the file cannot be made.
    """
    try:
        import fcntl
    except ImportError:  # Windows: the log refuses the second of two writers
        return _nothing
    while True:
        # A link in the file's place must not make this create or lock a file elsewhere.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            # flock and not lockf: its lock belongs to the open file and not to the process, so two agents of one
            # process exclude each other too, and closing another descriptor of the file does not end it.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its former holder may have removed the file between opening and locking it here.
            current = file.stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            # Removed after it was opened; the next round makes it anew.
            current = False
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in NO_LOCKS:
                return _nothing
            raise
        # A lock on a removed file keeps no process out: the next one would make another file and lock that.
        if current:
            break
        os.close(descriptor)

    def give_back() -> None:
        # Removed while it is still locked: a process that has opened it meanwhile sees that it is another file.
        with suppress(OSError):
            file.unlink()
        os.close(descriptor)

    return give_back


def _nothing() -> None: ...
