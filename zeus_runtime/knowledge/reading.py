"""Read the files of a base as chunks, in order: unchanged files are not cut again, files with a parser are read ahead.

Cutting holds the interpreter lock, so concurrency would not help. Parsers run in separate processes: several files are
parsed at once, while earlier ones are embedded.
"""

from __future__ import annotations

import hashlib
from asyncio import LifoQueue, Task, create_task, gather, to_thread
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeGuard

from zeus_runtime.knowledge.chunks import Chunk, chunks
from zeus_runtime.knowledge.convert import MAX_BYTES, UnreadableError, convert_file, has_parser
from zeus_runtime.knowledge.files import FoundFile
from zeus_runtime.tools.masked_text import masked_bytes
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.worker_process import Apart, processors

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.knowledge.records import BaseInfo, KnownDocument

PROCESSES: Final = 4
"""That parse at once, at most, and not more than there are processors. Each may take 2 GB."""

_READING_SECONDS: Final = 600
"""Of one file, before it is called unreadable: a book as PDF takes a minute."""
_FRESH_NS: Final = 2_000_000_000
"""A file changed so shortly before it was read may change again within one tick of the file system's clock."""


@dataclass(frozen=True)
class Unread:
    """A file of which nothing could be had."""

    label: str
    reason: str


@dataclass(frozen=True)
class Same:
    """A file that was touched but has the same content: its document's key, and its size and time now."""

    key: int
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class FileText:
    """A file that is new or has new content.

    Args:
        known: its document as it was last read.
        mtime_ns: when it was changed; 0 if the time may not reveal the next change.
    """

    found: FoundFile
    known: KnownDocument | None
    digest: str
    mtime_ns: int
    chunks: Sequence[Chunk]


class FileChanges(NamedTuple):
    """The result of reading some files.

    Args:
        unchanged: how many have the same size and time as before.
    """

    unchanged: int
    files: Sequence[FileText | Same | Unread]


Turn: TypeAlias = tuple[Sequence[FoundFile], Callable[[], Awaitable[FileChanges]]]
"""Some files and what reads them; those that a parser reads may be read already."""


class Reader:
    """Reads the files of one base. Use it with ``async with``, which ends the processes that read ahead.

    Args:
        made_with: how documents are made now; documents made so with their file's digest are up to date.
        known: path to document.
        now_ns: the time.
        secrets: masked before a text is cut.
        read: gives a file's bytes, if the agent may read it.
    """

    def __init__(
        self,
        base: BaseInfo,
        made_with: str,
        known: Mapping[str, KnownDocument],
        now_ns: Callable[[], int],
        secrets: Redactor,
        read: Callable[[FoundFile], bytes],
    ) -> None:
        self._secrets = secrets
        self._read = read
        self._base = base
        self._made_with = made_with
        self._known = known
        self._now_ns = now_ns
        self._aparts = [Apart() for _ in range(min(PROCESSES, processors()))]
        # Last in, first out: a second process is started only when two files are parsed at once.
        self._free: LifoQueue[Apart] = LifoQueue()
        for each in self._aparts:
            self._free.put_nowait(each)
        self._ahead: set[Task[FileChanges]] = set()

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Work in a thread cannot be cancelled, only ended: the thread may be starting a process right now.
        for apart in self._aparts:
            apart.close()
        await gather(*self._ahead, return_exceptions=True)

    def bytes_to_read(self, files: Iterable[FoundFile]) -> int:
        """Of the files that may say something new."""
        return sum(found.size_bytes for found in files if not self._is_untouched(found))

    def turns(self, parted: Iterable[Sequence[FoundFile]]) -> Iterator[Turn]:
        """Each of the groups of files in its turn."""
        turns: deque[Turn] = deque()
        for files in parted:
            turns.append((files, self._begun(files)))
            # As many groups ahead as there are processes; further ones would only hold texts in memory.
            if len(turns) > len(self._aparts):
                yield turns.popleft()
        yield from turns

    def _begun(self, files: Sequence[FoundFile]) -> Callable[[], Awaitable[FileChanges]]:
        looked_at = [(found, self._known.get(found.path)) for found in files if not self._is_untouched(found)]
        unchanged = len(files) - len(looked_at)
        if not any(has_parser(found.name) for found, _ in looked_at):
            return lambda: self._looks(unchanged, looked_at, None)
        task = create_task(self._looks_apart(unchanged, looked_at))
        self._ahead.add(task)
        return lambda: self._awaited(task)

    async def _awaited(self, task: Task[FileChanges]) -> FileChanges:
        looks = await task
        self._ahead.discard(task)
        return looks

    async def _looks_apart(
        self, unchanged: int, files: Sequence[tuple[FoundFile, KnownDocument | None]]
    ) -> FileChanges:
        # A process parses one file at a time; the others wait here.
        apart = await self._free.get()
        try:
            return await self._looks(unchanged, files, apart)
        finally:
            self._free.put_nowait(apart)

    async def _looks(
        self, unchanged: int, files: Sequence[tuple[FoundFile, KnownDocument | None]], apart: Apart | None
    ) -> FileChanges:
        """One visit to another thread for all of them."""
        if not files:
            return FileChanges(unchanged, ())
        return FileChanges(unchanged, await to_thread(lambda: [self._look(*each, apart) for each in files]))

    def _is_untouched(self, found: FoundFile) -> bool:
        known = self._known.get(found.path)
        return self._is_same(known) and (known.size_bytes, known.mtime_ns) == (
            found.size_bytes,
            found.mtime_ns,
        )

    def _is_same(self, known: KnownDocument | None) -> TypeGuard[KnownDocument]:
        return known is not None and known.made_with == self._made_with

    def _look(
        self, found: FoundFile, known: KnownDocument | None, apart: Apart | None
    ) -> FileText | Same | Unread:
        try:
            if found.size_bytes > MAX_BYTES:
                raise UnreadableError(f"it has more than {MAX_BYTES:,} bytes")
            data = self._read(found)
            digest = hashlib.blake2b(data, digest_size=32).hexdigest()
            mtime_ns = 0 if self._now_ns() - found.mtime_ns < _FRESH_NS else found.mtime_ns
            if self._is_same(known) and known.digest == digest:
                return Same(known.key, len(data), mtime_ns)
            return FileText(found, known, digest, mtime_ns, self._cut(found.name, data, apart))
        except (UnreadableError, WorkspaceError) as error:
            return Unread(found.label, error.message)
        except OSError as error:
            return Unread(found.label, error.strerror or str(error))

    def _cut(self, name: str, data: bytes, apart: Apart | None) -> list[Chunk]:
        found = convert_file(name, masked_bytes(data, self._secrets), apart=apart, seconds=_READING_SECONDS)
        # A PDF's text is known only after conversion. Mask before cutting: a part of a secret is not a known secret.
        mask = self._secrets.text
        pages = tuple(replace(each, text=mask(each.text), heading=mask(each.heading)) for each in found.pages)
        return chunks(
            replace(found, pages=pages),
            chunk_tokens=self._base.chunk_tokens,
            overlap_tokens=self._base.overlap_tokens,
        )
