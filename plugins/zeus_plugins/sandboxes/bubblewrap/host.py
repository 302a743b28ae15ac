"""Checks whether this machine can create sandboxes, and decides what programs in them see of it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

from zeus_plugins.sandboxes.bubblewrap.command import FOLDERS, SandboxRoot
from zeus_plugins.sandboxes.bubblewrap.identity import fresh_identity
from zeus_plugins.sandboxes.bubblewrap.syscalls import MACHINES
from zeus_runtime.plugin.sandbox import SandboxUnavailableError

_PROBE_SECONDS: Final = 10


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


def host_root(wanted: str | None) -> SandboxRoot:
    """Return the host's ``/usr`` as the root for programs, with a Python if one can be shown.

    A Python outside of ``/usr`` is shown with its prefix, read-only; other files in the folders above are hidden. It is
    not shown if its prefix contains more than a Python, such as a home folder.

    Args:
        wanted: an interpreter on the host; None for the running one.
    """
    own = Path(wanted or getattr(sys, "_base_executable", None) or sys.executable).resolve()
    if own.is_file():
        if own.is_relative_to("/usr"):
            return SandboxRoot(None, str(own))
        prefix = own.parent.parent
        if own.parent.name == "bin" and _can_be_shown(prefix):
            return SandboxRoot(None, str(own), prefix)
    return SandboxRoot(None, "/usr/bin/python3" if Path("/usr/bin/python3").exists() else None)


def _can_be_shown(prefix: Path) -> bool:
    home = Path.home()
    if prefix == home / ".local" or any(each.is_relative_to(prefix) for each in (home, Path.cwd())):
        return False
    return not any(prefix.is_relative_to(each) for each in (*FOLDERS, "/dev", "/proc"))


def probe(bwrap: str) -> None:
    """Try to create a minimal sandbox with every namespace.

    Raises:
        SandboxUnavailableError: that failed; the message is bubblewrap's.
    """
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    remedy = (
        "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu an AppArmor profile "
        "for bwrap), or use another backend."
    )
    try:
        if not fresh_identity().changed:
            spaces += ["--unshare-user", "--disable-userns"]
        elif not Path("/usr/bin/setpriv").exists():
            raise SandboxUnavailableError(
                "root needs /usr/bin/setpriv to run programs as another user",
                remedy="Install util-linux, or run Zeus as an ordinary user.",
            )
        done = subprocess.run(
            [
                bwrap,
                *spaces,
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--",
                "/bin/sh",
                "-c",
                ":",
            ],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except LookupError as error:
        raise SandboxUnavailableError(str(error), remedy="Run Zeus as an ordinary user.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"{bwrap} cannot be run: {error}", remedy=remedy) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SandboxUnavailableError(
            f"bubblewrap cannot make a sandbox: {said[-1] if said else f'exit code {done.returncode}'}",
            remedy=remedy,
        )
