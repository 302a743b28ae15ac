"""Measures, from outside, how much of the host's memory the sockets of a sandbox hold.

A socket's buffers are memory of the kernel and of no process. Each sandbox has a separate network namespace, so
``/proc/PID/net`` of its first process lists exactly its sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_WMEM_MAX: Final = Path("/proc/sys/net/core/wmem_max")
_DEFAULT_WMEM: Final = 212_992
_OVERHEAD: Final = 2
"""The kernel's memory per byte in a buffer; socket(7) doubles the size that a program requests to allow for this."""
_SOCKET_BYTES: Final = 4_096
"""The bytes of a socket itself, with the kernel's data besides its buffers."""
_INET: Final = ("tcp", "tcp6", "udp", "udp6")


def socket_bytes(first: int) -> int:
    """Return the bytes that the sockets in the network namespace of the process ``first`` may hold."""
    unix = _lines(f"/proc/{first}/net/unix")
    inet = [line for name in _INET for line in _lines(f"/proc/{first}/net/{name}")]
    return unix_bytes(len(unix), _wmem_max()) + inet_bytes(inet)


def unix_bytes(sockets: int, wmem_max: int) -> int:
    """Return the bytes that this many local sockets may hold. Pure.

    The kernel does not report how full they are, so each counts as full.

    Args:
        wmem_max: ``net.core.wmem_max``, the largest send buffer that a program may request.
    """
    return sockets * _OVERHEAD * wmem_max


def inet_bytes(lines: Iterable[str]) -> int:
    """Return the bytes that internet sockets hold, from the lines of ``/proc/net/tcp`` and the like. Pure.

    Args:
        lines: the lines without the header.
    """
    total = 0
    for line in lines:
        with suppress(IndexError, ValueError):
            sending, receiving = line.split()[4].split(":")
            total += _SOCKET_BYTES + _OVERHEAD * (int(sending, 16) + int(receiving, 16))
    return total


def _lines(path: str) -> list[str]:
    """Return the lines without the header; none if the process has ended."""
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
