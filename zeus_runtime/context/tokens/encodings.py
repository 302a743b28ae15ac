"""Exact counts with tiktoken, offline, from the encodings that litellm contains."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import ZeusError

if TYPE_CHECKING:
    from tiktoken import Encoding

_VARIABLE: Final = "TIKTOKEN_CACHE_DIR"
_FILES: Final = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
"""The file name of each encoding in a tiktoken cache: the SHA-1 of its address."""

_PIECE_CHARACTERS: Final = 20_000
"""Longer texts are counted in pieces: tiktoken takes seconds or panics on about 100 KB of one repeated character."""

_SEAM_CHARACTERS: Final = 200


class EncodingMissingError(ZeusError):
    """The encoding's file is not on this machine (exit 4); it is never fetched from the network."""

    exit_code = 4
    code = "encoding-missing"


def exact(encoding: str) -> Callable[[str], int]:
    """A function that counts a text's tokens exactly. Its first call loads the encoding, about 0.4 s, once per process.

    Args:
        encoding: ``o200k_base`` or ``cl100k_base``.

    Raises:
        EncodingMissingError: neither litellm's folder nor ``TIKTOKEN_CACHE_DIR`` has it.
    """
    _folder(encoding)

    def count(text: str) -> int:
        encode = _load(encoding).encode_ordinary
        if len(text) <= _PIECE_CHARACTERS:
            return len(encode(text))
        return sum(len(encode(piece)) for piece in _pieces(text))

    return count


def _pieces(text: str) -> Iterator[str]:
    """``text`` cut where a line or a word begins; the encodings mostly cut there too, so the sum is nearly exact."""
    start = 0
    while len(text) - start > _PIECE_CHARACTERS:
        end = start + _PIECE_CHARACTERS
        seam = max(text.rfind("\n", end - _SEAM_CHARACTERS, end) + 1, start)
        if seam <= start:
            seam = text.rfind(" ", end - _SEAM_CHARACTERS, end)
        end = seam if seam > start else end
        yield text[start:end]
        start = end
    yield text[start:]


@cache
def _load(encoding: str) -> Encoding:
    import tiktoken

    with _environment(_VARIABLE, str(_folder(encoding))):
        return tiktoken.get_encoding(encoding)


def _folder(encoding: str) -> Path:
    for folder in _folders():
        if (folder / _FILES[encoding]).is_file():
            return folder
    raise EncodingMissingError(
        f"the encoding {encoding!r} is not on this machine",
        remedy="Install litellm, which carries it, or set profiles.models.NAME.tokenizer to estimate",
    )


def _folders() -> Iterator[Path]:
    if given := os.environ.get(_VARIABLE):
        yield Path(given)
    from importlib.util import find_spec

    spec = find_spec("litellm")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        yield Path(folder) / "litellm_core_utils" / "tokenizers"


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Inside the block the variable has ``value``; afterwards its former value is restored."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
