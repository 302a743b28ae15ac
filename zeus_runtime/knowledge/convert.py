"""Convert a file's bytes to text: Markdown where the format has a structure, pages where it has pages.

PDF by pypdf (BSD, pure Python), DOCX by mammoth (BSD: headings, lists and tables as HTML), HTML by markdownify (MIT, on
Beautiful Soup). All three come with the extra ``kb``. They parse untrusted files, so they run in a separate process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby, pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import MissingError, ZeusError
from zeus_runtime.knowledge.encodings import guessed_encoding, marked_encoding
from zeus_runtime.tools.worker_process import Apart, ApartError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from bs4.element import NavigableString

Form: TypeAlias = Literal["markdown", "text", "code"]

VERSION: Final = 2
"""Increase it if the same file would give another text or other words; older ones are then converted again."""

MAX_BYTES: Final = 100_000_000
_MAX_UNPACKED: Final = 500_000_000

_MARKDOWN: Final = frozenset({".md", ".markdown", ".mdx", ".mkd"})
_PROSE: Final = frozenset({"", ".txt", ".text", ".rst", ".adoc", ".log", ".org", ".tex"})


class UnreadableError(ZeusError):
    """A file that cannot be converted to text; the message gives the reason (exit 1)."""

    code = "unreadable-file"


@dataclass(frozen=True)
class Page:
    """A part of a document's text.

    Args:
        number: the page, from 1; None where the format has none, and lines are counted.
        heading: the headings above its first line that its text does not have, such as a PDF's bookmarks, joined by
            `` > ``.
    """

    text: str
    number: int | None = None
    heading: str = ""


@dataclass(frozen=True)
class Converted:
    """A document as text.

    Args:
        form: how it is cut.
        pages: at least one.
    """

    form: Form
    pages: tuple[Page, ...]

    @property
    def text(self) -> str:
        """All of it, pages marked."""
        if len(self.pages) == 1:
            return self.pages[0].text
        return "\n\n".join(f"[page {page.number}]\n{page.text}" for page in self.pages)


def has_parser(name: str) -> bool:
    """Whether a file of this name is parsed in a separate process."""
    return PurePath(name).suffix.lower() in _FORMATS


def convert_file(name: str, data: bytes, *, apart: Apart | None = None, seconds: float = 60) -> Converted:
    """The text of a file; blocks.

    Args:
        name: its name; the suffix determines the format.
        data: its bytes.
        apart: the process that parses formats with a parser; None: start one for this file.
        seconds: the time limit for parsing.

    Raises:
        UnreadableError: the file is not text, its format is unknown, or it is damaged, locked, too large or too slow.
        MissingError: the extra ``kb`` is not installed.
    """
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"it has {len(data):,} bytes, more than the {MAX_BYTES:,} that are read")
    suffix = PurePath(name).suffix.lower()
    if suffix not in _FORMATS:
        form: Form = "markdown" if suffix in _MARKDOWN else "text" if suffix in _PROSE else "code"
        return Converted(form, (Page(_plain(data)),))
    for needed in _NEEDED[suffix]:
        if find_spec(needed) is None:
            raise MissingError(
                f"{suffix[1:].upper()} files need {needed}, which is not installed",
                remedy="pip install 'zeus-runtime[kb]'",
            )
    with nullcontext(apart) if apart is not None else Apart() as reader:
        try:
            found: Any = reader(f"{__name__}:parsed", data, seconds=seconds, suffix=suffix)
        except ApartError as error:
            raise UnreadableError(error.message) from None
    if "unreadable" in found:
        raise UnreadableError(found["unreadable"])
    return Converted(found["form"], tuple(Page(*each) for each in found["pages"]))


def parsed(data: bytes, suffix: str) -> Mapping[str, Any]:
    """A file of a format with a parser: its form and its pages (text, number, heading), or why it is unreadable."""
    try:
        made = _FORMATS[suffix](data)
    except UnreadableError as error:
        return {"unreadable": error.message}
    except MemoryError:
        raise
    except (Exception, RecursionError) as error:  # noqa: BLE001 - a library's word on a damaged file
        return {"unreadable": f"it is damaged: {type(error).__name__}: {cut_text(str(error), 200)}"}
    return {"form": made.form, "pages": [[page.text, page.number, page.heading] for page in made.pages]}


def _plain(data: bytes) -> str:
    marked = marked_encoding(data)
    # UTF-16 and UTF-32 have zeros too, but then a mark, as a rule; other texts have none.
    if marked is None and b"\0" in data[:8_192]:
        raise UnreadableError("it is not text")
    encoding = marked or guessed_encoding(data)
    if encoding is None:
        raise UnreadableError("it is not text, or in an encoding that is not known; save it as UTF-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"it looks like {encoding.upper()}, but byte {error.start:,} is not; save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _pdf(data: bytes) -> Converted:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("it is locked with a password")
    headings = _bookmarks(reader)
    pages = [
        Page(page.extract_text() or "", number, headings.get(number, ""))
        for number, page in enumerate(reader.pages, 1)
    ]
    if not any(page.text.strip() for page in pages):
        raise UnreadableError("it holds no text, only pictures")
    return Converted("text", tuple(pages))


def _bookmarks(reader: Any) -> dict[int, str]:
    """The bookmarks above the first line of each page, outermost first; empty where a PDF has none."""
    from pypdf.errors import PyPdfError

    starts: list[tuple[int, str]] = []

    def collect(entries: Sequence[Any], above: str) -> None:
        path = above
        for entry in entries:
            if isinstance(entry, list):
                collect(entry, path)
                continue
            title = " ".join(str(entry.title).split())
            path = f"{above} > {title}" if above and title else above or title
            page = reader.get_destination_page_number(entry)
            if page is not None and page >= 0:
                starts.append((page + 1, path))

    try:
        collect(reader.outline, "")
    except (PyPdfError, RecursionError, KeyError, ValueError, TypeError, AttributeError):
        return {}  # damaged bookmarks; the text may be fine
    starts.sort(key=lambda each: each[0])
    on_page = {page: [path for _, path in some] for page, some in groupby(starts, lambda each: each[0])}
    found, last = {}, ""
    for number in range(1, len(reader.pages) + 1):
        # The first one that begins on the page, else the last one before it.
        here = on_page.get(number)
        found[number] = here[0] if here else last
        last = here[-1] if here else last
    return found


def _docx(data: bytes) -> Converted:
    import zipfile

    import mammoth

    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        # A small archive may unpack to many gigabytes; its directory tells without unpacking.
        if sum(each.file_size for each in packed.infolist()) > _MAX_UNPACKED:
            raise UnreadableError(f"unpacked it has more than {_MAX_UNPACKED:,} bytes")
    # mammoth would embed each image as the text of its bytes.
    html = mammoth.convert_to_html(io.BytesIO(data), convert_image=lambda _image: []).value
    return _html(html.encode())


def _html(data: bytes) -> Converted:
    import bs4
    from bs4.dammit import EncodingDetector

    # Without a declaration, a guess comes first. It takes some short texts for Shift-JIS: a backslash is a yen there.
    likely = None if EncodingDetector.find_declared_encoding(data, is_html=True) else "utf-8"
    soup = bs4.BeautifulSoup(data, "html.parser", from_encoding=likely)
    for each in soup(["script", "style", "noscript", "template", "head", "svg"]):
        each.decompose()
    return Converted("markdown", (Page(markdown_of(soup).strip()),))


def markdown_of(soup: BeautifulSoup) -> str:
    """Parsed HTML as Markdown, without pictures. A word of which a part is bold, italic or code has no marks.

    In ``Secre**t-abc123**`` neither a search would find the word, nor the mask the secret. ``soup`` is changed.
    """
    from markdownify import MarkdownConverter

    for before, after in pairwise(soup.find_all(string=True)):
        if before and after and not before[-1].isspace() and not after[0].isspace():
            _join(before, after)
    text: str = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(soup)
    return text


def _join(before: NavigableString, after: NavigableString) -> None:
    """Remove the marks that end or begin between two texts of one word. A sign alone is not a word."""
    around, around_after = list(before.parents), list(after.parents)
    if _block_of(around) is not _block_of(around_after):
        return
    begun, ended = str(before).rsplit(maxsplit=1)[-1], str(after).split(maxsplit=1)[0]
    for word, parents, others in ((ended, around, around_after), (begun, around_after, around)):
        shared = set(map(id, others))
        for each in parents if any(map(str.isalnum, word)) else ():
            if id(each) not in shared and each.name in _MARKED:
                each.name = "span"  # to unwrap it would take time by its siblings


def _block_of(parents: Iterable[Tag]) -> Tag | None:
    return next((each for each in parents if each.name in _BLOCKS), None)


_MARKED: Final = frozenset("b strong em i code kbd samp del s".split())
_BLOCKS: Final = frozenset("p div li td th dt dd pre blockquote section article h1 h2 h3 h4 h5 h6".split())


_FORMATS: Final[Mapping[str, Callable[[bytes], Converted]]] = {
    ".pdf": _pdf,
    ".docx": _docx,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
}
_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    ".pdf": ("pypdf",),
    ".docx": ("mammoth", "bs4", "markdownify"),
    ".html": ("bs4", "markdownify"),
    ".htm": ("bs4", "markdownify"),
    ".xhtml": ("bs4", "markdownify"),
}
