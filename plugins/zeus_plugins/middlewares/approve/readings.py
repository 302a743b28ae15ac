"""The paths and addresses that a server may read in an argument: a text, as it is or in quotes, or a URI. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from zeus_plugins.tools.web.urls import WebError, target
from zeus_runtime.plugin.files import WorkspaceError

_QUOTES: Final = "\"'`"
# URL parsers skip control characters and blanks before the scheme (WHATWG).
_SCHEME: Final = re.compile(r"[\x00- ]*file:", re.IGNORECASE)
_WEB: Final = re.compile(r"[\x00- ]*https?:", re.IGNORECASE)
_DOT: Final = re.compile("%2e", re.IGNORECASE)
_REMOVED: Final = re.compile(r"[\t\n\r]")
"""Characters that URL parsers remove anywhere."""
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_file_uri(text: str) -> bool:
    """Whether a server may read the text as a URI with the scheme `file:`."""
    return _after_scheme(_trimmed(text)) is not None


def is_web_address(text: str) -> bool:
    """Whether a server may read the text as an address with the scheme `http:` or `https:`."""
    return _WEB.match(_REMOVED.sub("", _trimmed(text))) is not None


def address_readings(text: str) -> tuple[str, ...] | None:
    """Return the address that is asked for a text, and the one that a server may take it for, with `..` resolved.

    Both have the host in lower case and in the encoding of DNS, no usual port and no fragment. None if the text has
    more than a host and a path in it, such as a user name, or no host.
    """
    try:
        asked = target(_trimmed(text), allow=None, deny=()).url
    except WebError:
        return None
    parts = urlsplit(asked)
    # `%2e%2e` is `..` for a URL parser.
    path = urljoin("/", _DOT.sub(".", parts.path))
    return tuple(dict.fromkeys((asked, urlunsplit(parts._replace(path=path)))))


def authority(address: str) -> str:
    """Return the host and port as written, in lower case, of an address or of a pattern for some."""
    _, _, rest = _REMOVED.sub("", address).partition("://")
    return re.split(r"[/?#\\]", rest, maxsplit=1)[0].lower()


def readings(text: str) -> Iterable[str]:
    """Return the paths that a server may read in a text.

    Raises:
        WorkspaceError: it is a `file:` URI that cannot be decoded.
    """
    is_uri = is_file_uri(text)
    found: dict[str, None] = {}
    for each in (text, _trimmed(text)):
        if not (is_uri and "://" in each):  # else it is no path
            found[each] = None
        if (rest := _after_scheme(each)) is not None:
            found.update(dict.fromkeys(_paths_after(rest)))
    return dict.fromkeys(form for each in found for form in (each, _trimmed(each)))


def _after_scheme(text: str) -> str | None:
    uri = _REMOVED.sub("", text)
    scheme = _SCHEME.match(uri)
    return None if scheme is None else uri[scheme.end() :]


def _paths_after(rest: str) -> Iterator[str]:
    """Yield the paths that may follow `file:`, since servers parse the URI, or cut off its start, in their own ways."""
    if _BROKEN_ESCAPE.search(rest):
        raise WorkspaceError("The URI has a % without two hexadecimal digits.")
    # For a browser's parser a backslash is a slash.
    rest = rest.replace("\\", "/")
    if rest.startswith("//"):
        cut = rest.removeprefix("//")
        forms = (cut, f"/{cut.partition('/')[2]}")
    else:
        forms = (rest, f"/{rest}")
    for form in forms:
        for each in (form, re.split("[?#]", form, maxsplit=1)[0]):
            yield each
            yield unquote(each, errors="surrogateescape")


def _trimmed(text: str) -> str:
    """Return the text without white space and quotes around it."""
    return text.strip("".join(each for each in set(text) if each.isspace() or each in _QUOTES) or None)
