"""Creates a control group for a sandbox, if this process may; the kernel then counts all memory, including sockets.

This works only with cgroup v2; of cgroup v1 only the controller ``pids`` is used, and only where nothing else limits
processes. The group is below a group that was delegated to this user (a systemd user slice, root on the host)
and has the controllers ``memory`` and ``pids`` enabled. It moves no other processes and enables no controllers. Source:
Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.plugin.sandbox import SandboxLimits

NO_GROUP: Final = (
    "no control group is delegated to this user, so memory and socket buffers are not limited by the kernel:"
    " Zeus checks them every 50 ms and counts each local socket as full"
)
UNLIMITED: Final = (
    "nothing limits the number of processes: the kernel counts none of root's, and no control group with the controller"
    " pids can be made"
)
UNLIMITED_REMEDY: Final = (
    "Run Zeus as an ordinary user (in a container: docker run --user 1000), or a container whose root is an ordinary"
    " user of the host (rootless Docker or Podman, userns-remap), or on a host in its own control group"
    " (systemd-run --scope zeus ...); or remove `workspace` of the sandbox."
)
_CONTROLLERS: Final = {"memory", "pids"}
_OWN_BYTES: Final = 16 * 2**20
"""Memory for bubblewrap and for the kernel's tables of the sandbox."""
_OWN_PROCESSES: Final = 4
"""Processes besides the program's: bubblewrap and the waiting shell."""
_TRIES: Final = 100
_NUMBERS: Final = itertools.count()


def delegated_group(proc: Path = Path("/proc/self")) -> Path | None:
    """Return the nearest group around this process in which it may create limited groups; None if there is none.

    Args:
        proc: this process's folder in ``/proc``.
    """
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), None)
    mount = next((line.split()[4] for line in mounts if " - cgroup2 " in line), None)
    if own is None or mount is None or ".." in own.split("/"):
        return None
    top, group = Path(mount), Path(mount, own)
    while True:
        if _can_hold(group):
            return group
        if group == top:
            return None
        group = group.parent


def older_group(proc: Path = Path("/proc/self")) -> Path | None:
    """Return the group of cgroup v1 that counts this process, if it may create limited groups there; else None.

    Args:
        proc: this process's folder in ``/proc``.
    """
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    except OSError:
        return None
    own = next((path for _, names, path in groups if "pids" in names.split(",")), None)
    for words in mounts:
        kind = words[words.index("-") + 1 :]
        if own is None or kind[0] != "cgroup" or "pids" not in kind[2].split(","):
            continue
        # A container's mount begins at its own group.
        inner = os.path.relpath(own, words[3])
        group = Path(words[4]) if inner == "." or inner.startswith("..") else Path(words[4], inner)
        if os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK):
            return group
    return None


def _can_hold(group: Path) -> bool:
    """Whether this process may create a limited group here and move processes into it."""
    try:
        passed_on = set((group / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    return (
        passed_on >= _CONTROLLERS and os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
    )


class Group:
    """The control group of one sandbox.

    Args:
        parent: the result of ``delegated_group``.
        limits: the limits of the sandbox.

    Raises:
        OSError: the kernel refused it.
    """

    def __init__(self, parent: Path, limits: SandboxLimits) -> None:
        _remove_left(parent)
        self.folder = parent / f"zeus-sandbox-{os.getpid()}-{next(_NUMBERS)}"
        self.folder.mkdir()
        try:
            self._write("pids.max", limits.processes + _OWN_PROCESSES)
            self._limit_memory(limits)
        except OSError:
            self.close()
            raise

    def _limit_memory(self, limits: SandboxLimits) -> None:
        # Files in the sandbox's file systems in memory count as its memory: two of them, plus a quarter.
        memory = limits.memory_bytes + limits.disk_bytes * 9 // 4 + _OWN_BYTES
        self._write("memory.max", memory)
        self._write("memory.oom.group", 1)
        with suppress(FileNotFoundError):  # a kernel without swap
            self._write("memory.swap.max", 0)

    def add(self, pids: Iterable[int]) -> None:
        """Move processes into the group; processes that they start from now on belong to it too."""
        for pid in pids:
            self._write("cgroup.procs", pid)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed processes of the group because of its memory."""
        with suppress(OSError, ValueError):
            events = dict(line.split() for line in (self.folder / "memory.events").read_text().splitlines())
            return int(events.get("oom_kill", 0)) > 0
        return False

    def close(self) -> None:
        """Kill the processes in the group, and remove it."""
        with suppress(OSError):  # a kernel before 5.14; the processes died with the sandbox's first process
            self._write("cgroup.kill", 1)
        # After the kill, the kernel refuses the removal (EBUSY) until the last process is really gone.
        for _ in range(_TRIES):
            try:
                self.folder.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    return
                time.sleep(0.01)
            else:
                return

    def _write(self, name: str, value: int) -> None:
        # Opened without creating it: if the kernel lacks the file, that is an error.
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, str(value).encode())
        finally:
            os.close(descriptor)


def _remove_left(parent: Path) -> None:
    """Remove empty groups of processes that were killed before they could."""
    for folder in parent.glob("zeus-sandbox-*-*"):
        owner = folder.name.split("-")[2]
        if owner != str(os.getpid()) and not Path("/proc", owner).exists():
            with suppress(OSError):  # it has processes that die just now, or another process has removed it
                folder.rmdir()


class PidsGroup(Group):
    """The same below ``older_group``: it limits the number of processes only."""

    def _limit_memory(self, limits: SandboxLimits) -> None:
        """Checks from outside limit the memory."""
