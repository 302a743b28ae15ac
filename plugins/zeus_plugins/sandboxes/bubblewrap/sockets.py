"""How much of the host's memory the sockets of a sandbox hold, seen from outside.

A socket's buffers are the kernel's memory and no process's. Each sandbox has a network namespace of its own, so
``/proc/PID/net`` of its first process lists all its sockets and no other ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_WMEM_MAX: Final = Path("/proc/sys/net/core/wmem_max")
_DEFAULT_WMEM: Final = 212_992
_OVERHEAD: Final = 2
"""The kernel's memory for a byte in a buffer; socket(7) doubles what a program asks for to leave room for it."""
_SOCKET_BYTES: Final = 4_096
"""A socket itself, with what the kernel keeps beside its buffers."""
_INET: Final = ("tcp", "tcp6", "udp", "udp6")


def socket_bytes(first: int) -> int:
    """What the sockets in the network namespace of the process ``first`` may hold."""
    unix = _lines(f"/proc/{first}/net/unix")
    inet = [line for name in _INET for line in _lines(f"/proc/{first}/net/{name}")]
    return unix_bytes(len(unix), _wmem_max()) + inet_bytes(inet)


def unix_bytes(sockets: int, wmem_max: int) -> int:
    """What so many local sockets may hold: the kernel does not say how full they are, so each counts as full. Pure.

    Args:
        wmem_max: ``net.core.wmem_max``, the most that a program may ask for as its send buffer.
    """
    return sockets * _OVERHEAD * wmem_max


def inet_bytes(lines: Iterable[str]) -> int:
    """What internet sockets hold, by the lines of ``/proc/net/tcp`` and its like without their heads. Pure."""
    total = 0
    for line in lines:
        with suppress(IndexError, ValueError):
            sending, receiving = line.split()[4].split(":")
            total += _SOCKET_BYTES + _OVERHEAD * (int(sending, 16) + int(receiving, 16))
    return total


def _lines(path: str) -> list[str]:
    """Without the head; none where the process has ended."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as in watch
            return file.readlines()[1:]
    except OSError:
        return []


def _wmem_max() -> int:
    try:
        return int(_WMEM_MAX.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _DEFAULT_WMEM
