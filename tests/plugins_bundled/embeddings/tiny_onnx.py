"""An ONNX model of a few kilobytes, written byte by byte: its last hidden states are the rows of a table.

    last_hidden_state = Gather(table, input_ids)

Field numbers from onnx.proto; the package `onnx` is not needed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "x", "the", "user", "prefers", "a", "dark", "theme", "deployments",
         "happen", "on", "friday", "number", "of", "long", "list", "query", "word", *map(str, range(310)))  # fmt: skip
DIMENSION = 16
_FLOAT, _INT64 = 1, 7


def write_model(
    folder: Path, rows: Sequence[Sequence[float]], inputs: Sequence[str] = ("input_ids", "attention_mask")
) -> None:
    """``model.onnx`` with ``rows`` for the first of ``WORDS``, and its tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = [value for row in rows for value in row]
    table = (
        b"".join(_number(1, size_) for size_ in (len(rows), len(rows[0])))
        + _number(2, _FLOAT)
        + _bytes(8, b"table")
        + _bytes(9, struct.pack(f"<{len(flat)}f", *flat))
    )
    node = _bytes(1, b"table") + _bytes(1, inputs[0].encode()) + _bytes(2, b"states") + _bytes(4, b"Gather")
    graph = (
        _bytes(1, node)
        + _bytes(2, b"tiny")
        + _bytes(5, table)
        + b"".join(_bytes(11, _value(name, _INT64, ["batch", "tokens"])) for name in inputs)
        + _bytes(12, _value("states", _FLOAT, ["batch", "tokens", DIMENSION]))
    )
    opset = _bytes(1, b"") + _number(2, 17)
    (folder / "model.onnx").write_bytes(_number(1, 8) + _bytes(7, graph) + _bytes(8, opset))
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """A tokenizer whose tokens are lower-case words, framed as BERT frames them."""
    words = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    words.save(str(folder / "tokenizer.json"))


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sides = b"".join(
        _bytes(1, _number(1, side) if isinstance(side, int) else _bytes(2, side.encode())) for side in shape
    )
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sides)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
