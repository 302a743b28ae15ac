"""What memory does to the database, each in one transaction: add, change, delete, search, embed.

Nothing here waits for a model: vectors come from the caller, made outside the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sqlalchemy import and_, func, or_, select
from sqlalchemy.exc import DatabaseError

from zeus_runtime.errors import RunError
from zeus_runtime.memory import records
from zeus_runtime.memory.admission import gate
from zeus_runtime.memory.admission.gate import Decision, Duplicate, Neighbour, Passed, Rejected, Superseded
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem, MemorySettings, MemoryType, Scope
from zeus_runtime.memory.permissions import Operation, Reach, may, reach
from zeus_runtime.memory.retrieval.at_hand import Links, best_at_hand
from zeus_runtime.memory.retrieval.lexical import Lexicon
from zeus_runtime.memory.retrieval.ranking import Ranked, rank
from zeus_runtime.memory.retrieval.search import BareCosine, Measure, best
from zeus_runtime.memory.retrieval.words import asked_words, indexed_words
from zeus_runtime.memory.vectors import Entry, VectorQuery, VectorStore
from zeus_runtime.store import schema
from zeus_runtime.store.memory_tables import ITEM
from zeus_runtime.store.row_security import act_for, act_for_upkeep
from zeus_runtime.store.transactions import retry_while_locked
from zeus_runtime.store.word_entries import prepare_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection

    from zeus_runtime.memory.embedding import Calibration
    from zeus_runtime.store.database import Database

T = TypeVar("T")

_NEIGHBOURS: Final = 3
"""By words, and so many by vector: of the labelled pairs, among 650 texts, more find no further one."""
_WRITES_BETWEEN_CHECKPOINTS: Final = 200


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text's vector: shape (dimension,), float32, length 1, and what its cosines mean."""

    vector: NDArray[np.float32]
    embedding: Embedding
    calibration: Calibration


@dataclass(frozen=True)
class Written:
    """What became of a text.

    Args:
        decision: of the gate.
        item: the new memory; None if nothing was written.
        removed: ids whose vectors are not wanted any more.
    """

    decision: Decision
    item: MemoryItem | None = None
    removed: tuple[str, ...] = ()


class Derived(Protocol):
    """What was made from memories and must go when they go, such as lines of a profile."""

    def forget(self, connection: Connection, ids: Collection[str]) -> None:
        """Remove what came from these items, in their own transaction."""
        ...


class Operations:
    """The memories of one database.

    Args:
        database: where the rows are.
        vectors: where the vectors are.
        settings: thresholds.
        now: the clock, UTC.
        derived: told of every deletion.
    """

    def __init__(
        self,
        database: Database,
        vectors: VectorStore,
        settings: MemorySettings,
        *,
        now: Callable[[], datetime],
        derived: Sequence[Derived] = (),
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._settings = settings
        self._now = now
        self._derived = derived
        self._lexicon = Lexicon()
        self._links = Links()
        self._writes = 0

    async def open(self) -> None:
        """Make what is not there yet, and bring vectors kept elsewhere in line with the rows."""

        def prepare(connection: Connection) -> None:
            records.begin_write(connection)
            records.lock(connection, "tables")
            act_for_upkeep(connection)
            self._lexicon.way = prepare_words(connection)
            self._vectors.prepare(connection)

        await schema.ready(self._database)
        await self._database.run(lambda connection: retry_while_locked(lambda: prepare(connection)))
        await self._database.outside(self._vectors.index)
        if not self._vectors.transactional:
            await self._reconcile()

    @property
    def transactional(self) -> bool:
        """Whether the vectors are in the rows' own database."""
        return self._vectors.transactional

    async def close(self) -> None:
        """Move the write-ahead log into the database and close it."""
        await self._database.checkpoint()
        await self._database.close()
        self._vectors.close()

    async def read(self, work: Callable[[Connection], T], caller: Caller | None = None) -> T:
        """Run ``work`` on one state of the database.

        Args:
            caller: on whose behalf; the database may show nobody's rows without one (``store.row_security``).
        """

        def transaction(connection: Connection) -> T:
            records.begin_read(connection)
            _act_for(connection, caller)
            return work(connection)

        return await self._database.run(transaction)

    async def write(self, work: Callable[[Connection], T], caller: Caller) -> T:
        """Run ``work`` on behalf of ``caller`` in one transaction that may write."""

        def transaction(connection: Connection) -> T:
            records.begin_write(connection)
            _act_for(connection, caller)
            return work(connection)

        return await self._written(transaction)

    async def _keep_up(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which concerns everybody's rows, in one transaction."""

        def transaction(connection: Connection) -> T:
            records.begin_write(connection)
            act_for_upkeep(connection)
            return work(connection)

        return await self._written(transaction)

    async def _written(self, transaction: Callable[[Connection], T]) -> T:
        result = await self._database.run(transaction)
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_CHECKPOINTS == 0:
            await self._database.checkpoint()
        return result

    def time(self) -> datetime:
        """Now, as exact as the database keeps it."""
        return records.from_ms(records.to_ms(self._now()))

    async def add(
        self, caller: Caller, passed: Passed, item: MemoryItem, embedded: Embedded | None, *, explicit: bool
    ) -> Written:
        """Decide about ``item`` beside what is there and write it, as one step for all processes.

        Args:
            item: as it would be stored, without an embedding.
            embedded: None if there is no vector yet.
            explicit: the user asked for it in words.
        """
        calibration = embedded.calibration if embedded else None
        if passed.trust == "quarantined":
            embedded = None
        session = caller.session_id or f"user {caller.user_id}"
        since = item.created_at - timedelta(hours=self._settings.extraction_window_hours)

        def work(connection: Connection) -> Written:
            extracted = 0
            if not explicit:
                records.lock(connection, f"extractions of {session}")
                extracted = records.extractions(connection, session, since)
            place = records.lock_place(connection, item.scope, item.scope_id)
            decision = gate.decide(
                passed.content,
                self._neighbours(
                    connection,
                    caller,
                    item.scope,
                    passed.content,
                    embedded,
                    {(item.scope, item.scope_id): (place.key, place.changes)},
                ),
                extractions=extracted,
                explicit=explicit,
                settings=self._settings,
                calibration=calibration,
                trust=passed.trust,
                subject=item.subject,
            )
            if isinstance(decision, Rejected | Duplicate):
                return Written(decision)
            place = records.changed(connection, place)
            replaced = decision.all if isinstance(decision, Superseded) else ()
            for each in replaced:
                old = records.new_version(
                    each,
                    item.created_at,
                    status="superseded",
                    superseded_by=item.id,
                    valid_until=item.created_at,
                )
                records.rewrite(connection, old, place)
                records.record(connection, "superseded", caller.user_id, item.created_at, old)
            removed = tuple(each.id for each in replaced)
            stored = replace(item, embedding=self._at_once(embedded))
            records.write(connection, stored, place)
            records.record(connection, "stored", caller.user_id, item.created_at, stored)
            if not explicit:
                records.record_extraction(connection, session, item.created_at, since)
            if self._vectors.transactional:
                self._vectors.remove(connection, removed)
                if embedded is not None:
                    self._vectors.put(connection, [Entry(stored, embedded.embedding, embedded.vector)])
            return Written(decision, stored, removed)

        written = await self.write(work, caller)
        if not self._vectors.transactional:
            written = await self._follow(written, embedded)
        return written

    def _at_once(self, embedded: Embedded | None) -> Embedding | None:
        """What the row says of its vector: that of a store of its own is written later and said then."""
        return embedded.embedding if embedded is not None and self._vectors.transactional else None

    async def _follow(self, written: Written, embedded: Embedded | None) -> Written:
        if written.removed:
            await self._database.run(lambda connection: self._vectors.remove(connection, written.removed))
        if written.item is None or embedded is None:
            return written
        await self.put_vectors([(written.item, embedded)])
        return replace(written, item=replace(written.item, embedding=embedded.embedding))

    async def decide(
        self, caller: Caller, passed: Passed, scope: Scope, embedded: Embedded | None
    ) -> Decision:
        """What the gate would say of a text that the user asks to keep, without keeping it."""
        return await self.read(
            lambda connection: gate.decide(
                passed.content,
                self._neighbours(connection, caller, scope, passed.content, embedded),
                extractions=0,
                explicit=True,
                settings=self._settings,
                calibration=embedded.calibration if embedded else None,
                trust=passed.trust,
            ),
            caller,
        )

    async def extractions(self, caller: Caller) -> int:
        """How many memories the agent saved of its own accord in this session and window."""
        session = caller.session_id or f"user {caller.user_id}"
        since = self.time() - timedelta(hours=self._settings.extraction_window_hours)
        return await self.read(lambda connection: records.extractions(connection, session, since), caller)

    def _neighbours(
        self,
        connection: Connection,
        caller: Caller,
        scope: Scope,
        content: str,
        embedded: Embedded | None,
        place: Mapping[tuple[str, str], tuple[int, int]] | None = None,
    ) -> list[Neighbour]:
        parts = reach(caller, "read", scope)
        words = indexed_words(content)
        found = self._lexicon.find(
            connection, words, parts, caller.user_id, now_ms=records.to_ms(self.time()), known=place
        )
        lexical: dict[str, float] = {}
        for part in found:
            slots = part.best_by_words(self._settings.related_words, _NEIGHBOURS)
            lexical |= {part.shelf.id(slot): float(part.lexical[slot]) for slot in slots}
        cosines: dict[str, float] = {}
        query = None
        if embedded is not None:
            least = self._settings.related_from(embedded.calibration)
            query = VectorQuery(embedded.vector, embedded.embedding, parts, caller.user_id, at_least=least)
            cosines = dict(islice(self._vectors.nearest(connection, query), _NEIGHBOURS))
        near = lexical.keys() | cosines.keys()
        items = {
            item.id: (item, same)
            for item, same in records.alike(connection, content, near, parts, caller.user_id)
        }
        if query is not None and (unknown := items.keys() - cosines.keys()):
            cosines |= self._vectors.cosines(connection, query, unknown)
        for part in found:
            for item_id in items.keys() - lexical.keys():
                slot = part.shelf.slot(item_id)
                if slot is not None:
                    lexical[item_id] = float(part.lexical[slot])
        return [
            Neighbour(item, cosines.get(key), lexical.get(key), may(caller, "edit", item), same)
            for key, (item, same) in items.items()
            if item.status == "active"
        ]

    async def search(
        self,
        caller: Caller,
        query: str,
        embedded: Embedded | None,
        measure: Measure,
        *,
        top_k: int | None,
        memory_type: MemoryType | None,
        scope: Scope | None,
    ) -> list[Ranked]:
        """The best of all that the caller may read, best first."""
        parts = reach(caller, "read", scope)
        words = [] if isinstance(measure, BareCosine) else asked_words(query)

        def work(connection: Connection) -> list[Ranked]:
            now_ms = records.to_ms(self.time())
            found = self._lexicon.find(
                connection, words, parts, caller.user_id, now_ms=now_ms, memory_type=memory_type
            )
            asked, at_hand = None, None
            if embedded is not None:
                about = VectorQuery(
                    embedded.vector, embedded.embedding, parts, caller.user_id, memory_type=memory_type
                )
                at_hand = self._vectors.at_hand(connection, about)
                asked = _Asked(self._vectors, connection, about)
            if at_hand is None:
                similar = dict(best(found, asked, measure, top_k))
            else:
                similar = dict(best_at_hand(found, at_hand, self._links, measure, top_k))
            items = records.by_ids(connection, similar.keys(), parts, caller.user_id)
            return rank(((item, similar[item.id]) for item in items.values()), top_k)

        return await self.read(work, caller)

    async def find(self, caller: Caller, item_id: str, operation: Operation) -> MemoryItem | None:
        """The item, if the caller may do this with it."""
        return await self.read(
            lambda connection: records.find(connection, item_id, caller, operation), caller
        )

    async def change(
        self,
        caller: Caller,
        item_id: str,
        changes: Mapping[str, Any],
        embedded: Embedded | None,
    ) -> MemoryItem | None:
        """Write the item's next version; None if there is none that the caller may edit."""

        def work(connection: Connection) -> tuple[MemoryItem, MemoryItem] | None:
            found = _held(connection, item_id, caller, "edit")
            if found is None:
                return None
            old, place = found
            place = records.changed(connection, place)
            now = self.time()
            item = records.new_version(old, now, **{"embedding": None, **changes})
            searched = item.status == "active" and item.trust != "quarantined"
            kept = embedded if searched else None
            item = replace(item, embedding=self._at_once(kept))
            records.rewrite(connection, item, place)
            action: records.Action = "updated"
            if item.status != old.status:
                action = "restored" if item.status == "active" else "archived"
            records.record(connection, action, caller.user_id, now, item)
            if self._vectors.transactional:
                self._vectors.remove(connection, [item.id])
                if kept is not None:
                    self._vectors.put(connection, [Entry(item, kept.embedding, kept.vector)])
            return old, item

        done = await self.write(work, caller)
        if done is None:
            return None
        _, item = done
        if not self._vectors.transactional:
            await self._database.run(lambda connection: self._vectors.remove(connection, [item.id]))
            if embedded is not None and item.status == "active" and item.trust != "quarantined":
                await self.put_vectors([(item, embedded)])
                item = replace(item, embedding=embedded.embedding)
        return item

    async def delete(self, caller: Caller, item_id: str) -> tuple[str, ...] | None:
        """Remove the item, what it had superseded, their vectors, words and texts; the free space is overwritten.

        Returns:
            the ids that are gone; None if there is no such item that the caller may delete.
        """

        def work(connection: Connection) -> tuple[str, ...] | None:
            found = _held(connection, item_id, caller, "delete")
            if found is None:
                return None
            item, place = found
            place = records.changed(connection, place)
            former = [
                each
                for each in records.superseded_by(connection, [item.id])
                if (each.scope, each.scope_id) == (item.scope, item.scope_id) and may(caller, "delete", each)
            ]
            going = [item, *former]
            ids = tuple(each.id for each in going)
            records.remove(connection, ids, place)
            now = self.time()
            last = [records.new_version(each, now) for each in going]
            records.record(connection, "deleted", caller.user_id, now, *last)
            for derived in self._derived:
                derived.forget(connection, ids)
            if self._vectors.transactional:
                self._vectors.remove(connection, ids)
            return ids

        gone = await self.write(work, caller)
        if gone is not None:
            if not self._vectors.transactional:
                await self._database.run(lambda connection: self._vectors.remove(connection, gone))
            await self._database.compact()
        return gone

    async def without_vector(
        self,
        caller: Caller | None,
        embedding: Embedding,
        *,
        any_model: bool,
        limit: int,
        but_of: Collection[str] = (),
    ) -> tuple[list[MemoryItem], int]:
        """Some of the caller's items that have no vector, or none of this model, and how many there are in all.

        Args:
            caller: None for everybody's.
            but_of: authors whose items are left out.
        """

        def work(connection: Connection) -> tuple[list[MemoryItem], int]:
            where = records.not_embedded_with(embedding, any_model=any_model, but_of=but_of)
            if caller is not None:
                where = and_(_concerns(caller), where)
            return records.items(connection, where, limit=limit), records.count(connection, where)

        return await (self._keep_up(work) if caller is None else self.read(work, caller))

    async def put_vectors(self, embedded: Sequence[tuple[MemoryItem, Embedded]]) -> int:
        """Keep the vectors of items that are still as they were; how many those are."""
        if not embedded:
            return 0
        embedding = embedded[0][1].embedding
        versions = {item.id: item.version for item, _ in embedded}

        def work(connection: Connection) -> int:
            done = records.mark_embedded(connection, versions, embedding)
            # In a store of its own a vector is there before the row is committed that says so, never the reverse.
            self._vectors.put(
                connection,
                [Entry(item, each.embedding, each.vector) for item, each in embedded if item.id in done],
            )
            return len(done)

        return await self._keep_up(work)

    async def _reconcile(self) -> None:
        """Forget vectors that are not of the rows as they are now, and mark rows whose vector is missing."""

        def work(connection: Connection) -> None:
            rows, kept = records.embedded(connection), self._vectors.made_from(connection)
            wrong = {each for each, source in kept.items() if source not in (None, rows.get(each))}
            wrong |= kept.keys() - rows.keys()
            self._vectors.remove(connection, wrong)
            records.unmark_embedded(connection, (rows.keys() - kept.keys()) | (wrong & rows.keys()))

        await self._keep_up(work)

    async def mark_used(self, used: Mapping[str, datetime]) -> None:
        """Write when items were last used."""
        await self._keep_up(lambda connection: records.mark_used(connection, used))

    async def check(self) -> None:
        """That the rows, the lexical index and the vectors agree.

        Raises:
            RunError: they do not; says which.
        """

        def work(connection: Connection) -> None:
            if connection.dialect.name == "sqlite":
                try:
                    connection.exec_driver_sql(
                        "INSERT INTO memory_words(memory_words, rank) VALUES ('integrity-check', 1)"
                    )
                except DatabaseError as error:
                    raise RunError(
                        "the lexical index of the memories does not agree with their rows",
                        remedy="`zeus memory reindex` makes it anew.",
                    ) from error
            wrong = records.embedded_ids(connection) ^ self._vectors.ids(connection)
            if wrong:
                raise RunError(
                    f"{len(wrong)} memories have a row or a vector without the other",
                    remedy="`zeus memory reindex` makes the vectors anew.",
                )

        await self._keep_up(work)

    async def rebuild_words(self) -> None:
        """Make the lexical index anew from the rows (SQLite; elsewhere it is part of them)."""

        def work(connection: Connection) -> None:
            if connection.dialect.name == "sqlite":
                records.rebuild_words(connection)

        await self._keep_up(work)

    async def figures(self, caller: Caller) -> dict[str, dict[str, int]]:
        """How many memories the caller may read, by what."""
        parts = reach(caller, "read")

        def work(connection: Connection) -> dict[str, dict[str, int]]:
            where = and_(
                ITEM.c.place.in_(records.places(connection, parts)),
                records.reach_filter(parts, caller.user_id),
            )
            found: dict[str, dict[str, int]] = {}
            for name in ("status", "scope", "memory_type", "source", "trust", "embedding_model"):
                column = ITEM.c[name]
                counted = and_(where, ITEM.c.status == "active") if name != "status" else where
                query = select(func.coalesce(column, "none"), func.count()).where(counted).group_by(column)
                rows = connection.execute(query).all()
                found[name] = dict(sorted((str(row[0]), int(row[1])) for row in rows))
            return found

        return await self.read(work, caller)


@dataclass(frozen=True)
class _Asked:
    """A store's vectors within one query."""

    store: VectorStore
    connection: Connection
    query: VectorQuery

    def nearest(self, at_least: float) -> Iterator[tuple[str, float]]:
        return self.store.nearest(self.connection, replace(self.query, at_least=at_least))

    def cosines(self, ids: Collection[str]) -> Mapping[str, float]:
        return self.store.cosines(self.connection, self.query, ids)


def _act_for(connection: Connection, caller: Caller | None) -> None:
    if caller is not None:
        act_for(connection, caller.user_id, caller.project_id, caller.role)


def _held(
    connection: Connection, item_id: str, caller: Caller, operation: Operation
) -> tuple[MemoryItem, records.Place] | None:
    """The item, if the caller may do this with it, and its place, which nobody else changes from here on."""
    item = records.find(connection, item_id, caller, operation)
    if item is None:
        return None
    place = records.lock_place(connection, item.scope, item.scope_id)
    item = records.find(connection, item_id, caller, operation)
    return None if item is None else (item, place)


def _concerns(caller: Caller) -> ColumnElement[bool]:
    parts: tuple[Reach, ...] = reach(caller, "read")
    return or_(ITEM.c.created_by == caller.user_id, records.reach_filter(parts, caller.user_id))
