"""Show untrusted text: characters that cannot be seen become visible escapes; no character is dropped. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Variation selectors, and letters and marks that print nothing: Python calls them printable.
_SELECTORS: Final = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BLANK: Final = re.compile(f"[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0{_SELECTORS}]")
_SELECTOR: Final = re.compile(f"[{_SELECTORS}]")
_SPACE: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")
_JOINERS: Final = frozenset("\u200c\u200d")
_JOINED: Final = frozenset({"Lo", "Mn", "Mc", "So", "Sk", "Sm"})
_KEYCAPS: Final = frozenset("0123456789#*")
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def terminal_text(text: str) -> str:
    """``text`` as a terminal may show it: line ends and tabs stay, other unseen characters become escapes.

    A joiner between two letters or symbols outside ASCII stays (Persian and Indic words, joined emoji), and so does one
    variation selector behind such a character. Bidirectional controls never stay.
    """
    if _is_plain(text):
        return text
    return "".join(
        escape(char) if is_unseen(char) and not _belongs(text, place) else char
        for place, char in enumerate(text)
    )


def terminal_line(text: str) -> str:
    """``terminal_text`` in one line: newlines and tabs become escapes too."""
    return "".join(_NAMED.get(char, char) for char in terminal_text(text))


def printable(text: str) -> str:
    """A name or path as one line of valid UTF-8: every character but the visible ones and the space becomes an escape.

    A byte that is no UTF-8 (``surrogateescape``) shows as that byte, ``\\xe9``.
    """
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(
        char
        if char.isprintable() and not _BLANK.match(char)
        else _NAMED.get(char) or _byte(char) or escape(char)
        for char in text
    )


def exact(text: str) -> str:
    """``text`` so that two different texts never look the same: for what a person approves.

    Newlines and tabs stay. Other unseen characters become escapes, and so do joiners and spaces outside
    ASCII. A backslash is doubled where it could be taken for the start of an escape.
    """
    if _is_plain(text) and "\\" not in text and not _SPACE.search(text):
        return text
    return "".join(_exact(char, text[place + 1 : place + 2]) for place, char in enumerate(text))


def json_text(text: str) -> str:
    """JSON text with the unseen characters of its strings as ``\\uXXXX``: the same value, safe to print."""
    if _is_plain(text):
        return text
    return "".join(_json_escape(char) if is_unseen(char) else char for char in text)


def exact_json(text: str) -> str:
    """``json_text``, and spaces outside ASCII as escapes too: two different values never look the same."""
    return _SPACE.sub(lambda match: _json_escape(match[0]), json_text(text))


def is_unseen(char: str) -> bool:
    """Whether a character shows nothing, or acts on the text around it; newlines, tabs and spaces do not count."""
    if char in "\n\t" or unicodedata.category(char) == "Zs":
        return False
    return not char.isprintable() or _BLANK.match(char) is not None


def escape(char: str) -> str:
    """``\\x1b``, ``\\u202e`` or ``\\U000e0041``."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(text: str) -> bool:
    """Whether a quick look finds nothing to escape."""
    return text.replace("\n", "").replace("\t", "").isprintable() and not _BLANK.search(text)


def _belongs(text: str, place: int) -> bool:
    """Whether a joiner or selector is part of how the characters beside it are written; or it is CRLF's CR."""
    char, before, after = text[place], text[place - 1 : place] if place else "", text[place + 1 : place + 2]
    if char == "\r":
        return after == "\n"
    if char in _JOINERS:
        return _joins(before) and _joins(after)
    if not _SELECTOR.match(char) or _SELECTOR.match(before):
        return False
    return _joins(before) or (char == "\ufe0f" and before in _KEYCAPS)


def _joins(char: str) -> bool:
    return char > "\x7f" and unicodedata.category(char) in _JOINED


def _exact(char: str, after: str) -> str:
    if char == "\\":
        return "\\\\" if after and (after in "\\xuU" or _is_hidden(after)) else "\\"
    return escape(char) if _is_hidden(char) else char


def _is_hidden(char: str) -> bool:
    return is_unseen(char) or _SPACE.match(char) is not None


def _byte(char: str) -> str:
    return f"\\x{ord(char) - 0xDC00:02x}" if "\udc80" <= char <= "\udcff" else ""


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
