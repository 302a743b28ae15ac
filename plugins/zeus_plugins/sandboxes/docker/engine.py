"""Runs one program on a folder: creates a container, copies files in and out as tar archives, and removes it."""

from __future__ import annotations

import asyncio
import secrets
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, Final

from zeus_plugins.sandboxes.docker import command as commands
from zeus_plugins.sandboxes.docker.options import Options
from zeus_plugins.sandboxes.docker.packing import packed, packed_files, unpack
from zeus_runtime.plugin import last_words, spare
from zeus_runtime.plugin.sandbox import (
    WORKING_FOLDER,
    Outcome,
    Program,
    SandboxError,
    SandboxLimit,
    SandboxLimits,
)
from zeus_runtime.plugin.tool import finished

_ENGINE_SECONDS: Final = 120.0
_CHUNK: Final = 2**16
_REASON_BYTES: Final = 2_000
_ENTRY_BYTES: Final = 4_096
"""The bytes of a file in an archive besides its content: headers, its name, the padding of its last block."""


class ContainerEngine:
    """Docker or Podman, used through the command line.

    Args:
        options: the options from the YAML.
        client: the engine's command line client.
        environ: the client's environment.
        podman: whether the client is Podman.
    """

    def __init__(
        self, options: Options, client: str, environ: Mapping[str, str], *, podman: bool = False
    ) -> None:
        self._podman = podman
        self._options = options
        self._client = client
        self._environ = dict(environ)

    async def run(
        self,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        """Run a program on ``folder`` in a new container, which is removed when this returns or is cancelled.

        Raises:
            SandboxError: the program could not be run, or its files could not be kept.
        """
        # Chosen here, so that the container can be removed although the client died before it gave an id.
        name = f"zeus-{secrets.token_hex(8)}"
        try:
            await self._ask(commands.made(self._options, name, limits, podman=self._podman))
            content = await asyncio.to_thread(packed, folder)
            await self._ask(commands.filled(name, WORKING_FOLDER), content)
            if program.files:
                await self._ask(commands.filled(name, commands.TEMPORARY), packed_files(program.files))
            return await self._run(name, folder, program, limits, on_output)
        finally:
            await finished(self._ask(commands.removed(name, podman=self._podman), must=False))

    async def _run(
        self,
        name: str,
        folder: Path,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> Outcome:
        kept = bytearray()
        killed_by: SandboxLimit | None = None
        process = await self._started(commands.running(name, program.arguments, program.environ))
        assert process.stdout is not None
        started = monotonic()
        try:
            # The engine's own work until the program begins does not count against the program's time.
            await self._begun(process)
            started = monotonic()
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
                # The client's death does not end the program in the container; the removal does.
                process.kill()
                await self._ask(commands.removed(name, podman=self._podman), must=False)
                # Read to the end: a client with unread output never appears as ended.
                await process.communicate()
        seconds = monotonic() - started
        if killed_by is not None:
            return Outcome(
                137, killed_by, bytes(kept), seconds, ("its files of this run: a limit ended the program",)
            )
        code = process.returncode or 0
        # 137 is 128 + SIGKILL, which has other senders too; 153 is 128 + SIGXFSZ.
        if code == 137 and await self._memory_ran_out(name):
            killed_by = "memory"
        elif code == 153:
            killed_by = "file_size"
        lost = await self._fetch(name, folder, limits)
        return Outcome(code, killed_by, bytes(kept), seconds, lost)

    async def _begun(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the program begins.

        Raises:
            SandboxError: the client could not start it.
        """
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(_ENGINE_SECONDS):
                if await process.stdout.read(len(commands.BEGUN)) == commands.BEGUN:
                    return
                said = last_words(await process.stderr.read(), _REASON_BYTES)
        except TimeoutError:
            said = f"nothing happened for {_ENGINE_SECONDS:g} seconds"
        raise SandboxError(f"{self._options.command} exec failed: {said or 'it gives no reason'}")

    async def _memory_ran_out(self, name: str) -> bool:
        for asked in (commands.memory_ran_out(name), commands.memory_ran_out_told(name)):
            if (await self._ask(asked, must=False)).strip() == b"true":
                return True
        return False

    async def _fetch(self, name: str, folder: Path, limits: SandboxLimits) -> tuple[str, ...]:
        with tempfile.TemporaryFile() as archive:
            fits, said = await self._archived(name, archive, limits.disk_bytes + limits.files * _ENTRY_BYTES)
            if not fits:
                return ("its files of this run: too many bytes (holes in files count)",)
            archive.seek(0)
            try:
                lost = await asyncio.to_thread(
                    unpack, archive, folder, max_bytes=limits.disk_bytes, max_files=limits.files
                )
            except (tarfile.TarError, OSError) as error:
                raise SandboxError(f"the program's files cannot be kept: {said or error}") from None
        return (*lost, said) if said else lost

    async def _archived(self, name: str, archive: IO[bytes], most: int) -> tuple[bool, str]:
        """Write the working folder as a tar archive; a program's files with holes can make it larger than any disk.

        Returns:
            whether it took at most ``most`` bytes, and the client's messages about files that cannot be read.
        """
        process = await self._started(commands.emptied(name))
        assert process.stdout is not None
        assert process.stderr is not None
        telling = asyncio.ensure_future(_end_of(process.stderr))
        try:
            async with asyncio.timeout(_ENGINE_SECONDS):
                while data := await process.stdout.read(_CHUNK):
                    most -= len(data)
                    if most < 0:
                        return False, ""
                    archive.write(data)
                code = await process.wait()
                return True, last_words(await telling, _REASON_BYTES) if code else ""
        except TimeoutError:
            raise SandboxError(
                f"the container engine did not answer within {_ENGINE_SECONDS:g} seconds"
            ) from None
        finally:
            telling.cancel()
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def _started(self, arguments: Sequence[str], *, given: bool = False) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._client,
                *arguments,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
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
        must: bool = True,
    ) -> bytes:
        """Return the client's output.

        Raises:
            SandboxError: the client failed although it ``must`` succeed, or took too long.
        """
        process = await self._started(arguments, given=data is not None)
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
            said = last_words(error, _REASON_BYTES)
            raise SandboxError(f"{self._options.command} {arguments[0]} failed: {said or process.returncode}")
        return out or b""


async def _end_of(source: asyncio.StreamReader) -> bytes:
    end = b""
    while data := await source.read(_CHUNK):
        end = (end + data)[-_REASON_BYTES - spare() :]
    return end
