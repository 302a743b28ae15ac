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
    SandboxCapabilities,
    SandboxFiles,
    SandboxLimit,
    SandboxUnavailableError,
    remove_folder,
    remove_older,
    session_folder,
)

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.docker.container import Container
    from zeus_runtime import Build

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
        self._root = directory / options.folder
        self._environ = environ
        self._checked = False
        self._open: dict[str, Container] = {}

    @property
    def capabilities(self) -> SandboxCapabilities:
        return SandboxCapabilities("container", False, ("python", "shell"), _KEPT)

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
        self._checked = True

    async def create(self, session: str) -> Container:
        import asyncio

        from zeus_plugins.sandboxes.docker.container import Container

        self.check()
        if session not in self._open:
            if not self._open and self._options.keep_days is not None:
                await asyncio.to_thread(
                    remove_older, self._root, max_age_days=self._options.keep_days, spare=session
                )
            files = SandboxFiles(session_folder(self._root, session))
            self._open[session] = Container(self._options, files, self._client, self._environ)
        return self._open[session]

    async def remove(self, session: str) -> None:
        import asyncio

        box = self._open.pop(session, None)
        if box is not None:
            await box.close()
        await asyncio.to_thread(remove_folder, self._root, session)

    async def aclose(self) -> None:
        for box in self._open.values():
            await box.close()
        self._open.clear()


def create(options: Options, build: Build) -> Docker:
    """The backend of the config."""
    return Docker(options, build.directory, build.environ)
