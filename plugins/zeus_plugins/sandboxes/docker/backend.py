"""Sandboxes of containers, one for each program, over a folder of files for each session."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final

from zeus_plugins.sandboxes.docker import command as commands
from zeus_plugins.sandboxes.docker.options import Options
from zeus_plugins.sandboxes.docker.packing import packed, packed_files, unpack
from zeus_runtime import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxCapabilities,
    SandboxError,
    SandboxFile,
    SandboxFiles,
    SandboxLimit,
    SandboxLimits,
    SandboxUnavailableError,
    remove_folder,
    remove_older,
    session_folder,
)

if TYPE_CHECKING:
    from zeus_runtime import Build

_PROBE_SECONDS: Final = 10
_ENGINE_SECONDS: Final = 120.0
_CHUNK: Final = 2**16
_REASON_BYTES: Final = 2_000
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
        box = self._open.pop(session, None)
        if box is not None:
            await box.close()
        await asyncio.to_thread(remove_folder, self._root, session)

    async def aclose(self) -> None:
        for box in self._open.values():
            await box.close()
        self._open.clear()


class Container:
    """One session's sandbox: a container is made for each program anew, the files stay in its folder.

    Args:
        options: as the YAML has them.
        files: the session's folder.
        client: the engine's command line client.
        environ: the client's environment.
    """

    def __init__(
        self, options: Options, files: SandboxFiles, client: str, environ: Mapping[str, str]
    ) -> None:
        self._options = options
        self._files = files
        self._client = client
        self._environ = dict(environ)
        self._turn = asyncio.Lock()

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        if any("\0" in each for each in (*program.arguments, *program.environ, *program.environ.values())):
            raise SandboxError("a command, its arguments and its variables cannot hold a NUL character")
        async with self._turn:
            folder = self._files.make()
            name = f"zeus-{secrets.token_hex(8)}"
            try:
                await self._ask(commands.made(self._options, name, limits))
                content = await asyncio.to_thread(packed, folder)
                await self._ask(commands.filled(name, WORKING_FOLDER), content)
                if program.files:
                    await self._ask(commands.filled(name, commands.TEMPORARY), packed_files(program.files))
                return await self._run(name, program, limits, on_output)
            finally:
                await _whole(self._ask(commands.removed(name), must=False))

    async def _run(
        self,
        name: str,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        kept = bytearray()
        killed_by: SandboxLimit | None = None
        started = monotonic()
        process = await self._started(commands.running(name, program.arguments, program.environ))
        assert process.stdout is not None
        try:
            async with asyncio.timeout(limits.seconds):
                while data := await process.stdout.read(_CHUNK):
                    piece = data[: limits.output_bytes - len(kept)]
                    kept += piece
                    if piece and on_output is not None:
                        on_output(piece)
                    if len(piece) < len(data):
                        killed_by = "output"
                        break
                else:
                    await process.wait()
        except TimeoutError:
            killed_by = "seconds"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        seconds = monotonic() - started
        if killed_by is not None:
            await self._ask(commands.removed(name), must=False)
            return Outcome(
                137, killed_by, bytes(kept), seconds, ("its files of this run: it was ended with them",)
            )
        code = process.returncode or 0
        if code == 137 and (await self._ask(commands.memory_ran_out(name), must=False)).strip() == b"true":
            killed_by = "memory"
        elif code == 153:
            killed_by = "file_size"
        lost = await self._fetch(name, limits)
        return Outcome(code, killed_by, bytes(kept), seconds, lost)

    async def _fetch(self, name: str, limits: SandboxLimits) -> tuple[str, ...]:
        with tempfile.TemporaryFile() as archive:
            await self._ask(commands.emptied(name), output=archive)
            archive.seek(0)
            try:
                return await asyncio.to_thread(
                    unpack, archive, self._files.folder, max_bytes=limits.disk_bytes, max_files=limits.files
                )
            except (tarfile.TarError, OSError) as error:
                raise SandboxError(f"the program's files cannot be kept: {error}") from None

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        async with self._turn:
            return await asyncio.to_thread(self._files.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        async with self._turn:
            await asyncio.to_thread(self._files.write, path, data)

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        async with self._turn:
            return await asyncio.to_thread(self._files.list, path, max_files=max_files)

    async def close(self) -> None:
        async with self._turn:
            return

    async def _started(
        self,
        arguments: Sequence[str],
        *,
        output: int | IO[bytes] = asyncio.subprocess.PIPE,
        given: bool = False,
    ) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._client,
                *arguments,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.PIPE,
                limit=_CHUNK,
            )
        except OSError as error:
            raise SandboxError(f"{self._client} cannot be started: {error}") from None

    async def _ask(
        self,
        arguments: Sequence[str],
        data: bytes | None = None,
        *,
        output: int | IO[bytes] = asyncio.subprocess.PIPE,
        must: bool = True,
    ) -> bytes:
        """What the client prints.

        Raises:
            SandboxError: it failed where it ``must`` not, or takes too long.
        """
        process = await self._started(arguments, output=output, given=data is not None)
        try:
            async with asyncio.timeout(_ENGINE_SECONDS):
                out, error = await process.communicate(data)
        except TimeoutError:
            raise SandboxError(
                f"the container engine did not answer within {_ENGINE_SECONDS:g} seconds"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if must and process.returncode != 0:
            said = error[-_REASON_BYTES:].decode(errors="replace").strip()
            raise SandboxError(f"{self._options.command} {arguments[0]} failed: {said or process.returncode}")
        return out or b""


def create(options: Options, build: Build) -> Docker:
    """The backend of the config."""
    return Docker(options, build.directory, build.environ)


async def _whole(work: Coroutine[Any, Any, bytes]) -> None:
    """Await ``work`` to its end, also when this is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
