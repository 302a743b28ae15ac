"""The plugins that installed distributions declare: entry points of the group ``zeus.plugins``.

``importlib.metadata`` would take a sixth of the time `zeus validate` may take, nearly all of it for importing parsers
that are not needed here. So the files are read directly where they are plain files, as pip and uv install them. Zipped
distributions and other import systems are left to ``importlib.metadata``; a test checks that both ways agree. Paths are
strings here, because a ``Path`` for each of hundreds of folders costs more than reading them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from zeus_runtime.registry.plugin import Plugin

GROUP = "zeus.plugins"


def installed_plugins(search_path: Sequence[str] | None = None) -> tuple[Plugin, ...]:
    """The declared plugins, sorted by name and distribution; nothing is imported.

    Args:
        search_path: the folders to search; the first one wins if a distribution is there twice. None for ``sys.path``.
    """
    # A relative one is wherever the process is, as for Python's prompt and notebooks: nothing was installed there.
    folders = tuple(filter(os.path.isabs, sys.path if search_path is None else search_path))
    found = (
        _by_importlib(folders)
        if _has_archives(folders) or (search_path is None and _has_other_finders())
        else _by_files(folders)
    )
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution or "", plugin.source)))


def _has_archives(folders: Sequence[str]) -> bool:
    return any(
        folder.endswith((".egg", ".zip", ".whl", ".pyz")) and os.path.isfile(folder) for folder in folders
    )


def _has_other_finders() -> bool:
    from importlib.machinery import PathFinder

    return any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)


def _by_importlib(folders: Sequence[str]) -> Iterator[Plugin]:
    from importlib.metadata import distributions

    seen: set[str] = set()
    for distribution in distributions(path=list(folders)):
        key = _normal(distribution.name or "")
        if key in seen:
            continue
        seen.add(key)
        for point in distribution.entry_points.select(group=GROUP):
            needs = _needs(distribution.requires or ())
            yield Plugin(
                point.name, _target(point.value), distribution.name, distribution.version, needs=needs
            )


def _by_files(folders: Sequence[str]) -> Iterator[Plugin]:
    seen: set[str] = set()
    for folder in folders:
        for key, path in _metadata_folders(folder):
            if key in seen:
                continue
            seen.add(key)
            points = _declared(_read(os.path.join(path, "entry_points.txt")))
            if points:
                name, version, needs = _identity(path)
                for point, value in points:
                    yield Plugin(point, value, name, version, needs=needs)


def _metadata_folders(folder: str) -> list[tuple[str, str]]:
    """The distributions of one folder: normalised name and metadata folder, in the order of the folders' names."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [
        (_normal(name.rpartition(".")[0].partition("-")[0]), os.path.join(folder, name))
        for name in sorted(names)
        if name.endswith((".dist-info", ".egg-info"))
    ]


def _declared(text: str) -> list[tuple[str, str]]:
    """The group's names and values in an ``entry_points.txt`` (an INI file, packaging.python.org)."""
    # Nearly every file lacks the group, and a search for a text is much faster than reading lines.
    if GROUP not in text:
        return []
    points: list[tuple[str, str]] = []
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and line and not line.startswith(("#", ";")):
            name, separator, value = line.partition("=")
            if separator:
                points.append((name.strip(), _target(value)))
    return points


def _target(value: str) -> str:
    """``package.module:attribute`` without spaces and extras, which no longer mean anything (packaging.python.org)."""
    return "".join(value.partition("[")[0].split())


def _identity(path: str) -> tuple[str, str | None, str]:
    """Name, version and required versions of Zeus, from METADATA (from PKG-INFO in an ``.egg-info``)."""
    fields: dict[str, str] = {}
    requires: list[str] = []
    text = _read(os.path.join(path, "METADATA")) or _read(os.path.join(path, "PKG-INFO"))
    for line in text.splitlines():
        # The headers end here; a description that may be long follows.
        if not line:
            break
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.lower(), value.strip())
            if key.lower() == "requires-dist":
                requires.append(value.strip())
    stem = os.path.basename(path).rpartition(".")[0].partition("-")
    return fields.get("name", stem[0]), fields.get("version", stem[2] or None), _needs(requires)


def _needs(requires: Iterable[str]) -> str:
    """The versions of Zeus that requirements allow, without spaces; those of an extra or a platform do not count."""
    for line in requires:
        match = re.fullmatch(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^()]*)\)?", line.strip())
        if match and _normal(match[1]) == "zeus_runtime" and ";" not in line:
            return "".join(match[2].split())
    return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _normal(name: str) -> str:
    """A distribution's name in the form that PEP 503 compares."""
    return name.lower().replace("-", "_").replace(".", "_")
