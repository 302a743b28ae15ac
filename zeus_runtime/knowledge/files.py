"""The files below what was added to a base: which there are, and what each is called in citations."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})

KNOWN_BINARY: Final = frozenset(
    ".7z .a .avi .bin .bmp .bz2 .class .db .dll .doc .dylib .eot .exe .flac .gif .gz .ico .jar .jpeg .jpg .lock .mkv"
    " .mov .mp3 .mp4 .o .ogg .otf .parquet .pickle .pkl .png .ppt .pptx .pyc .rar .so .sqlite .tar .tgz .tif .tiff"
    " .ttf .wav .webm .webp .whl .woff .woff2 .xls .xlsx .xz .zip".split()
)
"""Suffixes that are not looked into below a folder."""


@dataclass(frozen=True)
class Found:
    """A file to be read.

    Args:
        path: absolute.
        label: what citations call it: the path below the folder that was added, with the folder's name.
        source: the path that was added.
    """

    path: Path
    label: str
    source: str
    size_bytes: int
    mtime_ns: int


def files_of(sources: Sequence[str]) -> Iterator[Found]:
    """Every file of the sources, sorted, each once; hidden ones, caches and links are left out."""
    seen: set[Path] = set()
    for source in sources:
        root = Path(source)
        for path in _below(root):
            if path in seen:
                continue
            seen.add(path)
            try:
                state = path.stat()
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode):
                label = path.name if path == root else f"{root.name}/{path.relative_to(root).as_posix()}"
                yield Found(path, label, source, state.st_size, state.st_mtime_ns)


def _below(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    try:
        with os.scandir(root) as scanned:
            entries = sorted(scanned, key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _SKIPPED or entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(root / entry.name)
        elif Path(entry.name).suffix.lower() not in KNOWN_BINARY:
            yield root / entry.name
