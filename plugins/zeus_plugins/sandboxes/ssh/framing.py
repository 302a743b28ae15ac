"""Frames between this machine and the one where programs run: a kind, a length, that many bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, Protocol

ALIVE: Final = b"."
"""Says nothing but that who sends it lives; both send it every ``ALIVE_SECONDS``."""
ASKED: Final = b"Q"
"""What is to be done, as JSON."""
FILE: Final = b"F"
"""One of the program's own files, in the order in which the question names them."""
OUTPUT: Final = b"O"
"""What the program printed."""
DONE: Final = b"R"
"""What came of it, as JSON."""
FAILED: Final = b"E"
"""Why nothing came of it, as JSON: ``message``, ``remedy``, and whether the machine is ``unavailable``."""

ALIVE_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 30.0
"""After so long without a frame the other side is given up: the connection may be dead without anybody's knowing."""
LONGEST: Final = 2**30


class Source(Protocol):
    async def readexactly(self, n: int, /) -> bytes: ...


def frame(kind: bytes, data: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return kind + len(data).to_bytes(4, "big") + data


def said(kind: bytes, value: Any) -> bytes:
    """A frame of JSON."""
    return frame(kind, json.dumps(value).encode())


async def next_frame(source: Source, *, longest: int = LONGEST) -> tuple[bytes, bytes]:
    """The next frame that says something.

    Args:
        longest: in bytes.

    Raises:
        EOFError: the other side is gone, or silent for too long.
    """
    while True:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                head = await source.readexactly(5)
                size = int.from_bytes(head[1:], "big")
                if size > longest:
                    raise EOFError("what it says is no frame")
                data = await source.readexactly(size)
        except asyncio.IncompleteReadError:
            raise EOFError("the connection has ended") from None
        except TimeoutError:
            raise EOFError(f"nothing was heard for {SILENT_SECONDS:g} seconds") from None
        if head[:1] != ALIVE:
            return head[:1], data
