"""The agent's files: virtual paths on real folders that cannot lead out of them.

Every path is resolved one component at a time from an open folder descriptor, without following links; a link is read
and its target resolved the same way. So a component that is swapped meanwhile cannot lead outside.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias
from weakref import WeakValueDictionary

from zeus_runtime.config.secrets.placeholders import PLACEHOLDER, START
from zeus_runtime.disk_paths import real_path
from zeus_runtime.errors import MissingError
from zeus_runtime.escaping import printable
from zeus_runtime.proc_files import is_proc
from zeus_runtime.tools import atomic
from zeus_runtime.tools.access import Kind, Ruling, refusal_text, strictest
from zeus_runtime.tools.entries import FileEntry, kind_of, scan
from zeus_runtime.tools.file_refusals import refused, replaceable, require_file
from zeus_runtime.tools.gate import OTHER_KEY, AccessAsked, Gate, host_of
from zeus_runtime.tools.mounts import Mounts, spellings
from zeus_runtime.tools.own_folders import LinkedFolderError, opened, own_path
from zeus_runtime.tools.paths import LONGEST_PATH, NoSuchFileError, WorkspaceError, join, split
from zeus_runtime.tools.program_view import JudgedFolders, ProgramMount, ProgramRight, program_view
from zeus_runtime.tools.quota import Quota
from zeus_runtime.tools.routes import WorkspaceConfigError, routes_of
from zeus_runtime.tools.safe_open import OpenFolder, Walk

Reach: TypeAlias = Literal["look", "read", "write"]
"""The kinds of access to a file: see that it exists, read it, change it."""

_MAX_DEPTH = 200
_PLACE_DIGITS: Final = 12
_CONTENT_DIGITS: Final = 4
_MAKING: Final = threading.Lock()
"""Held while a new name is judged and made: names that appear at the same time could make a git folder together."""
_TOO_LONG: Final = Ruling(
    "deny",
    f"its real path is longer than {LONGEST_PATH:,} bytes, and tools write nothing there",
    "Use a shorter path.",
)
"""The system finds no file by such a path, so nobody could see that it is in a git folder."""
_OPEN_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class WorkspaceFiles:
    """Files under virtual absolute paths: ``/src/a.py`` is ``root/src/a.py``, unless a route claims its prefix.

    Relative paths start at ``/``. Links inside a folder work; links out of it do not. A part of a path with a
    placeholder means the one entry that is shown so, also one in a folder that the placeholder hides. Safe to use from
    many threads.

    Args:
        root: the real folder for ``/``; must exist.
        routes: virtual prefix (``/memory/``) to another real folder, created at the first write; the longest prefix
            wins.
        quiet: routes that listings hide until something was written there.
        gate: the access policy, checked for every file that is opened; None: all files are allowed.
        is_own: whether the root is a session's or a user's own folder, which ``make_root`` makes.
        earlier: the folder that an earlier version made in its place. While only that is there, the root is not made:
            the folder may hold the user's files, or others'.
        quota: how much there may be below the root, and below those of the agents above; routes do not count.
        shown: a text as the model sees it, with known secrets masked.
        meant: a text with the secrets that its placeholders stand for.
        project: the root in the project, if the agent works apart from it: MCP servers open files there.

    Raises:
        WorkspaceError: from every method, if the path is refused, does not exist or has the wrong type.
        AccessAsked: from a method that a tool calls, if a person must approve the access first.
        WorkspaceConfigError: a route is not a prefix below ``/``.
        MissingError: the system cannot walk folders by descriptor (Windows).
    """

    def __init__(
        self,
        root: Path,
        routes: Mapping[str, Path] | None = None,
        *,
        quiet: Collection[str] = (),
        gate: Gate | None = None,
        is_own: bool = False,
        earlier: Path | None = None,
        quota: Quota | None = None,
        shown: Callable[[str], str] = str,
        meant: Callable[[str], str] = str,
        project: Path | None = None,
    ) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise MissingError(
                "This system has no race-free file access, which the workspace needs.",
                remedy="Run Zeus on Linux or macOS (on Windows: in WSL).",
            )
        self.root = root.absolute()
        self.routes: Mapping[str, Path] = routes_of(routes or {})
        self.gate = gate
        self.quota = quota
        self.project = project
        self._shown = shown
        self._meant = meant
        self._is_own = is_own
        self._earlier = earlier
        self._mounts = Mounts(self.root, self.routes) if gate is None else gate.mounts
        self._quiet = {split(prefix): host for prefix, host in self.routes.items() if prefix in quiet}
        self._locks: WeakValueDictionary[tuple[int, int, str], threading.Lock] = WeakValueDictionary()
        self._locks_lock = threading.Lock()
        self._judged_folders = JudgedFolders()

    @cached_property
    def runtime(self) -> WorkspaceFiles:
        """The same files without the access policy, for the runtime's own files.

        Give it no path that the model chose.
        """
        if self.gate is None:
            return self
        free = copy.copy(self)
        free.gate = None
        return free

    def hides(self, path: str) -> bool:
        """Whether ``path`` is hidden from tools, assuming that it contains no links; nothing is opened."""
        return self._hides(self._parts(path))

    def pattern_of(self, pattern: str) -> str | None:
        """Return the workspace's pattern for one that is a path of this machine into it, which matches nothing.

        None for any other pattern, and for one whose beginning is also a path of the workspace.

        Args:
            pattern: without braces; it may begin with ``~``, as in a shell.
        """
        written = os.path.expanduser(pattern)  # noqa: PTH111 - pathlib raises if there is no home
        project = None if self.gate is None else self.gate.project
        in_project = None if project is None else project.mounts.pattern_of(written)
        return in_project or self._mounts.pattern_of(written)

    def refusal_of(self, host: Path, *, top: Path | None = None) -> str | None:
        """Return why a file that the user named by its real path may not be given to the model; None if it may.

        Args:
            top: outside of the workspace, no name of a folder above this one counts.
        """
        if self.gate is None:
            return None
        try:
            named = self._named(host, top)
        except OSError:
            return "too many links lead to it"
        ruling = strictest(self.gate.ruling(parts, at, "read", foreign=True) for at, parts, _ in named)
        if ruling is not None and ruling.action == "deny":
            return ruling.why
        try:
            status = host.stat()
        except OSError:
            return None
        why = self._opened_refusal(named, status)
        return None if why is None else f"it {why}"

    def refusal_of_stored(self, host: Path) -> str | None:
        """Return why a text that was read from ``host`` earlier may not be given to the model; None if it may.

        If nothing is there any more, the folder may have been moved, so each end of the path is judged like a path of
        the workspace, also by the agents above a sub-agent: in their workspaces, it may have any of them.
        """
        found = self.refusal_of(host)
        if found is not None or self.gate is None or os.path.lexists(host):
            return found
        rulings = (each for _, each in self.gate.moved_rulings(str(host)))
        return next((each.why for each in rulings if each.action == "deny"), None)

    def needs_question(self, host: Path) -> bool:
        """Return whether the running tool may read a file only after a question about it.

        Args:
            host: its real path; if nothing is there any more, judged as ``refusal_of_stored`` does.
        """
        if self.gate is None:
            return False
        moved = () if os.path.lexists(host) else self.gate.moved_rulings(str(host))
        named = (
            (parts, self.gate.ruling(parts, at, "read", foreign=True)) for at, parts, _ in self._named(host)
        )
        return any(self.gate.needs_question(*each) for each in (*named, *moved))

    def lasting(self, host: Path) -> Path:
        """Return the path by which a file or folder can be judged later: below the workspace as the config writes it.

        The workspace's folder may be the link of a deployment, which leads elsewhere later. A link of the workspace
        that leads out of it keeps its own path; anything else outside has its real one.

        Raises:
            OSError: too many links lead to it.
        """
        named = self._named(host)
        at = next((at for at, _, is_inside in named if is_inside), named[0][0])
        written = (self._mounts.written(name.parts) for name in self._mounts.names_of(at))
        # A route may be written in the place of a folder.
        return Path(next((each for each in written if real_path(each) == named[0][0]), at))

    def leads_out(self, host: Path) -> bool:
        """Whether a path of the workspace leads out of it now, through links that a program there may have made."""
        real, written = real_path(host), str(host)
        is_inside = self._mounts.names_of(written) or any(self._mounts.names_of_written(written))
        return real != written and bool(is_inside) and not self._mounts.names_of(real)

    def _named(self, host: Path, top: Path | None = None) -> list[tuple[str, tuple[str, ...], bool]]:
        """Return each path that leads to a file of this machine, the real one first, and how the rules name it.

        A link of the workspace that leads out of it names what is behind it. Outside of the workspace a file has no
        virtual path, but rules about names apply to a link, to its target, and to the folders that hold them.

        Args:
            top: as for ``refusal_of``.
        """
        tops = [] if top is None else [Path(each).parent for each in spellings(str(top))]
        found = []
        for at in spellings(str(host)):
            inside = self._mounts.names_of(at)
            near = [Path(at).relative_to(each).parts for each in tops if Path(at).is_relative_to(each)]
            outside = min(near, key=len, default=()) or self._mounts.parts_outside(at)
            found.append((at, inside[0].parts if inside else outside, bool(inside)))
        return found

    def _opened_refusal(
        self, named: Sequence[tuple[str, tuple[str, ...], bool]], status: os.stat_result
    ) -> str | None:
        assert self.gate is not None, "nothing is judged without a gate"
        if self.gate.is_key(status):
            return OTHER_KEY
        at, parts, _ = next((each for each in named if each[2]), (named[0][0], None, False))
        return self.gate.opened_refusal(parts, at, status)

    def mount_refusal(self, host: Path) -> str | None:
        """Return why a sandbox may not show the folder at a real path to its programs; None if it may.

        Programs read it without a check of the access policy.
        """
        return None if self.gate is None else self.gate.mount_refusal(real_path(host))

    def unseen(self) -> Sequence[Path]:
        """Return the real folders and files that a sandbox must hide from programs: the workspace's, and keys."""
        found = self._mounts.reals() if self.gate is None else self.gate.unseen()
        return [Path(each) for each in dict.fromkeys(found)]

    def around(self) -> Sequence[Path]:
        """Return the real folders around the workspace and beside it, of which programs see the workspace alone.

        They are the working directories, and the roots and routes of all agents, also of other sessions.
        """
        found = () if self.gate is None else self.gate.around()
        return [Path(each) for each in dict.fromkeys(found)]

    def program_view(self, *, max_files: int, writable: bool = True) -> Sequence[ProgramMount]:
        """Return the folders and files to mount for programs of the running tool, so that the policy holds for them.

        Each folder is before what is in it. Files that are made later have the rights of their folder.

        Args:
            max_files: the most files and folders that are looked at.
            writable: False: programs only read, whatever the policy lets them write.

        Raises:
            WorkspaceError: there are more, or too many files have other rights than their folder.
        """
        if self.gate is None:
            right: ProgramRight = "write" if writable else "read"
            return [ProgramMount(each, right, True) for each in dict.fromkeys(self._mounts.reals())]
        return program_view(self.gate, self._judged_folders, max_files=max_files, writable=writable)

    def read_host(
        self,
        host: Path,
        *,
        max_bytes: int,
        named: Path | None = None,
        follow: bool = True,
        top: Path | None = None,
    ) -> bytes:
        """Return the content of a file given by its real path, if the rules let the running tool read it.

        Use it instead of an opening after ``refusal_of``: a program can put a link there in between.

        Args:
            named: the path that led to it, whose links are names too; None: ``host``.
            follow: whether ``host`` may lead through links.
            top: as for ``refusal_of``.

        Raises:
            WorkspaceError: the rules close it, or it is not a file of at most ``max_bytes``, or a link leads to it.
            OSError: a file outside of the workspace cannot be opened.
        """
        real = real_path(host)
        if not follow and real != str(host):
            raise WorkspaceError(f"{printable(host.name)} is behind a link, which is not followed.")
        names = self._named(named or host, top)
        if str(named or host) != real:
            # What is opened is judged, also if the links led elsewhere a moment ago.
            names += self._named(Path(real), top)
        if self.gate is not None:
            for at, asked, _ in names:
                self.gate.require(asked, at, "read", foreign=True)
        for name in self._mounts.names_of(real):
            return self.read(join(name.parts), max_bytes=max_bytes)
        parts = (Path(real).name,)
        descriptor = os.open(real, os.O_RDONLY | _OPEN_FILE)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            require_file(status, parts)
            if self.gate is not None and (why := self._opened_refusal(names, status)):
                raise WorkspaceError(f"{printable(host.name)} {why}.")
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise WorkspaceError(f"{printable(host.name)} is larger than {max_bytes:,} bytes.")
        return data

    def write_refusal(self, path: str) -> str | None:
        """Return why no tool may write ``path``, even with approval; None if tools may, or the path is invalid.

        The folders that are missing on the way count too.
        """
        try:
            denied = self._write_denied(path)
        except WorkspaceError:
            return None
        return None if denied is None else refusal_text(*denied)

    def write_question(self, path: str) -> str | None:
        """Return the rule that lets tools write ``path`` with approval alone; None if they need none, or may not."""
        try:
            asked = next((each for each in self._write_rulings(path) if each[1].action == "ask"), None)
        except WorkspaceError:
            return None
        return None if asked is None else f"{printable(join(asked[0]))}: {asked[1].why}"

    def _write_denied(self, path: str) -> tuple[tuple[str, ...], Ruling] | None:
        """Return the path and the ruling that keep tools from writing ``path`` even with approval."""
        return next((each for each in self._write_rulings(path) if each[1].action == "deny"), None)

    def _write_rulings(self, path: str) -> Iterator[tuple[tuple[str, ...], Ruling]]:
        """Yield the rulings against writing ``path`` and against making its folders, each with what it judges."""
        if self.gate is None:
            return
        real = split(self.real(path))
        judged = [
            (parts, self.gate.ruling(parts, real_path(self._mounts.host_of(parts)), "write"))
            for parts in dict.fromkeys((self._parts(path), real))
        ]
        judged += [(parts, self.gate.way_ruling(parts, host)) for parts, host in self._missing_on_way(real)]
        judged.append((real, _length_ruling(real_path(self._mounts.host_of(real)))))
        yield from ((parts, each) for parts, each in judged if each)

    def _missing_on_way(self, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the virtual and real paths of the folders that a write makes; ``parts`` has no links."""
        for depth in range(len(self._mounts.of(parts)[0]) + 1, len(parts)):
            host = real_path(self._mounts.host_of(parts[:depth]))
            if not os.path.lexists(host):
                yield parts[:depth], host

    def check(self) -> None:
        """Check that the root is a folder that can be listed, and that each route is a folder or does not exist yet.

        Raises:
            WorkspaceConfigError: the root or a route cannot be used.
            LinkedFolderError: one of Zeus's own folders is a link.
        """
        self._refuse_earlier()
        # A folder of one's own is made at first use; the folder that has them all must be there.
        root = self.root.parent if self._is_own and not os.path.lexists(self.root) else self.root
        follows_none = getattr(os, "O_NOFOLLOW", 0) if self._is_own and root == self.root else 0
        try:
            os.close(os.open(root, os.O_RDONLY | os.O_DIRECTORY | follows_none))
        except OSError as error:
            raise WorkspaceConfigError(
                f"the workspace {root} cannot be used: {error.strerror}",
                remedy="create the folder, or change workspace.root",
                key=("root",),
            ) from None
        for prefix, host in self.routes.items():
            own_path(host)
            if host.exists() and not host.is_dir():
                raise WorkspaceConfigError(
                    f"the route {prefix} leads to {host}, which is not a folder",
                    remedy="name a folder; it is made at the first write",
                    key=("routes", prefix),
                )

    def _refuse_earlier(self) -> None:
        if self._earlier is None or os.path.lexists(self.root):
            return
        if self._earlier.is_dir() and not self._earlier.is_symlink():
            raise WorkspaceConfigError(
                f"{self._earlier} may be this user's folder from an earlier version, or another folder of this name",
                remedy=f"rename it to {self.root.name} if its files are the user's; otherwise make the folder"
                f" {self.root} yourself, with mode 0700",
                key=("per",),
            )

    def make_root(self) -> None:
        """Make the root if it is a session's or a user's own and not there yet, for its owner alone.

        Raises:
            WorkspaceConfigError: it cannot be made, it is a link, or an earlier version may have made another one.
        """
        if self._is_own:
            self._refuse_earlier()
            with suppress(OSError):
                self.root.mkdir(0o700)
            self.check()
        if self.quota is not None:
            self.quota.forget()

    def remove_root(self) -> None:
        """Remove the root with all that is in it, if it is a session's or a user's own. No link is followed.

        Raises:
            OSError: something of it stays.
        """
        if self._is_own and not self.root.is_symlink():
            with suppress(FileNotFoundError):
                shutil.rmtree(self.root)

    def normalize(self, path: str) -> str:
        """Return ``path`` as an absolute virtual path, without resolving links.

        The disk is accessed only for the real name of a part with a placeholder.
        """
        return join(self._parts(path))

    def real(self, path: str) -> str:
        """Return the virtual path of ``path`` with links followed, as far as it exists.

        This is the state of this moment. For a safe access use the other methods, which refuse paths that lead outside.
        """
        prefix, base, found = self._followed(path)
        return join((*prefix, *Path(found).relative_to(base).parts))

    def place(self, path: str) -> Path:
        """Return the real path of ``path`` on this machine.

        Raises:
            WorkspaceError: it leads out of the workspace.
        """
        return Path(self._followed(path)[2])

    def paths_of(self, host: Path) -> list[str]:
        """Return the virtual paths by which the rules here know a file of this machine, also those through links."""
        real = real_path(host)
        if self.gate is not None:
            return self.gate.paths_of(real)
        return [join(name.parts) for name in self._mounts.names_of(real)]

    def folders_identity(self) -> str:
        """Return the SHA-256 of where the root and the config's routes lead."""
        return self._mounts.identity()

    def identity(self, path: str) -> str:
        """Return the SHA-256 of the real place of ``path`` on this machine; ``real`` ignores that a mount is a link."""
        return hashlib.sha256(os.fsencode(self._followed(path)[2])).hexdigest()

    def state(self, path: str, pieces: Iterable[bytes] = ()) -> str:
        """Return digits that change with the real place of ``path`` and its content, for a question and its record.

        Of the content they have 16 bits: enough to see a change, and too few to find a secret in it by guesses. A
        random salt would give 16 further bits with each question.
        """
        identity = self.identity(path)
        content = hashlib.sha256(identity.encode())
        for each in pieces:
            content.update(each)
        return f"{identity[:_PLACE_DIGITS]}{content.hexdigest()[:_CONTENT_DIGITS]}"

    def _followed(self, path: str) -> tuple[tuple[str, ...], str, str]:
        """Return the prefix of a path's mount, its folder, and the path's target; the last two with links resolved."""
        parts = self._parts(path)
        prefix, host = self._mounts.of(parts)
        base = real_path(host)
        found = real_path(host.joinpath(*parts[len(prefix) :]))
        if os.path.commonpath([base, found]) != base:
            raise WorkspaceError(f"{printable(path)} leads out of the workspace.")
        return prefix, base, found

    def entry(self, path: str) -> FileEntry:
        """Return the entry at ``path``, with links followed, with its size."""
        parts = self._parts(path)
        with self._explained(parts):
            if self._routes_below(parts) or parts in self._mounts.folders:
                self._require(parts, "look")
                return FileEntry(join(parts), "directory")
            with self._place(parts, "look") as place:
                status = place.present()
                return FileEntry(
                    join(parts), kind_of(status), status.st_size if stat.S_ISREG(status.st_mode) else None
                )

    def entries(self, path: str = "/", *, sizes: bool = False) -> list[FileEntry]:
        """The entries of a folder, sorted by name as it is shown, routes among them; links are not followed."""
        parts = self._parts(path)
        routes = self._routes_below(parts)
        found: dict[str, FileEntry] = {}
        with self._explained(parts):
            self._require(parts, "look")
            try:
                with self._place(parts, "look") as place:
                    found = self._visible(scan(place, parts, sizes=sizes), place)
            except (FileNotFoundError, WorkspaceError) as error:
                unmade = parts in self._mounts.folders and isinstance(error, FileNotFoundError)
                if not routes and not unmade:
                    raise
        for name in routes:
            found[name] = FileEntry(join((*parts, name)), "directory")
        # By the name itself, the place among files that the model made would tell a secret in it letter by letter.
        return [found[name] for name in sorted(found, key=self._shown)]

    def walk(
        self,
        path: str = "/",
        *,
        sizes: bool = False,
        skip: Callable[[FileEntry], bool] | None = None,
        on_error: Callable[[WorkspaceError], None] | None = None,
    ) -> Iterator[FileEntry]:
        """Yield everything below ``path``, a folder before its content, sorted as ``entries``; links are not followed.

        Args:
            sizes: whether to return the sizes of files.
            skip: returns whether to leave out an entry and everything below it.
            on_error: called for folders below ``path`` that cannot be read; without it the first one raises.
        """
        pending = [iter(self.entries(path, sizes=sizes))]
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                continue
            if skip is not None and skip(entry):
                continue
            yield entry
            if entry.kind == "directory":
                try:
                    pending.append(iter(self.entries(entry.path, sizes=sizes)))
                except WorkspaceError as error:
                    if on_error is None:
                        raise
                    on_error(error)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading bytes. FIFOs and devices are refused, so this never blocks."""
        parts = self._parts(path)
        with self._explained(parts), self._place(parts, "read") as place:
            require_file(place.present(), parts)
            descriptor = os.open(place.name, os.O_RDONLY | _OPEN_FILE, dir_fd=place.folder)
            try:
                require_file(os.fstat(descriptor), parts)
                self._require_opened(place, descriptor)
                return os.fdopen(descriptor, "rb")
            except BaseException:
                os.close(descriptor)
                raise

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return the whole content of a file; refuse a file that is larger than ``max_bytes``."""
        with self.open(path) as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise WorkspaceError(f"{printable(path)} is larger than {max_bytes:,} bytes.")
        return data

    def write(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path`` in one atomic step, creating folders as needed.

        A link inside the workspace stays, and its target is replaced. Mode and owner of an existing file are kept.

        Returns:
            True when the file is new.
        """
        parts = self._writable_parts(path)
        with self._explained(parts), self._place(parts, "write", create=True) as place, self._lock(place):
            old = replaceable(place, parts)
            publishing = self._making(place, parts) if old is None else nullcontext()
            with self._counted(place, old, len(data)):
                atomic.replace(place.folder, place.name, data, old=old, publishing=publishing)
            return old is None

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path``, creating folders as needed, unless it has an entry, which stays as it is.

        Returns:
            whether the file was made; of several at once, in any process, only one makes it.
        """
        parts = self._writable_parts(path)
        with self._explained(parts), self._place(parts, "write", create=True) as place:
            if place.status() is not None:
                return False
            try:
                with self._counted(place, None, len(data)):
                    making = self._making(place, parts)
                    atomic.create(place.folder, place.name, data, publishing=making)
            except FileExistsError:
                return False
            return True

    def edit(self, path: str, change: Callable[[bytes], bytes], *, max_bytes: int) -> None:
        """Replace a file's content by ``change(content)``, atomically; edits of one file happen one after the other.

        Raises:
            WorkspaceError: also if another process changed the file meanwhile; that change is kept.
        """
        parts = self._parts(path)
        with self._explained(parts), self._place(parts, "read", "write") as place, self._lock(place):
            if replaceable(place, parts) is None:
                raise FileNotFoundError(errno.ENOENT, "missing", place.name)
            descriptor = os.open(place.name, os.O_RDONLY | _OPEN_FILE, dir_fd=place.folder)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                require_file(status, parts)
                self._require_opened(place, descriptor)
                data = file.read(max_bytes + 1)
            if len(data) > max_bytes:
                raise WorkspaceError(
                    f"{join(parts)} is larger than {max_bytes:,} bytes and cannot be edited."
                )
            read = atomic.identity(status)

            @contextmanager
            def unchanged() -> Iterator[None]:
                now = place.status()
                if now is None or atomic.identity(now) != read:
                    raise WorkspaceError(
                        f"{printable(join(parts))} was changed by someone else meanwhile.",
                        remedy="Read it again.",
                    )
                yield

            changed = change(data)
            with self._counted(place, status, len(changed)):
                atomic.replace(place.folder, place.name, changed, old=status, publishing=unchanged())

    def append(self, path: str, data: bytes) -> None:
        """Add ``data`` at the end of ``path`` durably, creating it and its folders as needed."""
        parts = self._writable_parts(path)
        with self._explained(parts), self._place(parts, "write", create=True) as place, self._lock(place):
            old = replaceable(place, parts)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _OPEN_FILE
            with self._counted(place, old, (old.st_size if old else 0) + len(data)):
                with self._making(place, parts) if old is None else nullcontext():
                    descriptor = os.open(place.name, flags, 0o666, dir_fd=place.folder)
                try:
                    require_file(os.fstat(descriptor), parts)
                    self._require_opened(place, descriptor)
                    atomic.write_all(descriptor, data)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def remove(self, path: str, *, with_folder: bool = False) -> None:
        """Remove a file; a missing one is not an error.

        Args:
            with_folder: also remove its folder, if it is empty then.
        """
        parts = self._writable_parts(path)
        with suppress(FileNotFoundError), self._place(parts, "write") as place, self._lock(place):
            old = place.status()
            with self._counted(place, old, 0, files=0):
                os.unlink(place.name, dir_fd=place.folder)
        if with_folder:
            with suppress(FileNotFoundError), self._place(parts[:-1], "write", asked=parts) as place:
                try:
                    os.rmdir(place.name, dir_fd=place.folder)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise

    def _counted(
        self, place: OpenFolder, old: os.stat_result | None, size: int, *, files: int = 1
    ) -> AbstractContextManager[None]:
        """Count what is written inside, so that the quota is kept.

        Args:
            old: the status of the file that is replaced.
            size: the file's size afterwards.
            files: how many there are of it afterwards.
        """
        if self.quota is None or self._mounts.of(place.parts)[0]:
            return nullcontext()
        change = size - (old.st_size if old else 0), files - (old is not None)
        return self.quota.taking(*change, self._mounts.host_of(place.parts))

    def _parts(self, path: str) -> tuple[str, ...]:
        has_placeholder = START in path
        parts = split(path, is_shown=has_placeholder)
        if len(parts) > _MAX_DEPTH:
            raise WorkspaceError(f"The path is deeper than {_MAX_DEPTH} folders.")
        return self._unmasked(parts) if has_placeholder else parts

    def _unmasked(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return a path with real names: a part with a placeholder means the one entry that is shown so.

        The model has no other name for it. Nothing is made by such a name, which would then stand for two entries.
        """
        found: tuple[str, ...] = ()
        for part in parts:
            below = self._shown_as(part, found) if PLACEHOLDER.search(part) else [(part,)]
            if len(below) != 1:
                raise self._unclear(found, part, len(below))
            found += below[0]
        return found

    def _shown_as(self, part: str, folder: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return what a part of a path with a placeholder may mean: the path of each entry below the folder."""
        names = {(each,) for each in self._names(folder) or () if self._shown(each) == part}
        # A secret may have the names of several folders in it.
        path = tuple(filter(None, self._meant(part).split("/")))
        return [*names, *([path] if path not in names and self._has(folder, path) else [])]

    def _has(self, folder: tuple[str, ...], path: tuple[str, ...]) -> bool:
        """Whether each entry on the way of a path below the folder is there and listed."""
        ways = ((*folder, *path[:depth]) for depth in range(len(path)))
        return all(name in (self._names(way) or ()) for way, name in zip(ways, path, strict=True))

    def _unclear(self, folder: tuple[str, ...], part: str, count: int) -> WorkspaceError:
        where, name = printable(join(folder)), printable(part)
        if count:
            return WorkspaceError(
                f"{where} has {count} entries that are shown as {name}, so the path is ambiguous.",
                remedy="Ask the user to rename one of them.",
            )
        return NoSuchFileError(
            f"{where} has no entry that is shown as {name}. In a path, a placeholder stands for a name that is there;"
            " nothing new is made under it.",
            remedy="Copy the path as ls or glob shows it, or use a name without a placeholder.",
        )

    def _writable_parts(self, path: str) -> tuple[str, ...]:
        parts = self._parts(path)
        # One shared part says little (a workspace /app may well get its own app/); more are a mistaken host path.
        if (
            len(self.root.parts) > 2
            and self._host_hint(parts)
            and not self._exists(parts[: len(self.root.parts) - 1])
        ):
            raise WorkspaceError(f"{printable(path)} is a path of the host.", remedy=self._host_hint(parts))
        return parts

    def _host_hint(self, parts: tuple[str, ...]) -> str | None:
        host = self.root.parts[1:]
        if not host or parts[: len(host)] != host:
            return None
        return f"/ is the workspace: use {printable(join(parts[len(host) :]))}"

    def _exists(self, parts: tuple[str, ...]) -> bool:
        try:
            self.entry(join(parts))
        except WorkspaceError:
            return False
        return True

    def _routes_below(self, parts: tuple[str, ...]) -> set[str]:
        depth = len(parts)
        return {
            prefix[depth]
            for prefix in self._mounts.folders
            if len(prefix) > depth and prefix[:depth] == parts and self._is_listed(prefix)
        }

    def _is_listed(self, prefix: tuple[str, ...]) -> bool:
        host = self._quiet.get(prefix)
        return (host is None or host.is_dir()) and not self._hides(prefix)

    @contextmanager
    def _place(
        self, parts: tuple[str, ...], *reaches: Reach, create: bool = False, asked: tuple[str, ...] = ()
    ) -> Iterator[OpenFolder]:
        host_asked = self._mounts.host_of(parts)
        prefix, host = self._mounts.of(parts)
        folders: list[int] = []

        def guard(canonical: tuple[str, ...], folder: int, below: tuple[str, ...]) -> None:
            at = self._host(canonical, folder, below)
            if canonical != parts or at != host_asked:
                self._require(canonical, *reaches, host=at, asked=asked or parts)

        with ExitStack() as stack:
            with self._making_way(parts) if create and self.gate is not None else nullcontext():
                self._require(parts, *reaches, host=host_asked, asked=asked)
                folders.append(stack.enter_context(_mount(prefix, host, create=create and bool(prefix))))
                stack.callback(_close_all_but_first, folders)
                place = Walk(
                    prefix,
                    host,
                    folders,
                    parts,
                    create=create,
                    guard=guard if self.gate else None,
                    way_guard=partial(self._require_way, set()) if self.gate else None,
                ).run()
            yield place

    @contextmanager
    def _making_way(self, parts: tuple[str, ...]) -> Iterator[None]:
        """While inside, folders on the way to a file are judged and made, and no other name is."""
        with _MAKING:
            try:
                yield
            except AccessAsked:
                # No person is asked about a write that is refused in any case.
                if denied := self._write_denied(join(parts)):
                    raise WorkspaceError(refusal_text(*denied), remedy=denied[1].remedy) from None
                raise

    def _require_way(
        self,
        judged: set[tuple[tuple[str, ...], str]],
        canonical: tuple[str, ...],
        folder: int,
        below: tuple[str, ...],
    ) -> None:
        """Ensure that the missing folders on the way to a place may be made.

        Args:
            judged: those that this walk has asked about, with their real paths.
            canonical: the place.
            folder: the open folder that is there.
            below: the parts of the place below it.
        """
        assert self.gate is not None, "nothing is judged without a gate"
        above = canonical[: -len(below)]
        base = self._host(above, folder, ()).rstrip("/")
        ways = [below[:depth] for depth in range(1, len(below))]
        new = [each for way in ways if (each := ((*above, *way), "/".join((base, *way)))) not in judged]
        self.gate.require_way(new)
        judged.update(new)

    @contextmanager
    def _making(self, place: OpenFolder, parts: tuple[str, ...]) -> Iterator[None]:
        """While inside, a new file is judged once more and made, and no other name is."""
        if self.gate is None:
            yield
            return
        with _MAKING:
            at = self._host(place.parts, place.folder, (place.name,))
            self._require(place.parts, "write", host=at, asked=() if place.parts == parts else parts)
            yield

    def _host(self, canonical: tuple[str, ...], folder: int, below: tuple[str, ...]) -> str:
        """Return the real path of a place from the open folder, even if the names that led to it have changed."""
        found = host_of(folder)
        return (
            self._mounts.host_of(canonical) if found is None else "/".join((found.rstrip("/"), *below)) or "/"
        )

    def _require(
        self, parts: tuple[str, ...], *reaches: Reach, host: str | None = None, asked: tuple[str, ...] = ()
    ) -> None:
        """Ensure that a path may be accessed."""
        if self.gate is None:
            return
        at = self._mounts.host_of(parts) if host is None else host
        for reach in reaches:
            kind: Kind = "write" if reach == "write" else "read"
            self.gate.require(parts, at, kind, looks=reach == "look", asked=asked)
        # After the rules, whose refusals must not tell where a link leads.
        if "write" in reaches and (ruling := _length_ruling(at)):
            raise WorkspaceError(refusal_text(asked or parts, ruling), remedy=ruling.remedy)

    def _require_opened(self, place: OpenFolder, descriptor: int) -> None:
        if self.gate is not None:
            status = os.fstat(descriptor)
            if status.st_nlink > 1 or is_proc(status.st_dev):
                host = self._host(place.parts, place.folder, (place.name,))
                self.gate.require_opened(place.parts, host, status)

    def _visible(self, found: dict[str, FileEntry], place: OpenFolder) -> dict[str, FileEntry]:
        """Return the entries of a scanned folder that the policy does not hide."""
        if self.gate is None:
            return found
        folder = self._host(place.parts, place.folder, () if place.name == "." else (place.name,))
        hidden = self.gate.hidden(place.parts, folder, found)
        return {name: entry for name, entry in found.items() if name not in hidden}

    def _hides(self, parts: tuple[str, ...]) -> bool:
        return self.gate is not None and self.gate.hides(parts, self._mounts.host_of(parts))

    def _missing(self, parts: tuple[str, ...]) -> NoSuchFileError:
        import difflib

        message = f"{printable(join(parts))} does not exist."
        hint = self._host_hint(parts)
        if hint or not parts:
            return NoSuchFileError(message, remedy=hint)
        siblings = self._names(parts[:-1])
        if siblings is None:
            return NoSuchFileError(
                message, remedy="Its folder does not exist either; ls and glob find files."
            )
        # Of names as they are, a secret in one could be found out letter by letter.
        # A name with an escape, as messages show it, is no path that a tool opens.
        shown = {each for each in map(self._shown, siblings) if "\\" not in printable(each)}
        shown.discard(self._shown(parts[-1]))  # the same text is no advice
        close = difflib.get_close_matches(parts[-1], shown, n=1)
        if close:
            return NoSuchFileError(
                message, remedy=f"Did you mean {printable(join((*parts[:-1], close[0])))}?"
            )
        return NoSuchFileError(message, remedy="ls and glob find files.")

    def _names(self, parts: tuple[str, ...]) -> set[str] | None:
        names = self._routes_below(parts)
        try:
            with self._place(parts, "look") as place:
                names.update(self._visible(scan(place, parts, sizes=False), place))
        except (OSError, WorkspaceError):
            return names or None
        return names

    def _lock(self, place: OpenFolder) -> threading.Lock:
        status = os.fstat(place.folder)
        key = (status.st_dev, status.st_ino, place.name)
        with self._locks_lock:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.Lock()
            return lock

    @contextmanager
    def _explained(self, parts: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise self._missing(parts) from None
            raise refused(error, parts) from None


def _length_ruling(host: str) -> Ruling | None:
    """Return the ruling against writing at a real path that is too long; None if it is not."""
    return _TOO_LONG if len(os.fsencode(host)) > LONGEST_PATH else None


def _close_all_but_first(folders: Sequence[int]) -> None:
    for folder in folders[1:]:
        os.close(folder)


@contextmanager
def _mount(prefix: tuple[str, ...], host: Path, *, create: bool) -> Iterator[int]:
    try:
        with opened(host, create=create) as descriptor:
            yield descriptor
    except LinkedFolderError:
        raise WorkspaceError(
            f"{printable(join(prefix))} is closed: Zeus keeps its own files there, and found a link.",
            remedy="Tell the user.",
        ) from None
