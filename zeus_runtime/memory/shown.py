"""Memories, profiles and batches as JSON, for commands and services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_runtime.memory.records import as_json

if TYPE_CHECKING:
    from zeus_runtime.memory.batches import ListedBatch
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.profile.fields import ProfileField
    from zeus_runtime.memory.retrieval.ranking import Ranked

Linked = Mapping[str, Sequence["MemoryItem"]]
"""Of an id the memories that were near it and were kept beside it, newest first."""


def item_json(item: MemoryItem, linked: Linked) -> dict[str, Any]:
    """A memory as JSON, with the ids of those near it."""
    return {**as_json(item), "near": [each.id for each in linked.get(item.id, ())]}


def found_json(found: Ranked) -> dict[str, Any]:
    """A memory that was found, with its scores."""
    scores = {name: value for name, value in vars(found).items() if name != "item"}
    return {**as_json(found.item), **scores}


def profile_json(fields: Sequence[ProfileField]) -> dict[str, Any]:
    """A profile as JSON: field to value, who wrote it and its sources."""
    return {
        each.name: {
            "value": each.value
            if isinstance(each.value, str)
            else [entry if isinstance(entry, str) else vars(entry) for entry in each.value],
            "by": each.by,
            "sources": list(each.sources),
        }
        for each in fields
    }


def batch_json(each: ListedBatch) -> dict[str, Any]:
    """A batch as JSON, without what the model proposed."""
    values = each.batch._asdict()
    del values["proposals"], values["user_id"]
    return {**values, "outcomes": dict(each.outcomes)}
