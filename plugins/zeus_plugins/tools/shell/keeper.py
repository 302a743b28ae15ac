"""Runs one command without bubblewrap, and leaves none of its processes: ``python keeper.py WORDS...``.

It ends them when the command ends, when its standard input is closed, and so also when the process that started it is
killed. Processes that detach from the command become its children (Linux), so that it finds them.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

_BECOME_PARENT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def main(words: list[str]) -> int:
    """Return the command's exit code; 128 plus the number of the signal that killed it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_BECOME_PARENT, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    try:
        command = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127
    while command.poll() is None:
        if 0 in select.select([0, woken], [], [])[0]:
            break
        os.read(woken, 1024)
    code = command.poll()
    with suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)
    _end_all()
    return 128 + signal.SIGKILL if code is None else 128 - code if code < 0 else code


def _end_all() -> None:
    """Kill all children until there are none: the children of each become this process's own."""
    while True:
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    found = []
    for each in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - a quick start
        if each.isdecimal():
            with suppress(OSError), open(f"/proc/{each}/stat", "rb") as file:  # noqa: PTH123 - a quick start
                # The name may contain anything, also spaces and brackets.
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(each))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
