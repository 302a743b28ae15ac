"""Copies files between a session's folder on disk and the file system in memory that a program works in.

A program never sees the disk: it gets copies, and its changes are copied back after all its processes are dead. So the
size of that file system limits what the program writes, a link cannot lead the host out of it, and a killed program
leaves the session's folder intact. All operations use descriptors of open folders and follow no links.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from zeus_runtime.plugin.sandbox import SandboxLimits

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 2**20
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MAX_DEPTH: Final = 64
_MAX_LOST: Final = 20
_TOO_MANY: Final = "too many files"
_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.zeus-tmp")
"""The remains of a file whose writer was killed, here or over SFTP."""

Mark: TypeAlias = tuple[int, ...]
"""Identifies an unchanged file; a program cannot set the change time."""


@dataclass
class Staged:
    """The files copied into a sandbox, by path: folders, and the marks of files and links."""

    folders: set[str] = field(default_factory=set)
    files: dict[str, Mark] = field(default_factory=dict)


def copy_in(source: int, target: int, owner: int | None) -> Staged:
    """Copy everything below the folder ``source`` into the folder ``target``.

    Args:
        owner: the uid that gets the copies; None for this process's user.

    Raises:
        OSError: the files do not fit, or cannot be read.
    """
    staged = Staged()
    _in(source, target, owner, "", staged)
    return staged


def _in(source: int, target: int, owner: int | None, prefix: str, staged: Staged) -> None:
    for name, status in _entries(source):
        path = f"{prefix}{name}"
        if stat.S_ISREG(status.st_mode) and _TEMPORARY.fullmatch(name):
            os.unlink(name, dir_fd=source)
            continue
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(name, 0o700, dir_fd=target)
            staged.folders.add(path)
            with _opened(source, name, _FOLDER) as inner, _opened(target, name, _FOLDER) as outer:
                _in(inner, outer, owner, f"{path}/", staged)
                os.fchmod(outer, mode | 0o700)
                _give(outer, owner)
            continue
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            if owner is not None:
                os.chown(name, owner, owner, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            with _opened(source, name, _READ) as inner, _opened(target, name, _CREATE) as outer:
                _copy(inner, outer)
                os.fchmod(outer, mode | 0o600)
                _give(outer, owner)
        else:
            continue
        staged.files[path] = _mark(os.stat(name, dir_fd=target, follow_symlinks=False))


@dataclass
class _Out:
    """The state of copying files out.

    Args:
        left: bytes that changed files may still take.
        places: how many files, folders and links may be added to the unchanged ones.
        spared: folders that could not be read, so their contents on disk stay unchanged.
    """

    staged: Staged
    left: int
    places: int
    found: Staged = field(default_factory=Staged)
    lost: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)


def copy_out(source: int, target: int, staged: Staged, limits: SandboxLimits) -> tuple[str, ...]:
    """Copy the changes in ``source`` since ``staged`` to ``target``; unchanged files are not touched.

    Args:
        limits: the limits on bytes and files. A file counts with its apparent size and under each of its names, because
            a file with holes or with many names takes little memory but can fill a disk. Files that a program made
            before the first check count too.

    Returns:
        the paths that could not be kept, each with the reason.
    """
    out = _Out(staged, limits.disk_bytes, limits.files)
    _take_unchanged(source, "", out)
    _out(source, target, "", out)
    found, lost = out.found, out.lost
    gone = [path for path in staged.files if path not in found.files and path not in found.folders]
    gone += sorted(staged.folders - found.folders - found.files.keys(), key=len, reverse=True)
    for path in gone:
        if not path.startswith(tuple(out.spared)):
            _remove(target, path)
    if len(lost) > _MAX_LOST:
        lost = [*lost[:_MAX_LOST], f"and {len(lost) - _MAX_LOST} more"]
    return tuple(lost)


def _take_unchanged(source: int, prefix: str, out: _Out) -> None:
    """Subtract the bytes and places of all unchanged files."""
    for name, status in _entries(source):
        path = f"{prefix}{name}"
        if out.staged.files.get(path) == _mark(status):
            out.places -= 1
            out.left -= _room(status.st_size) if stat.S_ISREG(status.st_mode) else 0
        elif stat.S_ISDIR(status.st_mode) and path in out.staged.folders:
            out.places -= 1
            with suppress(OSError):
                os.chmod(name, 0o700, dir_fd=source, follow_symlinks=True)
                with _opened(source, name, _FOLDER) as inner:
                    _take_unchanged(inner, f"{path}/", out)
                os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=source, follow_symlinks=True)


def _out(source: int, target: int, prefix: str, out: _Out) -> None:
    found, lost = out.found, out.lost
    for name, status in _entries(source):
        path = f"{prefix}{name}"
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            if path.count("/") >= _MAX_DEPTH:
                lost.append(f"{path}: deeper than {_MAX_DEPTH} folders")
                continue
            if path not in out.staged.folders and not _has_place(out):
                lost.append(f"{path}: {_TOO_MANY}")
                continue
            found.folders.add(path)
            try:
                os.chmod(name, 0o700, dir_fd=source, follow_symlinks=True)
                _make_folder(target, name, stat.S_IMODE(status.st_mode))
                with _opened(source, name, _FOLDER) as inner, _opened(target, name, _FOLDER) as outer:
                    _out(inner, outer, f"{path}/", out)
            except OSError as error:
                out.spared.append(f"{path}/")
                lost.append(f"{path}: {error.strerror}")
            continue
        mark = _mark(status)
        reason: str | None = None
        if kind in (stat.S_IFREG, stat.S_IFLNK):
            if out.staged.files.get(path) == mark:
                found.files[path] = mark
                continue
            try:
                if not _has_place(out):
                    reason = _TOO_MANY
                elif kind == stat.S_IFLNK:
                    reason = _keep_link(source, target, name, path)
                else:
                    reason = _keep_file(source, target, name, status, out)
            except OSError as error:
                reason = error.strerror
        else:
            reason = "not a file, folder or link"
        if reason is None:
            found.files[path] = mark
        else:
            lost.append(f"{path}: {reason}")


def _has_place(out: _Out) -> bool:
    out.places -= 1
    return out.places >= 0


def _keep_file(source: int, target: int, name: str, status: os.stat_result, out: _Out) -> str | None:
    if _room(status.st_size) > out.left:
        return "too many bytes (holes in files and further names of a file count)"
    out.left -= _room(status.st_size)
    temporary = f".{os.urandom(8).hex()}.zeus-tmp"
    if not status.st_mode & stat.S_IRUSR:
        os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRUSR, dir_fd=source, follow_symlinks=True)
    with _opened(source, name, _READ) as inner:
        try:
            with _opened(target, temporary, _CREATE) as outer:
                _copy(inner, outer)
                os.fchmod(outer, (status.st_mode & 0o111) | 0o600)
            _clear_folder(target, name)
            os.rename(temporary, name, src_dir_fd=target, dst_dir_fd=target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=target)
            raise
    return None


def _keep_link(source: int, target: int, name: str, path: str) -> str | None:
    leads = os.readlink(name, dir_fd=source)
    where = path.split("/")[:-1]
    if leads.startswith("/"):
        return "a link to an absolute path"
    for part in leads.split("/"):
        if part == "..":
            if not where:
                return "a link out of the folder"
            where.pop()
        elif part not in ("", "."):
            where.append(part)
    _clear(target, name)
    os.symlink(leads, name, dir_fd=target)
    return None


def _make_folder(target: int, name: str, mode: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=target, follow_symlinks=False).st_mode):
            return
        os.unlink(name, dir_fd=target)
    os.mkdir(name, (mode & 0o077) | 0o700, dir_fd=target)


def _clear(target: int, name: str) -> None:
    """Remove ``name``, whatever it is, so that it can be replaced."""
    _clear_folder(target, name)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)


def _clear_folder(target: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=target, follow_symlinks=False).st_mode):
            with _opened(target, name, _FOLDER) as inner:
                empty(inner)
            os.rmdir(name, dir_fd=target)


def empty(folder: int) -> None:
    """Remove everything in an open folder."""
    for name, _ in _entries(folder):
        _clear(folder, name)


def _remove(target: int, path: str) -> None:
    *folders, name = path.split("/")
    opened = os.dup(target)
    try:
        for each in folders:
            inner = os.open(each, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        _clear(opened, name)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        return
    finally:
        os.close(opened)


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        with suppress(FileNotFoundError):
            yield name, os.stat(name, dir_fd=folder, follow_symlinks=False)


def _mark(status: os.stat_result) -> Mark:
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _room(size: int) -> int:
    """Return the bytes that a file of ``size`` bytes takes in a file system in memory."""
    return -(-size // _PAGE) * _PAGE


def _copy(source: int, target: int) -> None:
    while data := os.read(source, _CHUNK):
        left = memoryview(data)
        while left:
            left = left[os.write(target, left) :]


def _give(descriptor: int, owner: int | None) -> None:
    if owner is not None:
        os.fchown(descriptor, owner, owner)


@contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[int]:
    """Open a file or folder by name in an open folder."""
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def put_files(target: int, files: Mapping[str, bytes], owner: int | None) -> None:
    """Write files, by name, into an open folder.

    Raises:
        OSError: the files do not fit.
    """
    for name, data in files.items():
        with _opened(target, name, _CREATE) as descriptor:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fchmod(descriptor, 0o644)
            _give(descriptor, owner)
