"""The readings of a word of a command: what a shell, a URL, JSON, an option or a module makes of it. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Final
from unicodedata import normalize

_MAX_PATH: Final = 4_096
SIGN: Final = re.compile(r"(?!%[0-9A-Fa-f]{2})[^\w./-]|(?<=/)/|/(?=/)|\.{3,}")
"""What may end a file's name and may also be in it: all but letters, digits, ``_``, ``-``, ``%20``, and the ``.`` and
``/`` of a path."""
MODULE_FLAG: Final = "-[A-Za-z]*m"
_EXPANDED: Final = re.compile(r"[$`*?\[{]|(?:^|[\s=:])~")
"""What a shell replaces by something else."""
_LONGEST_OPTION: Final = 255
_ESCAPES: Final = re.compile(r'(?:\\u[0-9A-Fa-f]{4})+|\\["\\/bfnrt]')
"""The escapes of JSON; those for UTF-16 together, because two of them may be one letter."""


def begun_at(path: str) -> Iterator[str]:
    """A path, and where it is written after an option's letters, each of its ends that may be one: ``-rserver.js``."""
    yield path
    if re.match("-[^-]", path):
        ends = len(path) if len(path) <= _LONGEST_OPTION else 3
        yield from (path[start:] for start in range(2, ends))


def parts_of(path: str) -> Iterator[str]:
    """The folders on the way of a path and, unless it is absolute, its ends that are paths or modules themselves.

    Any other word may be the last part of an address or a package: ``@shop/tools``, ``https://api.shop.com/tools``.
    """
    for index, letter in enumerate(path):
        if letter == "/":
            yield path[:index]
        if letter in "./" and path[0] != "/" and re.search("[./]", path[index + 1 :]):
            yield path[index + 1 :]


def is_path(name: str) -> bool:
    """Whether a name may be a path of a file system."""
    if not 0 < len(name) <= _MAX_PATH or "\0" in name:
        return False
    try:
        # No file has a half of a letter of UTF-16 in its name.
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def json_unescaped(text: str) -> str:
    """``text`` with the escapes of JSON decoded."""
    return _ESCAPES.sub(_unescaped, text)


def _unescaped(escapes: re.Match[str]) -> str:
    text = escapes[0]
    if text[1] == "u":
        return bytes.fromhex(text.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
    return "\b\f\n\r\t"["bfnrt".index(text[1])] if text[1] in "bfnrt" else text[1]


def stems(name: str) -> Iterator[str]:
    """A file's name, and each part of it that ends before a dot."""
    yield from (name[:index] for index, letter in enumerate(name) if letter == ".")
    yield name


def key_of(name: str) -> str:
    """A name without what some file systems do not distinguish."""
    return name.lower() if name.isascii() else normalize("NFD", name).casefold()


def beginning(name: str) -> str:
    """The key of a name up to its first sign, or this sign."""
    plain = normalize("NFD", name)
    sign = SIGN.search(plain)
    return key_of(plain if sign is None else plain[: sign.start() or sign.end()])


def shell_words(word: str) -> list[str]:
    """The words that a shell makes of a word; empty if its quotes are open."""
    if not re.search(r"['\"\\]", word):
        return word.split()
    lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    # Within the words of a command, a `#` begins no comment.
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def is_expanded(word: str) -> bool:
    """Whether a shell may make other words of a word, so that nobody knows which files it names."""
    return bool(_EXPANDED.search(word) or (word.strip() and not shell_words(word)))
