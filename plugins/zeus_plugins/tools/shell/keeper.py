"""Runs commands without bubblewrap, and leaves none of their processes: ``python keeper.py``, once for an agent.

It forks for each command, since a new Python would take longer than most commands. The fork is the command's keeper,
and has the descriptors of this command only. It ends the command's processes when the command ends and when Zeus closes
its end of the command's socket, so also when Zeus is killed. Processes that detach from the command become its children
(Linux), so that it finds them.

Standard input is a socket, by which Zeus sends three descriptors for each command: the command's own socket, the write
end of its output, and its working directory. Zeus writes the words into the command's socket, their length first, and
reads the exit code from it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable

LENGTH_BYTES = 8
_BECOME_PARENT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_SECONDS = 0.05


def main() -> None:
    """Start a keeper for each command until Zeus closes the socket, or is gone."""
    become_parent = _become_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes keepers that have ended
    with socket.socket(fileno=0) as requests:
        while True:
            # Each byte brings three descriptors, so to read one byte is to take one command.
            _, descriptors, _, _ = socket.recv_fds(requests, 1, 3)
            if len(descriptors) < 3:
                return
            control, output, folder = descriptors
            try:
                is_keeper = os.fork() == 0
            except OSError as error:  # the command's socket closes without a code
                _tell(output, f"the command cannot be started: {error.strerror}")
                is_keeper = False
            if is_keeper:
                _keep(control, output, folder, become_parent)
            # The parent's copies: while it held one, Zeus would see no end of the command's output or socket.
            for each in descriptors:
                os.close(each)


def _keep(control: int, output: int, folder: int, become_parent: Callable[[], object]) -> None:
    """Run one command and write its exit code; 128 plus the number of the signal that killed it. Never returns."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # no longer the socket of all commands
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.fchdir(folder)
        for each in (nothing, output, folder):
            os.close(each)
        # If the command held the socket too, Zeus could not see from it that the keeper is gone.
        os.set_inheritable(control, False)
        # While SIGCHLD is ignored, the kernel discards exit codes, and waitpid could not read the command's.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        become_parent()
        words = _words(control)
        if words is not None:
            os.write(control, b"%d" % _run(words, control))
    except BaseException:  # noqa: BLE001 - the fork must not become a second process of all commands
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _words(control: int) -> list[bytes] | None:
    """The command; None if Zeus is gone."""
    length = _read(control, LENGTH_BYTES)
    words = None if length is None else _read(control, int.from_bytes(length, "big"))
    return None if words is None else words.split(b"\0")


def _read(control: int, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        more = os.read(control, size - len(found))
        if not more:
            return None
        found += more
    return found


def _run(words: list[bytes], control: int) -> int:
    try:
        command = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
        )
    except OSError as error:
        _tell(2, f"{os.fsdecode(words[0])}: {error.strerror}")
        return 126 if isinstance(error, PermissionError) else 127
    has_ended = _has_ended(command, control)
    # Before its code is read: from then on, another process may get the command's number, and lead a group of its own.
    _kill_group(command)
    code = _code(command) if has_ended else None
    _end_all()
    return 128 + signal.SIGKILL if code is None else 128 - code if code < 0 else code


def _has_ended(command: int, control: int) -> bool:
    """Wait until the command ends, or until Zeus closes its end of the socket: then return False."""
    if not hasattr(os, "pidfd_open"):
        while control not in select.select([control], [], [], _SECONDS)[0]:
            if os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        return False
    ended = os.pidfd_open(command)
    # If both are ready, the command's own end counts, so its exit code is not lost.
    return ended in select.select([control, ended], [], [])[0]


def _code(command: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # on macOS the latter, if only the ended command is left
        return


def _end_all() -> None:
    """Kill all children until there are none: the children of each become this process's own."""
    while True:
        try:
            # Most commands leave none, and a search would take longer than they do.
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            # A killed child's children come to this process only afterwards: each round finds the next generation.
            for pid in _children():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
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


def _become_parent() -> Callable[[], object]:
    """How a keeper makes detached processes its own children; a fork does not inherit it."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_BECOME_PARENT, 1, 0, 0, 0)


def _tell(output: int, text: str) -> None:
    os.write(output, f"{text}\n".encode(errors="replace"))


if __name__ == "__main__":
    main()
