"""The bundled memory backend: memories in the agent's own database, each write one transaction for all processes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.memory.backend import FoundMemory, MemoryBackend, MemoryFilter, MemoryWrite, Written
from zeus_runtime.memory.embedding import Embedded, Embedder, EmbeddingUnavailableError
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.writes import MemoryEdit, NewMemory, PastMemory

if TYPE_CHECKING:
    from zeus_runtime.memory.admission.decisions import Decision
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.records import HistoryEntry
    from zeus_runtime.memory.removal import RemovalCheck
    from zeus_runtime.memory.retrieval.search import Measure
    from zeus_runtime.memory.retrieval.time_words import Period

_log = logging.getLogger(__name__)


def backend_of(opened: OpenedMemory, caller: Caller) -> MemoryBackend:
    """Where the memories are, on behalf of ``caller``; made at first use."""
    if opened.made_backend is None:
        make = opened.source.open_backend
        opened.made_backend = DatabaseMemory(opened, caller) if make is None else make()
    return opened.made_backend.for_caller(caller)


class DatabaseMemory(MemoryBackend):
    """Rows, words and vectors in one database; what only such a backend can do is in ``OpenedMemory``.

    Args:
        opened: the database, its vectors and the embedding models.
        caller: on whose behalf.
    """

    in_database = True
    search_modes = ("fused", "vector")

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._opened = opened
        self._caller = caller

    async def save(self, write: MemoryWrite) -> Written:
        from zeus_runtime.memory.embedded_write import embedded_for

        operations = await self._opened.operations()
        if isinstance(write, MemoryEdit):
            embedded = await embedded_for(self._opened, write.caller, write.edited)
            return Written(
                None,
                await operations.change(
                    write.caller,
                    write.item.id,
                    write.changes,
                    embedded,
                    along=lambda _, old: write.refuse_changed(old),
                ),
            )
        if isinstance(write, PastMemory):
            return Written(None, await operations.keep_past(write))
        assert isinstance(write, NewMemory)
        if write.asks:
            return Written(await self._decided(write))
        # Whoever decides what it replaces is shown the memories near it, which takes the vector.
        embedded = await embedded_for(
            self._opened, write.caller, write.item, waits=write.replaces is not None
        )
        written = await operations.add(
            write.caller,
            write.passed,
            write.item,
            embedded,
            explicit=write.explicit,
            replaces=write.replaces,
            answer=write.answer,
            along=write.along,
            beside=write.beside,
            elsewhere=write.elsewhere,
        )
        unembedded = written.item is not None and written.item.embedding is None
        changed = bool(written.removed) and write.item.valid_from is not None  # some may hold until then
        if changed or (unembedded and write.passed.trust != "quarantined"):
            self._opened.backfill_soon(write.caller)
        return Written(written.decision, written.item, written.near)

    async def _decided(self, write: NewMemory) -> Decision:
        from zeus_runtime.memory.embedded_write import embedded_if_it_answers

        operations = await self._opened.operations()
        embedder = await self._opened.embedder(write.caller.user_id)
        asks = embedder if write.passed.trust != "quarantined" else None
        embedded = await embedded_if_it_answers(asks, write.content)
        return await operations.decide(write.caller, write.passed, write.scope, embedded)

    async def search(
        self,
        query: str,
        wanted: MemoryFilter,
        *,
        limit: int,
        mode: str = "fused",
        times: Sequence[Period] = (),
    ) -> Sequence[FoundMemory]:
        """As ``MemoryBackend.search``.

        Args:
            times: of the query, which is without the words for them; memories of these times are surer.
        """
        embedded, measure = await self._compared_by(query, mode)
        operations = await self._opened.operations()
        found = await operations.search(
            wanted.caller,
            query,
            embedded,
            measure,
            top_k=limit,
            memory_type=wanted.memory_type,
            scope=wanted.scope,
            times=times,
        )
        return [FoundMemory(each.item, each.similarity) for each in found]

    async def _compared_by(self, query: str, mode: str) -> tuple[Embedded | None, Measure]:
        """The query's vector, if there is one, and how memories are compared with it."""
        from zeus_runtime.memory.opened import embedded_query
        from zeus_runtime.memory.retrieval.search import BareCosine

        embedder = await self._opened.embedder(self._caller.user_id)
        try:
            embedded = (
                None if embedder is None or not query.strip() else await embedded_query(embedder, query)
            )
        except EmbeddingUnavailableError as error:
            if mode == "vector":
                raise
            _log.warning("memories are searched by words alone: %s", error.message)
            embedded = None
        if embedder is not None:
            self._opened.tell_of_other_models(self._caller, Embedding(embedder.model, embedder.dimension))
        if mode == "fused":
            return embedded, _fused(embedder, query)
        if embedder is None:
            raise EmbeddingUnavailableError(
                "there is no embedding model", remedy="Name one under memory.embeddings, or search by words."
            )
        if embedded is None:
            raise EmbeddingUnavailableError(
                f"the embedding model {embedder.model} knows nothing of this query", remedy="Search by words."
            )
        return embedded, BareCosine()

    async def get(self, ids: Collection[str]) -> Sequence[MemoryItem]:
        from zeus_runtime.memory import records

        operations, parts = await self._opened.operations(), reach(self._caller, "see")
        found = await operations.database.read(
            lambda connection: records.by_ids(connection, ids, parts, self._caller.user_id), self._caller
        )
        return list(found.values())

    async def list(
        self, wanted: MemoryFilter, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[MemoryItem]:
        from zeus_runtime.memory import records

        operations = await self._opened.operations()
        return await operations.database.read(
            lambda connection: records.listed(
                connection,
                reach(wanted.caller, wanted.operation, wanted.scope),
                wanted.caller.user_id,
                status=wanted.status,
                memory_type=wanted.memory_type,
                said=(wanted.said_from, wanted.said_until),
                limit=limit,
                offset=offset,
            ),
            wanted.caller,
        )

    async def delete(self, ids: Collection[str], *, check: RemovalCheck | None = None) -> None:
        operations = await self._opened.operations()
        for each in ids:
            gone = await operations.removal.delete(self._caller, each, check)
            self._opened.forget_used(gone or ())
        self._opened.backfill_soon(self._caller)

    async def history(self, memory_id: str) -> Sequence[HistoryEntry]:
        from zeus_runtime.memory import records

        operations = await self._opened.operations()
        return await operations.database.read(
            lambda connection: records.history(connection, memory_id), self._caller
        )

    def for_caller(self, caller: Caller) -> MemoryBackend:
        return DatabaseMemory(self._opened, caller)

    async def aclose(self) -> None:
        await self._opened.close(self._caller)


def _fused(embedder: Embedder | None, query: str) -> Measure:
    """How words and vectors count together for ``query``, which the model may know in part."""
    from zeus_runtime.memory.retrieval.fusion import fusion
    from zeus_runtime.memory.retrieval.search import Fused

    if embedder is None:
        return Fused(fusion(None, 0))
    return Fused(fusion(embedder.calibration, embedder.coverage(query)))
