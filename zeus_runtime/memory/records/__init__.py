"""Memory items as rows: written, found and removed, always within what the caller may reach.

Functions of a connection, inside a transaction that ``begin_write`` or ``begin_read`` opened first. A process
that changes items of a place holds the place's row (``lock_place``), so that looking for neighbours and inserting are
one step.
"""

from __future__ import annotations

from zeus_runtime.memory.records.columns import from_ms, to_ms
from zeus_runtime.memory.records.histories import (
    Action,
    HistoryEntry,
    extractions,
    forget_extraction,
    history,
    record,
    record_extraction,
)
from zeus_runtime.memory.records.links import link, linked, settled, unlink
from zeus_runtime.memory.records.marks import (
    embedded,
    embedded_ids,
    mark_embedded,
    not_embedded_with,
    unmark_embedded,
)
from zeus_runtime.memory.records.place import MemoryPlace, changed, lock_place, places
from zeus_runtime.memory.records.reading import (
    alike,
    as_json,
    by_ids,
    count,
    exists,
    figures,
    find,
    held,
    hidden,
    items,
    listed,
    searchable,
    superseded_by,
    turn_after,
    turns_before,
    written_order,
)
from zeus_runtime.memory.records.transactions import begin_read, begin_write, lock
from zeus_runtime.memory.records.within import reach_filter
from zeus_runtime.memory.records.word_index import rebuild_words
from zeus_runtime.memory.records.writing import (
    mark_used,
    new_version,
    reindexed,
    remove,
    rewrite,
    values,
    write,
)

__all__ = [
    "Action",
    "HistoryEntry",
    "MemoryPlace",
    "alike",
    "as_json",
    "begin_read",
    "begin_write",
    "by_ids",
    "changed",
    "count",
    "embedded",
    "embedded_ids",
    "exists",
    "extractions",
    "figures",
    "find",
    "from_ms",
    "held",
    "hidden",
    "history",
    "items",
    "link",
    "linked",
    "listed",
    "lock",
    "lock_place",
    "mark_embedded",
    "mark_used",
    "new_version",
    "not_embedded_with",
    "places",
    "reach_filter",
    "rebuild_words",
    "record",
    "forget_extraction",
    "record_extraction",
    "reindexed",
    "remove",
    "rewrite",
    "searchable",
    "settled",
    "superseded_by",
    "to_ms",
    "turn_after",
    "turns_before",
    "unlink",
    "unmark_embedded",
    "values",
    "write",
    "written_order",
]
