"""Virtual paths: splits and checks paths that the model writes, without accessing the disk."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from zeus_runtime.config.secrets.placeholders import PLACEHOLDER
from zeus_runtime.errors import ZeusError
from zeus_runtime.escaping import IGNORABLE, printable

_DRIVE = re.compile(r"[A-Za-z]:([\\/]|$)")
_IGNORED: Final = re.compile(IGNORABLE)
"""More than the category Cf has: Linux's folders that ignore case (ext4, f2fs) ignore selectors and fillers too."""
ENDING: Final = ". "
"""Characters that are ignored at the end of a name."""
_PART: Final = re.compile("[^/]+")
_SHOWN_PART: Final = re.compile(rf"(?:{PLACEHOLDER.pattern}|[^/])+")
LONGEST_PATH: Final = 3_900
"""Of a real path, in bytes. The kernel takes 4,095, and bubblewrap puts a prefix before a path that it mounts."""


class WorkspaceError(ZeusError):
    """A path or file that the workspace refuses or does not have; the message is for the model."""

    code = "workspace"


class NoSuchFileError(WorkspaceError):
    """The path does not exist."""


class IsFolderError(WorkspaceError):
    """The path is a folder, and no file."""


def split(path: str, *, is_shown: bool = False) -> tuple[str, ...]:
    """The parts of a virtual path: ``/src/a.py``, ``src/a.py`` and ``./src//x/../a.py`` are ``("src", "a.py")``.

    Args:
        is_shown: it is as the model sees it: a ``/`` within a placeholder separates nothing.

    Raises:
        WorkspaceError: the path leads above ``/``, contains NUL or cannot be encoded, or has a foreign form
            (``C:\\x``, backslashes, ``~/x``, a URL).
    """
    if "\0" in path:
        raise WorkspaceError("The path holds a NUL character.", remedy="Use a path such as /src/a.py.")
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise WorkspaceError("The path holds characters that no file name can have.") from None
    if _DRIVE.match(path) or "\\" in path:
        raise WorkspaceError(
            f"{printable(path)} is not a workspace path.",
            remedy="Separate parts with / and start at the workspace, as in /src/a.py; there are no drives.",
        )
    if path == "~" or path.startswith("~/"):
        raise WorkspaceError("~ is not expanded.", remedy="Start at the workspace, as in /src/a.py.")
    if "://" in path:
        raise WorkspaceError(
            f"{printable(path)} is a URL, not a path.", remedy="Give a path such as /src/a.py."
        )
    parts: list[str] = []
    for part in (_SHOWN_PART if is_shown else _PART).findall(path):
        if part == "..":
            if not parts:
                raise WorkspaceError(
                    f"{printable(path)} leaves the workspace.",
                    remedy="/ is the workspace; nothing is above it.",
                )
            parts.pop()
        elif part != ".":
            parts.append(part)
    return tuple(parts)


def join(parts: tuple[str, ...]) -> str:
    """The absolute virtual path of ``parts``."""
    return "/" + "/".join(parts)


def composed(text: str) -> str:
    """Convert text to Unicode's composed form: é is one character; some file systems treat both forms as equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=8_192)
def folded(name: str) -> str:
    """Return the form of a name for comparisons; names that some file system treats as equal have the same form.

    It ignores case, the Unicode form, invisible characters, and dots and spaces at the end.
    """
    same = folded_piece(name)
    return same.rstrip(ENDING) or same


def folded_piece(text: str) -> str:
    """Return ``folded`` for a part of a name that is not its end."""
    if text.isascii():
        return text.lower()
    shown = "".join(each for each in _IGNORED.sub("", text) if unicodedata.category(each) != "Cf")
    # Decomposed, so that marks that have an upper case (U+0345) are behind the others, whatever letter they are on.
    # Upper case first: some letters (ı) share their upper case with another letter. Case folding may decompose (ΐ).
    return composed(unicodedata.normalize("NFD", shown).upper().casefold())


@lru_cache(maxsize=8_192)
def decomposed_fold(text: str) -> str:
    """Return ``folded_piece`` in Unicode's decomposed form: there, the folds of letters in a row are that of all."""
    return unicodedata.normalize("NFD", folded_piece(text))


@lru_cache(maxsize=8_192)
def letters_of(name: str) -> tuple[tuple[str, str], ...]:
    """The letters of a name in the composed form, each with its fold; ß has the fold ss. Ignored ones are left out."""
    shown = composed("".join(each for each in name if decomposed_fold(each)))
    return tuple((each, decomposed_fold(each)) for each in shown)
