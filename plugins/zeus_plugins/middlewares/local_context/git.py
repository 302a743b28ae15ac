"""What git says of a folder: branch, last commits, uncommitted files. Read-only, bounded in time, and without running
anything that the repository's own configuration names: an agent that can write files must not get code run this way.

So there is no `git status`, which asks submodules and runs filters, and what else `.git/config` can name is turned off:
the file system monitor, signature checks, transports, and every filter, which git runs on a file that changed in the
second in which it was staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GIT: Final = (
    "git",
    "--no-pager",
    "--no-optional-locks",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
    "-c", "protocol.allow=never",
    "-c", "log.showSignature=false",
)  # fmt: skip
_KEPT_VARIABLES: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT")
_MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class GitState:
    """A repository's state.

    Args:
        branch: its name, or the short hash of a detached head.
        commits: short hash and subject, newest first.
        changes: sorted paths below the folder with what happened to them: ``changed``, ``staged``, ``new``.
    """

    branch: str
    commits: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()


async def git_state(
    folder: Path, environ: Mapping[str, str], *, commits: int, timeout_seconds: float
) -> GitState | None:
    """The state of the repository that ``folder`` is in; None when there is none, no git, or no answer in time.

    Args:
        commits: how many of the last are wanted.
    """
    import asyncio

    variables = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
    variables |= {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }

    async def ask(*arguments: str) -> str | None:
        return await _output([*_GIT, *arguments], folder, variables)

    try:
        async with asyncio.timeout(timeout_seconds):
            if await ask("rev-parse", "--git-dir") is None:
                return None
            filters = await ask("config", "--null", "--name-only", "--get-regexp", "^filter[.]")
            variables |= _without(filter(None, (filters or "").split("\0")))
            quiet = ("--name-only", "-z", "--relative", "--ignore-submodules=all")
            named, head, log, changed, staged, new = await asyncio.gather(
                ask("symbolic-ref", "--quiet", "--short", "HEAD"),
                ask("rev-parse", "--short", "HEAD"),
                ask("log", f"--max-count={commits}", "--format=%h %s", "--no-show-signature", "--no-color"),
                ask("diff-files", *quiet),
                ask("diff-index", "--cached", *quiet, "HEAD"),
                ask(
                    "ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z"
                ),
            )
    except (OSError, TimeoutError):
        return None
    found: dict[str, str] = {}
    for what, paths in (("staged", staged), ("new", new), ("changed", changed)):
        found.update(dict.fromkeys(filter(None, (paths or "").split("\0")), what))
    return GitState(
        (named or head or "no branch").strip(),
        tuple(line for line in (log or "").splitlines() if line)[:commits],
        tuple(sorted(found.items())),
    )


def _without(settings: Iterable[str]) -> dict[str, str]:
    """Variables under which git takes each of the settings as empty."""
    names = list(dict.fromkeys(settings))
    variables = {"GIT_CONFIG_COUNT": str(len(names))}
    for number, name in enumerate(names):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(".required") else ""
    return variables


async def _output(command: list[str], folder: Path, environ: Mapping[str, str]) -> str | None:
    """What the command prints; None when it fails. It is killed when this is cancelled."""
    import asyncio
    from subprocess import DEVNULL, PIPE

    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=dict(environ), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
    )
    try:
        assert process.stdout is not None
        data = await process.stdout.read(_MAX_BYTES)
        while await process.stdout.read(_MAX_BYTES):
            pass
        code = await process.wait()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return data.decode(errors="replace") if code == 0 else None
