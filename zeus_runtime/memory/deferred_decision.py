"""The gate's decision taken again when a memory's vector comes: it was stored by its words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.memory import records
from zeus_runtime.memory.admission import gate
from zeus_runtime.memory.admission.decisions import Duplicate, Superseded
from zeus_runtime.memory.items import Caller, Holds
from zeus_runtime.memory.neighbours import near, neighbours
from zeus_runtime.memory.permissions import may
from zeus_runtime.memory.superseding import supersede

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.admission.comparison import OfAKind
    from zeus_runtime.memory.database import MemoryDatabase
    from zeus_runtime.memory.embedding import Embedded
    from zeus_runtime.memory.items import MemoryItem, MemorySettings
    from zeus_runtime.memory.retrieval.search_index import SearchIndex
    from zeus_runtime.memory.vectors import VectorStore


class SecondLook:
    """What becomes of memories that were stored without a vector.

    Args:
        database: where the rows are.
        index: what finds the neighbours.
        vectors: where the vectors are.
        settings: thresholds.
        of_a_kind: what knows values of one kind.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        index: SearchIndex,
        vectors: VectorStore,
        settings: MemorySettings,
        of_a_kind: OfAKind | None,
    ) -> None:
        self._database = database
        self._index = index
        self._vectors = vectors
        self._settings = settings
        self._of_a_kind = of_a_kind

    async def at(self, caller: Caller | None, item: MemoryItem, embedded: Embedded) -> None:
        """Let ``item`` replace the memory it changes, or give way to an older memory that says the same.

        Only an item as first stored: an item that a person edited since stays beside the others.

        Args:
            caller: who embeds it; None for the maintenance of all users' memories.
        """
        whose = _on_behalf(caller, item)
        if item.version > 1 or whose is None:
            return

        def work(connection: Connection) -> tuple[str, ...]:
            found = records.held(connection, item.id, whose, "edit")
            # While the model embedded it, a person may have changed or deleted it, or another process may have
            # decided.
            if found is None or found[0].version != item.version or not found[0].is_searchable:
                return ()
            return self._decided(connection, whose, found[0], found[1], embedded)

        removed = await self._database.write(work, whose)
        if removed and not self._vectors.transactional:
            await self._database.run(lambda connection: self._vectors.remove(connection, removed))

    def _decided(
        self,
        connection: Connection,
        caller: Caller,
        item: MemoryItem,
        place: records.MemoryPlace,
        embedded: Embedded,
    ) -> tuple[str, ...]:
        now = self._database.time()
        known = neighbours(
            connection,
            self._index,
            caller,
            item.scope,
            item.content,
            embedded,
            self._settings,
            now_ms=records.to_ms(now),
            place=place,
        )
        written = records.written_order(connection, [item.id, *(each.item.id for each in known)])
        since = item.said_at, written[item.id]
        # Only against older ones: of two memories that wait for vectors, the later one decides, whichever is embedded
        # first.
        older = [each for each in known if (each.item.said_at, written[each.item.id]) < since]
        decision = gate.decide(
            item.content,
            older,
            extractions=0,
            explicit=True,
            settings=self._settings,
            calibration=embedded.calibration,
            trust=item.trust,
            subject=item.subject,
            holds=Holds(item.valid_from, item.valid_until, now),
            of_a_kind=self._of_a_kind,
            # A model or a person has decided already: the vector may only find a duplicate.
            replaces=[] if records.settled(connection, item.id) else None,
        )
        beside = near(older, decision, item.subject, self._settings, embedded.calibration)
        records.link(connection, item.id, [each.id for each in beside])
        if isinstance(decision, Duplicate):
            gone, by, begins = [item], decision.of.id, None
        elif isinstance(decision, Superseded):
            gone, by, begins = list(decision.all), item.id, item.valid_from
        else:
            return ()
        place = records.changed(connection, place)
        return supersede(connection, self._vectors, caller, gone, by=by, at=now, place=place, since=begins)


def _on_behalf(caller: Caller | None, item: MemoryItem) -> Caller | None:
    """Who decides: the caller about their own texts, else the author, as far as the caller may edit it.

    An author's role is not known here, so they act as an editor, who may change only their own items. An editor's text
    therefore replaces no memory of the owner, although the owner's process embeds it.
    """
    if caller is not None:
        own = item.created_by == caller.user_id
        if own and item.scope != "session":
            return caller
        if not own and not may(caller, "edit", item):
            return None
    if item.scope == "project":
        return Caller(item.created_by, item.scope_id, "editor")
    return Caller(item.created_by, session_id=item.scope_id if item.scope == "session" else None)
