"""Compressed text columns: many short JSON rows that look alike take a third of their space."""

from __future__ import annotations

import zlib
from typing import Any, Final

from sqlalchemy import LargeBinary, TypeDecorator

_LIKELY: Final = (
    b'{"number":1,"run_id":"","cursor":1,"edits":0,"model":"openai/anthropic/claude-gpt-","input_limit_tokens":272000,'
    b'"output_reserve_tokens":0,"limit_learned":true,"fixed":"","fixed_tokens":4066,"view_tokens":,"by_source":{"user":9,'
    b'"assistant":,"tool:write_todos":,"tool:write_file":,"tool:grep":,"tool:edit_file":,"tool:read_file":,"summary":},'
    b'"messages":1,"estimate_tokens":,"expected_tokens":,"usage":{"input_tokens":,"output_tokens":,"cache_read_tokens":,'
    b'"cache_write_tokens":},"cost_usd":0.,"policy_tokens":,"decisions":[],"duration_ms":3.4,"finish_reason":"tool_calls"}'
)
"""A typical row of the ledger. Never change it: stored rows can only be read with the same text."""


def pack(text: str) -> bytes:
    """``text``, deflated with a typical row as the dictionary."""
    # Negative bits: without zlib's header and checksum, which would be a good part of a row of a hundred bytes.
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_DEFAULT_STRATEGY, _LIKELY)
    return deflate.compress(text.encode()) + deflate.flush()


def unpack(data: bytes) -> str:
    """The text that ``pack`` packed.

    Raises:
        ValueError: ``data`` was not made by ``pack``.
    """
    inflate = zlib.decompressobj(-zlib.MAX_WBITS, _LIKELY)
    try:
        return (inflate.decompress(data) + inflate.flush()).decode()
    except zlib.error as error:
        raise ValueError(f"a packed text cannot be read: {error}") from None


class Packed(TypeDecorator[str]):
    """A text column stored compressed. A damaged value is read as an empty text, for the reader to report."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> bytes | None:
        return None if value is None else pack(value)

    def process_result_value(self, value: Any, dialect: Any) -> str | None:
        # A text is from before the column was compressed.
        if value is None or isinstance(value, str):
            return value
        try:
            return unpack(bytes(value))
        except ValueError:
            return ""
