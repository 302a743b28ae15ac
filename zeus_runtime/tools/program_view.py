"""The workspace as a program may see it: the folders to mount, and each file whose rights differ from its folder's.

A program opens files without the workspace's checks, so the access policy must be applied before it starts, as mounts.
A file that needs an approval cannot wait for one: it is read-only, or not there if already reading it needs one.

A mount covers a file, and not its path. So each folder above one is a mount too: the kernel renames and removes no
mount, and the file cannot get another path, by which the rules would judge it otherwise later. A link cannot be
a mount, so a folder is read-only if one of its links is protected, or decides which files are.

A mount covers one spelling of a name. If the file system finds the file by another one too, because it ignores case,
no program runs that could write in the folder; a folder that programs only read is shown with the listed names alone.

A mount of a folder also shows what comes into it later. So no folder is mounted where Zeus keeps files of all sessions:
programs find an empty one in its place, with the files of their own session.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.disk_paths import is_in, other_spelling, real_path
from zeus_runtime.escaping import printable
from zeus_runtime.tools.gate import Gate
from zeus_runtime.tools.git_folders import GIT_NAMES, git_depth
from zeus_runtime.tools.like_names import SETTLED_NANOSECONDS
from zeus_runtime.tools.mounts import Parts, parts_below
from zeus_runtime.tools.paths import LONGEST_PATH, WorkspaceError, folded, join
from zeus_runtime.tools.safe_open import OPEN_FOLDER

ProgramRight: TypeAlias = Literal["none", "read", "write"]


class ProgramMount(NamedTuple):
    """A folder or file that programs may use otherwise than the folder around it.

    Args:
        host: its real path.
        right: the program's right; of a folder it covers all that is in it, apart from later mounts.
        is_folder: whether it is a folder.
        identity: the device and inode that were judged. Before a program runs, compare them with what was mounted:
            other programs may put another file or a link there meanwhile. None: not known.
    """

    host: str
    right: ProgramRight
    is_folder: bool
    identity: tuple[int, int] | None = None


_MOST_MOUNTS: Final = 4_000
"""Each is a mount of the kernel; bubblewrap makes about 10,000 a second."""

_MOST_OF_SESSION: Final = 200
"""The newest files of a session that programs see in a folder of Zeus. Bubblewrap makes 250 mounts in 0.1 seconds, and
1,000 in 1.3; a long session has thousands."""

_MOST_LEVELS: Final = 200
_KEPT_LOOKS: Final = 2
"""An agent may run programs in a shell and in a sandbox, by turns."""
_ANY_NAME: Final = "\ue000" * 64
"""Stands for the name of an entry that a program makes: no pattern spells it, and `*` fits it."""


class JudgedFolders:
    """The rights of the files in folders that have not changed since an earlier look.

    They also depend on the running tool, on where links lead, and on the folder's own right: with another one, its
    files are judged again. Folders where Zeus keeps files of sessions are always judged again, since a session may read
    only its own files there.
    A file gets and loses further names (hard links) without a change of its folder. So each look asks for each file's
    number of names. Files with several are judged again when other files hold keys.

    Looks run at the same time in several threads. Each has a mapping of its own, which nobody changes after it.
    """

    def __init__(self) -> None:
        self._looks: tuple[tuple[object, Mapping[str, _JudgedFolder]], ...] = ()

    def begin(self, seen_with: object) -> Look:
        """Return a look that finds what the last one with the same tool, links and rights has found."""
        return Look(next((folders for seen, folders in self._looks if seen == seen_with), {}))

    def end(self, seen_with: object, look: Look) -> None:
        """Keep what a look has found for the next one, and forget the oldest of other tools."""
        others = (each for each in self._looks if each[0] != seen_with)
        self._looks = ((seen_with, look.folders), *others)[:_KEPT_LOOKS]


class Look:
    """One look at all folders.

    Args:
        former: what an earlier look with the same tool, links and rights has found.
    """

    def __init__(self, former: Mapping[str, _JudgedFolder]) -> None:
        self._former = former
        self.folders: dict[str, _JudgedFolder] = {}

    def find(self, host: str, state: object, keys: Callable[[], object]) -> Sequence[_Judged] | None:
        """Return the files of a folder, if they were judged in the same state.

        Args:
            keys: returns which files hold keys.
        """
        found = self._former.get(host)
        if (
            found is None
            or found.state != state
            or not all(each.is_folder or _is_same(each) for each in found.files)
            or not (found.keys is None or found.keys == keys())
        ):
            return None
        self.folders[host] = found
        return found.files

    def keep(self, host: str, state: object, judged: Sequence[_Judged], keys: Callable[[], object]) -> None:
        """Keep the files of a folder for the next look."""
        has_several = any(not each.is_folder and each.names > 1 for each in judged)
        self.folders[host] = _JudgedFolder(state, keys() if has_several else None, judged)


def program_view(
    gate: Gate, known: JudgedFolders, *, max_files: int, writable: bool = True
) -> list[ProgramMount]:
    """Return the mounts for the running tool's programs, each folder before what is in it.

    Args:
        known: what earlier looks found; this one adds to it.
        max_files: the most files and folders that are looked at.
        writable: programs may write where the policy lets them; False: they only read.

    Raises:
        WorkspaceError: the workspace has more files, or too many whose rights differ from their folder's; or a program
            could make a route lead elsewhere, or reach a file by another spelling of its name.
    """
    gate = gate.for_programs()
    links = gate.deciding_links() if writable else frozenset[str]()
    seen_with = (gate.seen_with(), links, writable)
    shown: list[str] = []
    for host in sorted(map(gate.mounts.real, (gate.mounts.root, *gate.mounts.folders.values()))):
        # A route into a folder that is shown already is judged there, by all of its names.
        if os.path.isdir(host) and not any(is_in(host, each) for each in shown):  # noqa: PTH112 - a str is wanted
            shown.append(host)
    for each in gate.folders_of_sessions():
        # Else Zeus makes it while a program runs, which then sees all that comes into it.
        _made(each, real_path(each), shown, remedy="Tell the user: another folder in the config.")
    tops: set[str] = set()
    if writable:
        tops = {_settled(each, shown) for each in gate.tops()}
        for each, is_folder in gate.unasked():
            remedy = "Tell the user: a smaller workspace.root."
            _made(each, real_path(each), shown, remedy=remedy, is_folder=is_folder, is_private=True)
    look = known.begin(seen_with)
    scan = _Scan(gate, look, max_files, tops, links, writable=writable)
    try:
        return [mount for host in shown for mount in scan.folder(host)]
    finally:
        known.end(seen_with, look)


def _settled(top: Path, shown: Sequence[str]) -> str:
    """Return the real path of a root or route; in a folder that programs see, it is made if it is missing.

    Else a program could make a link there, and file tools would follow it.
    """
    for place in (top, *top.parents):
        if place.is_symlink() and _is_shown(real_path(place.parent), shown):
            raise WorkspaceError(
                f"A folder of the config is behind {printable(str(place))}, a link in the workspace, and a command"
                " could make it lead elsewhere.",
                remedy="Tell the user: the real folder instead of the link, in workspace.routes or the option.",
            )
    return _made(top, real_path(top), shown, remedy="Tell the user: another folder in the config.")


def _made(
    place: Path,
    real: str,
    shown: Sequence[str],
    *,
    remedy: str,
    is_folder: bool = True,
    is_private: bool = False,
) -> str:
    """Return the real path of a folder or file; it is made if it is missing where a program could make it."""
    if _is_shown(real, shown):
        file = Path(real)  # a link may lead to what is missing
        try:
            if is_folder:
                file.mkdir(mode=0o700 if is_private else 0o777, parents=True, exist_ok=True)
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES):
                return real  # a program of the same user cannot make it either
            if is_private and error.errno in (errno.ENOTDIR, errno.EEXIST):
                return real  # what is there instead is protected too
            raise WorkspaceError(
                f"{printable(str(place))} cannot be made: {error.strerror}.", remedy=remedy
            ) from None
    return real


def _is_shown(real: str, shown: Sequence[str]) -> bool:
    return any(parts_below(each, real) is not None for each in shown)


class _Judged(NamedTuple):
    host: str
    parts: Parts
    is_folder: bool
    right: ProgramRight
    identity: tuple[int, int]
    names: int
    changed: int = 0  # in nanoseconds
    is_link: bool = False
    is_of_sessions: bool = False

    @property
    def shown(self) -> ProgramRight:
        """The right of the mount of the file or folder itself."""
        return "none" if self.is_of_sessions else self.right


class _JudgedFolder(NamedTuple):
    state: object
    keys: object
    files: Sequence[_Judged]


def _is_same(judged: _Judged) -> bool:
    """Whether a file is still the one that was judged, with as many names (hard links)."""
    try:
        status = os.lstat(judged.host)
    except OSError:
        return False
    return (_identity(status), status.st_nlink) == (judged.identity, judged.names) and not stat.S_ISDIR(
        status.st_mode
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _Scan:
    def __init__(
        self,
        gate: Gate,
        look: Look,
        left: int,
        tops: Set[str],
        links: Set[str],
        *,
        writable: bool,
    ) -> None:
        self._gate = gate
        self._writable = writable
        self._look = look
        self._left = self._most = left
        self._tops = _RealPaths(tops)
        self._links = _RealPaths(links)
        self._mounts = 0

    def folder(self, host: str) -> Sequence[ProgramMount]:
        """Return the mount of a top folder, and those below it."""
        parts = self._gate.mounts.names_of(host)[0].parts
        status = os.stat(host)  # noqa: PTH116 - a str is at hand
        # The root has no name that a rule could fit.
        right = self._right(parts, host, status) if parts else self._entries(parts, host)
        of_sessions = self._gate.is_of_sessions(parts, host)
        top = _Judged(host, parts, True, right, _identity(status), 1, is_of_sessions=of_sessions)
        below = None if right == "none" else self._below(top, (git_depth(f"{host}/."),))
        if below is None:
            return [self._mount(top, "none")]
        return [self._mount(top, top.shown), *below]

    def _below(self, folder: _Judged, around: tuple[object, ...]) -> list[ProgramMount] | None:
        """Return the mounts in a folder; None if it cannot be looked through, so nothing in it may be shown."""
        try:
            judged = self._judged(folder, around)
        except FileNotFoundError:
            return []
        except OSError:
            return None
        self._left -= len(judged)
        if self._left < 0:
            raise WorkspaceError(
                f"The workspace has more than {self._most:,} files, so their rights cannot be looked up for a command.",
                remedy="Tell the user: a smaller workspace.root, or more `max_files` of the tool.",
            )
        found: list[ProgramMount] = []
        outer = folder.shown
        if folder.is_of_sessions:
            own = [each for each in judged if each.right != "none"]
            judged = sorted(own, key=lambda each: (each.changed, each.host))[-_MOST_OF_SESSION:]
        if outer == "write" and any(each.is_link for each in judged):
            found.append(self._mount(folder, "read"))
            outer = "read"
        judged = [each for each in judged if not each.is_link]
        hidden = sum(each.right == "none" for each in judged)
        if outer == "read" and hidden > len(judged) - hidden:
            # Nothing can be made in it, so it can be shown with the other files only: fewer mounts, and no names.
            found.append(self._mount(folder, "none"))
            outer = "none"
        around = (*around, tuple(os.path.lexists(f"{folder.host}/{name}") for name in GIT_NAMES))
        inner: list[tuple[_Judged, ProgramRight, list[ProgramMount], bool]] = []
        covered = []
        for each in judged:
            below = self._below(each, around) if each.is_folder and each.right != "none" else []
            right, below = ("none", []) if below is None else (each.shown, below)
            is_kept = bool(below) or (each.is_folder and each.host in self._tops)
            inner.append((each, right, below, is_kept))
            if right != outer or is_kept:
                covered.append(each.host.rpartition("/")[2])
        if outer != "none" and self._has_other_spelling(folder, covered, outer):
            found.append(self._mount(folder, "none"))
            outer = "none"
        for each, right, below, is_kept in inner:
            if right != outer or (right == "write" and is_kept):
                found.append(self._mount(each, right))
            found += below
        return found

    def _has_other_spelling(self, folder: _Judged, names: Sequence[str], right: ProgramRight) -> bool:
        """Whether the file system finds one of the names in a folder by another spelling, which no mount covers.

        Raises:
            WorkspaceError: it does, and programs may write in the folder, so they must see it as it is.
        """
        try:
            other = other_spelling(folder.host, names)
        except OSError:
            return True
        if other is not None and right == "write":
            raise WorkspaceError(
                f"No command runs: the file system also finds a file of {printable(join(folder.parts))} by the name"
                f" {printable(other)}, so a command could open closed files by other spellings.",
                remedy="Tell the user: a workspace on a file system that tells names apart by case and Unicode form.",
            )
        return other is not None

    def _judged(self, folder: _Judged, around: tuple[object, ...]) -> Sequence[_Judged]:
        """Return the files of a folder with their rights.

        Raises:
            OSError: it cannot be listed, one of its files cannot be looked at, or another folder is there now.
        """
        host, parts = folder.host, folder.parts
        if len(parts) > _MOST_LEVELS or len(os.fsencode(host)) > LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), host)
        descriptor = os.open(host, OPEN_FOLDER)
        try:
            status = os.fstat(descriptor)
            if _identity(status) != folder.identity:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), host)
            # A program can set the first time back, and not the second.
            times = (status.st_mtime_ns, status.st_ctime_ns)
            state = (folder.identity, times, parts, folder.right, around)

            def keys() -> object:
                return self._gate.keys_on(status.st_dev)

            found = self._look.find(host, state, keys)
            if found is None:
                found = list(self._looked_at(descriptor, host, parts))
                is_settled = time.time_ns() - max(times) > SETTLED_NANOSECONDS
                if is_settled and not folder.is_of_sessions:
                    self._look.keep(host, state, found, keys)
            return found
        finally:
            os.close(descriptor)

    def _looked_at(self, descriptor: int, host: str, parts: Parts) -> Iterator[_Judged]:
        """Yield the files, and those links that must stay; the target of a link is judged where it lies."""
        with os.scandir(descriptor) as scanned:
            entries = sorted(scanned, key=lambda each: each.name)
        for entry in entries:
            at, inner = f"{host.rstrip('/')}/{entry.name}", (*parts, entry.name)
            is_link = entry.is_symlink()
            # In a folder that programs only read, no link is replaced.
            if is_link and (
                not self._writable
                or (at not in self._links and self._gate.ruling(inner, at, "write") is None)
            ):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_link:
                yield _Judged(at, inner, False, "read", _identity(status), status.st_nlink, is_link=True)
                continue
            is_folder = stat.S_ISDIR(status.st_mode)
            yield _Judged(
                at,
                inner,
                is_folder,
                self._right(inner, at, status),
                _identity(status),
                status.st_nlink,
                status.st_mtime_ns,
                is_of_sessions=is_folder and self._gate.is_of_sessions(inner, at),
            )

    def _mount(self, judged: _Judged, right: ProgramRight) -> ProgramMount:
        self._mounts += 1
        if self._mounts > _MOST_MOUNTS:
            raise WorkspaceError(
                f"More than {_MOST_MOUNTS:,} files have other rights than their folders, so no command can be run.",
                remedy="Tell the user: rules of workspace.access for folders instead of files.",
            )
        return ProgramMount(judged.host, right, judged.is_folder, judged.identity)

    def _right(self, parts: Parts, host: str, status: os.stat_result) -> ProgramRight:
        if self._gate.ruling(parts, host, "read") is not None:
            return "none"
        if stat.S_ISREG(status.st_mode):
            if status.st_nlink > 1 and self._gate.opened_refusal(parts, host, status) is not None:
                return "none"
        elif not stat.S_ISDIR(status.st_mode):  # a socket leads to another program, which nothing contains
            return "none"
        full = "read" if self._gate.is_served(host) else self._full(parts, host)
        return self._entries(parts, host) if full == "write" and stat.S_ISDIR(status.st_mode) else full

    def _entries(self, parts: Parts, host: str) -> ProgramRight:
        """The right of what programs make in a folder: only patterns that fit any name decide, such as `src/*`."""
        return self._full((*parts, _ANY_NAME), f"{host.rstrip('/')}/{_ANY_NAME}")

    def _full(self, parts: Parts, host: str) -> ProgramRight:
        """The right of a file that programs may read."""
        return "write" if self._writable and self._gate.ruling(parts, host, "write") is None else "read"


class _RealPaths:
    """Real paths, each found by every spelling that its file system does not tell apart."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._named: dict[str, list[str]] = {}
        for each in paths:
            self._named.setdefault(_last(each), []).append(each)

    def __contains__(self, path: str) -> bool:
        return any(parts_below(each, path) == () for each in self._named.get(_last(path), ()))


def _last(path: str) -> str:
    return folded(path.rpartition("/")[2])
