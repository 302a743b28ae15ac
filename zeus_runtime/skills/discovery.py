"""Find skills in the project and in every Home. The nearest skill of a name wins, an untrusted one never does."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zeus_runtime.cutting import unwrapped
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.skills.front_matter import Warned

PROJECT_FOLDERS: Final = (".agents/skills", ".zeus/skills", ".claude/skills")
"""Looked for in the project's folder and the workspace's, in this order, before the Homes."""

FILE: Final = "SKILL.md"

MAX_FILE_BYTES: Final = 1_000_000
"""A larger ``SKILL.md`` is left out."""

_MAX_DEPTH: Final = 3
_MAX_FOLDERS: Final = 5_000
_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})

Status: TypeAlias = Literal["offered", "shadowed", "untrusted", "hidden", "unusable"]


@dataclass(frozen=True)
class SkillRoot:
    """A folder of skills.

    Args:
        project: it came with the project, not from the user, so it is untrusted by default.
    """

    path: Path
    project: bool


@dataclass(frozen=True)
class Skill:
    """One skill.

    Args:
        name: the name that the model uses.
        description: one line: what the skill is for and when to use it.
        folder: with links resolved; no file outside it is ever read.
        root: where it was found.
        status: ``offered`` to the model; ``shadowed`` by a nearer one of the same name; ``untrusted`` because it comes
            with the project; ``hidden`` by its author; ``unusable``, with the reason in ``warnings``.
        by: the file of the skill that shadows it.
        license: from its front matter.
        warnings: the problems in its file.
        found: its folder where it was found, by a path that may lead through links.
    """

    name: str
    description: str
    folder: Path
    root: SkillRoot
    status: Status
    by: Path | None = None
    license: str = ""
    warnings: tuple[Warned, ...] = ()
    found: Path | None = None

    @property
    def place(self) -> Path:
        """Its folder, as access rules judge it: with the links that lead to it."""
        return self.found or self.folder

    @property
    def file(self) -> Path:
        """Its ``SKILL.md``."""
        return self.folder / FILE


@dataclass(frozen=True)
class Skills:
    """All skills that were found, nearest first, then by name.

    Args:
        all: every skill, whatever its status.
        overflow: whether folders were left unread because there were too many.
    """

    all: tuple[Skill, ...]
    overflow: bool = False

    @cached_property
    def offered(self) -> tuple[Skill, ...]:
        """The skills that the model may load."""
        return tuple(each for each in self.all if each.status == "offered")

    @cached_property
    def by_name(self) -> Mapping[str, Skill]:
        """The offered ones."""
        return {each.name: each for each in self.offered}


def skill_roots(*, directory: Path, workspace: Path, homes: Sequence[Path]) -> tuple[SkillRoot, ...]:
    """The folders that may hold skills, nearest first; a folder is listed once.

    Args:
        directory: the project's folder.
        workspace: the agent's workspace; usually the same folder.
        homes: the Home folders, nearest first. The project's own ``.zeus`` is also a Home, and its skills are the
            project's. Skills of the other Homes belong to the user, a plugin or the config.
    """
    found: dict[Path, SkillRoot] = {}
    for base in (workspace, directory):
        for folder in PROJECT_FOLDERS:
            path = base.absolute() / folder
            found.setdefault(path, SkillRoot(path, project=True))
    for home in homes:
        path = home.absolute() / "skills"
        found.setdefault(path, SkillRoot(path, project=False))
    return tuple(found.values())


def skill_files(roots: Sequence[SkillRoot]) -> list[Path]:
    """Every ``SKILL.md`` under ``roots``, in the order in which they are read; reads none."""
    budget = [_MAX_FOLDERS]
    return [folder / FILE for root in roots for folder in _folders(root.path, 0, budget)]


def has_skills(
    roots: Sequence[SkillRoot], *, trust_project: bool, hides: Callable[[Path], bool] = lambda file: False
) -> bool:
    """Whether there is at least one ``SKILL.md`` to offer; reads no file.

    Args:
        hides: as in ``find_skills``.
    """
    budget = [_MAX_FOLDERS]
    return any(
        not hides(folder / FILE)
        for root in roots
        if trust_project or not root.project
        for folder in _folders(root.path, 0, budget)
    )


def find_skills(
    roots: Sequence[SkillRoot],
    *,
    trust_project: bool,
    known: Mapping[Path, tuple[object, Skill]] | None = None,
    hides: Callable[[Path], bool] = lambda file: False,
) -> tuple[Skills, dict[Path, tuple[object, Skill]]]:
    """Find every skill under ``roots``.

    Args:
        trust_project: whether the project's skills are offered too; otherwise they are not offered and shadow none.
        known: the second value that an earlier search returned: files that did not change are not read again.
        hides: whether a ``SKILL.md`` is invisible to the agent.

    Returns:
        the skills, and a cache for the next search.
    """
    budget = [_MAX_FOLDERS]
    read: dict[Path, tuple[object, Skill]] = {}
    found: list[Skill] = []
    taken: dict[str, Path] = {}
    for root in roots:
        of_root = [
            _read(root, folder, known or {}, read)
            for folder in _folders(root.path, 0, budget)
            if not hides(folder / FILE)
        ]
        of_root.sort(key=lambda each: (each.name, str(each.folder)))
        found += [_ranked(skill, taken, trust_project=trust_project) for skill in of_root]
    return Skills(tuple(found), overflow=budget[0] <= 0), read


def _ranked(skill: Skill, taken: dict[str, Path], *, trust_project: bool) -> Skill:
    if skill.status == "unusable":
        return skill
    if skill.root.project and not trust_project:
        return replace(skill, status="untrusted")
    if skill.name in taken:
        return replace(skill, status="shadowed", by=taken[skill.name])
    taken[skill.name] = skill.file
    return skill


def _folders(path: Path, depth: int, budget: list[int]) -> Iterator[Path]:
    """Folders with a ``SKILL.md``. Their subfolders are not searched: those files belong to the skill."""
    budget[0] -= 1
    # Asked before each model call, of folders that are mostly not there: an exception takes ten times as long.
    if budget[0] < 0 or not os.access(path, os.F_OK):
        return
    try:
        with os.scandir(path) as entries:
            names = {entry.name: entry for entry in entries}
        if depth and FILE in names:
            yield path
            return
        below = sorted(
            name
            for name, entry in names.items()
            if name not in _SKIPPED and not name.startswith(".") and _is_folder(entry)
        )
    except OSError:
        return
    if depth < _MAX_DEPTH:
        for name in below:
            yield from _folders(path / name, depth + 1, budget)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder. A dangling or circular link is not one, and does not stop the search."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _read(
    root: SkillRoot,
    folder: Path,
    known: Mapping[Path, tuple[object, Skill]],
    read: dict[Path, tuple[object, Skill]],
) -> Skill:
    try:
        state = (folder / FILE).stat()
        seen = (root, state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)
        former = known.get(folder)
        skill = former[1] if former is not None and former[0] == seen else _parsed(root, folder, state)
    except (OSError, RuntimeError) as error:
        return _unusable(root, folder, getattr(error, "strerror", None) or str(error))
    read[folder] = (seen, skill)
    return skill


def _parsed(root: SkillRoot, folder: Path, state: os.stat_result) -> Skill:
    real = folder.resolve(strict=True)
    file = (real / FILE).resolve(strict=True)
    if file.parent != real:
        return _unusable(root, folder, f"{FILE} is a link to a file outside the skill's folder")
    if not stat.S_ISREG(state.st_mode):
        return _unusable(root, folder, f"{FILE} is not a regular file")
    if state.st_size > MAX_FILE_BYTES:
        return _unusable(root, folder, f"{FILE} is larger than {MAX_FILE_BYTES:,} bytes")
    from zeus_runtime.skills.front_matter import Warned, read_skill_text

    text = read_skill_text(file.read_bytes())
    warnings = list(text.warnings)
    if text.name and text.name != folder.name:
        warnings.append(Warned(1, 1, f"the name {text.name!r} is not the folder's, {folder.name!r}"))
    return Skill(
        name=text.name or unwrapped(folder.name),
        description=text.description,
        folder=real,
        root=root,
        status="unusable" if not text.description else "offered" if text.for_model else "hidden",
        license=text.license,
        warnings=tuple(warnings),
        found=folder,
    )


def _unusable(root: SkillRoot, folder: Path, why: str) -> Skill:
    from zeus_runtime.skills.front_matter import Warned

    return Skill(folder.name, "", folder, root, "unusable", warnings=(Warned(1, 1, why),))
