"""The ways to write a known secret in text, and the placeholder for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

LEAST_CHARACTERS: Final = 8
"""Secrets shorter than this are not searched for in running text, unless they mix letters and digits."""
LEAST_MIXED_CHARACTERS: Final = 6
_LONGEST_WORD: Final = 15
LEAST_DISTINCT: Final = 4
_LONGEST_NAME: Final = 100
_LONGEST_PLACEHOLDER: Final = 200
WAY_DIGITS: Final = 24
"""Hexadecimal digits in the placeholder of an unlisted notation."""

START: Final = "<secret:"
_FRAME: Final = r"-----(?:BEGIN|END) [A-Z0-9 ]+-----"
"""The first and the last line of a private key."""
PRIVATE_KEY: Final = r"-----BEGIN {0}(?:(?!-----)[\s\S])+-----END {0}".format(
    r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
)
"""Also an encrypted one, whose header has dashes (``DEK-Info: AES-128-CBC``), and one of PGP."""
_BEFORE_FRAME: Final = re.compile(rf"(?<=\S)[ \t]*(?={_FRAME})")
_AFTER_FRAME: Final = re.compile(rf"({_FRAME})[ \t]*(?=\S)")
_BASE64_WORDS: Final = re.compile(r"[A-Za-z0-9+/]+=*(?:[ \t]+[A-Za-z0-9+/]+=*)+")
_ITEM_NAME: Final = re.compile(r"""\A["']?[A-Za-z_.-]+["']?(?::|=(?!=*\Z))""")
"""An ``=`` at the end belongs to base64."""
_WAY: Final = re.compile(
    rf"(?:[:-](?:escaped|part)-(?P<digits>[0-9a-f]{{{WAY_DIGITS}}}))?(?:[:-]after-[0-9]{{1,6}})?>\Z"
)
PLACEHOLDER: Final = re.compile(r"<secret:[A-Za-z0-9_.\[\]/-]+(?::[a-z0-9-]+)?>")
WRITTEN: Final = re.compile(rf"<((?:not the )*{PLACEHOLDER.pattern[1:]})")
"""A placeholder, or a text that looks like one, which a person sees as ``<not the secret:…>``."""


def cut_place(text: str, at: int) -> int:
    """Where to cut masked text: at ``at``, or before the placeholder that this is within."""
    start = text.rfind(START, max(0, at - _LONGEST_PLACEHOLDER), at + len(START) - 1)
    found = PLACEHOLDER.match(text, start) if 0 <= start < at else None
    return start if found and found.end() > at else at


def placeholder(name: str, form: str = "") -> str:
    """The placeholder of a secret: ``<secret:API_KEY>``, or ``<secret:API_KEY:base64>`` for another notation.

    The end of a long name is its checksum, so that two long names differ that begin alike.
    """
    shown = re.sub(r"[^A-Za-z0-9_.\[\]/-]", "_", name)
    if len(shown) > _LONGEST_NAME:
        from zlib import crc32

        mark = f"-{crc32(name.encode('utf-8', 'surrogatepass')):08x}"
        shown = shown[: _LONGEST_NAME - len(mark)] + mark
    return f"{START}{shown}{':' if form else ''}{form}>"


def placeholder_name(shown: str) -> str:
    """The name in a placeholder of any form: ``API_KEY`` of ``<secret:API_KEY:base64>``."""
    return shown.removeprefix(START).removesuffix(">").partition(":")[0]


def rest_placeholder(shown: str, length: int) -> str:
    """The placeholder of a secret whose first ``length`` characters belong to another secret in the text."""
    return way_placeholder(shown, f"after-{length}")


def left_out(shown: str) -> tuple[str, int]:
    """The placeholder of the whole secret, and how many characters ``rest_placeholder`` left out of it."""
    body, _, length = shown.removesuffix(">").rpartition("after-")
    return (f"{body[:-1]}>", int(length)) if body and re.fullmatch("[0-9]{1,6}", length) else (shown, 0)


def way_placeholder(shown: str, way: str) -> str:
    """The placeholder for a form whose notation is in no list: ``way`` is such as ``escaped-`` with ``WAY_DIGITS``."""
    body = shown.removesuffix(">")
    return f"{body}{'-' if ':' in body.removeprefix(START) else ':'}{way}>"


def form_placeholder(shown: str) -> str:
    """The placeholder of the form, without the way in which it is written and the part that is left out."""
    return _WAY.sub(">", shown)


def way_digits(shown: str) -> str:
    """The digits in a placeholder that depend on the notation; empty if it has none."""
    found = _WAY.search(shown)
    return (found and found["digits"]) or ""


def is_searched(secret: str) -> bool:
    """Whether a secret is searched for within running text, or masked only where it is a whole value.

    ``postgres``, ``admin`` and ``12345`` are not searched for: masking each of them would destroy ordinary text.
    """
    if START in secret or len(set(secret)) < LEAST_DISTINCT:
        return False
    if (
        secret.isalpha()
        and len(secret) <= _LONGEST_WORD
        and (secret.islower() or secret.isupper() or secret.istitle())
    ):
        return False
    return is_long_enough(secret)


def is_long_enough(secret: str) -> bool:
    """Whether a value is long enough to be told from a word or a number by chance."""
    is_mixed = any(each.isdigit() for each in secret) and any(each.isalpha() for each in secret)
    return len(secret) >= (LEAST_MIXED_CHARACTERS if is_mixed else LEAST_CHARACTERS)


def looks_random(value: str) -> bool:
    """Whether a value holds what a person would not write: eight letters and digits in one run, or twenty of any."""
    return any(
        len(run) >= 20 or (re.search(r"[0-9]", run) and re.search(r"[A-Za-z]", run))
        for run in re.findall(r"[A-Za-z0-9]{8,}", value)
    )


def is_random_item(item: str) -> bool:
    """Whether a line or an item of a list looks random, not counting a name in it: ``StrictHostKeyChecking=no``."""
    return looks_random(_ITEM_NAME.sub("", item))


def written_forms(secret: str, name: str) -> Iterator[tuple[str, str]]:
    """Each text that is searched for, with its placeholder: the secret, as base64 at any place of longer data (of UTF-8
    and of UTF-16, as PowerShell writes it), line by line, in other Unicode forms and in full width, with ``$$`` for
    ``$`` (Compose), ``%%`` for ``%`` (INI), ``}}`` for ``}`` (ODBC), also with ``{{`` for ``{`` (format strings). Of
    each, ``matching`` finds every way of escaping and wrapping it.

    The frame of a private key says nothing, so it is in no form but base64.
    """
    from urllib.parse import unquote

    ways = [
        ("key", _without_frame(secret)) if is_key(secret) else ("", secret),
        ("url-plus", secret.replace(" ", "+")),
        ("url-decoded", unquote(secret)),
        ("dollars", secret.replace("$", "$$")),
        ("percents", secret.replace("%", "%%")),
        ("braces", secret.replace("}", "}}")),
        ("format", secret.replace("{", "{{").replace("}", "}}")),
        *_base64(secret),
        *_lines(secret),
        *_normalized(secret),
    ]
    seen: set[str] = set()
    for form, text in ways:
        if text not in seen and is_searched(text) and not is_key(text):
            seen.add(text)
            yield text, placeholder(name, form)


def _base64(secret: str) -> Iterator[tuple[str, str]]:
    """The characters of base64 that the secret alone decides, wherever it begins within a group of three bytes."""
    from base64 import b64encode

    for encoding, mark in (("utf-8", ""), ("utf-16-le", "-utf16")):
        data = secret.encode(encoding, "surrogatepass")
        if len(data) < LEAST_CHARACTERS:
            continue
        for shift in range(3):
            first, end = -(-8 * shift // 6), 8 * (shift + len(data)) // 6
            text = b64encode(bytes(shift) + data).decode()[first:end]
            suffix = f"{mark}-{shift}" if shift else mark
            yield f"base64{suffix}", text
            yield f"base64url{suffix}", text.replace("+", "-").replace("/", "_")


def is_key(secret: str) -> bool:
    """Whether a secret is a private key within a frame."""
    return re.match(_FRAME, secret.lstrip()) is not None


def is_frame(line: str) -> bool:
    """Whether a line of a private key is its frame."""
    return re.fullmatch(_FRAME, line.strip()) is not None


def lines_of_key(secret: str) -> Sequence[str]:
    """The lines of a private key. A written-out ``\\n`` ends one too.

    A key in one line has blanks for its line ends, or nothing.
    """
    text = re.sub(r"(?:\\+r)?\\+n", "\n", secret)
    text = _AFTER_FRAME.sub(r"\1\n", _BEFORE_FRAME.sub("\n", text))
    words = (each.split() if _BASE64_WORDS.fullmatch(each.strip()) else [each] for each in text.splitlines())
    return [line for found in words for line in found]


def _lines(secret: str) -> Iterator[tuple[str, str]]:
    """The lines of a private key without its frame; of another text those that look random.

    A secret may be a whole file, and ``clusters:`` or ``DEBUG=false`` are in many others. JSON has keys, not lines.
    """
    if secret.lstrip()[:1] in ("{", "["):
        return
    whole_key = is_key(secret)
    for number, line in enumerate(lines_of_key(secret) if whole_key else secret.splitlines(), 1):
        text = line.strip()
        if is_frame(text) or re.search(r"\s", text) or len(text) < LEAST_CHARACTERS:
            continue
        if whole_key or is_random_item(text):
            yield f"line{number}", text


def _without_frame(secret: str) -> str:
    return "\n".join(each for each in map(str.strip, lines_of_key(secret)) if not is_frame(each))


def _normalized(secret: str) -> Iterator[tuple[str, str]]:
    """Texts that Unicode takes for the same: composed, decomposed, and in full-width characters."""
    from unicodedata import normalize

    for form in ("nfc", "nfd", "nfkc", "nfkd"):
        yield form, normalize(form.upper(), secret)  # type: ignore[arg-type]
    yield "full-width", secret.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
