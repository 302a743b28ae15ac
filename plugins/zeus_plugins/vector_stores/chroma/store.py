"""Stores vectors in ChromaDB: a folder, for one process at a time, or a server.

If two processes use one folder, ChromaDB loses and mixes up vectors, so a lock file excludes the second process
(``opening``). Neither is covered by the database's transactions. When a store of memories is opened, its contents are
compared with the rows, and wrong or missing vectors are rebuilt from them. Knowledge bases do so when they are updated.

Up to ``WHOLE`` vectors of memories in reach are returned in the order of their cosines, also those that HNSW's graph
has no link to. With more, ChromaDB's HNSW may return a near vector in a later block. In a folder the collection is
called ``memory``. It cannot hold vectors of another dimension; these are in ``memory_DIMENSION``. On a server, which
several databases may use, the name also has the database's identity.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zeus_plugins.vector_stores.chroma.collection import AT_ONCE, SPACE, ChromaCollection, pages
from zeus_plugins.vector_stores.chroma.opening import (
    SharedFolder,
    close_folder,
    explained,
    open_folder,
    open_server,
)
from zeus_plugins.vector_stores.chroma.options import Options
from zeus_runtime.plugin import PlanContext
from zeus_runtime.plugin.checkpointer import sqlite_file
from zeus_runtime.plugin.files import beside, own_path
from zeus_runtime.plugin.memory import Embedding
from zeus_runtime.plugin.vector_store import (
    Entry,
    VectorCollection,
    VectorQuery,
    VectorStore,
    database_identity,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

_Source: TypeAlias = tuple[Embedding, int]

_log = logging.getLogger(__name__)

COLLECTION: Final = "memory"
WHOLE: Final = 4_096
"""Up to this many vectors in reach are all requested at once."""
GROWTH: Final = 4
_STATE: Final = "zeus-vectors.json"


class ChromaVectorStore(VectorStore):
    """ChromaDB in a folder or on a server.

    Args:
        place: the folder, which is created on first use, or the server's URL.
        headers: of every request to the server.
    """

    transactional = False

    def __init__(self, place: Path | str, headers: Mapping[str, str] | None = None) -> None:
        self._place = place
        self._headers = headers or {}
        self._opened: SharedFolder | None = None
        self._client: Any = None
        self._identity: str | None = None

    def prepare(self, connection: Connection) -> None:
        if self._client is not None:
            return
        if isinstance(self._place, Path):
            self._opened = open_folder(self._place)
            self._client = self._opened.client
        else:
            self._client = open_server(self._place, self._headers)
            self._identity = database_identity(connection)

    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        by_dimension: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_dimension[entry.embedding.dimension].append(entry)
        with self._changing():
            for dimension, group in by_dimension.items():
                # An item whose model changed may have its old vector in the collection of another dimension.
                self._delete([entry.item.id for entry in group], but_of=dimension)
                collection = self._made(dimension)
                for start in range(0, len(group), AT_ONCE):
                    some = group[start : start + AT_ONCE]
                    collection.upsert(
                        ids=[entry.item.id for entry in some],
                        embeddings=np.stack([entry.vector for entry in some]),
                        metadatas=[_metadata(entry) for entry in some],
                    )
        if (known := self._known()) is not None:
            # In place: the dictionary is shared by all stores of this folder.
            known |= {entry.item.id: (entry.embedding, entry.item.version) for entry in entries}

    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        if not ids:
            return
        with self._changing():
            self._delete(list(ids))
        if (known := self._known()) is not None:
            for each in ids:
                known.pop(each, None)

    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        where = _where(query)
        if where is None:
            return
        given: set[str] = set()
        limit = WHOLE
        while True:
            with self._explained():
                collection = self._collections().get(query.embedding.dimension)
                if collection is None:
                    return
                found = collection.query(
                    query_embeddings=[query.vector], n_results=limit, where=where, include=["distances"]
                )
                cosines = dict(
                    zip(found["ids"][0], (1 - each for each in found["distances"][0]), strict=True)
                )
                is_last = len(cosines) < limit
                if is_last and len(cosines) < collection.count():
                    # A part of HNSW's graph that no link leads to is never found, at any limit.
                    unreachable = set(collection.get(where=where, include=[])["ids"]) - cosines.keys()
                    cosines |= self.cosines(connection, query, unreachable)
            for item_id, cosine in sorted(cosines.items(), key=lambda each: -each[1]):
                # The order is that of the cosines, so all further vectors are too far as well.
                if cosine < query.at_least:
                    return
                if item_id not in given:
                    given.add(item_id)
                    yield item_id, cosine
            if is_last:
                return
            limit *= GROWTH

    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        where = _where(query)
        if where is None or not ids:
            return {}
        cosines: dict[str, float] = {}
        with self._explained():
            collection = self._collections().get(query.embedding.dimension)
            if collection is None:
                return {}
            wanted = list(ids)
            for start in range(0, len(wanted), AT_ONCE):
                found = collection.get(
                    ids=wanted[start : start + AT_ONCE], where=where, include=["embeddings"]
                )
                if found["ids"]:
                    some = np.asarray(found["embeddings"], np.float32) @ query.vector
                    cosines |= dict(zip(found["ids"], some.tolist(), strict=True))
        return cosines

    def ids(self, connection: Connection) -> set[str]:
        with self._explained():
            return {
                item_id
                for collection in self._collections().values()
                for page in pages(collection)
                for item_id in page["ids"]
            }

    def made_from(self, connection: Connection) -> Mapping[str, _Source | None]:
        known = self._known()
        return self._read_sources() if known is None else dict(known)

    def collection(self, name: str, dimension: int) -> VectorCollection:
        return ChromaCollection(name, dimension, self._client, self._explained)

    def close(self) -> None:
        client, self._client = self._client, None
        opened, self._opened = self._opened, None
        if isinstance(self._place, Path):
            if opened is not None:
                close_folder(self._place, opened, lambda: self._write_state(opened))
        elif client is not None:
            client.close()

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self._place)

    def _collections(self) -> Mapping[int, Any]:
        """The collections of memories by their dimension; on a server another process may make one at any time."""
        # Only a folder is cached: its lock keeps other processes out, while a server's collections may change at any
        # time.
        cached: dict[int, Any] = {} if self._opened is None else self._opened.shared.setdefault("memory", {})
        if not cached:
            for each in self._client.list_collections():
                if each.name == self._name or each.name.startswith(f"{self._name}_"):
                    # A collection's default embedder would download a model.
                    collection = self._client.get_collection(each.name, embedding_function=None)
                    cached[int(collection.metadata["dimension"])] = collection
        return cached

    @property
    def _name(self) -> str:
        return COLLECTION if self._identity is None else f"{COLLECTION}-{self._identity}"

    def _made(self, dimension: int) -> Any:
        there = self._collections()
        if dimension in there:
            return there[dimension]
        taken = {collection.name for collection in there.values()}
        is_first = self._opened is not None and self._name not in taken
        made = self._client.get_or_create_collection(
            self._name if is_first else f"{self._name}_{dimension}",
            metadata={"dimension": dimension},
            configuration=SPACE,
            embedding_function=None,
        )
        if self._opened is not None:
            self._opened.shared["memory"][dimension] = made
        return made

    def _delete(self, ids: Sequence[str], *, but_of: int | None = None) -> None:
        for dimension, collection in self._collections().items():
            for start in range(0, len(ids) if dimension != but_of else 0, AT_ONCE):
                collection.delete(ids=ids[start : start + AT_ONCE])

    # What each vector of a folder was made from is known while the folder is open, and written when it is closed,
    # because reading it from the collections takes 0.1 ms per vector.

    def _known(self) -> dict[str, _Source] | None:
        """What is known of a folder; None for a server."""
        if self._opened is None:
            return None
        shared = self._opened.shared
        if "sources" not in shared:
            state = self._read_state()
            shared["sources"] = self._read_sources() if state is None else state
        known: dict[str, _Source] = shared["sources"]
        return known

    def _read_sources(self) -> dict[str, _Source]:
        found: dict[str, _Source] = {}
        with self._explained():
            for dimension, collection in self._collections().items():
                for page in pages(collection, "metadatas"):
                    for item_id, metadata in zip(page["ids"], page["metadatas"], strict=True):
                        embedding = Embedding(str(metadata["model"]), dimension)
                        found[item_id] = (embedding, int(metadata["version"]))
        return found

    @property
    def _state(self) -> Path | None:
        return self._place / _STATE if isinstance(self._place, Path) else None

    def _read_state(self) -> dict[str, _Source] | None:
        if self._state is None or not self._state.exists():
            return None
        try:
            return _sources_of(json.loads(self._state.read_text(encoding="utf-8")))
        except ValueError as error:
            # The collections say the same, only slower.
            _log.warning("%s is damaged (%s), so the vectors are read instead", self._state, error)
            return None

    def _write_state(self, opened: SharedFolder) -> None:
        if self._state is None or "sources" not in opened.shared:
            return
        state = {
            item_id: (source.model, source.dimension, version)
            for item_id, (source, version) in opened.shared["sources"].items()
        }
        # Written beside it and renamed, so that a crash leaves no half of a state. Synced first, because a power loss
        # may keep the name without the content. Always a new file of a random name, which no link can have.
        descriptor, new = mkstemp(prefix=f"{_STATE}.", dir=self._state.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(state))
                stream.flush()
                os.fsync(stream.fileno())
            Path(new).replace(self._state)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the vectors, so that what is known of them is never of vectors that are not there."""
        with self._explained():
            self._known()  # read the state while it is there
            # Deleted before the vectors change: after a crash the next process reads the collections instead of an
            # old state.
            if self._state is not None:
                self._state.unlink(missing_ok=True)
            try:
                yield
            except BaseException:
                # A part may have changed, such as before the disk was full: the collections are read again.
                if self._opened is not None:
                    self._opened.shared.pop("sources", None)
                raise


def _sources_of(state: Any) -> dict[str, _Source]:
    """What ``_write_state`` wrote.

    Raises:
        ValueError: it did not write this.
    """
    if not isinstance(state, dict):
        raise ValueError("it holds no object")
    found: dict[str, _Source] = {}
    for item_id, source in state.items():
        match source:
            case [str(model), int(dimension), int(version)]:
                found[item_id] = (Embedding(model, dimension), version)
            case _:
                raise ValueError("an entry is not a model, a dimension and a version")
    return found


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
    """Create the store for the server or the folder in the options, or for the folder next to the database."""
    if options.url is not None:
        return ChromaVectorStore(options.url, options.headers)
    if options.path is not None:
        return ChromaVectorStore((context.directory / options.path).resolve())
    file = sqlite_file(context.config.storage.url, context.directory)
    if file is None:
        return ChromaVectorStore(own_path(context.directory / ".zeus" / "chroma").resolve())
    return ChromaVectorStore(beside(file, "-chroma"))
