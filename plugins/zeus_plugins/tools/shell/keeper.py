"""Runs one command without bubblewrap, and leaves none of its processes: ``python keeper.py WORDS...``.

It ends them when the command ends, when its standard input is closed, and so also when the process that started it is
killed. Processes that detach from the command become its children (Linux), so that it finds them.

It imports little, because each command waits for it: `subprocess` and `signal` alone would take longer than the rest.
"""

from __future__ import annotations

import os
import select
import sys

_BECOME_PARENT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25  # the same on all systems that are not Windows
_SECONDS = 0.05


def main(words: list[str]) -> int:
    """Return the command's exit code; 128 plus the number of the signal that killed it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_BECOME_PARENT, 1, 0, 0, 0)
    try:
        command = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsid=True,
            setsigdef=[_SIGPIPE, _SIGXFSZ],  # Python ignores them
        )
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127
    code = _code(command) if _has_ended(command) else None
    _kill_group(command)
    _end_all()
    return 128 + _SIGKILL if code is None else 128 - code if code < 0 else code


def _has_ended(command: int) -> bool:
    """Wait until the command ends, or until standard input is closed: then return False."""
    if not hasattr(os, "pidfd_open"):
        while 0 not in select.select([0], [], [], _SECONDS)[0]:
            if os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        return False
    ended = os.pidfd_open(command)
    return ended in select.select([0, ended], [], [])[0]


def _code(command: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, _SIGKILL)
    except ProcessLookupError:
        return


def _end_all() -> None:
    """Kill all children until there are none: the children of each become this process's own."""
    while True:
        for pid in _children():
            try:
                os.kill(pid, _SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    found = []
    for each in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - a quick start
        if each.isdecimal():
            try:
                with open(f"/proc/{each}/stat", "rb") as file:  # noqa: PTH123 - a quick start
                    # The name may contain anything, also spaces and brackets.
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        found.append(int(each))
            except OSError:
                continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
