"""Bring a base up to date with its files: unchanged files cost nothing, and finished work is never repeated.

Every few documents are one transaction, so a killed ingest continues after the last of them. A long document is written
in parts that a search does not find until it is complete. The vectors of those parts are reused, like those of an older
version's unchanged chunks.
"""

from __future__ import annotations

import os
from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import MissingError, ZeusError
from zeus_runtime.knowledge import records
from zeus_runtime.knowledge.chunks import Chunk
from zeus_runtime.knowledge.embedding import WORKERS, WORTH_BYTES, IngestEmbedding
from zeus_runtime.knowledge.files import files_of, handfuls, is_utf8, read_freely
from zeus_runtime.knowledge.parts import ChunkGroup, packed_parts
from zeus_runtime.knowledge.reading import FileChanges, FileText, Reader, Same, Unread
from zeus_runtime.knowledge.records import BaseInfo, KnownDocument
from zeus_runtime.knowledge.vectors import (
    BaseVectors,
    VectorChange,
    entries_of,
    kept_digests,
    new_name,
    number_of,
    text_digests,
)
from zeus_runtime.knowledge.word_numbers import WordNumbers
from zeus_runtime.memory.vectors import CollectionEntries

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.knowledge.caller_database import CallerDatabase
    from zeus_runtime.knowledge.files import FoundFile
    from zeus_runtime.memory.embedding import Embedder, Vectors
    from zeus_runtime.memory.vectors import VectorStore

BATCH: Final = 256
"""Chunks that are embedded and written together."""

LOGGED: Final = 16_384
"""Chunks that are written between two checkpoints of SQLite's write-ahead log, which so stays below about 80 MB."""


_AHEAD: Final = 8
"""Batches whose vectors are under way, at most."""


@dataclass(frozen=True)
class Progress:
    """The progress of an ingest.

    Args:
        path: the current file.
    """

    files_done: int
    files: int
    chunks: int
    path: str


@dataclass
class Ingested:
    """What an ingest did: numbers of documents, and chunks and why files were left out.

    Args:
        embedded: chunks whose vector had to be asked for.
        repaired: vectors that the store lacked, or had of another text or of no chunk.
        failed: (path, reason).
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    repaired: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)


async def ingest(
    database: CallerDatabase,
    base: BaseInfo,
    embedder: Embedder,
    vectors: VectorStore,
    *,
    former: Callable[[], Awaitable[VectorStore]] | None = None,
    now_ns: Callable[[], int],
    progress: Callable[[Progress], None] = lambda _progress: None,
    secrets: Redactor | None = None,
    refusal_of: Callable[[Path], str | None] = lambda _file: None,
    read: Callable[[FoundFile], bytes] = read_freely,
    may_follow: Callable[[str, Path], bool] = lambda _stored, _path: True,
) -> Ingested:
    """Read new or changed files of a base's sources, and forget deleted ones.

    Args:
        vectors: where the base's vectors are. Those that are missing or of another text there are made again.
        former: opens another store, from which missing ones are moved first.
        refusal_of: why a file is hidden from the agent; text that came from it is forgotten too.
        secrets: masked in stored and embedded text.
        read: gives a file's bytes, and judges it once more where it opens it.
        may_follow: whether a source may be read, by its stored path and by that on the disk: a link may have taken its
            place since it was added. What came from one that may not stays.

    Raises:
        EmbeddingUnavailableError: the embedding model cannot be reached now; finished work is kept.
        MissingError: a format needs the extra ``kb``.
    """
    whole = _Ingest(
        database,
        base,
        embedder,
        vectors,
        former,
        now_ns,
        progress,
        secrets or Redactor(),
        refusal_of,
        read,
        may_follow,
    )
    return await whole.run()


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}{os.sep}") for folder in folders)


@dataclass
class _Long:
    """A document that is written in parts.

    Args:
        key: its row's, once it has one.
        written: how many of its chunks are.
    """

    read: FileText
    key: int | None = None
    written: int = 0


class _Ingest:
    def __init__(
        self,
        database: CallerDatabase,
        base: BaseInfo,
        embedder: Embedder,
        store: VectorStore,
        former: Callable[[], Awaitable[VectorStore]] | None,
        now_ns: Callable[[], int],
        progress: Callable[[Progress], None],
        secrets: Redactor,
        refusal_of: Callable[[Path], str | None],
        read: Callable[[FoundFile], bytes],
        may_follow: Callable[[str, Path], bool],
    ) -> None:
        self._secrets = secrets
        self._known_secrets = "\n".join(secrets.forms)
        self._refusal_of = refusal_of
        self._read = read
        self._may_follow = may_follow
        self._database = database
        self._base = base
        self._embedder = embedder
        self._store = store
        self._former = former
        self._name = base.collection
        self._vectors: BaseVectors
        self._now_ns = now_ns
        self._progress = progress
        self._numbers = WordNumbers()
        self._in_log = 0
        self._files = (0, 0)
        self._done = Ingested()
        self._embedding: IngestEmbedding
        self._ahead: deque[tuple[Future[Vectors], Callable[[Vectors], Awaitable[None]]]] = deque()
        self._sources: dict[str, int] = {}
        self._left: set[str] = set()
        self._partial: dict[str, KnownDocument] = {}
        self._made_with = records.made_with(base, embedder.model, embedder.dimension)

    def _found(self, unread: dict[str, str]) -> list[FoundFile]:
        """The files of the sources that the agent may read."""
        found = []
        for each in files_of([path for path in self._sources if path not in self._left], unread.__setitem__):
            why = self._refusal_of(Path(each.path))
            if why is None:
                found.append(each)
            else:
                self._done.failed.append((each.path, why))
        return found

    async def run(self) -> Ingested:
        import asyncio

        key = self._base.key
        sources = await self._database.run(lambda connection: records.sources(connection, key))
        self._sources = {self._real(path): source for path, source in sources.items()}
        self._left = await asyncio.to_thread(
            lambda: {real for path in sources if not self._may_follow(path, Path(real := self._real(path)))}
        )
        known = await self._documents(ready=True)
        self._partial = await self._documents(ready=False)
        self._name = await self._database.run(self._begun)
        self._vectors = BaseVectors(self._database, self._store, self._name, self._embedder.dimension)
        unread: dict[str, str] = {}
        found = await asyncio.to_thread(self._found, unread)
        files = [each for each in found if is_utf8(each.path) and self._is_kept(each.path)]
        self._done.failed += [
            (each.path, "its name is not UTF-8") for each in found if not is_utf8(each.path)
        ]
        self._done.failed += [
            (each.path, "its path holds the placeholder of a secret")
            for each in found
            if is_utf8(each.path) and not self._is_kept(each.path)
        ]
        async with Reader(
            self._base, self._made_with, known, self._now_ns, self._secrets, self._read
        ) as reader:
            workers = WORKERS if reader.bytes_to_read(files) >= WORTH_BYTES else 0
            async with IngestEmbedding(self._embedder, workers=workers) as self._embedding:
                try:
                    await self._ingest(files, reader)
                except ZeusError:
                    # Texts that are already being embedded are still written.
                    await self._write_begun()
                    raise
                self._done.embedded = self._embedding.asked
        # A missing folder may be on a disk that is not mounted: its documents are kept.
        absent = await asyncio.to_thread(_absent, list(self._sources))
        missing = {self._sources[path] for path in (*absent, *self._left)}
        self._done.failed += [
            (
                path,
                "it is a link out of the workspace now; name it in `zeus kb add` if you know where it leads",
            )
            for path in sorted(self._left)
            if path not in absent
        ]
        self._done.failed += [
            (path, "it is not there; what came from it stays until it is removed from the base")
            for path in absent
        ]
        self._done.failed += [
            (path, f"this folder cannot be read: {why}; what came from it stays")
            for path, why in unread.items()
            if path not in absent
        ]
        there = {found.path for found in files}
        begun = await self._documents(ready=False)
        kept = [*known.values(), *begun.values()]
        # A file is gone only if its source and its folder could be read: otherwise it may still be there.
        gone = [
            each
            for each in kept
            if each.path not in there and each.source not in missing and not _is_below(each.path, unread)
        ]
        # After the reading: until here a moved file's old text is still found.
        # A file that has its old content back is not written, so nothing finishes the new one that was begun. Of a file
        # that could not be read, the begun one is used later.
        failed = {label for label, _ in self._done.failed}
        settled = {each.path for each in files if each.label not in failed}
        await self._forget([*gone, *(each for path, each in begun.items() if path in settled)])
        self._done.removed = sum(each.path in known for each in gone)
        # Last, over all documents: a process that was killed between rows and vectors left another store incomplete.
        await self._repair()
        self._files = (len(files), len(files))
        self._tell(self._done.chunks, "")
        return self._done

    async def _ingest(self, files: Sequence[FoundFile], reader: Reader) -> None:
        waiting: list[FileText] = []
        number = 0
        for some, looks in reader.turns(handfuls(files, at_most=BATCH)):
            self._files = (number, len(files))
            self._tell(self._done.chunks, some[0].label)
            waiting += await self._counted(await looks())
            while sum(len(each.chunks) for each in waiting) >= BATCH:
                batch = _batch(waiting)
                await self._write(waiting[:batch])
                del waiting[:batch]
            number += len(some)
        await self._write(waiting)
        await self._write_begun()

    async def _counted(self, looks: FileChanges) -> list[FileText]:
        """Those that are to be written."""
        touched = [each for each in looks.files if isinstance(each, Same)]
        if touched:
            await self._database.write(lambda connection: records.note_unchanged(connection, touched))
        self._done.unchanged += looks.unchanged + len(touched)
        self._done.failed += [(each.label, each.reason) for each in looks.files if isinstance(each, Unread)]
        return [each for each in looks.files if isinstance(each, FileText)]

    def _tell(self, chunks: int, path: str) -> None:
        self._progress(Progress(*self._files, chunks, self._secrets.text(path)))

    async def _documents(self, *, ready: bool) -> dict[str, KnownDocument]:
        """Path, as it is on the disk, to document."""
        stored = await self._database.run(
            lambda connection: records.documents(connection, self._base.key, ready=ready)
        )
        return {
            path: each._replace(path=path) for each in stored.values() for path in (self._real(each.path),)
        }

    def _real(self, path: str) -> str:
        """A path as it is on the disk: stored paths have their secrets masked."""
        return self._secrets.restored(path, self._known_secrets)

    def _is_kept(self, path: str) -> bool:
        """Whether a path's masked form leads back to it, and so to no other file."""
        return self._real(self._secrets.text(path)) == path

    def _begun(self, connection: Connection) -> str:
        """Give the base the model and a collection for its vectors; the collection's name."""
        base, (model, dimension) = self._base, (self._embedder.model, self._embedder.dimension)
        if base.collection and (base.embedding, base.dimension) == (model, dimension):
            return base.collection
        # In the transaction that names the new collection, so no base names one that was dropped.
        if base.collection:
            self._store.collection(base.collection, base.dimension).drop(connection)
        name = new_name()
        records.embed_by(connection, base.key, model, dimension, name, self._now_ns() // 1_000_000)
        return name

    async def _repair(self) -> None:
        """Make the vectors that are missing in the store, or of another text; forget those that are of no chunk."""
        collection, key = self._vectors.collection, self._base.key
        model = records.embedded_by(self._made_with)
        wanted, kept = await self._database.run(
            lambda connection: (
                records.vector_digests(connection, key, model),
                collection.digests(connection),
            )
        )
        orphans = [number for number in kept if number not in wanted]
        if orphans:
            await self._vectors.run(lambda _connection, change: change.removed.extend(orphans))
        lacking = [number for number, digest in wanted.items() if kept.get(number) != digest]
        missing = await self._moved(lacking, wanted) if lacking and self._former else lacking
        workers = WORKERS if len(missing) > _AHEAD * BATCH else 0
        async with IngestEmbedding(self._embedder, workers=workers) as self._embedding:
            for start in range(0, len(missing), BATCH):
                numbers = missing[start : start + BATCH]
                texts = await self._database.run(partial(records.embedded_texts, numbers=numbers))
                entry = partial(self._write_again, [(number, wanted[number]) for number in texts])
                await self._embed(list(texts.values()), {}, entry)
            await self._write_begun()
            self._done.embedded += self._embedding.asked
        self._done.repaired = len(orphans) + len(lacking)
        # Other processes then count anew how many vectors the store lacks.
        if lacking:
            await self._database.write(self._touch)

    async def _moved(self, lacking: Sequence[int], wanted: Mapping[int, bytes]) -> list[int]:
        """Move vectors here from the former store; the numbers of those that are not there."""
        assert self._former is not None
        try:
            former = await self._former()
        except MissingError:  # such as pgvector without its extension: no vectors were ever there
            return list(lacking)
        try:
            there = BaseVectors(self._database, former, self._name, self._embedder.dimension)
            left = []
            for start in range(0, len(lacking), BATCH):
                some = lacking[start : start + BATCH]
                found = await self._database.run(partial(there.collection.read, ids=some))
                places = [
                    place
                    for place, (number, digest) in enumerate(zip(found.ids, found.digests, strict=True))
                    if wanted[number] == digest
                ]
                entries = CollectionEntries(
                    [found.ids[place] for place in places],
                    [found.digests[place] for place in places],
                    found.vectors[places],
                )
                await self._vectors.run(lambda _connection, change, new=entries: change.put.append(new))  # type: ignore[misc]
                left += sorted(set(some) - set(entries.ids))
            # Only when all has moved: a killed ingest finds the rest there next time.
            await self._database.run(there.collection.drop)
            return left
        finally:
            former.close()

    async def _write_again(self, chunks: Sequence[tuple[int, bytes]], vectors: Vectors) -> None:
        numbers, digests = zip(*chunks, strict=True)
        entries = CollectionEntries(numbers, digests, vectors)
        await self._vectors.run(lambda _connection, change: change.put.append(entries))

    async def _write(self, reads: Sequence[FileText]) -> None:
        small = [each for each in reads if len(each.chunks) <= BATCH]
        if small:
            reused: dict[str, bytes] = {}
            for each in small:
                # Only a file that was read before can have vectors; new ones, often all, cost no query.
                if each.known is not None or each.found.path in self._partial:
                    reused |= await self._reused(each)
            texts = [chunk.embedded for each in small for chunk in each.chunks]
            await self._embed(texts, reused, partial(self._write_small, small, texts))
        for each in reads:
            if len(each.chunks) > BATCH:
                await self._write_long(each)

    async def _embed(
        self, texts: Sequence[str], reused: Mapping[str, bytes], write: Callable[[Vectors], Awaitable[None]]
    ) -> None:
        """Embed texts and write them in the order in which they were begun."""
        self._ahead.append((await self._embedding.begun(texts, reused), write))
        # Finished vectors are written at once; it waits only when too many are under way.
        while self._ahead and (self._ahead[0][0].done() or len(self._ahead) > _AHEAD):
            await self._write_first()

    async def _write_begun(self) -> None:
        while self._ahead:
            await self._write_first()

    async def _write_first(self) -> None:
        # It stays at the head until it is there: if it fails nothing behind it is written, as the parts of a long
        # document follow each other.
        future, write = self._ahead[0]
        vectors = await future
        self._ahead.popleft()
        await write(vectors)

    async def _write_small(self, reads: Sequence[FileText], texts: Sequence[str], vectors: Vectors) -> None:
        digests = self._digests(texts, vectors)
        labels = map(self._label, reads)
        words = [
            chunk.worded(label) for label, each in zip(labels, reads, strict=True) for chunk in each.chunks
        ]
        made = packed_parts([each.chunks for each in reads], words, digests, self._numbers)

        def put(connection: Connection, change: VectorChange) -> None:
            keys = self._put(connection, change, reads, made)
            numbers = [
                number_of(key, place)
                for key, each in zip(keys, reads, strict=True)
                for place in range(len(each.chunks))
            ]
            change.put.append(entries_of(numbers, digests, vectors))

        await self._vectors.run(put)
        await self._logged(len(texts))
        for each in reads:
            self._count(each)

    def _label(self, read: FileText) -> str:
        return self._secrets.text(read.found.label)

    def _count(self, read: FileText) -> None:
        self._done.chunks += len(read.chunks)
        if read.known is None:
            self._done.added += 1
        else:
            self._done.changed += 1

    async def _logged(self, chunks: int) -> None:
        self._in_log += chunks
        if self._in_log >= LOGGED:
            await self._database.checkpoint()
            self._in_log = 0

    def _digests(self, texts: Sequence[str], vectors: Vectors) -> list[bytes]:
        digests = text_digests(texts, self._embedder.model, self._embedder.dimension)
        return kept_digests(digests, vectors)

    def _put(
        self,
        connection: Connection,
        change: VectorChange,
        reads: Sequence[FileText],
        made: Sequence[Sequence[ChunkGroup]],
    ) -> list[int]:
        """Replace documents; the keys of the new ones."""
        old = [each.known.key for each in reads if each.known is not None]
        old += [self._partial[path].key for each in reads if (path := each.found.path) in self._partial]
        change.removed += records.remove_documents(connection, self._base.key, old)
        rows = [(self._row(each, ready=True), new) for each, new in zip(reads, made, strict=True)]
        keys = records.write_documents(connection, self._base.key, rows)
        self._touch(connection)
        return keys

    async def _write_long(self, read: FileText) -> None:
        """A part at a time; the first is what a killed ingest has embedded already."""
        reused = await self._reused(read)
        known = next(
            (place for place, each in enumerate(read.chunks) if each.embedded not in reused), len(read.chunks)
        )
        long = _Long(read)
        start, size = 0, max(BATCH, known)
        while start < len(read.chunks):
            some = read.chunks[start : start + size]
            texts = [each.embedded for each in some]
            await self._embed(texts, reused, partial(self._write_next, long, some, texts))
            start, size = start + len(some), BATCH

    async def _write_next(
        self, long: _Long, some: Sequence[Chunk], texts: Sequence[str], vectors: Vectors
    ) -> None:
        read = long.read
        digests = self._digests(texts, vectors)
        label = self._label(read)
        words = [chunk.worded(label) for chunk in some]
        (new,) = packed_parts([some], words, digests, self._numbers, first=long.written)

        def append(connection: Connection, change: VectorChange) -> int:
            key = self._append(connection, change, read=read, key=long.key, new=new)
            numbers = [number_of(key, long.written + place) for place in range(len(some))]
            change.put.append(entries_of(numbers, digests, vectors))
            return key

        long.key = await self._vectors.run(append)
        await self._logged(len(some))
        long.written += len(some)
        self._tell(self._done.chunks + long.written, read.found.label)
        if long.written == len(read.chunks):
            await self._vectors.run(partial(self._finish, read=read, key=long.key))
            self._count(read)

    def _append(
        self,
        connection: Connection,
        change: VectorChange,
        *,
        read: FileText,
        key: int | None,
        new: Sequence[ChunkGroup],
    ) -> int:
        if key is not None:
            records.append_parts(connection, key, new)
            return key
        # The rest of a killed ingest goes with the first new part: until then its vectors can be reused once more.
        begun = self._partial.get(read.found.path)
        if begun is not None:
            change.removed += records.remove_documents(connection, self._base.key, [begun.key])
        (made,) = records.write_documents(connection, self._base.key, [(self._row(read, ready=False), new)])
        return made

    def _finish(self, connection: Connection, change: VectorChange, *, read: FileText, key: int) -> None:
        if read.known is not None:
            change.removed += records.remove_documents(connection, self._base.key, [read.known.key])
        # In the transaction that removes the old version: a search finds one of the two, never both or none.
        records.finish_document(connection, key, len(read.chunks))
        self._touch(connection)

    async def _forget(self, gone: Sequence[KnownDocument]) -> None:
        if not gone:
            return

        def work(connection: Connection, change: VectorChange) -> None:
            change.removed += records.remove_documents(
                connection, self._base.key, [each.key for each in gone]
            )
            self._touch(connection)

        await self._vectors.run(work)

    async def _reused(self, read: FileText) -> dict[str, bytes]:
        """Embedded text to vector, of what is written already of this file by this model."""
        model = records.embedded_by(self._made_with)
        documents = [
            each.key
            for each in (read.known, self._partial.get(read.found.path))
            if each is not None and records.embedded_by(each.made_with) == model
        ]
        if not documents:
            return {}
        texts = [chunk.embedded for chunk in read.chunks]
        digests = text_digests(texts, self._embedder.model, self._embedder.dimension)
        return await self._database.run(
            lambda connection: self._known_vectors(
                connection, documents, dict(zip(digests, texts, strict=True))
            )
        )

    def _known_vectors(
        self, connection: Connection, documents: Sequence[int], texts: Mapping[bytes, str]
    ) -> dict[str, bytes]:
        """Text to vector, of those texts that these documents have.

        Args:
            texts: by the digest of their vector.
        """
        # Float32. A row with another width is of another model.
        width = 4 * self._embedder.dimension
        found: dict[str, bytes] = {}
        numbers: list[int] = []
        for document in documents:
            stored = records.vectors_in_rows(connection, document)
            found |= {text: vector for text, vector in stored.items() if len(vector) == width}
            there = records.vector_digests(
                connection, self._base.key, records.embedded_by(self._made_with), document=document
            )
            numbers += [number for number, digest in there.items() if digest in texts]
        kept = self._vectors.collection.read(connection, numbers)
        for digest, vector in zip(kept.digests, kept.vectors, strict=True):
            if digest in texts:
                found[texts[digest]] = vector.astype("<f4", copy=False).tobytes()
        return found

    def _row(self, read: FileText, *, ready: bool) -> dict[str, Any]:
        found = read.found
        return {
            "source": self._sources[found.source],
            "path": self._secrets.text(found.path),
            "label": self._label(read),
            "digest": read.digest,
            "made_with": self._made_with,
            "ready": ready,
            "chunks": len(read.chunks),
            "size_bytes": found.size_bytes,
            "mtime_ns": read.mtime_ns,
            "updated_ms": self._now_ns() // 1_000_000,
        }

    def _touch(self, connection: Connection) -> None:
        records.touched(connection, self._base.key, self._now_ns() // 1_000_000)


def _absent(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not os.path.lexists(path)]


def _batch(reads: Sequence[FileText]) -> int:
    """How many of the first ones fit into a batch together; at least one."""
    sizes = accumulate(len(each.chunks) for each in reads)
    return max(1, sum(size <= BATCH for size in sizes))
