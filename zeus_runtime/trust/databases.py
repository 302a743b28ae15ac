"""The SQLite databases that this user's Zeus created: each has a random mark, recorded with the file's path."""

from __future__ import annotations

import os
from contextlib import closing
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zeus_runtime.errors import MissingError
from zeus_runtime.proc_files import has_end

if TYPE_CHECKING:
    from sqlite3 import Connection

    from zeus_runtime.trust.parts import Part

DatabaseUse: TypeAlias = Literal["agents", "service"]
"""Whose database it is: that of agents, or that of a service, which decides who may use the agents."""

_MAGIC: Final = b"SQLite format 3\x00"
_PAGE_BYTES: Final = slice(16, 18)
_WRITE_VERSION: Final = slice(18, 19)
_USER_VERSION: Final = slice(60, 64)
_APPLICATION_ID: Final = slice(68, 72)
"""Where SQLite's header has two numbers for applications (https://sqlite.org/fileformat2.html#the_database_header)."""
_WITH_LOG: Final = b"\2"
"""The write version of a database with a write-ahead log."""
_PATIENCE_SECONDS: Final = 10.0
_PART_BYTES: Final = 1 << 20
_MOST_KEPT: Final = 256
_kept: Final[dict[tuple[int, int], int]] = {}
"""Descriptors of files that may be databases, by device and inode, the longest unused first."""
_keeping: Final = Lock()
_given: Final[dict[Path, tuple[Part, str]]] = {}
"""The databases that a digest in ``ZEUS_TRUST`` allows this process to open, each with the config."""


def is_database(file: Path) -> bool:
    """Whether SQLite finds content in a file: the file's own, or that of a log beside it."""
    header = _header(file)
    return header.startswith(_MAGIC) or (bool(header) and any(map(_header, logs(file))))


def logs(file: Path) -> tuple[Path, ...]:
    """The logs from which SQLite completes a database when it opens it, whatever the file itself has."""
    return tuple(file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal"))


def refuse_journal(file: Path) -> None:
    """Refuse a rollback journal beside a database with a write-ahead log, before SQLite plays it back.

    SQLite writes a journal only until the database has its log: while Zeus makes it, which then has one page at most,
    and which another process may do at this moment. So a later journal is somebody else's.

    Args:
        file: with all links resolved.

    Raises:
        MissingError: there is one.
    """
    log, journal = logs(file)
    if not _size(journal):
        return
    header = _header(file)
    # In the header, 1 stands for 65,536, the largest page.
    page_bytes = max(512, int.from_bytes(header[_PAGE_BYTES], "big"))
    is_in_use = header[_WRITE_VERSION] == _WITH_LOG and (_size(file) > page_bytes or _size(log))
    # Looked at again: it was there while another process made the database, which is in use since.
    if is_in_use and _size(journal):
        raise MissingError(
            f"a rollback journal is beside the database {file}, and Zeus writes none: SQLite would put what it contains"
            " into the database",
            remedy=f"find out who made {journal}, and delete it: the database is complete without it",
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def is_made(records: Path | None, file: Path) -> bool:
    """Whether this user's Zeus created the file, or the file does not exist yet.

    Args:
        records: the folder with the user's permissions.
        file: with all links resolved.

    Raises:
        MissingError: other users may write to the record.
    """
    if not _header(file):
        return True
    if records is None:
        return False
    from zeus_runtime.trust.records import is_recorded

    return is_recorded(records, str(file), _digest(_mark(file)))


def database_part(file: Path, name: str, use: DatabaseUse, *, where: str = "") -> Part:
    """A database that this user's Zeus did not create, identified by its path, its use, and its first content.

    Zeus and others write to a database in use. So its content counts as this process first saw it, and ``adopt`` looks
    again.

    Args:
        file: with all links resolved.
        name: the path shown to a person.
    """
    from zeus_runtime.trust.parts import Part, one_line, part_digest

    held = _first_content(file, _identity(file))
    lines = (
        ("file", one_line(str(file))),
        *(("content", f"{each.name}: sha256 {content}") for each, content in held),
        ("used by", _USERS[use]),
        (
            "made by",
            "not your Zeus: it came with the project, was moved or copied, or is older than this rule",
        ),
        (
            "holds",
            "sessions, memories, approvals, keys of a service, and what runs without asking: all count as yours if you"
            " allow it",
        ),
    )
    contents = [[each.name.removeprefix(file.name), content] for each, content in held]
    digest = part_digest("database", path=name, use=use, contents=contents)
    return Part("database", name, digest, lines, (file,), where, held=held)


_USERS: Final = {"agents": "the agents", "service": "the service: it decides who may use the agents"}


def give(part: Part, config: str) -> None:
    """Note that a digest in ``ZEUS_TRUST`` allows a database, for the moment when this process opens it.

    Args:
        config: the config that is read, as an absolute path.
    """
    _given[part.files[0]] = part, config


def adopt_given(records: Path | None, file: Path) -> None:
    """Record a database that a digest in ``ZEUS_TRUST`` allows, and its vector stores, before they are written.

    Args:
        file: with all links resolved.

    Raises:
        MissingError: as ``adopt``; or there is no folder for the record.
        UntrustedError: as ``adopt``.
    """
    for each, (part, config) in [*_given.items()]:
        if not each.is_relative_to(file.parent) or is_made(records, each):
            continue
        if records is None:
            raise MissingError(
                f"a digest allows the database {each} once, and that cannot be recorded: neither HOME nor"
                " XDG_STATE_HOME is set",
                remedy="set one of them, or name the config by its path in ZEUS_TRUST",
            )
        adopt(records, part, config)


def make(records: Path | None, file: Path) -> bool:
    """Create the database in an empty file, with a recorded mark. Returns whether the mark could be recorded.

    If several processes try, one of them creates it.
    """
    is_recorded = True
    with closing(_connected(file)) as connection:
        # Processes that start at once wait here; all but the first find a file that is not empty.
        connection.execute("BEGIN EXCLUSIVE")
        # SQLite's own page count does not tell: the transaction has already made the first page.
        is_new = not file.stat().st_size
        if is_new:
            try:
                _put_mark(connection, records, file)
            except MissingError:
                is_recorded = False
        connection.execute("COMMIT")
        if is_new:
            # Before the transaction, this would write the file, and another process would see it without a mark.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
    return is_recorded


def adopt(records: Path, part: Part, config: str) -> None:
    """Record that the user allows a database. It gets a new mark, so another file with the former mark is not allowed.

    Args:
        config: the config for which the user was asked, as an absolute path; any other may use the database too.

    Raises:
        MissingError: the file is not a database, is in use, or cannot be written.
        UntrustedError: its content is another one than that of the part.
    """
    from dataclasses import replace
    from sqlite3 import Error

    from zeus_runtime.trust.decision import UntrustedError
    from zeus_runtime.trust.records import ALLOWED_FOR

    (file,) = part.files
    if _content(file) != part.held:
        raise UntrustedError(
            f"the database {file} has changed since Zeus looked at it",
            [part],
            remedy="end what uses it, and run the command again to see it as it is",
        )
    part = replace(part, lines=(*part.lines, (ALLOWED_FOR, config)))
    try:
        with closing(_connected(file)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            mark = _put_mark(connection, records, file, part)
            connection.execute("COMMIT")
            # `_mark` reads the file and not the log, so the mark must be in the file.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except Error as error:
        raise MissingError(
            f"the database {file} cannot be marked as yours: {error}",
            remedy="end what uses it and make it writable, or delete it",
        ) from error
    # Another connection keeps a checkpoint from its end.
    if _mark(file) != mark:
        raise MissingError(
            f"the database {file} is in use, so it cannot be marked as yours", remedy="end what uses it"
        )


def _put_mark(connection: Connection, records: Path | None, file: Path, part: Part | None = None) -> str:
    """Give a database a mark in the open transaction. The mark is recorded before any other process can see it."""
    # SQLite's numbers are signed, and zero means none: positive and odd, so never zero.
    numbers = [int.from_bytes(os.urandom(4), "big") & 0x7FFFFFFF | 1 for _ in range(2)]
    connection.execute(f"PRAGMA user_version={numbers[0]}")
    connection.execute(f"PRAGMA application_id={numbers[1]}")
    mark = "".join(f"{number:08x}" for number in numbers)
    if records is None:
        raise MissingError("neither HOME nor XDG_STATE_HOME is set", remedy="set one of them")
    from dataclasses import replace

    from zeus_runtime.trust.parts import Part, one_line
    from zeus_runtime.trust.records import add

    part = part or Part("database", file.name, "", (("file", one_line(str(file))),))
    # Inside the transaction: a crash here leaves a record of a mark that no file has, which allows nothing.
    add(records, str(file), replace(part, digest=_digest(mark)))
    return mark


def _connected(file: Path) -> Connection:
    import sqlite3

    # Without the module's own transactions, because `BEGIN EXCLUSIVE` is written out here.
    return sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None)


def _mark(file: Path) -> str:
    """The mark in a database's header; empty without one."""
    header = _header(file)
    mark = header[_USER_VERSION] + header[_APPLICATION_ID]
    return (
        mark.hex()
        if header.startswith(_MAGIC) and all((mark[:4].strip(b"\0"), mark[4:].strip(b"\0")))
        else ""
    )


def _header(file: Path) -> bytes:
    """The beginning of a file; empty if the file is empty, missing or unreadable."""
    try:
        with _keeping:
            return os.pread(_open(file), _APPLICATION_ID.stop, 0)
    except OSError:
        return b""


def _sha256(file: Path) -> str:
    digest, place = sha256(), 0
    with _keeping:
        descriptor = _open(file)
        while part := os.pread(descriptor, _PART_BYTES, place):
            digest.update(part)
            place += len(part)
    return digest.hexdigest()


def _open(file: Path) -> int:
    """A descriptor of a file, for the holder of ``_keeping``, which must not close it.

    On POSIX, closing any descriptor of a file takes all its locks from the process, those of SQLite too. Another
    process that ends would then delete the log of a database in use (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    found = file.stat()
    if not has_end(found):
        raise OSError  # a repository may have brought a link to it
    descriptor = _kept.pop((found.st_dev, found.st_ino), None)
    if descriptor is None:
        for identity in [each for each, kept in _kept.items() if not os.fstat(kept).st_nlink]:
            os.close(_kept.pop(identity))  # it is deleted, so no other process will open it
        if len(_kept) >= _MOST_KEPT:
            os.close(_kept.pop(next(iter(_kept))))
        descriptor = os.open(file, os.O_RDONLY)
        found = os.fstat(descriptor)
    _kept[found.st_dev, found.st_ino] = descriptor
    return descriptor


@lru_cache(maxsize=64)
def _first_content(file: Path, identity: object) -> tuple[tuple[Path, str], ...]:
    """The content when this process first saw the file with this identity."""
    return _content(file)


def _identity(file: Path) -> object:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, _mark(file)


def _content(file: Path) -> tuple[tuple[Path, str], ...]:
    """The SHA-256 of the file and of its logs; of those that are empty, missing or unreadable, none."""
    return tuple((each, _sha256(each)) for each in (file, *logs(file)) if _header(each))


def _digest(mark: str) -> str:
    from zeus_runtime.trust.parts import part_digest

    return part_digest("database", mark=mark)
