"""What memory does to the database, each in one transaction: add, change, search; removing and late vectors are apart.

Nothing here waits for a model: vectors come from the caller, made outside the transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.memory import records
from zeus_runtime.memory.admission import gate
from zeus_runtime.memory.admission.decisions import (
    Decision,
    Duplicate,
    Neighbour,
    Passed,
    Rejected,
    Superseded,
)
from zeus_runtime.memory.agreement import check, reconcile
from zeus_runtime.memory.database import MemoryDatabase, for_everybody
from zeus_runtime.memory.deferred_decision import SecondLook
from zeus_runtime.memory.embedding import Embedded
from zeus_runtime.memory.embedding_backfill import LateVectors
from zeus_runtime.memory.items import Caller, Embedding, Holds, MemoryItem, MemorySettings, MemoryType, Scope
from zeus_runtime.memory.neighbours import MOST_NEAR, near, neighbours
from zeus_runtime.memory.permissions import Operation, reach
from zeus_runtime.memory.removal import Derived, Removal, forget_in_context
from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets
from zeus_runtime.memory.retrieval.lexical import Lexicon
from zeus_runtime.memory.retrieval.ranked_search import Question, ranked_in_time, ranked_search
from zeus_runtime.memory.retrieval.ranking import Ranked
from zeus_runtime.memory.retrieval.search import Measure
from zeus_runtime.memory.retrieval.search_index import SearchIndex
from zeus_runtime.memory.superseding import supersede
from zeus_runtime.memory.vectors import Entry, VectorStore
from zeus_runtime.memory.writes import named_memories, stays_beside, unless_outdated
from zeus_runtime.store.word_entries import prepare_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.admission.comparison import OfAKind
    from zeus_runtime.memory.retrieval.time_words import Period
    from zeus_runtime.memory.undoing import Undone
    from zeus_runtime.memory.writes import Elsewhere, PastMemory
    from zeus_runtime.store.database import Database


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AddedMemory:
    """What became of a text.

    Args:
        decision: of the gate.
        item: the new memory; None if nothing was written.
        removed: ids whose vectors are not wanted any more.
        near: memories that are near it and stay beside it, newest first.
    """

    decision: Decision
    item: MemoryItem | None = None
    removed: tuple[str, ...] = ()
    near: tuple[MemoryItem, ...] = ()


class Operations:
    """The memories of one database.

    Args:
        database: where the rows are.
        vectors: where the vectors are.
        settings: thresholds.
        now: the clock, UTC.
        derived: told of every deletion.
        of_a_kind: for the gate, what knows values of one kind.
        withheld: a search, and the decision about a new text, are as if memories that hold one were not there.
    """

    def __init__(
        self,
        database: Database,
        vectors: VectorStore,
        settings: MemorySettings,
        *,
        now: Callable[[], datetime],
        derived: Sequence[Derived] = (),
        of_a_kind: OfAKind | None = None,
        withheld: HeldSecrets | None = None,
    ) -> None:
        self.database: Final = MemoryDatabase(database, now)
        self.removal: Final = Removal(self.database, vectors, derived)
        self.late_vectors: Final = LateVectors(self.database, vectors)
        self._index = SearchIndex(vectors, Lexicon(withheld))
        self._vectors = vectors
        self._settings = settings
        self._of_a_kind = of_a_kind
        self.second_look: Final = SecondLook(self.database, self._index, vectors, settings, of_a_kind)

    async def open(self) -> None:
        """Make what is not there yet, and bring vectors kept elsewhere in line with the rows."""

        def prepare(connection: Connection) -> None:
            self._index.lexicon.way = prepare_words(connection)
            self._vectors.prepare(connection)

        await self.database.open(prepare)
        # One place in a transaction: other processes write in between, and after a kill the next process continues.
        while (count := await self.database.keep_up(records.reindexed)) >= 0:
            _log.info("the words of %d memories were indexed anew", count)
        # After the tables exist, and in no transaction: PostgreSQL builds an index `CONCURRENTLY` only so.
        await self.database.outside(self._vectors.index)
        if not self._vectors.transactional:
            # A process that was killed between a row's commit and its vector's left the two unequal.
            await self.database.keep_up(lambda connection: reconcile(connection, self._vectors))

    @property
    def transactional(self) -> bool:
        """Whether the vectors are in the rows' own database."""
        return self._vectors.transactional

    async def close(self) -> None:
        """Move the write-ahead log into the database and close it."""
        await self.database.close()
        self._vectors.close()

    async def add(
        self,
        caller: Caller,
        passed: Passed,
        item: MemoryItem,
        embedded: Embedded | None,
        *,
        explicit: bool,
        replaces: Sequence[str] | None = None,
        answer: str | None = None,
        along: Callable[[Connection, AddedMemory], None] | None = None,
        beside: frozenset[str] = frozenset(),
        elsewhere: Elsewhere | None = None,
    ) -> AddedMemory:
        """Decide about ``item`` against the stored memories and write it, as one atomic step for all processes.

        Args:
            item: as it would be stored, without an embedding.
            embedded: None without a vector yet.
            explicit: the user asked for it in words.
            replaces: the ids that a model or a person named; None: the rules decide.
            answer: the model's answer that saves it.
            along: what the same transaction writes besides, of the result.
            beside: ids of memories that it does not affect.
            elsewhere: what it had where it comes from.
        """
        calibration = embedded.calibration if embedded else None
        if passed.trust == "quarantined":
            # A quarantined text is never found, so it gets no vector.
            embedded = None
        session = caller.session_id or f"user {caller.user_id}"
        since = item.updated_at - timedelta(hours=self._settings.extraction_window_hours)

        tried = False

        def work(connection: Connection) -> AddedMemory:
            written = decided(connection)
            if along is not None:
                along(connection, written)
            return written

        def decided(connection: Connection) -> AddedMemory:
            nonlocal tried
            if tried:  # the earlier try was not committed: the database was locked
                self._index.lexicon.doubt()
            tried = True
            extracted = 0
            if not explicit:
                # Before the place: every transaction that takes both locks takes them in this order, so no two wait
                # for each other.
                records.lock(connection, f"extractions of {session}")
                extracted = records.extractions(connection, session, since, answer)
            # From here on no other process writes to the place, so no second text with the same words passes the
            # search below.
            place = records.lock_place(connection, item.scope, item.scope_id)
            named = None if replaces is None else _named(connection, caller, item, replaces)
            if isinstance(named, Rejected):
                return AddedMemory(named)
            known = self._neighbours(connection, caller, item.scope, passed.content, embedded, place)
            known = [each for each in known if not stays_beside(beside, each.item, passed.content)]
            decision = gate.decide(
                passed.content,
                known,
                extractions=extracted,
                explicit=explicit,
                settings=self._settings,
                calibration=calibration,
                trust=passed.trust,
                subject=item.subject,
                holds=Holds(item.valid_from, item.valid_until, item.updated_at),
                of_a_kind=self._of_a_kind,
                replaces=named,
            )
            # Only an imported text was said before it is stored.
            if item.said_at < item.updated_at:
                decision = unless_outdated(decision, item.said_at)
            if isinstance(decision, Duplicate):
                return self._repeated(connection, caller, item, decision, place)
            if isinstance(decision, Rejected):
                return AddedMemory(decision)
            if not explicit:
                records.record_extraction(connection, session, item.updated_at, since, answer)
            written = self._written(
                connection, caller, item, embedded, decision, place, elsewhere, settled=replaces is not None
            )
            if passed.trust == "quarantined":
                return written
            kept = near(known, decision, item.subject, self._settings, calibration)
            records.link(connection, item.id, [each.id for each in kept])
            return replace(written, near=kept)

        try:
            written = await self.database.write(work, caller, at_hand=self._is_at_hand(caller, item.scope))
        # A cancellation too: `follow` has noted the item in memory, and it is not known whether the commit came
        # before it.
        except BaseException:
            self._index.lexicon.doubt()
            raise
        if not self._vectors.transactional:
            written = await self._follow(written, embedded)
        return written

    def _written(
        self,
        connection: Connection,
        caller: Caller,
        item: MemoryItem,
        embedded: Embedded | None,
        decision: Decision,
        before: records.MemoryPlace,
        elsewhere: Elsewhere | None,
        *,
        settled: bool,
    ) -> AddedMemory:
        """Write ``item``, in the place of those that it supersedes, with histories and vectors."""
        place = records.changed(connection, before)
        replaced = decision.all if isinstance(decision, Superseded) else ()
        stored = replace(item, embedding=self._at_once(embedded))
        key = records.write(connection, stored, place, settled=settled)
        removed = self._supersede(connection, caller, replaced, item, item.updated_at, place)
        if elsewhere is None:
            records.record(connection, "stored", caller.user_id, item.updated_at, stored)
        else:
            _restore(connection, caller, stored, elsewhere)
        if self._vectors.transactional and embedded is not None:
            self._vectors.put(connection, [Entry(stored, embedded.embedding, embedded.vector)])
        if key is not None and stored.is_searchable:
            # The counts from before this change: memory takes part only if it was up to date then.
            whose, known = caller.user_id, (before.key, before.changes)
            self._index.lexicon.follow(whose, known, removed, key, stored)
        return AddedMemory(decision, stored, removed)

    def _repeated(
        self,
        connection: Connection,
        caller: Caller,
        item: MemoryItem,
        decision: Duplicate,
        before: records.MemoryPlace,
    ) -> AddedMemory:
        """Let the memory that says it already take the place of those that were named."""
        removed: tuple[str, ...] = ()
        if decision.replaced:
            place = records.changed(connection, before)
            removed = self._supersede(
                connection, caller, decision.replaced, decision.of, item.updated_at, place
            )
            # `follow` takes in a new item only, so memory still shows the replaced ones as active.
            self._index.lexicon.doubt()
        # A call that is repeated, as after a kill, gets the answer that it had.
        of = decision.of.id
        linked = records.linked(connection, [of], reach(caller, "read", item.scope), caller.user_id)
        return AddedMemory(decision, removed=removed, near=linked.get(of, ())[:MOST_NEAR])

    def _supersede(
        self,
        connection: Connection,
        caller: Caller,
        replaced: Sequence[MemoryItem],
        by: MemoryItem,
        at: datetime,
        place: records.MemoryPlace,
    ) -> tuple[str, ...]:
        since = by.valid_from
        if replaced and since is not None and since > at:
            self._index.lexicon.doubt()  # they stay active, so what is in memory of them is out of date
        return supersede(
            connection, self._vectors, caller, replaced, by=by.id, at=at, place=place, since=since
        )

    def _is_at_hand(self, caller: Caller, scope: Scope | None) -> bool:
        return self._index.is_at_hand(reach(caller, "read", scope), caller.user_id)

    def _at_once(self, embedded: Embedded | None) -> Embedding | None:
        """The row's embedding; None for vectors in a separate store, which are written and recorded later."""
        return embedded.embedding if embedded is not None and self._vectors.transactional else None

    async def _follow(self, written: AddedMemory, embedded: Embedded | None) -> AddedMemory:
        # After the commit: a process killed here leaves vectors without rows, which the next `open` removes.
        if written.removed:
            await self.database.run(lambda connection: self._vectors.remove(connection, written.removed))
        if written.item is None or embedded is None:
            return written
        await self.late_vectors.put([(written.item, embedded)])
        return replace(written, item=replace(written.item, embedding=embedded.embedding))

    async def decide(
        self, caller: Caller, passed: Passed, scope: Scope, embedded: Embedded | None
    ) -> Decision:
        """What the gate would say of a text that the user asks to keep, without keeping it."""
        return await self.database.read(
            lambda connection: gate.decide(
                passed.content,
                self._neighbours(connection, caller, scope, passed.content, embedded),
                extractions=0,
                explicit=True,
                settings=self._settings,
                calibration=embedded.calibration if embedded else None,
                trust=passed.trust,
                holds=Holds(None, None, self.database.time()),
                of_a_kind=self._of_a_kind,
            ),
            caller,
            at_hand=self._is_at_hand(caller, scope),
        )

    async def extractions(self, caller: Caller) -> int:
        """How many memories the agent saved without being asked in this session and window."""
        session = caller.session_id or f"user {caller.user_id}"
        since = self.database.time() - timedelta(hours=self._settings.extraction_window_hours)
        return await self.database.read(
            lambda connection: records.extractions(connection, session, since), caller
        )

    async def take_extraction(self, caller: Caller, answer: str | None) -> int:
        """Count one more extraction for a backend elsewhere, if one is left; how many there were before."""
        session = caller.session_id or f"user {caller.user_id}"
        now = self.database.time()
        since = now - timedelta(hours=self._settings.extraction_window_hours)

        def work(connection: Connection) -> int:
            records.lock(connection, f"extractions of {session}")
            used = records.extractions(connection, session, since, answer)
            # Counted before the backend stores: two processes at the limit cannot both pass. `give_back_extraction`
            # undoes it.
            if used < self._settings.max_extractions:
                records.record_extraction(connection, session, now, since, answer)
            return used

        return await self.database.write(work, caller)

    async def give_back_extraction(self, caller: Caller, answer: str | None) -> None:
        """Take back the last one of ``take_extraction``: nothing was stored."""
        session = caller.session_id or f"user {caller.user_id}"

        def work(connection: Connection) -> None:
            records.lock(connection, f"extractions of {session}")
            records.forget_extraction(connection, session, answer)

        await self.database.write(work, caller)

    def _neighbours(
        self,
        connection: Connection,
        caller: Caller,
        scope: Scope,
        content: str,
        embedded: Embedded | None,
        place: records.MemoryPlace | None = None,
    ) -> list[Neighbour]:
        return neighbours(
            connection,
            self._index,
            caller,
            scope,
            content,
            embedded,
            self._settings,
            now_ms=records.to_ms(self.database.time()),
            place=place,
        )

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
        times: Sequence[Period] = (),
    ) -> list[Ranked]:
        """The best of all that the caller may read, best first.

        Args:
            times: that the query names, beside its words; then ``top_k`` is a number.
        """
        question = Question(
            caller,
            query,
            embedded,
            measure,
            now_ms=records.to_ms(self.database.time()),
            memory_type=memory_type,
            scope=scope,
        )
        return await self.database.read(
            lambda connection: (
                ranked_search(connection, self._index, question, top_k)
                if not times or top_k is None
                else ranked_in_time(connection, self._index, question, times, top_k)
            ),
            caller,
            at_hand=self._is_at_hand(caller, scope),
        )

    async def find(self, caller: Caller, item_id: str, operation: Operation) -> MemoryItem | None:
        """The item, if the caller may do this with it."""
        return await self.database.read(
            lambda connection: records.find(connection, item_id, caller, operation), caller
        )

    async def change(
        self,
        caller: Caller,
        item_id: str,
        changes: Mapping[str, Any],
        embedded: Embedded | None,
        *,
        along: Callable[[Connection, MemoryItem], None] | None = None,
    ) -> MemoryItem | None:
        """Write the item's next version; None if there is none that the caller may edit.

        Args:
            along: what the same transaction writes besides, of the item as it was; where that raises, all stays.
        """

        def work(connection: Connection) -> MemoryItem | None:
            found = records.held(connection, item_id, caller, "edit")
            if found is None:
                return None
            old, place = found
            if along is not None:
                along(connection, old)
            place = records.changed(connection, place)
            now = self.database.time()
            # The old vector is of the old text, so the row names none until the new one is written.
            item = records.new_version(old, now, **{"embedding": None, **changes})
            kept = embedded if item.is_searchable else None
            item = replace(item, embedding=self._at_once(kept))
            forget_in_context(connection, self._vectors, item)
            records.rewrite(connection, item, place)
            records.record(connection, records.action_of(old, item), caller.user_id, now, item)
            if self._vectors.transactional:
                # Also if no vector follows: the old one must not be found any more.
                self._vectors.remove(connection, [item.id])
                if kept is not None:
                    self._vectors.put(connection, [Entry(item, kept.embedding, kept.vector)])
            return item

        item = await self.database.write(work, caller)
        if item is None:
            return None
        if not self._vectors.transactional:
            await self.database.run(lambda connection: self._vectors.remove(connection, [item_id]))
            if embedded is not None and item.is_searchable:
                await self.late_vectors.put([(item, embedded)])
                item = replace(item, embedding=embedded.embedding)
        return item

    async def keep_past(self, write: PastMemory) -> MemoryItem:
        """Write an archived or superseded item with its history and links."""
        caller, item = write.caller, write.item

        def work(connection: Connection) -> MemoryItem:
            place = records.changed(connection, records.lock_place(connection, item.scope, item.scope_id))
            records.write(connection, item, place, settled=True)
            _restore(connection, caller, item, write.elsewhere)
            return item

        try:
            return await self.database.write(work, caller)
        finally:
            self._index.lexicon.doubt()

    async def undo(self, caller: Caller, batch_id: str) -> Undone:
        """Undo a batch of changes (``undoing.undo_batch``)."""
        from zeus_runtime.memory.undoing import undo_batch

        undone = await self.database.write(
            lambda connection: undo_batch(connection, self.removal, caller, batch_id, self.database.time()),
            caller,
        )
        self._index.lexicon.doubt()
        if not self._vectors.transactional:
            gone = (*undone.removed, *undone.restored)
            await self.database.run(lambda connection: self._vectors.remove(connection, gone))
        if undone.removed:
            await self.database.compact()
        return undone

    async def mark_used(self, used: Mapping[str, datetime]) -> None:
        """Write when items were last used."""
        await self.database.keep_up(lambda connection: records.mark_used(connection, used))

    async def check(self) -> None:
        """That the rows, the lexical index and the vectors agree.

        Raises:
            RunError: they do not; says which.
        """

        await self.database.keep_up(lambda connection: check(connection, self._vectors))

    async def rebuild_words(self) -> None:
        """Make the lexical index anew from the rows (SQLite; elsewhere it is part of them)."""

        def work(connection: Connection) -> None:
            if connection.dialect.name == "sqlite":
                records.rebuild_words(connection)

        await self.database.keep_up(work)

    async def figures(self, caller: Caller) -> dict[str, dict[str, int]]:
        """How many memories the caller may read, by what."""
        parts = reach(caller, "read")

        return await self.database.read(
            lambda connection: records.figures(connection, parts, caller.user_id), caller
        )


def _restore(connection: Connection, caller: Caller, item: MemoryItem, elsewhere: Elsewhere) -> None:
    """Give an item that is new here the links and the history that it had elsewhere; the import is its last change."""
    records.link(connection, item.id, elsewhere.near)
    if elsewhere.history:
        with for_everybody(connection, caller):  # other users made some of these changes
            records.restore_history(connection, item, elsewhere.history)
    records.record(connection, "imported", caller.user_id, item.updated_at, item)


def _named(
    connection: Connection, caller: Caller, item: MemoryItem, ids: Sequence[str]
) -> list[MemoryItem] | Rejected:
    wanted = list(dict.fromkeys(each.strip() for each in ids if each.strip()))
    return named_memories(
        caller, item, wanted, records.by_ids(connection, wanted, reach(caller, "read"), caller.user_id)
    )
