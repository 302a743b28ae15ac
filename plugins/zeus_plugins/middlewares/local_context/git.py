"""Reads a folder's git state: branch, last commits, uncommitted files. Read-only and with a timeout.

Git runs no program that the repository's configuration names, and git itself is never a file in a folder that agents
write: otherwise an agent that can write files could get code run this way. No command here opens a file of the work
tree, because git would pass it through filters. The repository chooses the names of its filters, so no list could turn
them off. Changed files are found by comparing them with the index's notes from the time when they were staged.
`OwnPrograms.git` overrides the few fixed settings that name a program, and allows no transport.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from zeus_runtime.plugin.sandbox import OwnPrograms

_MAX_BYTES: Final = 32_000_000
_CHUNK_BYTES: Final = 1 << 16

_ENTRY: Final = re.compile(
    rb"(?P<mode>[0-7]{6}) [0-9a-f]+ (?P<stage>[0-3])\t(?P<path>[^\0]+)\0"
    rb"  ctime: \d+:\d+\n"
    rb"  mtime: (?P<seconds>\d+):(?P<nanoseconds>\d+)\n"
    rb"  dev: \d+\tino: \d+\n"
    rb"  uid: \d+\tgid: \d+\n"
    rb"  size: (?P<size>\d+)\tflags: (?P<flags>[0-9a-f]+)\n"
)
"""An entry of `git ls-files --stage --debug -z`."""

_NOT_COMPARED: Final = 0x8000 | 0x4000_0000
"""The flags of entries that git considers unchanged (assume-unchanged) or does not check out (skip-worktree)."""


@dataclass(frozen=True)
class GitState:
    """A repository's state.

    Args:
        branch: its name, or the short hash of a detached head.
        commits: short hash and subject, newest first.
        changes: sorted paths below the folder, each with its state: ``changed``, ``staged`` or ``new``. A file is
            ``changed`` if its time, size or kind differs from the staged one.
        all_changes: whether ``changes`` is complete; if not, git's output was too long or not understood.
    """

    branch: str
    commits: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    all_changes: bool = True


class _Output(NamedTuple):
    """A command's output, which may be cut; empty if the command failed."""

    data: bytes = b""
    is_cut: bool = False
    failed: bool = False

    @property
    def text(self) -> str:
        return os.fsdecode(self.data)

    @property
    def paths(self) -> list[str]:
        """Return the paths that end with NUL: in a cut output the last path may be incomplete."""
        return list(filter(None, self.text.split("\0")[:-1]))


async def _ask(git: Sequence[str], variables: Mapping[str, str], folder: Path, *arguments: str) -> _Output:
    return await _output([*git, *arguments], folder, variables)


async def git_state(
    folder: Path, programs: OwnPrograms, *, commits: int, timeout_seconds: float
) -> GitState | None:
    """Return the state of the repository around ``folder``; None without a repository, git, or an answer in time.

    Args:
        programs: finds git.
        commits: the maximum number of commits to return, newest first.
    """
    import asyncio

    try:
        async with asyncio.timeout(timeout_seconds):
            # Cheap, and most folders without a repository end here; `_is_own` decides with git's own answer.
            if not await asyncio.to_thread(_may_be_own, folder):
                return None
            git = programs.git()
            if git is None:
                return None
            ask = partial(_ask, *git, folder)
            places = await ask("rev-parse", "--git-dir", "--git-common-dir", "--show-toplevel")
            if places.failed or not await asyncio.to_thread(_is_own, folder, places.text):
                return None
            named, head, log, modes, tracked, staged, new = await _together(
                ask("symbolic-ref", "--quiet", "--short", "HEAD"),
                ask("rev-parse", "--short", "HEAD"),
                ask("rev-list", f"--max-count={commits}", "--oneline", "HEAD"),
                ask("config", "--type=bool", "--get", "core.fileMode"),
                ask("ls-files", "--stage", "--debug", "-z"),
                ask(
                    "diff-index", "--cached", "--name-only", "-z", "--relative", "--ignore-submodules=all",
                    "HEAD",
                ),
                ask(
                    "ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z"
                ),
            )  # fmt: skip
            has_modes = modes.text.strip() != "false"
            changed, is_understood = await asyncio.to_thread(_changed, folder, tracked, has_modes=has_modes)
    except (OSError, TimeoutError):
        return None
    found: dict[str, str] = {}
    # Later ones win: a staged file that changed since is shown as changed.
    for what, paths in (("staged", staged.paths), ("new", new.paths), ("changed", changed)):
        found.update(dict.fromkeys(paths, what))
    return GitState(
        (named.text or head.text or "no branch").strip(),
        tuple(filter(None, log.text.split("\n")))[:commits],
        tuple(sorted(found.items())),
        all_changes=is_understood and not any(each.is_cut for each in (tracked, staged, new)),
    )


async def _together(*asked: Coroutine[Any, Any, _Output]) -> list[_Output]:
    """Return the outputs of commands that run at once; if one cannot be started, the others are ended first.

    Raises:
        OSError: one could not be started.
    """
    import asyncio

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [each.result() for each in tasks]


def _may_be_own(folder: Path) -> bool:
    """Whether ``_is_own`` may be true, so that git is worth starting."""
    return any(map(os.path.lexists, _own_places(folder)))


def _own_places(folder: Path) -> list[Path]:
    """Where the repository of a folder is."""
    return [each / ".git" for each in (folder.resolve(), *folder.resolve().parents)]


def _is_own(folder: Path, places: str) -> bool:
    """Whether a repository belongs to the folder: a ``.git`` that leads elsewhere could show another project's work.

    So could a work tree elsewhere (``core.worktree``), whose files git lists. A linked worktree is the exception: its
    main repository names it in return. Objects may be borrowed (``objects/info/alternates``): only the repository's own
    refs lead to them, by hashes that cannot be guessed.

    Args:
        places: git's folder, the one with the history, and the work tree, a line each.
    """
    git, common, tree, *_ = (
        Path(os.path.realpath(folder / line)) for line in [*places.splitlines(), "", "", ""]
    )
    above = _own_places(folder)
    if not folder.resolve().is_relative_to(tree):
        return False
    if any(git.is_relative_to(each) and common.is_relative_to(each) for each in above):
        return True
    try:
        back = (git / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return False
    return git.parent == common / "worktrees" and Path(os.path.normpath(git / back)) in above


def _changed(folder: Path, tracked: _Output, *, has_modes: bool) -> tuple[list[str], bool]:
    """Return the tracked files that differ from the index, and whether the whole output was understood."""
    found, end = [], 0
    for entry in _entries(tracked.data):
        end = entry.end()
        path = os.fsdecode(entry["path"])
        if _is_changed(folder / path, entry, has_modes=has_modes):
            found.append(path)
    # Anything left is an entry in a form that is not known, so the list may lack files.
    return found, end == len(tracked.data)


def _entries(data: bytes) -> Iterator[re.Match[bytes]]:
    at = 0
    while entry := _ENTRY.match(data, at):
        yield entry
        at = entry.end()


def _is_changed(file: Path, entry: re.Match[bytes], *, has_modes: bool) -> bool:
    mode = int(entry["mode"], 8)
    if stat.S_IFMT(mode) not in (stat.S_IFREG, stat.S_IFLNK) or int(entry["flags"], 16) & _NOT_COMPARED:
        return False
    try:
        now = file.lstat()
    except OSError:
        return True
    seconds, nanoseconds = divmod(now.st_mtime_ns, 1_000_000_000)
    return (
        entry["stage"] != b"0"
        or stat.S_IFMT(now.st_mode) != stat.S_IFMT(mode)
        or (has_modes and stat.S_ISREG(mode) and (now.st_mode ^ mode) & stat.S_IXUSR != 0)
        # The index stores 32 bits for each of these.
        or now.st_size & 0xFFFF_FFFF != int(entry["size"])
        or seconds & 0xFFFF_FFFF != int(entry["seconds"])
        # 0: a git that was built without nanoseconds wrote the index.
        or int(entry["nanoseconds"]) not in (0, nanoseconds)
    )


async def _output(command: list[str], folder: Path, environ: Mapping[str, str]) -> _Output:
    """Return the command's output. The command is killed if it prints too much or the caller is cancelled."""
    import asyncio
    from subprocess import DEVNULL, PIPE

    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=dict(environ), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
    )
    data = bytearray()
    try:
        assert process.stdout is not None
        while len(data) <= _MAX_BYTES and (some := await process.stdout.read(_CHUNK_BYTES)):
            data += some
        # Without its exit code: it still writes.
        if len(data) > _MAX_BYTES:
            return _Output(bytes(data), is_cut=True)
        return _Output(bytes(data)) if await process.wait() == 0 else _Output(failed=True)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
