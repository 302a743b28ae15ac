"""Ports for what must know its own before it listens there."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_PORTS = range(12_000, 32_000)
"""Below those that Linux gives whoever asks for any (from 32,768 on), so that none of the other tests' gets it."""


def unused_port() -> int:
    """A port of the loopback that nobody has."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are taken")
