"""The workspace as bubblewrap mounts it: the arguments, and whether a process has the files that were judged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import ProgramMount

MOST_STARTS: Final = 5
"""A person's editor may replace a file while a program starts; then the rights are looked up again."""
REPLACED: Final = "files of the workspace were replaced while it started"

MOST_WORDS: Final = 9_000
"""Bubblewrap takes no more arguments, those in a file included."""
_OTHER_WORDS: Final = 100
"""Of these, what starts the program and is not in the file."""
FOLDERS_INSTEAD: Final = "Tell the user: rules of workspace.access for folders instead of files."


def too_many(mounts: Sequence[ProgramMount], words: Sequence[str]) -> str | None:
    """Return why bubblewrap cannot make the mounts; None if it can.

    Args:
        words: all its arguments that are passed in a file.
    """
    if len(words) <= MOST_WORDS - _OTHER_WORDS:
        return None
    return (
        f"{len(mounts):,} files and folders have other rights than the folders around them, more than bubblewrap can"
        " mount, so no command can be run."
    )


def mounting(mounts: Sequence[ProgramMount]) -> Iterator[str]:
    """Yield bubblewrap's arguments that mount the workspace at its real path; a later mount covers an earlier one.

    Args:
        mounts: its folders and files, a folder before what is in it.
    """
    emptied = []
    for host, right, is_folder, _ in mounts:
        if right == "none" and is_folder:
            yield from ("--perms", "0755", "--tmpfs", host)
            emptied.append(host)
        elif right == "none":
            # Opening it fails: the mount has no devices.
            yield from ("--ro-bind", "/dev/null", host)
        else:
            yield from ("--bind" if right == "write" else "--ro-bind", host, host)
    for host in emptied:  # last, because mounts in it need a place
        yield from ("--remount-ro", host)


def read_only_proc() -> Iterator[str]:
    """Yield bubblewrap's arguments that close the kernel's files to programs of root, as they are to other users.

    Root owns them in a user namespace too: it could write some, and read others, without any capability.
    """
    yield from ("--proc", "/proc")
    for place, is_folder in _closed_to_others("/proc", depth=2) if os.geteuid() == 0 else ():
        if is_folder:
            yield from ("--perms", "0555", "--size", "4096", "--tmpfs", place, "--remount-ro", place)
        else:
            yield from ("--ro-bind", "/dev/null", place)
    yield from ("--remount-ro", "/proc")


def _closed_to_others(folder: str, depth: int) -> Iterator[tuple[str, bool]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for each in entries:
            # Those of a process are its user's. Below sys, all are read-only settings.
            if each.name[0].isdecimal() or each.name == "sys" or each.is_symlink():
                continue
            is_folder = each.is_dir()
            if not each.stat().st_mode & stat.S_IROTH:
                yield each.path, is_folder
            elif is_folder and depth > 1:
                yield from _closed_to_others(each.path, depth - 1)


def sees_judged(mounts: Sequence[ProgramMount], process: int) -> bool:
    """Whether a process has each file that was judged at its path, with its right.

    Bubblewrap mounts by path. Meanwhile another program may replace a folder, also by a link out of the workspace.

    Args:
        process: its id; the mounts are made, and it runs no command yet.

    Raises:
        OSError: the system does not show the files that the process sees.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    root = os.open(f"/proc/{process}/root", flags)
    null = Path(os.devnull).stat()
    last = {each.host: each for each in mounts}  # a later mount covers an earlier one
    try:
        return all(
            _sees(root, each, flags | os.O_NOFOLLOW, (null.st_dev, null.st_ino)) for each in last.values()
        )
    finally:
        os.close(root)


def _sees(root: int, mount: ProgramMount, flags: int, null: tuple[int, int]) -> bool:
    at = os.dup(root)
    try:
        for part in mount.host.strip("/").split("/"):  # by steps, because no step may be a link
            inner = os.open(part, flags, dir_fd=at)
            os.close(at)
            at = inner
        status = os.fstat(at)
        found = (status.st_dev, status.st_ino)
        if mount.right == "none" and not mount.is_folder:
            return found == null
        if mount.right == "none":
            return found != mount.identity and _is_read_only(at)
        return mount.identity in (None, found) and (mount.right == "write" or _is_read_only(at))
    except OSError:
        return False
    finally:
        os.close(at)


def _is_read_only(descriptor: int) -> bool:
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
