"""Pictures for tests, made by hand: PNG files of one colour, and of noise that no compression makes small."""

from __future__ import annotations

import struct
import zlib
from random import Random


def picture_with(text: str) -> bytes:
    """A picture with a text among its metadata (a chunk before the last one, of 12 bytes)."""
    whole = png()
    return whole[:-12] + len(text).to_bytes(4) + b"tEXt" + text.encode() + bytes(4) + whole[-12:]


def png(width: int = 64, height: int = 48, *, seed: int | None = None) -> bytes:
    """A PNG file.

    Args:
        seed: of noise; without one all is grey.
    """
    noise = None if seed is None else Random(seed)
    row = bytes([128]) * width
    rows = b"".join(b"\0" + (row if noise is None else noise.randbytes(width)) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
