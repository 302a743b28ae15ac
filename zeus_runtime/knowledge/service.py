"""Knowledge bases for one caller: made, filled, searched, removed. Everything opens at first use."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.config.ref import Ref
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import ErrorsMasked, NotFoundError, UsageError
from zeus_runtime.knowledge.chunks import CHUNK_TOKENS, OVERLAP_TOKENS
from zeus_runtime.knowledge.embedding_models import AvailableModels, UnavailableModelError
from zeus_runtime.memory.embedding import Embedder, EmbeddingUnavailableError
from zeus_runtime.tools.run_to_completion import all_tried
from zeus_runtime.tracing import retrieval_span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.knowledge.caller_database import CallerDatabase
    from zeus_runtime.knowledge.files import FoundFile
    from zeus_runtime.knowledge.index import Hit, KnowledgeIndex
    from zeus_runtime.knowledge.ingest import Ingested, Progress
    from zeus_runtime.knowledge.records import BaseInfo
    from zeus_runtime.memory.items import Caller
    from zeus_runtime.memory.vectors import VectorCollection, VectorStore

TOP_K: Final = 5
_UNREAD: Final = object()
NAME: Final = re.compile(r"[^\W_][\w.-]{0,63}\Z")


@dataclass(frozen=True)
class Cutting:
    """How the texts of a new base are cut, in tokens."""

    chunk_tokens: int = CHUNK_TOKENS
    overlap_tokens: int = OVERLAP_TOKENS


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Args:
        hits: the best first.
        notices: for a person or a model: a base that does not exist, a model that could not be reached.
    """

    hits: tuple[Hit, ...]
    notices: tuple[str, ...] = ()


class StoredDocument(NamedTuple):
    """A document of a knowledge base.

    Args:
        size_bytes: of its file.
        ready: whether all of it was read and can be found; `zeus kb add NAME` finishes the others.
    """

    path: str
    chunks: int
    size_bytes: int
    ready: bool


class ReadableBase(NamedTuple):
    """The part of a knowledge base that an agent may read.

    Args:
        sources: the paths that were added.
        documents, chunks: how many.
    """

    sources: tuple[str, ...]
    documents: int
    chunks: int


@dataclass(frozen=True)
class FileRules:
    """The rules of an agent, or of one of its sessions, for the files of knowledge bases; by default none.

    Args:
        refusal_of: why a file is hidden from the agent.
        refusal_of_stored: why a stored text of a file is, also if the file is not there any more; by default the same.
        read: gives a found file's bytes, if the agent may read it; by default any file's.
        needs_question: whether the running tool may read a file only after a question.
        lasting: the path of a source by which ``refusal_of`` can judge it later.
        leads_out: whether a source is a link out of the workspace, where a tool may have made it: it is read only by
            an ``add`` that names it.
    """

    refusal_of: Callable[[Path], str | None] = lambda _file: None
    refusal_of_stored: Callable[[Path], str | None] | None = None
    read: Callable[[FoundFile], bytes] | None = None
    needs_question: Callable[[Path], bool] = lambda _file: False
    lasting: Callable[[Path], Path] = Path.resolve
    leads_out: Callable[[Path], bool] = lambda _file: False


@dataclass
class _Opened:
    """All that a service has opened or read, which those of sessions share."""

    database: CallerDatabase | None = None
    store: VectorStore | None = None
    choice: Ref | object | None = _UNREAD
    index: KnowledgeIndex | None = None


class KnowledgeService(ErrorsMasked):
    """The operations on knowledge bases that a caller may use.

    Args:
        url: of the database.
        directory: where a relative SQLite path starts.
        open_vectors: makes the vector store.
        open_former: makes the database's own store, from which vectors move to another one; None if it is that one.
        open_embedder: makes the config's embedding model.
        open_chosen: makes the model that a user chose; None if users cannot choose.
        open_offline: make the models that need no key and no network.
        caller: on whose behalf; from the config, never from the model.
        linked: the bases that the config names; tools may search only these.
        secrets: masked in texts that are read and found.
        error_secrets: masked in errors; by default the same.
        rules: what the agent may read.
        now_ns: the clock, nanoseconds since 1970.
    """

    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        open_vectors: Callable[[], VectorStore],
        open_former: Callable[[], VectorStore] | None = None,
        open_embedder: Callable[[], Embedder],
        open_chosen: Callable[[str, Ref], Embedder] | None = None,
        open_offline: Sequence[Callable[[], Embedder]] = (),
        caller: Caller,
        linked: Sequence[str] = (),
        secrets: Redactor | None = None,
        error_secrets: Redactor | None = None,
        rules: FileRules | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.linked: Final = tuple(linked)
        self.caller: Final = caller
        self._url = url
        self._secrets = secrets or Redactor()
        self._error_secrets = error_secrets or self._secrets
        self._rules = rules or FileRules()
        self._directory = directory
        self._now_ns = now_ns
        self._open_vectors = open_vectors
        self._open_former = open_former
        self._opened = _Opened()
        self._is_lent = False
        self._models = AvailableModels(
            open_embedder, open_chosen, open_offline, self._chosen_ref, caller.user_id
        )

    def under(self, rules: FileRules) -> KnowledgeService:
        """The same bases under other rules for files. It shares what this one opens, and only this one closes that."""
        other = copy.copy(self)
        other._rules, other._is_lent = rules, True
        return other

    def _error_mask(self) -> Redactor:
        return self._error_secrets

    def _refusal_of_stored(self, file: Path) -> str | None:
        return (self._rules.refusal_of_stored or self._rules.refusal_of)(file)

    async def bases(self) -> list[BaseInfo]:
        """Every base that the caller may see."""
        from zeus_runtime.knowledge import records

        database = await self._open()
        return await database.run(lambda connection: records.bases(connection, database.caller))

    async def base(self, name: str) -> BaseInfo | None:
        """The base of a name, the caller's own before their project's."""
        from zeus_runtime.knowledge import records

        database = await self._open()
        return await database.run(lambda connection: records.base_named(connection, database.caller, name))

    async def sources(self, name: str) -> list[str]:
        """What was added to a base."""
        from zeus_runtime.knowledge import records

        base, database = await self._needed(name), await self._open()
        return list(await database.run(lambda connection: records.sources(connection, base.key)))

    async def documents(self, name: str) -> list[StoredDocument]:
        """The documents of a base that the agent may read, by path.

        Raises:
            NotFoundError: there is no such base.
        """
        import asyncio

        from zeus_runtime.knowledge import records

        base, database = await self._needed(name), await self._open()
        found = await database.run(
            lambda connection: {
                ready: records.documents(connection, base.key, ready=ready) for ready in (True, False)
            }
        )
        forms = "\n".join(self._secrets.forms)

        def shown() -> list[StoredDocument]:
            return [
                StoredDocument(self._secrets.text(path), each.chunks, each.size_bytes, ready)
                for ready, documents in found.items()
                for path, each in documents.items()
                if self._refusal_of_stored(Path(self._secrets.restored(path, forms))) is None
            ]

        # On another thread: each path's rules may look at the disk.
        return sorted(await asyncio.to_thread(shown))

    async def readable(self, base: str | BaseInfo) -> ReadableBase:
        """What the agent may read of a base now.

        Args:
            base: or its name, which is that of the caller's own base before their project's.

        Raises:
            UsageError: there is no such base.
        """
        import asyncio

        from zeus_runtime.knowledge import records

        key = (await self._needed(base) if isinstance(base, str) else base).key
        database = await self._open()
        sources, documents = await database.run(
            lambda connection: (records.sources(connection, key), records.documents(connection, key))
        )
        forms = "\n".join(self._secrets.forms)

        def is_readable(path: str) -> bool:
            return self._refusal_of_stored(Path(self._secrets.restored(path, forms))) is None

        def part() -> ReadableBase:
            chunks = [each.chunks for path, each in documents.items() if is_readable(path)]
            return ReadableBase(tuple(filter(is_readable, sources)), len(chunks), sum(chunks))

        return await asyncio.to_thread(part)

    async def files(
        self, name: str, unread: Callable[[str, str], None] = lambda _path, _why: None
    ) -> list[FoundFile]:
        """The files of a base's sources, as they are now, that the agent may read.

        Args:
            unread: called with each source that is not read, or folder that cannot be, and the reason.

        Raises:
            UsageError: there is no such base.
        """
        import asyncio

        from zeus_runtime.knowledge.files import files_of

        sources, forms = await self.sources(name), "\n".join(self._secrets.forms)

        def found() -> list[FoundFile]:
            followed = []
            for path in (self._secrets.restored(each, forms) for each in sources):
                if self._rules.leads_out(Path(path)):
                    unread(path, "it is a link out of the workspace; name it instead of its base")
                else:
                    followed.append(path)
            files = files_of(followed, unread)
            return [each for each in files if self._refusal_of_stored(Path(each.path)) is None]

        return await asyncio.to_thread(found)

    async def add(
        self,
        name: str,
        paths: Sequence[Path],
        *,
        project: bool = False,
        cutting: Cutting | None = None,
        progress: Callable[[Progress], None] = lambda _progress: None,
    ) -> Ingested:
        """Add files and folders to a base, creating it if needed, and bring all of it up to date.

        Args:
            paths: files or folders; none updates the existing sources.
            project: create the base for the project; an existing base keeps its owner.
            cutting: for a new base.

        Raises:
            UsageError: a path is missing, the name is invalid, the caller may not, or another process writes the base.
            EmbeddingUnavailableError: the embedding model cannot be reached; finished work is kept.
            MissingError: a format needs the extra ``kb``.
        """
        from zeus_runtime.knowledge import records

        for path in paths:
            _refuse_unreadable(path, self._rules.lasting(path))
        if not paths and await self.base(name) is None:
            raise _unknown(name)
        database = await self._open()
        base = await self._made(name, project=project, cutting=cutting)
        records.refuse_writing(database.caller, base)
        if cutting is not None and (base.chunk_tokens, base.overlap_tokens) != (
            cutting.chunk_tokens,
            cutting.overlap_tokens,
        ):
            raise UsageError(
                f"the knowledge base {name!r} is cut to {base.chunk_tokens} tokens with an overlap of"
                f" {base.overlap_tokens}",
                remedy="Remove it and add it anew to cut it otherwise.",
            )
        base, give_back = await self._claimed(base)
        try:
            added = [self._stored(path) for path in paths]
            await database.run(lambda connection: records.add_sources(connection, base.key, added))
            embedder = await (self._models.of(base) if base.embedding else self._models.for_new(base.scope))
            return await self._ingest(database, base, embedder, progress, named=added)
        finally:
            give_back()

    async def _ingest(
        self,
        database: CallerDatabase,
        base: BaseInfo,
        embedder: Embedder,
        progress: Callable[[Progress], None],
        *,
        named: Sequence[str] = (),
    ) -> Ingested:
        from zeus_runtime.knowledge.files import read_freely
        from zeus_runtime.knowledge.ingest import ingest

        return await ingest(
            database,
            base,
            embedder,
            await self._store(),
            former=None if self._open_former is None else partial(self._prepared, self._open_former),
            now_ns=self._now_ns,
            progress=progress,
            secrets=self._secrets,
            refusal_of=self._rules.refusal_of,
            read=self._rules.read or read_freely,
            may_follow=lambda path, file: path in named or not self._rules.leads_out(file),
        )

    async def reindex(
        self, name: str, *, progress: Callable[[Progress], None] = lambda _progress: None
    ) -> Ingested:
        """Bring a base up to date with the model that would embed a new one, whichever model embedded it before.

        Raises:
            UsageError: there is no such base, the caller may not, or another process writes it.
            MissingError, OptionsError: the model cannot be opened.
            EmbeddingUnavailableError: it cannot be reached; finished work is kept, and ``add`` continues it.
        """
        from zeus_runtime.knowledge import records

        base, database = await self._needed(name), await self._open()
        records.refuse_writing(database.caller, base)
        base, give_back = await self._claimed(base)
        try:
            embedder = await self._models.for_new(base.scope)
            return await self._ingest(database, base, embedder, progress)
        finally:
            give_back()

    async def remove(self, name: str, paths: Sequence[Path] = ()) -> int:
        """Remove a base, or only the documents of some of its paths. Returns the number of removed documents.

        Raises:
            UsageError: there is no such base or path in it, or the caller may not.
        """
        from zeus_runtime.knowledge import records

        base, database = await self._needed(name), await self._open()
        records.refuse_writing(database.caller, base)
        base, give_back = await self._claimed(base)
        try:
            store = await self._store()
            if paths:
                return await self._remove_sources(
                    database, base, store, [self._stored(path) for path in paths]
                )

            def work(connection: Connection) -> None:
                if base.collection:
                    store.collection(base.collection, base.dimension).drop(connection)
                records.remove_base(connection, base.key)

            await database.run(work)
            return base.documents
        finally:
            give_back()

    async def search(
        self, query: str, *, names: Sequence[str] | None = None, top_k: int = TOP_K, for_tool: bool = True
    ) -> SearchResult:
        """The chunks that fit a query best, by meaning and by words; of files that the agent may read now.

        A chunk that holds a known secret, since it was stored before the secret was known, is as if it were not there.

        Args:
            names: bases, searched as one; the linked ones by default. With several, a base whose embedding model is not
                available is left out and named in the notices.
            for_tool: files whose reading needs an approval of the running tool, or of any tool where none runs, are
                left out, and counted in the notices. False: for the administrator at the terminal.

        Raises:
            UnavailableModelError: no base has an available embedding model.
        """
        database = await self._open()
        wanted = list(dict.fromkeys(self.linked if names is None else names))
        bases, notices = [], []
        for name in wanted:
            base = await self.base(name)
            if base is None:
                notices.append(f"there is no knowledge base {name!r} yet")
            else:
                bases.append(base)
        # A document's text was masked: its words are found by a masked query.
        query = self._secrets.text(query)
        if not bases or not query.strip():
            return SearchResult((), tuple(notices))
        with retrieval_span(", ".join(base.name for base in bases)) as span:
            searched, vectors = await self._vectors(query, bases, notices)
            # The rules are asked on another thread, for the tool that runs here.
            context, forms = copy_context(), "\n".join(self._secrets.forms)

            unapproved: set[str] = set()

            def is_closed(path: str) -> bool:
                file = Path(self._secrets.restored(path, forms))
                if context.run(self._refusal_of_stored, file) is not None:
                    return True
                if for_tool and context.run(self._rules.needs_question, file):
                    unapproved.add(path)
                return path in unapproved

            if any(base.collection for base in searched):
                await self._store()

            def work(connection: Connection) -> tuple[list[Hit], dict[str, int], dict[str, int]]:
                index = self._searched()
                found = index.search(connection, searched, query, vectors, top_k=top_k, is_closed=is_closed)
                missing = {base.name: index.missing(connection, base) for base in searched}
                return found, missing, {base.name: index.older(connection, base) for base in searched}

            hits, missing, older = await database.run(work)
            span.note({"zeus.retrieval.found": len(hits)})
        # The numbers would also tell of files that the rules close.
        number = (lambda _count: "some") if for_tool else "{:,}".format
        notices += [
            f"{number(count)} passages of {name!r} have no vector and are found by words alone"
            f" until `{zeus_command('kb', 'add', name)}`"
            for name, count in missing.items()
            if count
        ]
        notices += [
            f"an older version of Zeus read {number(count)} of the documents of {name!r}: their words are found"
            f" less well until `{zeus_command('kb', 'add', name)}`"
            for name, count in older.items()
            if count
        ]
        if count := len(unapproved):
            files = "1 file" if count == 1 else f"{count} files"
            notices.append(f"{files} not searched: reading needs an approval")
        return SearchResult(tuple(hits), tuple(notices))

    async def aclose(self) -> None:
        """Close what is open."""
        if self._is_lent:
            return
        # Taken first, so that a second call closes nothing twice.
        opened = self._opened
        database, opened.database = opened.database, None
        vectors, opened.store = opened.store, None
        opened.index = None
        try:
            await all_tried(self._models.close, None if database is None else database.database.close)
        finally:
            if vectors is not None:
                vectors.close()

    async def _vectors(
        self, query: str, bases: Sequence[BaseInfo], notices: list[str]
    ) -> tuple[list[BaseInfo], dict[tuple[str, int], NDArray[np.float32]]]:
        """The bases that can be searched, and the query by each of their models that answers."""
        searched: list[BaseInfo] = []
        embedders: dict[tuple[str, int], Embedder] = {}
        missing: list[UnavailableModelError] = []
        for base in bases:
            try:
                if base.embedding:
                    embedders[base.embedding, base.dimension] = await self._models.of(base)
                searched.append(base)
            except UnavailableModelError as error:
                missing.append(error)
        if not searched:
            # With some bases searched a missing model is only a notice; with none the search would look empty.
            raise missing[0]
        notices += [f"not searched: {error.message}. {error.remedy}".rstrip(".") for error in missing]
        vectors: dict[tuple[str, int], NDArray[np.float32]] = {}
        for model, embedder in embedders.items():
            try:
                found = await embedder.embed([query], purpose="query")
            except EmbeddingUnavailableError as error:
                notices.append(f"searched by words alone: {error.message}")
            else:
                if found[0].any():
                    vectors[model] = found[0]
        return searched, vectors

    async def _chosen_ref(self) -> Ref | None:
        from zeus_runtime.memory.embedding_choice import chosen_ref, stored_choice

        # Not None, which is an answer: the user has chosen nothing.
        if self._opened.choice is _UNREAD:
            user, database = self.caller.user_id, await self._open()
            stored = await database.run(lambda connection: stored_choice(connection, user))
            self._opened.choice = None if stored is None else chosen_ref(stored, user)
        return self._opened.choice if isinstance(self._opened.choice, Ref) else None

    async def _remove_sources(
        self, database: CallerDatabase, base: BaseInfo, store: VectorStore, paths: Sequence[str]
    ) -> int:
        from zeus_runtime.knowledge import records
        from zeus_runtime.knowledge.vectors import BaseVectors, VectorChange

        now_ms = self._now_ns() // 1_000_000

        def work(connection: Connection, change: VectorChange) -> int:
            there = records.sources(connection, base.key)
            unknown = [path for path in paths if path not in there]
            if unknown:
                raise UsageError(
                    f"{unknown[0]} was not added to {base.name!r}",
                    remedy=f"What was added: {', '.join(there) or 'nothing'}.",
                )
            keys = {there[path] for path in paths}
            # Unfinished ones too: they would be found again as leftovers of a source that is not there any more.
            documents = [
                each
                for ready in (True, False)
                for each in records.documents(connection, base.key, ready=ready).values()
                if each.source in keys
            ]
            gone = records.remove_documents(connection, base.key, [each.key for each in documents])
            change.removed += gone if base.collection else []
            records.remove_sources(connection, base.key, keys)
            records.touched(connection, base.key, now_ms)
            return len(documents)

        return await BaseVectors(database, store, base.collection, base.dimension).run(work)

    async def _made(self, name: str, *, project: bool, cutting: Cutting | None) -> BaseInfo:
        from sqlalchemy.exc import IntegrityError

        from zeus_runtime.knowledge import records

        if not NAME.match(name):
            raise UsageError(
                f"{name!r} cannot name a knowledge base",
                remedy="Use letters, digits, '_', '-' and '.', at most 64, such as 'handbook'.",
            )
        known = await self.base(name)
        if known is not None:
            return known
        if self._secrets.text(name) != name:
            raise UsageError(
                "the name of a new knowledge base holds a known secret", remedy="Give it another name."
            )
        how = cutting or Cutting()
        if not 16 <= how.chunk_tokens <= 8_000 or not 0 <= how.overlap_tokens <= how.chunk_tokens // 2:
            raise UsageError(
                f"chunks of {how.chunk_tokens} tokens with an overlap of {how.overlap_tokens} cannot be cut",
                remedy="A chunk has 16 to 8,000 tokens; the overlap is at most half of it.",
            )
        values = {"name": name, "chunk_tokens": how.chunk_tokens, "overlap_tokens": how.overlap_tokens}
        scope = "project" if project else "user"
        now_ms = self._now_ns() // 1_000_000
        database = await self._open()
        # Another process may make it in between.
        with suppress(IntegrityError):
            await database.run(
                lambda connection: records.make_base(connection, database.caller, scope, values, now_ms)
            )
        return await self._needed(name)

    def _stored(self, path: Path) -> str:
        """A path as the database keeps it."""
        return self._secrets.text(str(self._rules.lasting(path)))

    async def _needed(self, name: str) -> BaseInfo:
        base = await self.base(name)
        if base is None:
            raise _unknown(name)
        return base

    async def _claimed(self, base: BaseInfo) -> tuple[BaseInfo, Callable[[], None]]:
        """The base as it is once nobody else can write it, and what gives it back."""
        database = await self._open()
        try:
            give_back = await database.database.claim(f"knowledge-{base.key}")
        except UsageError:
            raise UsageError(
                f"the knowledge base {base.name!r} is being written elsewhere",
                remedy="Wait until that is done.",
            ) from None
        try:
            # Read again: until the claim another process could give it another model and collection, or remove it.
            now = await self.base(base.name)
            if now is None or now.key != base.key:
                raise UsageError(
                    f"the knowledge base {base.name!r} was removed or replaced elsewhere",
                    remedy="Run the command again.",
                )
        except BaseException:
            give_back()
            raise
        return now, give_back

    async def _open(self) -> CallerDatabase:
        if self._opened.database is None:
            from zeus_runtime.knowledge.caller_database import CallerDatabase
            from zeus_runtime.store.database import Database
            from zeus_runtime.store.schema import ready

            database = Database(self._url, directory=self._directory)
            try:
                await ready(database)
            except BaseException:
                await database.close()
                raise
            self._opened.database = CallerDatabase(database, self.caller)
        return await self._acting(self._opened.database)

    async def _acting(self, opened: CallerDatabase) -> CallerDatabase:
        """The database on behalf of the caller in the role that holds now, as ``Opened.acting`` has it of memory."""
        if self.caller.project_id is None:
            return opened
        from zeus_runtime.memory.members import current_role

        role = await opened.run(lambda connection: current_role(connection, self.caller))
        return replace(opened, caller=replace(self.caller, role=role))

    def _searched(self) -> KnowledgeIndex:
        if self._opened.index is None:
            from zeus_runtime.knowledge.index import KnowledgeIndex

            self._opened.index = KnowledgeIndex(self._collection, self._secrets)
        return self._opened.index

    def _collection(self, base: BaseInfo) -> VectorCollection | None:
        """A base's vectors in the store, which is open; None if the base has none there yet."""
        if self._opened.store is None or not base.collection:
            return None
        return self._opened.store.collection(base.collection, base.dimension)

    async def _store(self) -> VectorStore:
        """The vector store, with its tables.

        Raises:
            MissingError: it cannot be used.
        """
        if self._opened.store is None:
            self._opened.store = await self._prepared(self._open_vectors)
        return self._opened.store

    async def _prepared(self, opens: Callable[[], VectorStore]) -> VectorStore:
        from zeus_runtime.memory.database import MemoryDatabase

        database, vectors = await self._open(), opens()
        try:
            await MemoryDatabase(database.database, lambda: datetime.now(UTC)).open(vectors.prepare)
        except BaseException:
            vectors.close()
            raise
        return vectors


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(
        f"there is no knowledge base {name!r}",
        remedy=f"`{zeus_command('kb', 'add', name, 'PATH')}` makes it; `{zeus_command('kb', 'list')}` lists all.",
    )


def _refuse_unreadable(path: Path, stored: Path) -> None:
    from zeus_runtime.knowledge.files import is_utf8

    if not path.exists():
        raise UsageError(f"there is no {path}", remedy="Name files or folders that are there.")
    if not (path.is_file() or path.is_dir()):
        raise UsageError(
            f"{path} is neither a file nor a folder", remedy="Name files or folders that can be read."
        )
    if not is_utf8(str(stored)):
        raise UsageError(
            f"{str(stored)!r} has a name that is not UTF-8", remedy="Rename it, or what it is in."
        )
