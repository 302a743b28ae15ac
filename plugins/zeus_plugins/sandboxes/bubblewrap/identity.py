"""Who programs run as: never root, and nobody else's uid.

An ordinary user's programs run in a user namespace of their own, whose count of processes is its own too. Root's run
under a uid that no account has and that is drawn anew for each run, because the limit of processes does not hold for
root, and because a user namespace would map to root again.
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
"""Above what distributions, systemd and container engines hand out, below the signed limit of some file systems."""


@dataclass(frozen=True)
class Identity:
    """Whom a program runs as.

    Args:
        uid: the number it has inside.
        changed: whether the files given to it must be handed to that uid, since root makes them.
    """

    uid: int
    changed: bool


def fresh_identity() -> Identity:
    """An identity for one run.

    Raises:
        LookupError: this root has no other uid to give.
    """
    if os.geteuid() != 0:
        return Identity(_INSIDE, changed=False)
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return Identity(_drawn([(int(first), int(count)) for first, _, count in map(str.split, lines)]), True)


def _drawn(mapped: list[tuple[int, int]]) -> int:
    first, count = max(mapped, key=lambda each: each[1])
    if count == _FULL:
        return _UNUSED.start + secrets.randbelow(len(_UNUSED))
    if count < 100:
        raise LookupError("root has no other uid here")
    # The last of the range: the first are the accounts of the container.
    return first + count - 1 - secrets.randbelow(min(count // 2, 10_000))
