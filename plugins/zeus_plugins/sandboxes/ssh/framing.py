"""Frames between this machine and the one that runs programs: a kind, a length, that many bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, Protocol

ALIVE: Final = b"."
"""A sign of life, without content; both sides send it every ``ALIVE_SECONDS``."""
ASKED: Final = b"Q"
"""A question, as JSON."""
FILE: Final = b"F"
"""One of the program's files, in the order in which the question names them."""
OUTPUT: Final = b"O"
"""Output of the program."""
DONE: Final = b"R"
"""The result, as JSON."""
FAILED: Final = b"E"
"""A failure, as JSON: ``message``, ``remedy``, and whether the machine is ``unavailable``."""

ALIVE_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 30.0
"""After so long without a frame the other side counts as gone: a connection can die without a notice."""
LONGEST: Final = 2**30


class Source(Protocol):
    async def readexactly(self, n: int, /) -> bytes: ...


def frame(kind: bytes, data: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    return kind + len(data).to_bytes(4, "big") + data


def said(kind: bytes, value: Any) -> bytes:
    """Return a frame with JSON."""
    return frame(kind, json.dumps(value).encode())


async def next_frame(source: Source, *, longest: int = LONGEST) -> tuple[bytes, bytes]:
    """Return the next frame that is not just a sign of life.

    Args:
        longest: the maximum length in bytes.

    Raises:
        EOFError: the other side is gone, silent for too long, or sends invalid data.
    """
    while True:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                head = await source.readexactly(5)
                size = int.from_bytes(head[1:], "big")
                # Before it is read: a number from the other side must not fill the memory.
                if size > longest:
                    raise EOFError("it sent invalid data")
                data = await source.readexactly(size)
        except asyncio.IncompleteReadError:
            raise EOFError("the connection has ended") from None
        except TimeoutError:
            raise EOFError(f"nothing was received for {SILENT_SECONDS:g} seconds") from None
        if head[:1] != ALIVE:
            return head[:1], data
