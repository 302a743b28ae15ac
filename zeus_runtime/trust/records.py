"""A user's permissions on the disk: one small file for each part, in a folder for each config."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.disk_paths import is_private
from zeus_runtime.errors import MissingError

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Part

ALLOWED_FOR: Final = "allowed for"
"""The label of the line that names the config for which a database was allowed; its record has the database's path."""
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Record:
    """A part that was allowed.

    Args:
        file: the config, as an absolute path.
        kind, name, digest, lines: as the part had them.
        salt: of the seals; empty for a record without any.
        seals: for each line that masks something, as ``short_seal`` makes it; for another line "".
    """

    file: str
    kind: str
    name: str
    digest: str
    lines: tuple[tuple[str, str], ...]
    salt: str = ""
    seals: tuple[str, ...] = ()

    def is_for(self, file: str) -> bool:
        """Whether the user was asked for this config, or for this database."""
        return self.file == file or (self.kind == "database" and (ALLOWED_FOR, file) in self.lines)

    def sealed_lines(self) -> list[tuple[str, str, str]]:
        """Each line with its seal."""
        seals = (*self.seals, *[""] * len(self.lines))
        return [(*line, seal) for line, seal in zip(self.lines, seals, strict=False)]


def short_seal(salt: str, seal: str) -> str:
    """What a record keeps of a line's seal: enough to see a change, too little to find the masked text by trying."""
    return seal and sha256(f"{salt}{seal}".encode()).hexdigest()[:_SEAL_DIGITS]


_SEAL_DIGITS: Final = 4


def is_recorded(folder: Path, file: str, digest: str) -> bool:
    """Whether the user allowed a part of a config. A damaged record counts as missing: the user is asked again.

    Raises:
        MissingError: other users may write to the record.
    """
    path = _place(folder, file) / _name(digest)
    record = _read(path)
    # By content: a record that was copied to another config's folder, or under another digest, allows nothing.
    if record is None or (record.file, record.digest) != (file, digest):
        return False
    # Last, because only a record that allows something can do harm.
    places = (path, path.parent, folder)
    for each in places:
        _refuse_open(each)
    # A checkout or an image that brings a record does not keep the modes that Zeus gives it.
    return all(map(is_private, places))


def add(folder: Path, file: str, part: Part) -> None:
    """Record that the user allows a part of a config; atomically, in a private file.

    Raises:
        MissingError: the record cannot be written.
    """
    place = _place(folder, file)
    salt = os.urandom(16).hex()
    kept = {"file": file, "kind": part.kind, "name": part.name, "digest": part.digest, "lines": part.lines}
    text = json.dumps({**kept, "salt": salt, "seals": [short_seal(salt, each) for each in part.seals]})
    made = place / f".{os.getpid()}.{os.urandom(4).hex()}.new"
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Again, because `mkdir` leaves the mode of a folder that is there already, and applies the umask.
        for each in (folder, place):
            each.chmod(0o700)
            if not is_private(each):
                raise OSError("the file system leaves it open to others")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as writer:
                writer.write(text)
                writer.flush()
                # Before the rename: after a crash, the name must not lead to an empty file.
                os.fsync(descriptor)
            made.replace(place / _name(part.digest))
        finally:
            # After the rename it is gone already.
            made.unlink(missing_ok=True)
    except OSError as error:
        raise MissingError(
            f"what you allow cannot be recorded in {folder}: {error.strerror or error}",
            remedy="make that folder writable, or name another place with XDG_STATE_HOME",
        ) from None


def records_of(folder: Path, file: str) -> tuple[Record, ...]:
    """The permissions recorded for a config without its databases, sorted by kind and name, the newest last."""
    return tuple(sorted(_in(_place(folder, file)), key=_order))


def given_for(folder: Path, file: str) -> tuple[Record, ...]:
    """The permissions that the user gave for a config, its databases' too, sorted by path, kind and name."""
    return tuple(each for each in all_records(folder) if each.is_for(file))


def all_records(folder: Path) -> tuple[Record, ...]:
    """All recorded permissions, sorted by config, kind and name."""
    try:
        places = [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return ()
    # A record outside the folder of its config allows nothing, so it must not be listed as a permission.
    found = (each for place in places for each in _in(place) if place == _place(folder, each.file))
    return tuple(sorted(found, key=lambda each: (each.file, *_order(each))))


def revoke(folder: Path, file: str) -> int:
    """Forget the permissions recorded for a config, its databases' too. Returns the number of parts.

    Raises:
        MissingError: a record cannot be removed.
    """
    place = _place(folder, file)
    count = 0
    databases = [one for one in given_for(folder, file) if one.file != file]
    try:
        for one in databases:
            (_place(folder, one.file) / _name(one.digest)).unlink(missing_ok=True)
            count += 1
        for each in list(place.iterdir()) if place.is_dir() else []:
            each.unlink(missing_ok=True)
            count += each.suffix == ".json"
        if place.is_dir():
            place.rmdir()
    except OSError as error:
        raise MissingError(
            f"the record in {place} cannot be removed: {error.strerror or error}", remedy="remove it by hand"
        ) from None
    return count


def forget(folder: Path, file: str) -> None:
    """Forget what is recorded for a file that is being deleted, as far as it can be removed."""
    rmtree(_place(folder, file), ignore_errors=True)


def _place(folder: Path, file: str) -> Path:
    return folder / sha256(file.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _name(digest: str) -> str:
    return f"{digest.removeprefix('sha256:')}.json"


def _order(record: Record) -> tuple[str, str]:
    return record.kind, record.name


def _in(place: Path) -> Iterator[Record]:
    """The records of a folder, the newest last."""
    try:
        # One that allows nothing must not be listed as a permission.
        is_counted = is_private(place.parent) and is_private(place)
        private = filter(is_private, place.glob("*.json")) if is_counted else ()
        # The time when the user allowed it: a record is written once, at each permission anew.
        files = sorted(private, key=lambda each: (each.stat().st_mtime_ns, each.name))
    except OSError:
        return
    yield from (record for record in map(_read, files) if record is not None)


def _read(path: Path) -> Record | None:
    try:
        value: Any = json.loads(path.read_bytes())
        # Earlier records have a digest without a salt behind a masked line.
        lines = tuple((str(label), str(text).partition("\x1f")[0]) for label, text in value["lines"])
        salt, seals = str(value.get("salt", "")), tuple(map(str, value.get("seals", ())))
        texts: Mapping[str, str] = {key: str(value[key]) for key in ("file", "kind", "name", "digest")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Record(**texts, lines=lines, salt=salt, seals=seals) if DIGEST.fullmatch(texts["digest"]) else None


def _refuse_open(path: Path) -> None:
    """Raise if other users may write it: they could allow parts that this user never saw."""
    status = path.stat()
    if os.name == "posix" and (status.st_mode & 0o022 or status.st_uid != os.geteuid()):
        raise MissingError(
            f"{path}, which says what you allow to be executed, can be written by others",
            remedy=f"make it yours alone (chmod go-rwx {path}), or remove it and run `zeus trust` again",
        )
