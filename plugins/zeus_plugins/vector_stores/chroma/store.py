"""Stores vectors in a ChromaDB folder, for one process at a time.

If two processes use one folder, ChromaDB loses and mixes up vectors, so a lock file excludes the second process. The
folder is not covered by the database's transactions. When it is opened, its contents are compared with the rows, and
wrong or missing vectors are rebuilt from them.

Up to ``WHOLE`` vectors in reach are returned in the order of their cosines. With more, ChromaDB's HNSW may return a
near vector in a later block. The collection is called ``memory``. It cannot hold vectors of another dimension; these
are in ``memory_DIMENSION``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zeus_plugins.vector_stores.chroma.options import Options
from zeus_runtime.plugin import MissingError, PlanContext
from zeus_runtime.plugin.checkpointer import claim, make_private, sqlite_file
from zeus_runtime.plugin.files import own_path
from zeus_runtime.plugin.memory import Embedding
from zeus_runtime.plugin.vector_store import Entry, VectorQuery, VectorStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

_Source: TypeAlias = tuple[Embedding, int]

COLLECTION: Final = "memory"
WHOLE: Final = 4_096
"""Up to this many vectors in reach are all requested at once."""
GROWTH: Final = 4
_AT_ONCE: Final = 1_000
_SPACE: Final = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 1_000}}
_STATE: Final = "zeus-vectors.json"
_LOCK: Final = "zeus.lock"


class ChromaVectorStore(VectorStore):
    """A ChromaDB folder.

    Args:
        folder: created on first use.
    """

    transactional = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._give_back: Callable[[], None] | None = None
        self._client: Any = None
        self._collections: dict[int, Any] = {}
        self._sources: dict[str, _Source] = {}

    def prepare(self, connection: Connection) -> None:
        if self._client is not None:
            return
        self._claim()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        self._forget_state()
        elsewhere = [
            entry.item.id
            for entry in entries
            if entry.item.id in self._sources
            and self._sources[entry.item.id][0].dimension != entry.embedding.dimension
        ]
        self.remove(connection, elsewhere)
        by_dimension: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_dimension[entry.embedding.dimension].append(entry)
        for dimension, group in by_dimension.items():
            collection = self._collection(dimension)
            for start in range(0, len(group), _AT_ONCE):
                some = group[start : start + _AT_ONCE]
                collection.upsert(
                    ids=[entry.item.id for entry in some],
                    embeddings=np.stack([entry.vector for entry in some]),
                    metadatas=[_metadata(entry) for entry in some],
                )
        self._sources |= {entry.item.id: (entry.embedding, entry.item.version) for entry in entries}

    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        by_dimension: defaultdict[int, list[str]] = defaultdict(list)
        for each in ids:
            if each in self._sources:
                by_dimension[self._sources[each][0].dimension].append(each)
        if by_dimension:
            self._forget_state()
        for dimension, group in by_dimension.items():
            for start in range(0, len(group), _AT_ONCE):
                some = group[start : start + _AT_ONCE]
                self._collections[dimension].delete(ids=some)
                for each in some:
                    del self._sources[each]

    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        collection, where = self._collections.get(query.embedding.dimension), _where(query)
        if collection is None or where is None:
            return
        given: set[str] = set()
        limit = WHOLE
        while True:
            found = collection.query(
                query_embeddings=[query.vector], n_results=limit, where=where, include=["distances"]
            )
            ids, distances = found["ids"][0], found["distances"][0]
            for item_id, distance in sorted(zip(ids, distances, strict=True), key=lambda each: each[1]):
                if 1 - distance < query.at_least:
                    return
                if item_id not in given:
                    given.add(item_id)
                    yield item_id, 1 - distance
            if len(ids) < limit:
                return
            limit *= GROWTH

    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        collection, where = self._collections.get(query.embedding.dimension), _where(query)
        known = [each for each in ids if each in self._sources]
        if collection is None or where is None or not known:
            return {}
        found = collection.get(ids=known, where=where, include=["embeddings"])
        if not found["ids"]:
            return {}
        cosines = np.asarray(found["embeddings"], np.float32) @ query.vector
        return {item_id: float(cosine) for item_id, cosine in zip(found["ids"], cosines, strict=True)}

    def ids(self, connection: Connection) -> set[str]:
        return {item_id for each in self._collections.values() for item_id in each.get(include=[])["ids"]}

    def made_from(self, connection: Connection) -> Mapping[str, _Source | None]:
        return dict(self._sources)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._write_state()
            self._collections.clear()
            client.close()
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def _claim(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._give_back = claim(self._folder / _LOCK)
        except OSError as error:
            raise MissingError(
                f"the vector store chroma cannot use the folder {str(self._folder)!r}: {error.strerror}",
                remedy="Make it writable, or set memory.vector_store to {chroma: {path: another folder}}.",
            ) from error
        if self._give_back is None:
            raise MissingError(
                f"the vector store chroma is in use: another agent has the folder {str(self._folder)!r} open",
                remedy="Wait until it ends, or set memory.vector_store to sqlite or pgvector, which agents can share.",
            )

    def _open(self) -> None:
        try:
            import chromadb
        except ImportError as error:
            raise MissingError(
                f"the vector store chroma cannot be used: {error}",
                remedy="Install it: pip install 'chromadb>=1.5'",
            ) from error
        # Keeps ChromaDB from reading `.env`, which could name classes to import.
        settings = chromadb.Settings(_env_file=None, anonymized_telemetry=False)
        try:
            make_private(self._folder / "chroma.sqlite3")
            self._client = chromadb.PersistentClient(path=str(self._folder), settings=settings)
            for each in self._client.list_collections():
                # A collection's default embedder would download a model.
                collection = self._client.get_collection(each.name, embedding_function=None)
                self._collections[int(collection.metadata["dimension"])] = collection
            state = self._read_state()
            self._sources = self._read_sources() if state is None else state
        except Exception as error:
            self._client = None
            raise MissingError(
                f"the vector store chroma cannot open the folder {str(self._folder)!r}: {error}",
                remedy="Remove the folder: it is rebuilt from the memories.",
            ) from error

    def _collection(self, dimension: int) -> Any:
        if dimension not in self._collections:
            taken = {collection.name for collection in self._collections.values()}
            self._collections[dimension] = self._client.create_collection(
                f"{COLLECTION}_{dimension}" if COLLECTION in taken else COLLECTION,
                metadata={"dimension": dimension},
                configuration=_SPACE,
                embedding_function=None,
            )
        return self._collections[dimension]

    def _read_sources(self) -> dict[str, _Source]:
        found: dict[str, _Source] = {}
        for dimension, collection in self._collections.items():
            kept = collection.get(include=["metadatas"])
            for item_id, metadata in zip(kept["ids"], kept["metadatas"], strict=True):
                found[item_id] = (Embedding(str(metadata["model"]), dimension), int(metadata["version"]))
        return found

    # The folder's contents when it was closed, because reading them from the collections takes 0.1 ms per vector.

    def _read_state(self) -> dict[str, _Source] | None:
        try:
            text = (self._folder / _STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return {
            item_id: (Embedding(model, dimension), version)
            for item_id, (model, dimension, version) in json.loads(text).items()
        }

    def _write_state(self) -> None:
        state = {
            item_id: (source.model, source.dimension, version)
            for item_id, (source, version) in self._sources.items()
        }
        new = self._folder / f"{_STATE}.new"
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(self._folder / _STATE)

    def _forget_state(self) -> None:
        (self._folder / _STATE).unlink(missing_ok=True)


def _metadata(entry: Entry) -> dict[str, str | int]:
    item = entry.item
    return {
        "scope": item.scope,
        "scope_id": item.scope_id,
        "visibility": item.visibility,
        "created_by": item.created_by,
        "status": item.status,
        "type": item.memory_type,
        "model": entry.embedding.model,
        "version": item.version,
    }


def _where(query: VectorQuery) -> dict[str, Any] | None:
    """Return the reach and the model as ChromaDB's condition; None if nothing is in reach."""
    parts = []
    for part in query.reach:
        grants = [
            _all(
                {"visibility": {"$in": sorted(grant.visibilities)}},
                *([{"created_by": query.user_id}] if grant.own else []),
            )
            for grant in part.grants
            if grant.visibilities
        ]
        if grants:
            parts.append(_all({"scope": part.scope}, {"scope_id": part.scope_id}, _any(*grants)))
    if not parts:
        return None
    wanted = [] if query.memory_type is None else [{"type": query.memory_type}]
    return _all({"model": query.embedding.model}, {"status": "active"}, *wanted, _any(*parts))


def _all(*conditions: dict[str, Any]) -> dict[str, Any]:
    return conditions[0] if len(conditions) == 1 else {"$and": list(conditions)}


def _any(*conditions: dict[str, Any]) -> dict[str, Any]:
    return conditions[0] if len(conditions) == 1 else {"$or": list(conditions)}


def create(options: Options, context: PlanContext) -> ChromaVectorStore:
    """Create the store for the folder in the options, or for the one next to the database."""
    if options.path is not None:
        return ChromaVectorStore((context.directory / options.path).resolve())
    file = sqlite_file(context.config.storage.url, context.directory)
    if file is None:
        return ChromaVectorStore(own_path(context.directory / ".zeus" / "chroma").resolve())
    return ChromaVectorStore(own_path(file.with_name(f"{file.name}-chroma")))
