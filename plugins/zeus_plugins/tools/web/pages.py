"""Conversion of a fetched page to text for a model: HTML becomes Markdown, text stays as it is, the rest is refused."""

from __future__ import annotations

import codecs
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from zeus_plugins.tools.web.urls import WebError
from zeus_runtime.plugin.tool import Apart, ApartError

if TYPE_CHECKING:
    from zeus_plugins.tools.web.fetching import Fetched

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAID: Final = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_IN_PAGE: Final = re.compile(
    rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})"""
    rb"""|<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z0-9_.:-]{2,40})""",
    re.IGNORECASE,
)
"""The page's own charset. A charset attribute of a script or a link describes that script or link, not the page."""
_TEXTS: Final = re.compile(r"text/|application/(json|xml|javascript|x-yaml|yaml|toml|.*\+(json|xml))")
_HTML: Final = ("text/html", "application/xhtml+xml")
_LOOKED_AT: Final = 4_096
_NOT_ON_THE_WEB: Final = ("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7")
"""Python's codecs that no browser has. Some of them fail on invalid bytes even with ``errors="replace"``."""
_ON_THE_WEB: Final = ("cp1252", "cp1251", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr")
"""Encodings to guess among for a page that names none and is not UTF-8. The list is short because, among all encodings,
some wrong one always fits too."""
_LABELS: Final = {
    "x-sjis": "cp932",
    "x-gbk": "gbk",
    "x-euc-jp": "euc_jp",
    "windows-949": "cp949",
    "x-x-big5": "big5",
}
"""Names of encodings on the web that Python does not know."""
_MEANT: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""The named encoding and the larger one that browsers use in its place (https://encoding.spec.whatwg.org)."""
_DROPPED: Final = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "head",
    "form",
    "button",
)
_BLANK: Final = re.compile(r"\n\s*\n\s*\n+")


def page_text(page: Fetched, *, apart: Apart | None = None, seconds: float = 30) -> str:
    """The page's text; blocks the calling thread.

    Args:
        apart: the process that parses HTML; None starts one for this page only.
        seconds: time limit for parsing HTML; with some pages a parser never finishes.

    Raises:
        WebError: the page is not text, or cannot be parsed within the time limit.
    """
    kind = page.content_type.partition(";")[0].strip().lower()
    if not kind:
        kind = "text/html" if page.data[:_LOOKED_AT].lstrip()[:1] == b"<" else "text/plain"
    if kind not in _HTML and not _TEXTS.match(kind):
        raise WebError(
            f"{page.url} is {kind} ({len(page.data):,} bytes), not text",
            remedy="Look for another page with its text.",
        )
    text = decoded(page.data, page.content_type, html=kind in _HTML)
    if "\0" in text[:_LOOKED_AT]:
        raise WebError(f"{page.url} says it is {kind}, but it is not text")
    if kind not in _HTML:
        return text
    with nullcontext(apart) if apart is not None else Apart() as reader:
        try:
            return str(reader(f"{__name__}:as_markdown", text.encode(errors="replace"), seconds=seconds))
        except ApartError as error:
            raise WebError(
                f"{page.url} cannot be read: {error.message}", remedy="Look for another page with its text."
            ) from None


def decoded(data: bytes, content_type: str, *, html: bool) -> str:
    """``data`` as text. The first of these gives the encoding: byte order mark, server, page, a guess by the bytes."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    said = _SAID.search(content_type.encode("latin-1", "replace"))
    if said is not None and (name := _codec(said[1].decode("ascii"))) is not None:
        return data.decode(name, "replace")
    inside = _IN_PAGE.search(data[:_LOOKED_AT]) if html else None
    if inside is not None and (name := _codec((inside[1] or inside[2]).decode("ascii"))) is not None:
        # The page is not UTF-16 or UTF-32: its charset was readable as ASCII.
        return data.decode("utf-8" if name.startswith(("utf-16", "utf-32")) else name, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(data[:200_000], cp_isolation=list(_ON_THE_WEB)).best()
        return data.decode(best.encoding if best is not None else "utf-8", "replace")


def as_markdown(page: bytes) -> str:
    """HTML in UTF-8 as Markdown, without the elements that only a browser needs."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(page.decode(), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title is not None else ""
    for each in soup.find_all((*_DROPPED, "title")):
        each.decompose()
    try:
        text = MarkdownConverter(heading_style="ATX", strip=["img"], bullets="-").convert_soup(soup)
    except RecursionError:
        # The elements are nested deeper than in any page written by hand.
        text = soup.get_text("\n")
    text = _BLANK.sub("\n\n", text).strip()
    return text if not title or text.startswith(f"# {title}") else f"# {title}\n\n{text}"


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(_LABELS.get(name.lower(), name))
    except LookupError:
        return None
    if found.name in _MEANT:
        return _MEANT[found.name]
    # Codecs such as base64 turn bytes into bytes, not into text.
    known = found._is_text_encoding and found.name.replace("-", "_") not in _NOT_ON_THE_WEB
    return found.name if known else None
