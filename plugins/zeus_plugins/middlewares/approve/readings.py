"""The paths and addresses that a server may read in an argument: a text, also in quotes, a URI, a pattern. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from zeus_plugins.tools.web.urls import WebError, target
from zeus_runtime.plugin.files import composed, expand_braces, folded

_QUOTES: Final = "\"'`"
_MOST_JSON: Final = 200_000
"""Characters of JSON in a text."""
_MOST_PARTS: Final = 2_000
"""Values of JSON in a text: each may be a path that is looked up."""
_MOST_LEVELS: Final = 50
UNCLEAR: Final = "\0unclear"
"""A key of an object that may hold any argument."""
# URL parsers skip control characters and blanks before the scheme (WHATWG).
_SCHEME: Final = re.compile(r"[\x00- ]*file:", re.IGNORECASE)
_WEB: Final = re.compile(r"[\x00- ]*https?:", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[\x00- ]*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ESCAPED_HOST: Final = re.compile(r"[\x00- ]*https?:[/\\]*[^/?#]*[\\%]", re.IGNORECASE)
_DOT: Final = re.compile("%2e", re.IGNORECASE)
_REMOVED: Final = re.compile(r"[\t\n\r]")
"""Characters that URL parsers remove anywhere."""
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_GIT: Final = re.compile(r"\A:(?:\([^)]*\)|[/!^:]*)")
"""The start of a path in which git reads where it is, such as ``:/`` and ``:(top)``."""
_VARIABLE: Final = r"(?:\$\{[^}]*\}?|\$\w+)"
_REPLACED: Final = re.compile(rf"^/?{_VARIABLE}/?|{_VARIABLE}|[*?]+|\[[^\]]*\]?|\{{[^}}]*\}}?")
"""The parts of a path that a shell, git or a library may replace; a variable at the start may stand for any folder."""
_PLAIN_ADDRESS: Final = re.compile(
    r"(?!file://(?:[^/]|.*\?))[a-z][a-z0-9+.-]*://(?:(?:\[[0-9A-Fa-f:.]+\]|\w[\w.-]*)(?::[0-9]+)?)?(?P<path>(?:/.*)?)"
)
"""An address with a host, or with none for a file; no user name, and a path before a query or a fragment."""
LONGEST: Final = 4_096
"""Characters of a path that a system opens."""
_DRIVE: Final = re.compile(r"\.?/?[^/]*:")
"""What may be a drive, a scheme or a machine at the start of a path."""
_ODD: Final = re.compile(r"[\\{}*?\[\]$|<>^\"`;]|\A~|~\d|[!@+]\(")
"""What some program replaces or ends a path with: variables, patterns, quotes, homes, short names."""
_WILD: Final = re.compile(r"/?\*\*/?|[*?]+|\[[^\]]*\]?|\{[^}]*\}?")
"""The parts of a rule's pattern that match more than themselves."""


def is_file_uri(text: str) -> bool:
    """Whether a server may read the text as a URI with the scheme `file:`."""
    return _after_scheme(_trimmed(text)) is not None


def is_address(text: str) -> bool:
    """Whether a server may read the text as an address: ``https:…``, or another scheme than ``file`` and ``://``."""
    cleaned = _REMOVED.sub("", _trimmed(text))
    return bool(_WEB.match(cleaned) or (_ADDRESS.match(cleaned) and not _SCHEME.match(cleaned)))


def address_readings(text: str) -> tuple[str, ...] | None:
    """Return the address that is asked for a text, and those that a server may take it for, with `..` resolved.

    A web address has its host as ``host_name`` spells it, no usual port and no fragment. None if such a text has more
    than a host and a path in it, such as a user name, or a host that is none.
    """
    cleaned = _REMOVED.sub("", _trimmed(text))
    if not _WEB.match(cleaned):
        forms = (cleaned, _resolved(_DOT.sub(".", cleaned)), _resolved(_unquoted(cleaned)))
        return tuple(dict.fromkeys(forms))
    try:
        asked = target(_trimmed(text), allow=None, deny=()).url
    except WebError:
        return None
    parts = urlsplit(asked)
    # `%2e%2e` is `..` for a URL parser.
    path = _without_dots(_DOT.sub(".", parts.path))
    return tuple(dict.fromkeys((asked, urlunsplit(parts._replace(path=path)))))


def _resolved(address: str) -> str:
    scheme, _, rest = address.partition("://")
    place = re.split(r"([?#])", rest, maxsplit=1)
    host, slash, path = place[0].partition("/")
    return f"{scheme}://{host}{_without_dots(slash + path)}{''.join(place[1:])}"


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")
    for part in parts:
        if part == "..":
            del kept[max(1, len(kept) - 1) :]
        elif part != ".":
            kept.append(part)
    return "/".join([*kept, ""] if parts[-1] in (".", "..") else kept)


def has_escaped_host(text: str) -> bool:
    """Whether programs may read other signs in the host of a web address than those that are written."""
    return _ESCAPED_HOST.match(_REMOVED.sub("", _trimmed(text))) is not None


def authority(address: str) -> str:
    """Return the host and port as written, in lower case, of an address or of a pattern for some."""
    _, _, rest = _REMOVED.sub("", address).partition("://")
    return re.split(r"[/?#\\]", rest, maxsplit=1)[0].lower()


def is_web(text: str) -> bool:
    """Whether a server may read the text as an address of the web."""
    return _WEB.match(text) is not None


def is_plainly_spelled(text: str) -> bool:
    """Whether all servers read a path or an address in the same way, up to ``plain_readings``.

    So it is for a text of visible characters and blanks within names, without a part that a program resolves, replaces,
    decodes to a separator, or cuts off.
    """
    if not text.isprintable() or any(is_unseen(each) for each in {*text} - {" "}):
        return False
    address = _PLAIN_ADDRESS.fullmatch(text)
    if address is None:
        return not _DRIVE.match(text) and _is_plain_path(text)
    path = address["path"]
    if is_web(text):
        return not re.search(r"[\\ ]", path) and _is_plain_path(_cut(path))
    path, _, query = path.partition("?")
    return not _DRIVE.match(path) and _is_plain_path(path) and _is_plain_path(query)


def _is_plain_path(path: str) -> bool:
    decoded = _unquoted(path)
    composed_more = unicodedata.normalize("NFKC", decoded)  # a server may take `\uff0f` for a slash
    return (
        _unquoted(decoded) == decoded
        and decoded.count("/") == path.count("/")
        and all(composed_more.count(each) == decoded.count(each) for each in "/\\%")
        and all(
            _has_plain_names(each) and _has_plain_names(_cut(each).rstrip(" ")) for each in (path, decoded)
        )
    )


def _has_plain_names(path: str) -> bool:
    first, *names = path.split("/")
    if first not in ("", "."):
        names = [first, *names]
    if names and not names[-1]:  # a folder
        names.pop()
    # A name of signs alone may be `..` for a program: `+(.)`, `.''.`, `.. `.
    return (
        path.isprintable()
        and not _ODD.search(path)
        and all(re.search(r"[\w-]", each) and each.strip(" '") == each and each[-1] != ":" for each in names)
    )


def plain_readings(pattern: str, text: str) -> Iterable[tuple[str, str]]:
    """Return what servers read in a plainly spelled text, each with the pattern for it.

    They read it as it is, decoded, and without a fragment or, if it is no address of the web, a query.
    """
    for meant, each in ((pattern, text), (_unquoted(pattern), _unquoted(text))):
        yield meant, each
        yield meant.partition("#")[0], each.partition("#")[0] if is_web(text) else _cut(each)


def _cut(path: str) -> str:
    return re.split("[?#]", path, maxsplit=1)[0]


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def openings(pattern: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the paths that a server may open for a text that need not be one, each with the pattern to compare it with.

    They are the text as it is written and as a server cleans it, with the escapes of an address decoded, with a
    backslash as a separator, and behind a ``://``.
    """
    for each in readings(text):
        for form in dict.fromkeys((each, _decoded(each))):
            for meant, path in _cuts(pattern, form):
                for written in dict.fromkeys((path, path.replace("\\", "/"))):
                    yield meant, written


def _decoded(text: str) -> str:
    if _WEB.match(text):
        return _DOT.sub(".", text)
    return _unquoted(text) if is_address(text) or is_file_uri(text) else text


def _cuts(pattern: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield a text and what follows its first and its last ``://``, each with the pattern for it.

    An address is compared with a pattern for such addresses by that part alone.
    """
    scheme, mark, rest = text.partition("://")
    theirs, marked, place = pattern.partition("://")
    is_url = is_address(text) or is_file_uri(text)
    if mark and marked and is_url and fnmatchcase(scheme.lower(), theirs.lower()):
        yield place, rest
        return
    yield pattern, text
    for start, behind, path in dict.fromkeys(((scheme, mark, rest), text.rpartition("://"))):
        # Prose that has an address in it is none.
        if behind and not re.search(r"\s", start):
            yield pattern, path


def readings(text: str) -> Iterable[str]:
    """Return the paths that a server may read in a text, and one that no file has if it cannot be decoded."""
    is_uri = is_file_uri(text)
    found: dict[str, None] = {}
    parsed = _REMOVED.sub("", text) if is_address(text) and not is_web(text) else text
    for each in (text, _trimmed(text), parsed, _GIT.sub("", text)):
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
        yield "\0"
        return
    # For a browser's parser a backslash is a slash; for others it is a sign of a name.
    for meant in dict.fromkeys((rest, rest.replace("\\", "/"))):
        if meant.startswith("//"):
            cut = meant.removeprefix("//")
            forms = (cut, f"/{cut.partition('/')[2]}")
        else:
            forms = (meant, f"/{meant}")
        for form in forms:
            for each in (form, _cut(form)):
                yield each
                yield _unquoted(each)


def trims(text: str) -> tuple[str, ...]:
    """Return a text as it is written, without invisible characters around it, and also without quotes around it."""
    unseen = "".join(each for each in set(text) if is_unseen(each))
    shown = text.strip(unseen) if unseen else text
    return tuple(dict.fromkeys((text, shown, text.strip(unseen + _QUOTES))))


def is_unseen(char: str) -> bool:
    """Whether some server may remove a character at the end of a text: white space, controls, formats, fillers."""
    return char.isspace() or unicodedata.category(char) in ("Cc", "Cf") or not folded(char)


def _trimmed(text: str) -> str:
    return trims(text)[-1]


def json_content(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or array that a server may read in a text, with the JSON texts in it opened too; None if none.

    A key that is there twice has the list of its values. A text beyond the bounds becomes an object with ``UNCLEAR``.
    """
    try:
        content: dict[str, Any] | list[Any] | None = _read(text, [_MOST_PARTS], _MOST_LEVELS)
    except (RecursionError, _BeyondError):
        return {UNCLEAR: True}
    return content


class _BeyondError(Exception):
    """A text is too large, or nested too deeply."""


def _read(text: str, left: list[int], levels: int) -> Any:
    for form in trims(text):
        if form[:1] not in ("[", "{", '"'):
            continue
        if len(form) > _MOST_JSON:
            raise _BeyondError
        try:
            value = json.loads(form, object_pairs_hook=_all_values)
        except ValueError:
            continue
        # The text may be in a JSON text of its own.
        found = _read(value, left, levels - 1) if isinstance(value, str) else _opened(value, left, levels)
        if found is not None:
            return found
    return None


def _opened(value: Any, left: list[int], levels: int) -> Any:
    left[0] -= 1
    if left[0] < 0 or levels < 0:
        raise _BeyondError
    if isinstance(value, str):
        content = _read(value, left, levels - 1)
        return value if content is None else [value, content]
    if isinstance(value, list):
        return [_opened(each, left, levels - 1) for each in value]
    if isinstance(value, Mapping):
        return {key: _opened(each, left, levels - 1) for key, each in value.items()}
    return value


def _all_values(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def is_open(path: str) -> bool:
    """Whether nobody can tell which files a program opens that replaces parts of a path."""
    if not _REPLACED.search(path):
        return False
    try:
        forms = (path, *(expand_braces(path) if len(path) <= LONGEST else ()))
    except ValueError:
        return True
    return any(".." in re.split(r"[/{},]", each) for each in forms)


def _emptied(text: str) -> str:
    """A text with nothing in its outermost braces. Those without an end take the rest of it."""
    kept: list[str] = []
    depth = 0
    for token in re.split(r"(\$?\{|\})", text):
        if token.endswith("{"):
            if not depth:
                kept += (token, "}")
            depth += 1
        elif depth and token == "}":
            depth -= 1
        elif not depth:
            kept.append(token)
    return "".join(kept)


def meets(pattern: str, path: str) -> bool:
    """Whether a pattern may match a path in which a program replaces parts, such as ``priv*`` or ``$HOME/key``."""
    theirs = _REPLACED.split(_emptied(_folded(path)))
    if len(theirs) == 1:
        return False
    ours = _WILD.split(_emptied(_folded(pattern.lstrip("/"))))
    if len(ours) == 1:
        return _holds(ours[0], theirs)
    # Two patterns that match any text somewhere meet if their starts agree and their ends do.
    starts, ends = (ours[0], theirs[0]), (ours[-1], theirs[-1])
    return _agree(starts, str.startswith) and _agree(ends, str.endswith)


def _agree(texts: tuple[str, str], test: Callable[[str, str], bool]) -> bool:
    return test(*texts) or test(*reversed(texts))


def _holds(text: str, pieces: Sequence[str]) -> bool:
    """Whether a text is these pieces, with anything between them."""
    first, *middle, last = pieces
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _folded(text: str) -> str:
    return composed(text).casefold()
