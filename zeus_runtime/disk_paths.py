"""Paths on the disk: ``~`` for a home folder, the folder for what Zeus records, and links resolved."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeGuard

_MOST_LINKS: Final = 40


def expanded(path: str | Path) -> Path:
    """``path`` with ``~`` or ``~user`` replaced by that home folder; unchanged where no such home is known.

    A text that begins otherwise, such as ``./~``, names no home.
    """
    written = path if isinstance(path, Path) else Path(path)
    if not str(path).startswith("~"):
        return written
    try:
        return written.expanduser()
    except RuntimeError:
        return written


def is_in(path: str, folder: str) -> bool:
    """Whether a plain absolute path is a folder or in it; by text, which takes a tenth of pathlib's time."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def is_folder(path: Path) -> bool:
    """Whether ``path`` leads to a folder; not if this user may not enter one above it, for which ``is_dir`` raises.

    In a container of another user than root, ``HOME=/root`` is such a folder.
    """
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether ``path`` leads to a file; not if this user may not look, nor for a text that cannot be a path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_file_name(value: object) -> TypeGuard[str]:
    """Whether a value can name a file: a text that is not empty, as where a variable is not set, and without NUL."""
    return isinstance(value, str) and value != "" and "\0" not in value


def plain_path(path: str | Path) -> str:
    """``path`` without ``.`` and ``..``, as the system reads it: a link before ``..`` leads elsewhere than the text."""
    place = Path(path)
    if ".." not in place.parts:
        return os.path.normpath(place)
    return real_path(place) if place.name == ".." else str(Path(real_path(place.parent)) / place.name)


def place_of(file: Path) -> str:
    """The place of a text: the links of its folder are resolved, but not its own.

    A link gives one text several places, and its relative paths start in the link's folder: it names other files there.
    """
    return os.path.join(real_path(file.parent), file.name)


def real_path(path: str | Path) -> str:
    """``path`` with its links resolved, up to a link that this user may not read, such as ``/proc/1/cwd``.

    Before Python 3.13 ``os.path.realpath`` raises for such a link.
    """
    try:
        return os.path.realpath(path)
    except OSError as error:
        return str(error.filename)


def shown_below(file: Path, directory: Path) -> str:
    """A real path as questions of permission show it: relative if it is below ``directory``."""
    folder = directory.resolve()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def closed_link(path: str | Path) -> str | None:
    """The first link on the way of ``path`` that this user may not read, such as ``/proc/1/cwd``, if there is one.

    Before Python 3.13 ``Path.resolve`` raises for such a path, and later versions do not say where it leads.
    """
    for place in places_passed(os.path.abspath(path)):
        try:
            os.readlink(place)
        except PermissionError:
            if os.path.islink(place):
                return place
        except OSError:
            continue  # no link
    return None


def places_passed(path: str) -> Iterator[str]:
    """The files, folders and links that the system passes on the way to an absolute path."""
    place, links = os.sep, 0
    left = path.split(os.sep)[::-1]
    while left:
        part = left.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            place = os.path.dirname(place)
            continue
        parent, place = place, os.path.join(place, part)
        yield place
        try:
            target = os.readlink(place)
        except OSError:
            continue  # no link
        links += 1
        if links > _MOST_LINKS:
            return  # the system gives up too
        place = os.sep if target.startswith(os.sep) else parent
        left += target.split(os.sep)[::-1]


def leads_through(path: Path, folder: Path) -> bool:
    """Whether the system passes ``folder`` on the way to an absolute path, or arrives there.

    The root does not count: whoever fills it brings Zeus too.
    """

    def is_it(place: str) -> bool:
        try:
            return os.path.samefile(place, folder)
        except OSError:
            return False

    return any(map(is_it, places_passed(str(path))))


def is_private(path: Path) -> bool:
    """Whether a file or folder is this user's, and no other may read or write it, where the system tells.

    Raises:
        OSError: it is not there.
    """
    status = path.stat()
    return os.name != "posix" or (not status.st_mode & 0o077 and status.st_uid == os.geteuid())


def links_passed(paths: Iterable[str]) -> set[str]:
    """The links that the system passes on the way to absolute paths, each with the links of its folder resolved."""
    passed = {place for path in paths for place in places_passed(path)}
    return set(filter(os.path.islink, passed))


def passes_only_links_above(path: Path, folder: Path) -> bool:
    """Whether each link that the system follows on the way to an absolute path lies in a folder above ``folder``."""
    above = set(map(str, Path(real_path(folder)).parents))
    return above.issuperset(map(os.path.dirname, links_passed([str(path)])))


def are_one_folder(one: str, other: str) -> bool:
    """Whether two absolute paths of equally many parts, whose names some file system takes for equal, lead to one file.

    Links are not followed. A file system may give one file an inode number for each spelling. So two names also lead to
    one file if both are found, and their folder does not list both.
    """
    try:
        if os.path.samestat(os.lstat(one), os.lstat(other)):
            return True
        at = os.sep
        for name, spelled in zip(one.split(os.sep), other.split(os.sep), strict=True):
            if name != spelled and {name, spelled} <= set(os.listdir(at)):
                return False
            at = os.path.join(at, name)
    except OSError:
        return False
    return True


def other_spelling(folder: str, names: Sequence[str]) -> str | None:
    """Another spelling by which the file system finds one of the names in a folder; None if it finds none.

    It is asked for one name in each way, because it treats all names of a folder alike: with letters in the other case,
    in other Unicode forms, with a dot at the end, and with an invisible character. It is asked for the short names of
    all names, since some have none.

    Args:
        names: those of files that are there.

    Raises:
        OSError: the folder cannot be listed.
    """
    for respelled in _WAYS:
        name, other = next(((each, new) for each in names if (new := respelled(each)) != each), ("", ""))
        if not other or not os.path.lexists(os.path.join(folder, other)):
            continue
        # A file system that tells them apart may have both.
        if not {name, other} <= set(os.listdir(folder)):
            return other
    return short_name(folder, names)


def short_name(folder: str, names: Iterable[str]) -> str | None:
    """A short name (8.3) by which the file system finds a file, and that the folder does not list; None if none is.

    Args:
        names: the files whose short names it is asked for.

    Raises:
        OSError: the folder cannot be listed.
    """
    for other in dict.fromkeys(short for name in names for short in _short_names(name)):
        if os.path.lexists(os.path.join(folder, other)) and other not in os.listdir(folder):
            return other
    return None


def _short_names(name: str) -> Iterator[str]:
    """Yield the first short names (8.3) that Windows may give a file; none for a name that is short itself."""
    if _SHORT.fullmatch(name):
        return
    stem, dot, end = name.lstrip(".").rpartition(".")
    start, end = (_NOT_SHORT.sub("", each).upper() for each in ((stem, end) if dot else (end, "")))
    for number in range(1, 5):
        yield f"{start[:6]}~{number}" + (f".{end[:3]}" if end else "")


_SHORT: Final = re.compile(r"[A-Za-z0-9_-]{1,8}(\.[A-Za-z0-9_-]{1,3})?")
_NOT_SHORT: Final = re.compile(r"[^A-Za-z0-9_!#$%&'()@^{}~-]")


def _other_case(name: str) -> str:
    """``name`` with those letters in the other case that have exactly one in it; ß and ı do not."""
    return "".join(
        other if len(other := each.swapcase()) == 1 and other.swapcase() == each else each for each in name
    )


_WAYS: Final[tuple[Callable[[str], str], ...]] = (
    lambda name: "".join(each.swapcase() if each.isascii() else each for each in name),
    lambda name: name if name.isascii() else _other_case(name),
    lambda name: unicodedata.normalize("NFC", name),
    lambda name: unicodedata.normalize("NFD", name),
    "{}.".format,
    "{}\u200d".format,
)


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """The home folder that the variables name; None for a process without one.

    Args:
        environ: the environment of the process itself.
    """
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(home) if home else None


def home_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Each home folder that a program of this user may take for its own: the one of the variables, and the account's.

    Libraries ask for the account's where ``HOME`` is not set, and ``ssh`` always does.

    Args:
        environ: the environment of the process itself.
    """
    found = (home_folder(environ), _home_of_account())
    return tuple(dict.fromkeys(each for each in found if each is not None and each.is_absolute()))


def _home_of_account() -> Path | None:
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # on Windows; for a number without an account, as in a container
        return None


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder for what Zeus records for this user; None for a process without a home.

    Args:
        environ: the environment of the process itself: ``XDG_STATE_HOME`` or ``HOME``.
    """
    state = environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative path.
    if state and Path(state).is_absolute():
        return Path(state) / "zeus"
    home = home_folder(environ)
    return None if home is None else home / ".local" / "state" / "zeus"
