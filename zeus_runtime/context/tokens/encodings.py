"""Exact counts, offline, from the encodings that litellm contains: tokens looked up in their files, or tiktoken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.tokens.vocabulary import Vocabulary
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

_LOOKED_UP_BYTES: Final = 60_000
"""Bytes of different words that a process looks up. They take about as long as loading tiktoken, so that together both
take at most twice as long as the better of the two. Code and prose of 450,000 characters have as many."""

_REMEMBERED: Final = 512
_REMEMBERED_CHARACTERS: Final = 8_000
"""The last texts whose counts are kept, at most 4 MB of them; longer ones are counted anew."""


class EncodingMissingError(ZeusError):
    """The encoding's file is not on this machine (exit 4); it is never fetched from the network."""

    exit_code = 4
    code = "encoding-missing"


def exact(encoding: str) -> Callable[[str], int]:
    """A function that counts a text's tokens exactly, the same one for all callers in a process.

    Args:
        encoding: ``o200k_base`` or ``cl100k_base``.

    Raises:
        EncodingMissingError: neither litellm's folder nor ``TIKTOKEN_CACHE_DIR`` has it.
    """
    file_of(encoding)
    return _counting(encoding)


class _Counting:
    """Looks tokens up until the words are many; then it loads tiktoken, 0.25 s and 70 MB."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._vocabulary = _vocabulary(encoding)

        # An answer whose usage is not reported is counted for the bill, and again as a message of the history.
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._counted)

    def __call__(self, text: str) -> int:
        return self._remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else self._counted(text)

    def _counted(self, text: str) -> int:
        return sum(map(self._count, _pieces(text)))

    def _count(self, text: str) -> int:
        vocabulary = self._vocabulary
        if vocabulary is not None:
            if vocabulary.looked_up < _LOOKED_UP_BYTES and (found := vocabulary.count(text)) is not None:
                return found
            # For good: once tiktoken is loaded it is faster for every text.
            self._vocabulary = None
        return len(loaded(self._encoding).encode_ordinary(text))


_counting = cache(_Counting)


def _vocabulary(encoding: str) -> Vocabulary | None:
    order = Path(__file__).with_name(f"{encoding}.sorted")
    return Vocabulary.of(file_of(encoding), order) if order.is_file() else None


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
def loaded(encoding: str) -> Encoding:
    """Return tiktoken's encoding, from a file on this machine.

    Raises:
        EncodingMissingError: it is not there.
    """
    import tiktoken

    # Without this tiktoken would look in its own cache and then fetch the file from the network.
    with _environment(_VARIABLE, str(file_of(encoding).parent)):
        return tiktoken.get_encoding(encoding)


def file_of(encoding: str) -> Path:
    """Return the file of an encoding.

    Raises:
        EncodingMissingError: it is not on this machine.
    """
    for folder in _folders():
        if (file := folder / _FILES[encoding]).is_file():
            return file
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
