"""A server's standard error: a log file that is emptied when it is full, and the last lines for messages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from zeus_runtime.plugin import last_words, spare
from zeus_runtime.plugin.files import open_own, own_path

_LAST_BYTES = 2_000
_LAST_WORDS_BYTES = 400


class ErrorLog(asyncio.Protocol):
    """The reading end of a pipe, which writes to a file.

    Args:
        path: the file; its folder is created if needed.
        max_bytes: the size beyond which the file is emptied.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._last = b""
        self._size = 0
        self._file: IO[bytes] | None = None
        self._ended = asyncio.get_running_loop().create_future()

    @property
    def last_words(self) -> str:
        """The last lines that the server wrote, for a message."""
        lines = last_words(self._last, _LAST_BYTES).split("\n")
        words = " / ".join(line.strip(" \t\r") for line in lines[-3:])
        kept = last_words(words.encode(), _LAST_WORDS_BYTES)
        return kept if kept == words and len(lines) <= 3 else f"… {kept}"

    def data_received(self, data: bytes) -> None:
        self._last = (self._last + data)[-_LAST_BYTES - spare() :]
        if self._size + len(data) > self._max_bytes:
            self._open("wb")
            data = data[-self._max_bytes :]
        elif self._file is None:
            self._open("ab")
        assert self._file is not None
        self._file.write(data)
        self._file.flush()
        self._size += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._file is not None:
            self._file.close()
        if not self._ended.done():
            self._ended.set_result(None)

    def _open(self, mode: str) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        descriptor = open_own(
            self.path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if mode == "wb" else os.O_APPEND)
        )
        self._file = os.fdopen(descriptor, mode)
        self._size = self._file.tell()

    async def ended(self, seconds: float) -> None:
        """Wait until the writing end is closed, for at most ``seconds``."""
        await asyncio.wait([self._ended], timeout=seconds)


@asynccontextmanager
async def error_log(path: Path, max_bytes: int) -> AsyncIterator[tuple[ErrorLog, IO[str]]]:
    """A log, and the file to pass to a server as its standard error.

    Raises:
        LinkedFolderError: the log is in ``.zeus``, and its path contains a symbolic link.
    """
    own_path(path)
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as writer:
        transport, log = await loop.connect_read_pipe(
            lambda: ErrorLog(path, max_bytes), os.fdopen(reading, "rb", buffering=0)
        )
        try:
            yield log, writer
        finally:
            # The pipe ends only when no process holds its write end: neither this one nor the server's children.
            writer.close()
            await log.ended(0.5)
            transport.close()
