"""Checks whether this machine can create sandboxes, and decides what programs in them see of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from zeus_plugins.sandboxes.bubblewrap.command import FOLDERS, SandboxRoot, system_folders
from zeus_plugins.sandboxes.bubblewrap.identity import fresh_identity
from zeus_plugins.sandboxes.bubblewrap.syscalls import MACHINES
from zeus_runtime.plugin import last_words
from zeus_runtime.plugin.sandbox import SandboxUnavailableError, home_folders

_PROBE_SECONDS: Final = 10
_REASON_BYTES: Final = 2_000
_OWN: Final = ("--unshare-user", "--unshare-all", "--disable-userns", "--cap-drop", "ALL")
_SHOWN: Final = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_ONE_MORE: Final = """
import os, resource
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    os.fork()
except BlockingIOError:
    print("refused")
"""


def check_system() -> None:
    """Check that this machine's kernel and architecture are supported.

    Raises:
        SandboxUnavailableError: they are not.
    """
    if sys.platform != "linux":
        raise SandboxUnavailableError(
            "bubblewrap needs Linux", remedy="Use another backend of the sandbox, such as docker."
        )
    if platform.machine() not in MACHINES:
        raise SandboxUnavailableError(
            f"there is no system call filter for {platform.machine()}",
            remedy=f"Use another backend, or one of {', '.join(MACHINES)}.",
        )


def host_root(wanted: str | None, workspace: Sequence[Path] = (), unseen: Sequence[Path] = ()) -> SandboxRoot:
    """Return the host's ``/usr`` as the root for programs, with a Python if one can be shown.

    A Python outside of ``/usr``, or in a hidden folder, is shown with its prefix, read-only; other files in the folders
    above are hidden. It is not shown if its prefix contains more than a Python, such as a home folder, or is in the
    workspace.

    Args:
        wanted: an interpreter on the host; None for the running one.
        workspace: the real folders of the workspace.
        unseen: real paths of other folders and files to hide, besides the home folders, unless no program runs without
            what is in them.
    """
    # Of `/etc` single files are shown: a config in it hides none of them.
    needed = [*needed_folders(), *(Path(each).resolve() for each in ("/sbin", "/etc"))]
    homes = [each.resolve() for each in home_folders(os.environ)]
    others = [each for each in (*homes, *unseen) if not any(path.is_relative_to(each) for path in needed)]
    hidden = (*workspace, *others)

    def rooted(python: Path | None, prefix: Path | None = None) -> SandboxRoot:
        return SandboxRoot(None, None if python is None else str(python), prefix, hidden)

    own = Path(wanted or getattr(sys, "_base_executable", None) or sys.executable).resolve()
    if own.is_file() and not _is_in(own, workspace):
        if own.is_relative_to("/usr") and not _is_in(own, others):
            return rooted(own)
        prefix = own.parent.parent
        if own.parent.name == "bin" and _can_be_shown(prefix, others):
            return rooted(own, prefix)
    usual = Path("/usr/bin/python3")
    return rooted(usual if usual.exists() and not _is_in(usual, hidden) else None)


def _is_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(each) for each in folders)


def needed_folders() -> Sequence[Path]:
    """Return real paths without which no program runs: the folders of the system, its shell and its libraries."""
    return [each.resolve() for each in (*system_folders(), *map(Path, ("/bin/sh", "/lib", "/lib64")))]


def _can_be_shown(prefix: Path, hidden: Sequence[Path]) -> bool:
    homes = home_folders(os.environ)
    if prefix in [each / ".local" for each in homes]:
        return False
    if any(each.is_relative_to(prefix) for each in (*homes, Path.cwd())):
        return False
    if any((prefix / "bin").is_relative_to(each) and each.is_relative_to(prefix) for each in hidden):
        return False
    return not any(prefix.is_relative_to(each) for each in (*FOLDERS, "/dev", "/proc"))


def probe(bwrap: str) -> None:
    """Try to create a minimal sandbox with every namespace.

    Raises:
        SandboxUnavailableError: that failed; the message is bubblewrap's.
    """
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    try:
        if not fresh_identity().changed:
            spaces += ["--unshare-user", "--disable-userns"]
        elif not Path("/usr/bin/setpriv").exists():
            raise SandboxUnavailableError(
                "root needs /usr/bin/setpriv to run programs as another user",
                remedy="Install util-linux, or run Zeus as an ordinary user.",
            )
    except LookupError as error:
        raise SandboxUnavailableError(str(error), remedy="Run Zeus as an ordinary user.") from None
    try_out(bwrap, spaces)


def probe_own(bwrap: str) -> None:
    """Try to create a minimal sandbox for this process's user, as programs that use the workspace need it.

    Raises:
        SandboxUnavailableError: that failed; the message is bubblewrap's.
    """
    try_out(bwrap, _OWN)


@cache
def counts_own(bwrap: str) -> bool:
    """Whether the kernel counts the processes of this process's user in a sandbox, so that ``RLIMIT_NPROC`` holds.

    It does so for ordinary users, and for the root of a container with its own user namespace (rootless Docker or
    Podman), who is an ordinary user of the host. No file says for certain who the host's root is, so this tries it out.
    """
    command = [bwrap, *_OWN, *_SHOWN, "--", sys.executable, "-I", "-S", "-c", _ONE_MORE]
    try:
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout == b"refused\n"


def try_out(bwrap: str, namespaces: Sequence[str]) -> None:
    """Run the shortest program in new namespaces.

    Raises:
        SandboxUnavailableError: that failed; the message is bubblewrap's.
    """
    remedy = (
        "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu an AppArmor profile "
        "for bwrap), or use another backend."
    )
    try:
        done = subprocess.run(
            [bwrap, *namespaces, *_SHOWN, "--", "/bin/sh", "-c", ":"],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"{bwrap} cannot be run: {error}", remedy=remedy) from None
    if done.returncode != 0:
        said = last_words(done.stderr, _REASON_BYTES).split("\n")
        raise SandboxUnavailableError(
            f"bubblewrap cannot make a sandbox: {said[-1] if said[-1] else f'exit code {done.returncode}'}",
            remedy=remedy,
        )
