"""Runs each program in a container, with a folder of files for each session."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.sandboxes.docker.options import Options
from zeus_plugins.sandboxes.docker.whereabouts import docker_engine, podman_engine
from zeus_runtime.plugin.sandbox import (
    SandboxCapabilities,
    SandboxError,
    SandboxLimit,
    SandboxUnavailableError,
    folder_sandboxes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.sandbox import (
        Outcome,
        OwnPrograms,
        Program,
        SandboxLimits,
        SandboxSessions,
    )

_PROBE_SECONDS: Final = 10
_KEPT: Final[frozenset[SandboxLimit]] = frozenset(
    {"seconds", "memory", "processes", "file_size", "disk", "files", "output"}
)


class Docker:
    """Runs programs in containers.

    Args:
        options: the options from the YAML.
        programs: finds the client, and has its environment (``PATH``, ``DOCKER_HOST``, ``HOME``); it is not passed to
            containers.
    """

    def __init__(self, options: Options, programs: OwnPrograms) -> None:
        self._options = options
        self._programs = programs
        self._machine, self._environ = docker_engine(programs.environ())
        self._checked = False
        self._podman = False

    @property
    def capabilities(self) -> SandboxCapabilities:
        # Podman cannot limit the number of files in a file system in memory.
        kept = _KEPT - {"files"} if self._podman else _KEPT
        return SandboxCapabilities("container", False, ("python", "shell"), kept, machine=self._machine)

    def check(self) -> None:
        if self._checked:
            return
        client = self._programs.find(self._options.command)
        if client is None:
            raise SandboxUnavailableError(
                f"the program {self._options.command} is not installed outside of the project",
                remedy="Install Docker or Podman (command: podman), or use the backend bubblewrap.",
            )
        try:
            done = subprocess.run(
                [client, "version", "--format", "{{.Server.Version}}"],
                env=self._environ,
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
        if self._podman:
            self._machine = podman_engine(self._environ)
        self._checked = True

    def _is_podman(self, client: str) -> bool:
        """Whether the client is Podman, whatever its name: it is often installed as ``docker``."""
        said = subprocess.run(
            [client, "--version"],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        ).stdout
        return said.lower().startswith(b"podman")

    async def run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        from zeus_plugins.sandboxes.docker.engine import ContainerEngine

        # A context may be given another address while Zeus is open, and the client reads its file at each call.
        if not self._podman and docker_engine(self._environ)[0] != self._machine:
            raise SandboxError(
                f"the docker context {self._environ['DOCKER_CONTEXT']} has another address now, and approvals are for"
                " the engine at the former one, so nothing was run",
                remedy="Start Zeus again to use the new one.",
            )
        engine = ContainerEngine(self._options, self._client, self._environ, podman=self._podman)
        return await engine.run(folder, program, limits, on_output)


def sandboxes(options: Options, directory: Path, programs: OwnPrograms) -> SandboxSessions:
    """Create the backend.

    Args:
        options: the options from the YAML.
        directory: the base of relative paths.
        programs: finds the client, and has its environment.
    """
    contained = Docker(options, programs)
    return folder_sandboxes(contained, directory / options.folder, keep_days=options.keep_days)


def create(options: Options, context: PlanContext) -> SandboxSessions:
    """Create the backend for the config."""
    return sandboxes(options, context.directory, context.own_programs)
