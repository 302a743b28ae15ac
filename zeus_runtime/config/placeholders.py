"""How a known secret may be written in text, and the placeholder that stands for each way of writing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LEAST_CHARACTERS: Final = 8
"""Secrets shorter than this are not searched for in running text, unless they mix letters and digits."""
LEAST_MIXED_CHARACTERS: Final = 6
_LONGEST_WORD: Final = 15
_LEAST_DISTINCT: Final = 4
_LONGEST_NAME: Final = 100

START: Final = "<secret:"
PLACEHOLDER: Final = re.compile(r"<secret:[A-Za-z0-9_.\[\]/-]+(?::[a-z0-9-]+)?>")


def placeholder(name: str, form: str = "") -> str:
    """What stands for a secret: ``<secret:API_KEY>``, or ``<secret:API_KEY:base64>`` for another way of writing it."""
    shown = re.sub(r"[^A-Za-z0-9_.\[\]/-]", "_", name)[:_LONGEST_NAME]
    return f"{START}{shown}{':' if form else ''}{form}>"


def rest_placeholder(shown: str, length: int) -> str:
    """What stands for a secret without its first ``length`` characters, which another secret in the text ends with."""
    body = shown.removesuffix(">")
    return f"{body}{'-' if ':' in body.removeprefix(START) else ':'}after-{length}>"


def rest_of(shown: str) -> tuple[str, int] | None:
    """The placeholder of the whole secret, and the length that ``rest_placeholder`` left out."""
    match = re.fullmatch(r"(.+)[:-]after-([0-9]{1,6})>", shown)
    return (f"{match[1]}>", int(match[2])) if match else None


def is_searched(secret: str) -> bool:
    """Whether a secret is searched for within running text, or masked only where it is a whole value.

    ``postgres``, ``admin`` and ``12345`` are not searched for: masking each of them would destroy ordinary text.
    """
    if START in secret or len(set(secret)) < _LEAST_DISTINCT:
        return False
    if (
        secret.isalpha()
        and len(secret) <= _LONGEST_WORD
        and (secret.islower() or secret.isupper() or secret.istitle())
    ):
        return False
    is_mixed = any(each.isdigit() for each in secret) and any(each.isalpha() for each in secret)
    return len(secret) >= (LEAST_MIXED_CHARACTERS if is_mixed else LEAST_CHARACTERS)


def looks_random(value: str) -> bool:
    """Whether a value holds what a person would not write: eight letters and digits in one run, or twenty of any."""
    return any(
        len(run) >= 20 or (re.search(r"[0-9]", run) and re.search(r"[A-Za-z]", run))
        for run in re.findall(r"[A-Za-z0-9]{8,}", value)
    )


def written_forms(secret: str, name: str) -> Iterator[tuple[str, str]]:
    """Each way in which a secret is searched for in text, with its placeholder: as it is, as JSON, in a URL, in HTML,
    as Python shows it, as base64 at any place of longer data, line by line, in other Unicode forms, in full width
    and as UTF-16."""
    from html import escape
    from json import dumps
    from urllib.parse import quote_plus, unquote

    ways = [
        ("", secret),
        ("json", dumps(secret)[1:-1]),
        ("json-unicode", dumps(secret, ensure_ascii=False)[1:-1]),
        *_percent_encoded(secret),
        ("url-plus", quote_plus(secret, errors="surrogatepass")),
        ("url-decoded", unquote(secret)),
        ("html", escape(secret)),
        ("html-text", escape(secret, quote=False)),
        ("python", repr(secret)[1:-1]),
        *_base64(secret),
        *_lines(secret),
        *_normalized(secret),
    ]
    seen: set[str] = set()
    for form, text in ways:
        if text not in seen and is_searched(text):
            seen.add(text)
            yield text, placeholder(name, form)


def _percent_encoded(secret: str) -> Iterator[tuple[str, str]]:
    """As RFC 3986 encodes it in a query, a path, a user's part and as a browser does, with digits of either case."""
    from urllib.parse import quote

    for form, safe in (("url", ""), ("url-path", "/"), ("url-user", "!$&'()*+,;="), ("url-js", "!'()*")):
        text = quote(secret, safe=safe, errors="surrogatepass")
        yield form, text
        yield f"{form}-lower", re.sub("%..", lambda match: match[0].lower(), text)


def _base64(secret: str) -> Iterator[tuple[str, str]]:
    """The characters of base64 that the secret alone decides, wherever it begins within a group of three bytes."""
    from base64 import b64encode

    data = secret.encode("utf-8", "surrogatepass")
    if len(data) < LEAST_CHARACTERS:
        return
    for shift in range(3):
        first, end = -(-8 * shift // 6), 8 * (shift + len(data)) // 6
        text = b64encode(bytes(shift) + data).decode()[first:end]
        suffix = f"-{shift}" if shift else ""
        yield f"base64{suffix}", text
        yield f"base64url{suffix}", text.replace("+", "-").replace("/", "_")


def _lines(secret: str) -> Iterator[tuple[str, str]]:
    """The lines of a private key, without the frame that every key has."""
    if "\n" not in secret:
        return
    for number, line in enumerate(secret.splitlines(), 1):
        text = line.strip()
        if not text.startswith("-----") and not re.search(r"\s", text) and len(text) >= LEAST_CHARACTERS:
            yield f"line{number}", text


def _normalized(secret: str) -> Iterator[tuple[str, str]]:
    """Texts that Unicode takes for the same: composed, decomposed, and in full-width characters."""
    from json import dumps
    from unicodedata import normalize

    for form in ("nfc", "nfd", "nfkc", "nfkd"):
        text = normalize(form.upper(), secret)  # type: ignore[arg-type]
        yield form, text
        yield f"{form}-json", dumps(text)[1:-1]
    # UTF-16 that was read as UTF-8.
    yield "utf-16", "\0".join(secret)
    yield "full-width", secret.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
