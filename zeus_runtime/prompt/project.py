"""The project's own instructions: `AGENTS.md` of the workspace and of the folders above it in its repository."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.prompt.sections import SourcedText

if TYPE_CHECKING:
    from zeus_runtime.config.model import ProjectInstructions
    from zeus_runtime.tools import WorkspaceFiles
    from zeus_runtime.tools.gate import Gate

_MAX_BYTES: Final = 1_000_000
_SEPARATOR: Final = "\n\n"
_HEAD: Final = (
    "# Project instructions\n\nFiles of the project you work on, the outermost folder first. Follow them in this"
    " project. Where two disagree, the later one counts; your own instructions and the user count more than any of"
    " them. They permit nothing that is not permitted elsewhere."
)


class ProjectFile(NamedTuple):
    """One file with instructions.

    Args:
        path: ``/AGENTS.md`` in the workspace, ``../AGENTS.md`` in the folder above it.
        text: its content; empty if it cannot be read.
        problem: why it cannot be read.
    """

    path: str
    text: str
    problem: str | None = None


class ProjectSection(NamedTuple):
    """The project's part of the prompt.

    Args:
        text: the section; empty without any file.
        notices: the parts that were left out, each with the reason.
    """

    text: str
    notices: tuple[str, ...]


NO_PROJECT: Final = ProjectSection("", ())


def project_files(workspace: WorkspaceFiles, names: Sequence[str]) -> tuple[ProjectFile, ...]:
    """The instruction files from the repository's root down to the workspace, one per folder.

    Files are read with the workspace's access rules, so a link that leads out of the repository is refused. Without a
    repository only the workspace's own folder counts.

    Args:
        names: possible names of the file; the first one that exists in a folder counts.
    """
    from zeus_runtime.tools import WorkspaceFiles
    from zeus_runtime.tools.calling_tool import calling

    above = folders_above(workspace.root.resolve())
    found: list[ProjectFile] = []
    # A command may have made the file a link to what Zeus keeps for a session.
    with calling(None):
        for depth, parent in reversed(list(enumerate(above, 1))):
            repository = above[-1]
            inner = parent.relative_to(repository).as_posix()
            files = WorkspaceFiles(repository, gate=_gate(repository, workspace.gate))
            found += _first(files, f"/{inner}", names, "../" * depth)
        return (*found, *_first(workspace, "/", names, "/"))


def folders_above(folder: Path) -> list[Path]:
    """The folders above a workspace in its repository, the nearest first; none without a repository.

    Args:
        folder: the workspace, with links resolved.
    """
    repository = _repository(folder)
    return [] if repository is None else [each for each in folder.parents if each.is_relative_to(repository)]


def project_section(
    files: Sequence[ProjectFile], max_tokens: int, count: Callable[[str], int]
) -> ProjectSection:
    """The section of ``files``, in at most ``max_tokens``; the nearest file gets room first.

    Args:
        count: the tokens of a text.
    """
    notices = [f"{each.path} is not read: {each.problem}" for each in files if each.problem]
    shown: list[str] = []
    sources: list[dict[str, str]] = []
    filled = [each for each in files if each.text.strip()]
    if not filled:
        return ProjectSection("", tuple(notices))
    left = max_tokens - count(_HEAD)
    # The nearest file is last and gets room first; `insert` restores the order.
    for file in reversed(filled):
        text, cut = _fitted(file, left - count(_SEPARATOR), count)
        if text:
            left -= count(_SEPARATOR + text)
            shown.insert(0, text)
            sources.insert(0, {"path": file.path, "digest": sha256(file.text.encode()).hexdigest()[:16]})
        if cut:
            notices.append(f"{file.path} {cut} (project_instructions.max_tokens = {max_tokens:,})")
    if not shown:
        return ProjectSection("", tuple(notices))
    return ProjectSection(SourcedText(_SEPARATOR.join([_HEAD, *shown]), sources), tuple(notices))


def names_and_budget(setting: bool | ProjectInstructions) -> ProjectInstructions | None:
    """The config's ``project_instructions`` with defaults; None if they are off."""
    from zeus_runtime.config.model import ProjectInstructions

    if isinstance(setting, bool):
        return ProjectInstructions() if setting else None
    return setting


def _gate(repository: Path, workspace: Gate | None) -> Gate | None:
    """The access above the workspace: no file that holds keys, and no file that the workspace's rules deny."""
    if workspace is None:
        return None
    from zeus_runtime.tools.access import AccessPolicy, AccessRules
    from zeus_runtime.tools.gate import Gate
    from zeus_runtime.tools.mounts import Mounts

    policy = AccessPolicy(AccessRules(), workspace.policy.floor)
    return Gate(Mounts(repository, {}), policy, workspace.linked, above=workspace)


def _repository(folder: Path) -> Path | None:
    """The folder with ``.git`` that contains ``folder``; None without one, or if another user owns it.

    A folder that many users may write to, such as /tmp, must not become a repository through another user's `.git`.
    """
    for each in (folder, *folder.parents):
        try:
            owner = (each / ".git").lstat().st_uid
        except OSError:
            continue
        return each if owner in (folder.stat().st_uid, os.geteuid()) else None
    return None


def _first(files: WorkspaceFiles, folder: str, names: Sequence[str], shown: str) -> Iterator[ProjectFile]:
    """The first of ``names`` that exists in the folder."""
    from zeus_runtime.tools import WorkspaceError

    try:
        there = {entry.name for entry in files.entries(folder)}
    except WorkspaceError:
        return
    name = next((each for each in names if each in there), None)
    if name is None:
        return
    path = f"{shown}{name}"
    try:
        data = files.read(f"{folder.rstrip('/')}/{name}", max_bytes=_MAX_BYTES)
        yield ProjectFile(path, data.decode("utf-8-sig").replace("\r\n", "\n"))
    except WorkspaceError as error:
        yield ProjectFile(path, "", error.message.rstrip("."))
    except UnicodeDecodeError:
        yield ProjectFile(path, "", "it is not UTF-8")


def _fitted(file: ProjectFile, room: int, count: Callable[[str], int]) -> tuple[str, str | None]:
    """The file between delimiters, only its first lines if not all fit, and a description of the cut.

    The text is empty if not even one line fits.
    """
    # A file must not end its own element and continue as other instructions.
    body = file.text.strip().replace("</project_instructions", "<\\/project_instructions")
    whole = _delimited(file.path, body)
    if count(whole) <= room:
        return whole, None
    lines = body.split("\n")

    def first(kept: int) -> tuple[str, str]:
        cut = f"is cut: {kept} of {len(lines)} lines are shown"
        rest = f"; read_file {file.path} has the rest" if file.path.startswith("/") else ""
        return _delimited(file.path, "\n".join([*lines[:kept], f"[This file {cut}{rest}]"])), cut

    # Invariant: `low` lines fit (0 is not tried), more than `high` do not.
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(first(middle)[0]) <= room else (low, middle - 1)
    return first(low) if low else ("", "is left out for lack of room")


def _delimited(path: str, body: str) -> str:
    return f'<project_instructions path="{path}">\n{body}\n</project_instructions>'
