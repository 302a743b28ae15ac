"""Conversion of a fetched page to text for a model: HTML, PDF and Word documents, and text; the rest is refused."""

from __future__ import annotations

import codecs
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from zeus_plugins.tools.web.urls import WebError
from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.knowledge import (
    UnreadableError,
    convert_file,
    guessed_encoding,
    markdown_of,
    marked_encoding,
)
from zeus_runtime.plugin.tool import Apart, ApartError

if TYPE_CHECKING:
    from zeus_plugins.tools.web.fetching import Fetched

_SAID: Final = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_IN_PAGE: Final = re.compile(
    rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})"""
    rb"""|<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z0-9_.:-]{2,40})""",
    re.IGNORECASE,
)
"""The page's own charset. A charset attribute of a script or a link describes that script or link, not the page."""
_TEXTS: Final = re.compile(r"text/|application/(json|xml|javascript|x-yaml|yaml|toml|.*\+(json|xml))")
_DOCUMENTS: Final = {
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
}
"""What a page can be besides text, and the suffix of such a file."""
_PDF: Final = b"%PDF-"
"""How a PDF begins, which servers often send as ``application/octet-stream``."""
_HTML: Final = ("text/html", "application/xhtml+xml")
_LOOKED_AT: Final = 4_096
_NOT_ON_THE_WEB: Final = ("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7")
"""Python's codecs that no browser has. Some of them fail on invalid bytes even with ``errors="replace"``."""
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
    if page.data.startswith(_PDF):
        kind = "application/pdf"
    if kind in _DOCUMENTS:
        return _document_text(page, _DOCUMENTS[kind], apart, seconds)
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


def _document_text(page: Fetched, suffix: str, apart: Apart | None, seconds: float) -> str:
    if not page.whole:
        raise WebError(
            f"{page.url} is a document of more than {len(page.data):,} bytes, the most that are read, and its beginning"
            " alone cannot be read",
            remedy="Raise max_bytes of the tools `web`, or look for another page with its text.",
        )
    try:
        return convert_file(f"page{suffix}", page.data, apart=apart, seconds=seconds).text
    except UnreadableError as error:
        raise WebError(
            f"{page.url} cannot be read: {error.message}", remedy="Look for another page with its text."
        ) from None
    except MissingError as error:
        raise WebError(f"{page.url} cannot be read: {error.message}", remedy=error.remedy) from None


def decoded(data: bytes, content_type: str, *, html: bool) -> str:
    """``data`` as text. The first of these gives the encoding: byte order mark, server, page, a guess by the bytes."""
    if (marked := marked_encoding(data)) is not None:
        return data.decode(marked, "replace")
    said = _SAID.search(content_type.encode("latin-1", "replace"))
    if said is not None and (name := _codec(said[1].decode("ascii"))) is not None:
        return data.decode(name, "replace")
    inside = _IN_PAGE.search(data[:_LOOKED_AT]) if html else None
    if inside is not None and (name := _codec((inside[1] or inside[2]).decode("ascii"))) is not None:
        # The page is not UTF-16 or UTF-32: its charset was readable as ASCII.
        return data.decode("utf-8" if name.startswith(("utf-16", "utf-32")) else name, "replace")
    return data.decode(guessed_encoding(data) or "utf-8", "replace")


def as_markdown(page: bytes) -> str:
    """HTML in UTF-8 as Markdown, without the elements that only a browser needs."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page.decode(), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title is not None else ""
    for each in soup.find_all((*_DROPPED, "title")):
        each.decompose()
    try:
        text = markdown_of(soup)
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
