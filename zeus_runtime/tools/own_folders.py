"""Folders in which Zeus keeps its own files: reached without links, and the only ones in which it removes old ones.

A project can bring ``.zeus``, or a part of it, as a link to any folder of the user.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from zeus_runtime.disk_paths import is_private, real_path, state_folder
from zeus_runtime.errors import ZeusError

_log = logging.getLogger(__name__)

STATE: Final = ".zeus"
SANDBOXES: Final = "sandboxes"
OWN_SANDBOXES: Final = "own_sandboxes"
"""The name for the folder of sandboxes that a config puts elsewhere: there, a session's tools read its own files."""
ARCHIVES: Final = ("large_tool_results", "conversation_history", "attached_files")
"""The archive's folders, in ``.zeus`` and as the tools see them below ``/``. Sessions share them."""

UPLOADS: Final = f"{STATE}/uploads"
"""Files that users of a service uploaded, by user; no tool reads them before a message brings them along."""

_MARKED: Final = "Zeus made the folder beside, and removes what is old in it."
_LONGEST_MARK: Final = 200
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


class LinkedFolderError(ZeusError):
    """A place where Zeus keeps its own files is a link (exit 4)."""

    exit_code = 4
    code = "linked_folder"

    def __init__(self, place: Path) -> None:
        super().__init__(
            f"{place} is a link, and Zeus keeps its own files there",
            remedy="Remove the link. The config can put these files elsewhere: storage.url, workspace.routes, and the"
            " folder of a sandbox.",
        )


def own_path(path: Path) -> Path:
    """The path of a file or folder of Zeus's own, in ``.zeus`` or where the config puts it.

    Raises:
        LinkedFolderError: ``.zeus`` or what follows it in the path is a link.
    """
    above, below = _parts(path)
    for name in below:
        above = above / name
        if above.is_symlink():
            raise LinkedFolderError(above)
    return path


def beside(file: Path, ending: str) -> Path:
    """The path of a file or folder of Zeus's own beside one of its files: the same name with an ending.

    Args:
        file: with links resolved: where it may be was decided for its real path.

    Raises:
        LinkedFolderError: it is a link, which a repository may have brought.
    """
    place = file.with_name(f"{file.name}{ending}")
    if place.is_symlink():
        raise LinkedFolderError(place)
    return place


@contextmanager
def opened(folder: Path, *, create: bool = False, mode: int = 0o777) -> Iterator[int]:
    """A folder, open; no link is followed from ``.zeus`` on.

    Args:
        create: makes it if it is missing.
        mode: of the folder itself, if it is made.

    Raises:
        LinkedFolderError: ``.zeus`` or what follows it in the path is a link.
        OSError: it is not there or cannot be opened.
    """
    above, below = _parts(folder)
    if create:
        above.mkdir(mode=0o777 if below else mode, parents=True, exist_ok=True)
    descriptor = os.open(above, _FOLDER)
    try:
        for number, name in enumerate(below, 1):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, mode if number == len(below) else 0o777, dir_fd=descriptor)
            inner = _inner(descriptor, name, folder)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_own(file: Path, flags: int) -> int:
    """Open a file of Zeus's own, which only its user may read if it is made; with ``O_CREAT`` its folder is made too.

    A check of the path beforehand is not enough: a program may put a link there until the file is opened.

    Args:
        flags: of ``os.open``.

    Returns:
        the descriptor.

    Raises:
        LinkedFolderError: ``.zeus`` or what follows it in the path is a link.
        OSError: it is not there or cannot be opened.
    """
    with opened(file.parent, create=bool(flags & os.O_CREAT)) as folder:
        try:
            return os.open(file.name, flags | _NO_LINK | getattr(os, "O_CLOEXEC", 0), 0o600, dir_fd=folder)
        except OSError:
            own_path(file)
            raise


def marker(folder: Path) -> Path:
    """The file beside ``folder`` with its mark. Beside, so that no listing shows it."""
    return folder.with_name(f".{folder.name}.zeus-archive")


def marks_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder where Zeus records the marks of its folders; None for a process without a home.

    Args:
        environ: the environment of the process itself.
    """
    state = state_folder(environ)
    return None if state is None or not state.is_absolute() else state / "folders"


def owned(folder: Path) -> bool:
    """Whether all in ``folder`` is Zeus's: it is one of its folders in ``.zeus``, or Zeus made and recorded it.

    A tool, or a repository, can bring a file with a mark, but no record of it.
    """
    match folder.parts[-3:]:
        case (_, place, name) if place == STATE and name in ARCHIVES:
            return True
        case (above, place, _) if above == STATE and place == SANDBOXES:
            return True
    with suppress(OSError):
        record = _record(folder, _mark_of(folder))
        # A checkout or an image that brings a record does not keep the modes that Zeus gives its folder.
        return record is not None and is_private(record.parent) and record.is_file()
    return False


def claim(folder: Path) -> None:
    """Mark a missing or empty folder as Zeus's; a folder with files belongs to someone else and stays unmarked.

    Raises:
        LinkedFolderError: as ``opened``.
    """
    if owned(folder) or folder.is_symlink() or (folder.is_dir() and any(folder.iterdir())):
        return
    # A folder beside which nothing may be written stays without a marker: it is used, and never cleaned.
    with suppress(OSError), opened(folder.parent, create=True) as above:
        mark = f"{_MARKED}\n{os.urandom(16).hex()}\n".encode()
        if not _is_noted(folder, mark):
            return
        # It is not this one's: it has no record, or another process has just put it there.
        with suppress(FileNotFoundError):
            os.unlink(marker(folder).name, dir_fd=above)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        descriptor = os.open(marker(folder).name, flags, 0o600, dir_fd=above)
        try:
            os.write(descriptor, mark)
        finally:
            os.close(descriptor)


def _is_noted(folder: Path, mark: bytes) -> bool:
    """Whether a mark could be recorded."""
    record = _record(folder, mark)
    try:
        if record is None:
            raise OSError("HOME and XDG_STATE_HOME are not set")
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Again, because `mkdir` leaves the mode of a folder that is there already.
        record.parent.chmod(0o700)
        if not is_private(record.parent):
            raise OSError("the file system leaves it open to others")
        record.write_bytes(os.fsencode(folder))
    except OSError as error:
        _log.warning(
            "old files in %s stay: XDG_STATE_HOME names no folder to record it in (%s)", folder, error
        )
        return False
    return True


def _mark_of(folder: Path) -> bytes:
    """A folder's mark; empty without one.

    Raises:
        OSError: it cannot be read.
    """
    # A pipe in its place must not hold Zeus up.
    flags = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(marker(folder), flags)
    try:
        return os.read(descriptor, _LONGEST_MARK)
    finally:
        os.close(descriptor)


def _record(folder: Path, mark: bytes) -> Path | None:
    """The file that records a mark, in a folder for all marks of this folder; it holds the folder's path."""
    marks = marks_folder(os.environ)
    # The folder itself may be a link, which the mark is not for.
    place = f"{real_path(folder.parent)}/{folder.name}"
    return (
        None if marks is None else marks / sha256(os.fsencode(place)).hexdigest() / sha256(mark).hexdigest()
    )


@contextmanager
def opened_to_remove(folder: Path) -> Iterator[int | None]:
    """A folder in which Zeus may remove files, open; None if it is not Zeus's.

    Raises:
        LinkedFolderError: it is a link, or as ``opened``.
        OSError: it is not there or cannot be opened.
    """
    if not owned(folder):
        yield None
        return
    with opened(folder.parent) as above:
        descriptor = _inner(above, folder.name, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_tree(folder: Path) -> bool:
    """Remove a folder of Zeus's with all its content; files that the system does not allow to remove stay.

    Returns:
        whether it may be removed; False for a folder that Zeus did not create.

    Raises:
        LinkedFolderError: as ``opened``.
    """
    if not os.path.lexists(folder):
        return True
    if not owned(folder):
        return False
    with opened(folder.parent) as above:
        # It follows no link, and removes none.
        shutil.rmtree(folder.name, ignore_errors=True, dir_fd=above)
        if not os.path.lexists(folder):
            with suppress(FileNotFoundError):
                os.unlink(marker(folder).name, dir_fd=above)
            if (record := _record(folder, b"")) is not None:
                shutil.rmtree(record.parent, ignore_errors=True)
    return True


def _inner(above: int, name: str, folder: Path) -> int:
    try:
        return os.open(name, _FOLDER | _NO_LINK, dir_fd=above)
    except OSError:
        own_path(folder)
        if folder.is_symlink():
            raise LinkedFolderError(folder) from None
        raise


def _parts(path: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder above the last ``.zeus`` of a path, and what follows; the path itself without one."""
    parts = path.parts
    if STATE not in parts:
        return path, ()
    at = len(parts) - parts[::-1].index(STATE) - 1
    return Path(*parts[:at]), parts[at:]
