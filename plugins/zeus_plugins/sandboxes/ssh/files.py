"""Reads, writes and lists a session's files on the other machine over SFTP, never outside of its folder.

Links are resolved here, not there: each component of a path is checked without following it, and a link's target is
resolved the same way. No program runs in the folder meanwhile, so the checked file is the one that is opened.
"""

from __future__ import annotations

import posixpath
import secrets
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, cast

import asyncssh

from zeus_runtime.plugin import printable
from zeus_runtime.plugin.sandbox import WORKING_FOLDER, SandboxError, SandboxFile, inner_path

Parts: TypeAlias = list[str]
"""The names of a path below the session's folder."""

_MAX_LINKS: Final = 40
_MAX_DEPTH: Final = 64
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class FarFiles:
    """One session's files.

    Args:
        sftp: the other machine's files.
        folder: the session's folder there, absolute.
    """

    def __init__(self, sftp: asyncssh.SFTPClient, folder: str) -> None:
        self._sftp = sftp
        self._folder = folder

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return a file's content.

        Raises:
            SandboxError: there is no such file, or it is larger than ``max_bytes``.
        """
        parts, kind = await self._found(path)
        if kind is None:
            raise _absent(path)
        if not stat.S_ISREG(kind):
            raise SandboxError(f"in the sandbox: {printable(path)} is not a file")
        try:
            async with self._sftp.open(self._at(parts), "rb") as file:
                data = bytes(cast("bytes", await file.read(max_bytes + 1)))
        except asyncssh.SFTPError as error:
            raise explained(path, error) from None
        if len(data) > max_bytes:
            raise SandboxError(f"in the sandbox: {printable(path)} is larger than {max_bytes:,} bytes")
        return data

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file's content by ``data``, in one step.

        Raises:
            SandboxError: the path is not a file.
        """
        parts, kind = await self._found(path)
        if not parts or (kind is not None and not stat.S_ISREG(kind)):
            raise SandboxError(f"in the sandbox: {printable(path)} is not a file")
        temporary = [*parts[:-1], f".{secrets.token_hex(8)}.zeus-tmp"]
        attributes = asyncssh.SFTPAttrs(permissions=_FILE_MODE)
        try:
            await self._make_folders(parts[:-1])
            try:
                async with self._sftp.open(self._at(temporary), "xb", attributes) as file:
                    await file.write(cast("str", data))
                await self._sftp.posix_rename(self._at(temporary), self._at(parts))
            except BaseException:
                with suppress(asyncssh.Error):
                    await self._sftp.remove(self._at(temporary))
                raise
        except asyncssh.SFTPError as error:
            raise explained(path, error) from None

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        """Return the files below a folder, sorted by path.

        Raises:
            SandboxError: there is no such folder.
        """
        parts, kind = await self._found(path)
        if kind is None:
            if not parts:
                return []
            raise _absent(path)
        if not stat.S_ISDIR(kind):
            raise SandboxError(f"in the sandbox: {printable(path)} is not a folder")
        found: list[SandboxFile] = []
        try:
            async for each in self._below(parts):
                if len(found) >= max_files:
                    break
                found.append(each)
        except asyncssh.SFTPError as error:
            raise explained(path, error) from None
        return found

    async def _below(self, parts: Sequence[str]) -> AsyncIterator[SandboxFile]:
        if len(parts) > _MAX_DEPTH:
            return
        entries = [each async for each in self._sftp.scandir(self._at(parts))]
        for entry in sorted(entries, key=lambda each: str(each.filename)):
            name = str(entry.filename)
            if name in (".", ".."):
                continue
            place = [*parts, name]
            # A server's listing may contain the state of links' targets.
            attributes = await self._status(place)
            kind = None if attributes is None else _kind(attributes.permissions or 0)
            if attributes is None or kind is None:
                continue
            size = attributes.size if kind == "file" else None
            yield SandboxFile("/".join([WORKING_FOLDER, *place]), kind, size)
            if kind == "directory":
                async for each in self._below(place):
                    yield each

    async def _found(self, path: str) -> tuple[Parts, int | None]:
        """Resolve ``path`` within the folder; return its parts, and the mode of the file or None if there is no file.

        Raises:
            SandboxError: the path leads out of the folder, or its links form a circle.
        """
        left = _reversed(inner_path(path))
        walked: Parts = []
        links = 0
        attributes = await self._status([])
        mode = None if attributes is None else attributes.permissions or 0
        while left:
            name = left.pop()
            if name == "..":
                if not walked:
                    raise _outside(path)
                walked.pop()
                mode = stat.S_IFDIR
                continue
            if mode is not None and not stat.S_ISDIR(mode):
                raise _absent(path)
            walked.append(name)
            attributes = None if mode is None else await self._status(walked)
            mode = None if attributes is None else attributes.permissions or 0
            if mode is not None and stat.S_ISLNK(mode):
                links += 1
                target = str(await self._sftp.readlink(self._at(walked)))
                if links > _MAX_LINKS:
                    raise SandboxError(f"in the sandbox: {printable(path)} is a circle of links")
                if target.startswith("/"):
                    raise _outside(path)
                walked.pop()
                left += _reversed(target)
                mode = stat.S_IFDIR
        return walked, mode

    async def _status(self, parts: Sequence[str]) -> asyncssh.SFTPAttrs | None:
        try:
            return await self._sftp.lstat(self._at(parts))
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None

    async def _make_folders(self, parts: Sequence[str]) -> None:
        for depth in range(len(parts) + 1):
            if await self._status(parts[:depth]) is None:
                await self._sftp.mkdir(self._at(parts[:depth]), asyncssh.SFTPAttrs(permissions=_FOLDER_MODE))

    def _at(self, parts: Sequence[str]) -> str:
        return posixpath.join(self._folder, *parts)


def _reversed(path: str) -> Parts:
    return [each for each in reversed(path.split("/")) if each not in ("", ".")]


def _kind(mode: int) -> Literal["file", "directory", "link"] | None:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else None


def _absent(path: str) -> SandboxError:
    return SandboxError(f"{printable(path)} does not exist in the sandbox")


def _outside(path: str) -> SandboxError:
    return SandboxError(f"in the sandbox: {printable(path)} leads out of {WORKING_FOLDER}")


def explained(path: str, error: asyncssh.SFTPError) -> SandboxError:
    """Return the error for an operation that the other machine refused."""
    if isinstance(error, asyncssh.SFTPNoSuchFile):
        return _absent(path)
    return SandboxError(f"in the sandbox: {printable(path)}: {error.reason}")
