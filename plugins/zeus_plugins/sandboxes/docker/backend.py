"""Sandboxes of containers, one for each program, over a folder of files for each session."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.docker.options import Options
from zeus_runtime import (
    FolderSandboxes,
    SandboxCapabilities,
    SandboxLimit,
    SandboxUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime import Build, Outcome, Program, Sandbox, SandboxLimits

_PROBE_SECONDS: Final = 10
_KEPT: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)


class Docker:
    """The backend.

    Args:
        options: as the YAML has them.
        directory: what relative paths start at.
        environ: the client's environment (``PATH``, ``DOCKER_HOST``, ``HOME``); containers get nothing of it.
    """

    def __init__(self, options: Options, directory: Path, environ: Mapping[str, str]) -> None:
        self._options = options
        self._sessions = FolderSandboxes(directory / options.folder, self._run, keep_days=options.keep_days)
        self._environ = environ
        self._checked = False
        self._podman = False

    @property
    def capabilities(self) -> SandboxCapabilities:
        # Podman has no limit of how many files there are in a file system in memory.
        kept = _KEPT - {"files"} if self._podman else _KEPT
        return SandboxCapabilities("container", False, ("python", "shell"), kept)

    def check(self) -> None:
        if self._checked:
            return
        client = shutil.which(self._options.command, path=self._environ.get("PATH", os.defpath))
        if client is None:
            raise SandboxUnavailableError(
                f"the program {self._options.command} is not installed",
                remedy="Install Docker or Podman (command: podman), or use the backend bubblewrap.",
            )
        try:
            done = subprocess.run(
                [client, "version", "--format", "{{.Server.Version}}"],
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailableError(
                f"{client} does not answer: {error}", remedy="Start its engine."
            ) from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise SandboxUnavailableError(
                f"no container engine answers: {said}", remedy="Start Docker, and let this user use it."
            )
        self._client = client
        self._podman = self._is_podman(client)
        self._checked = True

    def _is_podman(self, client: str) -> bool:
        """Whether the client is Podman's, whatever it is called: it is often installed as ``docker``."""
        said = subprocess.run(
            [client, "--version"],
            env=dict(self._environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        ).stdout
        return said.lower().startswith(b"podman")

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
        from zeus_plugins.sandboxes.docker.engine import Engine

        engine = Engine(self._options, self._client, self._environ, podman=self._podman)
        return await engine.run(folder, program, limits, on_output)


def create(options: Options, build: Build) -> Docker:
    """The backend of the config."""
    return Docker(options, build.directory, build.environ)
