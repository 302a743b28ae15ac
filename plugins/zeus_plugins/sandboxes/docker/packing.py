"""Packs a session's folder as a tar archive, and unpacks one. Archives from a program are untrusted."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final

_MAX_LOST: Final = 20
_MAX_DEPTH: Final = 64


def packed(folder: Path) -> bytes:
    """Pack everything in ``folder`` into an archive without the files' owners."""

    def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 65534
        entry.uname = entry.gname = ""
        return entry

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for each in sorted(folder.iterdir()):
            archive.add(each, each.name, filter=nobodys)
    return data.getvalue()


def packed_files(files: Mapping[str, bytes]) -> bytes:
    """Pack files, given by name, into an archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def unpack(source: IO[bytes], folder: Path, *, max_bytes: int, max_files: int) -> tuple[str, ...]:
    """Replace the contents of ``folder`` by the archive's, in one step; until then the folder is unchanged.

    Returns:
        the paths that could not be kept, each with the reason.

    Raises:
        tarfile.TarError: the file is not an archive.
        OSError: the files cannot be written.
    """
    lost: list[str] = []
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        left, count = max_bytes, 0
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for entry in archive:
                if entry.name in (".", "./"):
                    continue
                count += 1
                size = entry.size if entry.isfile() else 0
                reason = _refusal(entry, size <= left, count <= max_files)
                if reason is None:
                    try:
                        reason = _misplaced(fresh, entry)
                        if reason is None:
                            archive.extract(entry, fresh, set_attrs=True, filter="data")
                            left -= size
                    except (tarfile.FilterError, OSError, ValueError) as error:
                        reason = str(error)
                if reason is not None:
                    lost.append(f"{entry.name.removeprefix('./')}: {reason}")
        old = Path(tempfile.mkdtemp(prefix=".old-", dir=folder.parent))
        folder.rename(old / "files")
        fresh.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    if len(lost) > _MAX_LOST:
        lost = [*lost[:_MAX_LOST], f"and {len(lost) - _MAX_LOST} more"]
    return tuple(lost)


def _misplaced(folder: Path, entry: tarfile.TarInfo) -> str | None:
    """Return why an entry would be made or read behind a link, over another entry, or outside of the folder.

    The filter of ``tarfile`` does not notice this in all versions of Python that Zeus runs on (CVE-2025-4517): it
    resolves links, and stops at a path that is too long.
    """
    place = _plainly(folder, entry.name)
    if place is None:
        return "behind a link, or outside of the folder"
    if os.path.lexists(place) and not (entry.isdir() and stat.S_ISDIR(place.lstat().st_mode)):
        return "a second file of this name"
    if entry.islnk():
        source = _plainly(folder, entry.linkname)
        if source is None or not os.path.lexists(source) or not stat.S_ISREG(source.lstat().st_mode):
            return "a hard link to a file that is not kept"
    return None


def _plainly(folder: Path, name: str) -> Path | None:
    """Return the place of a name in a folder; None if a link is on the way there, or it leads out."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if not parts or ".." in parts:
        return None
    above = folder.joinpath(*parts[:-1])
    is_plain = not any(each.is_symlink() for each in (above, *above.parents) if each.is_relative_to(folder))
    return above / parts[-1] if is_plain else None


def _refusal(entry: tarfile.TarInfo, has_room: bool, has_place: bool) -> str | None:
    if not has_place:
        return "too many files"
    if not has_room:
        return "too many bytes"
    if entry.name.count("/") > _MAX_DEPTH:
        return f"deeper than {_MAX_DEPTH} folders"
    if entry.issym() and entry.linkname.startswith("/"):
        return "a link to an absolute path"
    if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
        return "not a file, folder or link"
    return None
