"""An answer's JSON value while the model still writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.models.interface import TextDelta, ToolCallDelta
from zeus_runtime.plan.output import FINAL_TOOL
from zeus_runtime.strict_json import strict_json

if TYPE_CHECKING:
    from zeus_runtime.models.masking import StreamedText

_LEAST_GROWTH: Final = 16
"""Characters; and a sixteenth of the text, so that all values of an answer together take time linear in its length."""


class Grown(NamedTuple):
    """A value that has grown; it may be any JSON value."""

    value: Any


class GrowingOutput:
    """The pieces of one answer, read as JSON that ends early."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._read = 0
        self._index: int | None = None
        self._last: Any = None

    def has(self, piece: StreamedText) -> bool:
        """Whether a piece is of the call that gives the answer."""
        if not isinstance(piece, ToolCallDelta):
            return False
        if piece.name == FINAL_TOOL and self._index is None:
            self._index = piece.index
        return piece.index == self._index

    def with_piece(self, piece: StreamedText) -> Grown | None:
        """The value with one more piece; None if nothing new can be shown yet."""
        if self.has(piece):
            assert isinstance(piece, ToolCallDelta)
            text = piece.arguments
        elif isinstance(piece, TextDelta) and self._index is None:
            text = piece.text
        else:
            return None
        self._pieces.append(text)
        self._length += len(text)
        if self._length - self._read < max(_LEAST_GROWTH, self._read // 16):
            return None
        self._read = self._length
        from pydantic_core import from_json

        # A number that is still being written would be another number.
        text = "".join(self._pieces).rstrip("0123456789+-.eE")
        try:
            found = from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
            # The rules for the whole value hold for its beginning: no number without end, no lone surrogate.
            value = strict_json(json.dumps(found))
        except (ValueError, RecursionError):
            return None
        if value == self._last or not isinstance(value, dict | list):
            return None
        self._last = value
        return Grown(value)
