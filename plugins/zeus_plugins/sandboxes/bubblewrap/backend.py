"""Sandboxes of Linux namespaces, one for each program, over a folder of files for each session."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.bubblewrap.command import Root
from zeus_plugins.sandboxes.bubblewrap.options import Options
from zeus_runtime import (
    FolderSandboxes,
    OptionsError,
    SandboxCapabilities,
    SandboxLimit,
    SandboxUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime import Build, Outcome, Program, Sandbox, SandboxLimits

_PROBE_SECONDS: Final = 10
_ALL: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)


class Bubblewrap:
    """The backend.

    Args:
        options: as the YAML has them.
        directory: what relative paths start at.
        environ: where the program ``bwrap`` is looked for (``PATH``).
    """

    def __init__(self, options: Options, directory: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._sessions = FolderSandboxes(directory / options.folder, self._run, keep_days=options.keep_days)
        self._rootfs = None if options.rootfs is None else (directory / options.rootfs).resolve()
        self._path = environ.get("PATH", os.defpath)
        self._checked = False

    @property
    def capabilities(self) -> SandboxCapabilities:
        return SandboxCapabilities(
            boundary="namespaces",
            network=False,
            languages=("shell",) if self.root.python is None else ("python", "shell"),
            limits=_ALL,
        )

    @property
    def root(self) -> Root:
        """What programs see as ``/``."""
        wanted = self._options.python
        if self._rootfs is not None:
            inside = wanted or "/usr/bin/python3"
            return Root(self._rootfs, inside if _has(self._rootfs, inside) else None)
        return host_root(wanted)

    def check(self) -> None:
        if self._checked:
            return
        if sys.platform != "linux":
            raise SandboxUnavailableError(
                "bubblewrap needs Linux", remedy="Use another backend of the sandbox, such as docker."
            )
        from zeus_plugins.sandboxes.bubblewrap.syscalls import MACHINES

        if platform.machine() not in MACHINES:
            raise SandboxUnavailableError(
                f"there is no system call filter for {platform.machine()}",
                remedy=f"Use another backend, or one of {', '.join(MACHINES)}.",
            )
        _probe(self._bwrap())
        self._checked = True

    def _bwrap(self) -> str:
        found = shutil.which(self._options.command, path=self._path)
        if found is None:
            raise SandboxUnavailableError(
                f"the program {self._options.command} is not installed",
                remedy="Install bubblewrap: apt-get install bubblewrap, or dnf install bubblewrap.",
            )
        return found

    async def create(self, session: str) -> Sandbox:
        self.check()
        return await self._sessions.create(session)

    async def remove(self, session: str) -> None:
        await self._sessions.remove(session)

    async def aclose(self) -> None:
        await self._sessions.aclose()

    async def _run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        from zeus_plugins.sandboxes.bubblewrap.running import run

        return await run(self._bwrap(), self.root, folder, program, limits, on_output)


def create(options: Options, build: Build) -> Bubblewrap:
    """The backend of the config.

    Raises:
        OptionsError: the rootfs or the Python that the YAML names is not there.
    """
    if options.rootfs is not None:
        if not _has(build.directory / options.rootfs, "bin/sh"):
            raise OptionsError(
                f"bubblewrap: the rootfs {options.rootfs} is no folder with a bin/sh in it",
                remedy="A relative path starts at the working directory.",
                where="rootfs",
            )
    elif options.python is not None and not Path(options.python).is_file():
        raise OptionsError(
            f"bubblewrap: the Python {options.python} does not exist",
            remedy="Write the path of an interpreter, such as /usr/bin/python3.",
            where="python",
        )
    return Bubblewrap(options, build.directory, build.environ)


def host_root(wanted: str | None) -> Root:
    """The host's ``/usr`` as programs see it, with a Python if there is one that can be shown.

    A Python outside of ``/usr`` is shown by its prefix, read-only; nothing else of the folders above it is.

    Args:
        wanted: an interpreter on the host; None for the one this runs on.
    """
    own = Path(wanted or getattr(sys, "_base_executable", None) or sys.executable).resolve()
    if own.is_file():
        if own.is_relative_to("/usr"):
            return Root(None, str(own))
        prefix = own.parent.parent
        if own.parent.name == "bin" and prefix != Path("/"):
            return Root(None, str(own), prefix)
    return Root(None, "/usr/bin/python3" if Path("/usr/bin/python3").exists() else None)


def _has(rootfs: Path, path: str) -> bool:
    return os.path.lexists(rootfs / path.lstrip("/"))


def _probe(bwrap: str) -> None:
    """Whether a sandbox can be made: the cheapest one that has every namespace.

    Raises:
        SandboxUnavailableError: it cannot, in bubblewrap's own words.
    """
    from zeus_plugins.sandboxes.bubblewrap.identity import fresh_identity

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
                "root needs /usr/bin/setpriv to run programs as somebody else",
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
