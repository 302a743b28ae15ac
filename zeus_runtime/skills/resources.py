"""A skill's other files: listed, and read on demand, never outside the skill's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import UsageError
from zeus_runtime.skills.discovery import FILE
from zeus_runtime.tools.paths import NoSuchFileError

if TYPE_CHECKING:
    from zeus_runtime.tools.workspace import WorkspaceFiles

MAX_BYTES: Final = 10_000_000
"""A larger resource is not read."""

_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})
_MAX_DEPTH: Final = 8
_MAX_LISTED: Final = 2_000


@dataclass(frozen=True)
class Resource:
    """A file of a skill.

    Args:
        path: relative to the skill's folder, with ``/``.
    """

    path: str
    size_bytes: int


def skill_resources(folder: Path, files: WorkspaceFiles | None = None) -> list[Resource]:
    """A skill's files except its ``SKILL.md``, sorted; without hidden files, caches and links that lead outside.

    Args:
        folder: the skill's, where it was found.
        files: the workspace of the agent that reads; files that its rules deny are left out.
    """
    found: list[Resource] = []
    for resource in _files(folder.resolve(), folder.resolve(), 0):
        if files is not None and files.refusal_of(folder / resource.path, top=folder):
            continue
        found.append(resource)
        if len(found) >= _MAX_LISTED:
            break
    return sorted(found, key=lambda each: each.path)


def read_skill_resource(folder: Path, path: str, files: WorkspaceFiles | None = None) -> bytes:
    """Read the file ``path`` of a skill.

    Args:
        folder: the skill's, where it was found: links on the way are judged too.
        path: relative, with ``/``.
        files: the workspace of the agent that reads; its access rules apply.

    Raises:
        UsageError: the path leaves the folder in any way, or is not a readable file of at most ``MAX_BYTES``.
        WorkspaceError: no tool may read it.
        AccessAsked: a person must approve it first.
    """
    parts = path.split("/")
    if not path or path.startswith(("/", "~")) or ".." in parts or set(path) & set("\\\0") or _is_drive(path):
        raise UsageError(
            f"{path!r} is not a path inside the skill", remedy="Use a relative path as load_skill lists it."
        )
    base = folder.resolve()
    try:
        # A missing file is judged like one that is there: the answer must not tell whether a denied file exists.
        target = (base / path).resolve()
        if not target.is_relative_to(base):
            raise UsageError(f"{path!r} leads out of the skill's folder", remedy="It is not read.")
        return (
            _bytes(target, path)
            if files is None
            else files.read_host(target, max_bytes=MAX_BYTES, named=folder / path, top=folder)
        )
    except (OSError, RuntimeError, ValueError, NoSuchFileError) as error:
        known = [each.path for each in skill_resources(folder, files)]
        raise UsageError(
            f"{path!r} cannot be read: {getattr(error, 'strerror', None) or 'there is no such file'}",
            remedy=_suggested(path, known),
        ) from None


def _bytes(target: Path, path: str) -> bytes:
    # Non-blocking, so that a pipe that replaced the file cannot stop the run.
    descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:  # noqa: PTH123
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise UsageError(f"{path!r} is not a regular file")
        if state.st_size > MAX_BYTES:
            raise UsageError(
                f"{path!r} has {state.st_size:,} bytes, more than the {MAX_BYTES:,} that are read",
                remedy="Use a script that reads part of it.",
            )
        return file.read(MAX_BYTES)


def _files(base: Path, folder: Path, depth: int) -> Iterator[Resource]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _SKIPPED or (depth == 0 and entry.name == FILE):
            continue
        path = Path(entry.path)
        try:
            if entry.is_symlink() and not path.resolve(strict=True).is_relative_to(base):
                continue
            if entry.is_file():
                yield Resource(path.relative_to(base).as_posix(), entry.stat().st_size)
            # A link to a folder could lead in a circle. Its files are listed at their real place.
            elif entry.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
                yield from _files(base, path, depth + 1)
        except (OSError, RuntimeError):
            continue


def _is_drive(path: str) -> bool:
    return len(path) > 1 and path[1] == ":" and path[0].isalpha()


def _suggested(path: str, known: list[str]) -> str:
    from zeus_runtime.config.messages.diagnostics import did_you_mean

    close = did_you_mean(path, known)
    if close is not None:
        return f"Did you mean {close!r}?"
    return (
        f"Its files: {', '.join(known[:20])}{' ...' if len(known) > 20 else ''}."
        if known
        else "It has no files."
    )
