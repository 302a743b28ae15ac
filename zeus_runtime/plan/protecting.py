"""Adds a file to those that decide about an agent: by each spelling, with its links, its code and what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import expanded, is_in, real_path
from zeus_runtime.plan.workspace_root import workspace_root
from zeus_runtime.skills.discovery import FILE as SKILL_FILE
from zeus_runtime.tools.links import links_from
from zeus_runtime.trust.databases import is_database, logs

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

DECIDES: Final = "it decides about this agent"
DECIDES_ALL: Final = "it decides about all your agents"


def add_file(
    deciding: Deciding,
    file: Path,
    why: str = DECIDES,
    *,
    holds_keys: bool = False,
    is_liftable: bool = True,
) -> None:
    """Protect a file or folder by each of its spellings.

    Args:
        why: for the refusal.
        holds_keys: no tool may read it either.
        is_liftable: a rule of the config may open it.
    """
    for each in spellings(file):
        deciding.add(each, why, holds_keys=holds_keys, is_liftable=is_liftable)


def add_beginning(deciding: Deciding, file: Path, why: str, *, holds_keys: bool = False) -> None:
    """Protect the file and its neighbours whose names begin with its name."""
    for at in spellings(file):
        deciding.add_beginning(at, why, holds_keys=holds_keys)
    # SQLite would apply a log that a command makes. An empty one is none.
    real = Path(real_path(expanded(file).absolute()))
    for log in logs(real) if is_database(real) else ():
        add_unasked(deciding, log, is_file=True)


def add_unasked(deciding: Deciding, place: Path, *, is_file: bool = False) -> None:
    """Have a place made, if it is missing, before a command could make it, and keep files from its way."""
    (deciding.unasked_files if is_file else deciding.unasked)[str(place)] = None
    for at in dict.fromkeys((str(place), real_once(str(place)))):
        deciding.add_way(at)


def add_code(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    """Protect a file that is executed or that decides, with the compiled form of a module."""
    add_file(deciding, file, holds_keys=holds_keys)
    if file.suffix == ".py":
        # Python would load a forged cache file instead of the source.
        add_file(deciding, file.parent / "__pycache__")


def add_linked_code(deciding: Deciding, folder: Path, work: Sequence[Path]) -> None:
    """Protect the targets of links in a folder that a program or a component opens files in, also new files there."""
    if os.path.isdir(folder):  # noqa: PTH112 - False also for a name that is too long
        for link in links_from(folder, lambda link: not holds_any(link, work)):
            if not holds_any(link, work):
                add_code(deciding, link)


def add_folder(deciding: Deciding, folder: Path, work: Sequence[Path] = ()) -> None:
    """Protect a folder and the targets of its links, and the same for each folder that a link leads to.

    Args:
        work: folders that a link must not close completely, since no rule could open them again. A project may itself
            be a skill; then only its ``SKILL.md`` is protected.
    """

    def is_project(link: Path) -> bool:
        return holds_any(link, work) and (link / SKILL_FILE).exists()

    add_file(deciding, folder)
    for link in links_from(folder, lambda link: not is_project(link)):
        add_file(deciding, link / SKILL_FILE if is_project(link) else link)


def holds_any(link: Path, folders: Sequence[Path]) -> bool:
    """Whether a link leads to one of the folders, or to a folder above it."""
    target = real_once(str(link))
    return any(is_in(real_once(str(each)), target) for each in folders)


def work_folders(checked: Checked) -> tuple[Path, ...]:
    """The working directory, the folder of all workspaces, and this agent's own in it."""
    root = checked.directory / checked.config.workspace.root
    return tuple(dict.fromkeys((checked.directory, root, workspace_root(checked))))


def entries_of(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """The entries of a folder; none if it is missing, is a file, or is closed to this user."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def spellings(file: Path) -> Iterable[str]:
    """A path as written, with the links of its folder resolved, and with all links resolved."""
    # Texts and not paths: each plan makes some hundred of them.
    written = str(expanded(file).absolute())
    plain = os.path.normpath(written)
    # Each file's folder is resolved once for many files. A circle of links is not an error here.
    folder, name = os.path.split(plain)
    near = f"{real_once(folder).rstrip('/')}/{name}"
    found = [plain, near, real_path(near) if os.path.islink(near) else near]  # noqa: PTH114 - quicker
    if written != plain:
        found.append(real_path(written))  # after a link, `..` leads elsewhere than the text of the path says
    return dict.fromkeys(found)


@lru_cache(maxsize=1024)
def real_once(path: str) -> str:
    """``path`` with its links resolved as they led when it was first asked for after ``forget_links``."""
    return real_path(path)


def forget_links() -> None:
    """Resolve links anew: they change between two plans."""
    real_once.cache_clear()
