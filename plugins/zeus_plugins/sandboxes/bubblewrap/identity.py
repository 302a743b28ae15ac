"""Chooses the uid of programs: never root, and never another account's uid.

An ordinary user's programs run in a new user namespace, which has a separate count of processes. Root's programs run
under a random uid that no account has, because the limit of processes does not apply to root, and because a user
namespace would map to root again.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INSIDE: Final = 1000
_FULL: Final = 4_294_967_295
_UNUSED: Final = range(2_000_000_000, 2_100_000_000)
"""Above the uids that distributions, systemd and container engines use; below the signed limit of some file systems."""


@dataclass(frozen=True)
class Identity:
    """The user that a program runs as.

    Args:
        uid: its number inside the sandbox.
        changed: whether the program's files must be given to that uid, because root creates them.
        is_root: whether it is root in a user namespace; to the host's root, ``RLIMIT_NPROC`` does not apply.
    """

    uid: int
    changed: bool
    is_root: bool = False


def fresh_identity() -> Identity:
    """Return an identity for one run.

    Raises:
        LookupError: no other uid is mapped for this root.
    """
    if os.geteuid() != 0:
        return Identity(_INSIDE, changed=False)
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return Identity(_drawn([(int(first), int(count)) for first, _, count in map(str.split, lines)]), True)


def own_identity() -> Identity:
    """Return the identity of programs that use the workspace: this process's user, without privileges.

    Another user could not read the files of this one, and would own those that it makes.
    """
    return Identity(_INSIDE, changed=False, is_root=os.geteuid() == 0)


def _drawn(mapped: list[tuple[int, int]]) -> int:
    first, count = max(mapped, key=lambda each: each[1])
    if count == _FULL:
        return _UNUSED.start + secrets.randbelow(len(_UNUSED))
    if count < 100:
        raise LookupError("root has no other uid here")
    # From the end of the range: the first uids are the container's accounts.
    return first + count - 1 - secrets.randbelow(min(count // 2, 10_000))
