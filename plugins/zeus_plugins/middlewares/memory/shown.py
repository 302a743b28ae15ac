"""Tracks the memories that the model has seen, and finds those that are outdated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.plugin import dataclass
from zeus_runtime.plugin.memory import Ranked

if TYPE_CHECKING:
    from zeus_runtime.plugin.memory import MemoryItem, MemoryService

_CHAIN: Final = 10
"""How many replacements in a row are followed to find the memory that is valid now."""


@dataclass(frozen=True)
class Shown:
    """A memory in the version that was shown.

    Args:
        version: the version of the text that was shown.
        why: its scores if a search found it.
        stale: why it is outdated; empty while it is valid.
        by: the id of the memory that replaced it.
    """

    id: str
    version: int
    why: Mapping[str, Any]
    stale: str = ""
    by: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the form that is stored in the ledger."""
        mark = {"stale": self.stale, "by": self.by} if self.stale else {}
        return {"id": self.id, "version": self.version, **self.why, **{k: v for k, v in mark.items() if v}}


def entry_of(found: Ranked | MemoryItem) -> Shown:
    """Return a memory's entry with the reason to show it: its scores, or that it replaced a memory shown before."""
    if not isinstance(found, Ranked):
        return Shown(found.id, found.version, {"scope": found.scope, "why": "in place of one shown before"})
    item = found.item
    why = {
        "type": item.memory_type,
        "scope": found.scope,
        "similarity": found.similarity,
        "confidence": found.confidence,
        "final_score": found.final_score,
    }
    return Shown(item.id, item.version, why)


def sources_of(sources: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Shown], dict[str, Shown]]:
    """Read from the ledger what earlier steps of the thread showed: (valid memories, outdated memories)."""
    held: dict[str, Shown] = {}
    gone: dict[str, Shown] = {}
    for each in sources:
        why = {
            key: value for key, value in each.items() if key not in ("id", "version", "stale", "by", "shown")
        }
        shown = Shown(each["id"], each["version"], why, each.get("stale", ""), each.get("by"))
        (gone if shown.stale else held)[shown.id] = shown
    return held, gone


def stale(
    memory: MemoryService, shown: Mapping[str, Shown], current: Mapping[str, MemoryItem]
) -> dict[str, Shown]:
    """Return the memories that are no longer valid in the version shown, each with the reason."""
    found = {}
    for name, each in shown.items():
        item = current.get(name)
        if item is None:
            found[name] = replace(each, stale="deleted")
        elif item.status == "superseded":
            found[name] = replace(each, stale="superseded", by=item.superseded_by)
        elif not item.is_searchable:
            found[name] = replace(each, stale="archived")
        elif not memory.holds(item):
            found[name] = replace(each, stale="expired")
        elif item.version != each.version:
            found[name] = replace(each, stale="changed", by=name)
    return found


def restored(memory: MemoryService, gone: Shown, current: Mapping[str, MemoryItem]) -> bool:
    """Whether a memory that was archived, deleted or expired is valid again, in any version."""
    item = current.get(gone.id)
    return gone.stale in ("archived", "deleted", "expired") and item is not None and memory.holds(item)


async def successors(
    memory: MemoryService, gone: Collection[Shown], current: Mapping[str, MemoryItem]
) -> dict[str, MemoryItem]:
    """Return the valid memories that replaced the outdated ones, latest first."""
    known = dict(current)
    wanted = {each.by for each in gone if each.by}
    # Each round asks for all ends of the chains at once.
    for _ in range(_CHAIN):
        missing = wanted - known.keys()
        if missing:
            known |= await memory.current_memories(missing)
        after = {
            item.superseded_by
            for name in wanted
            if (item := known.get(name)) is not None and item.status == "superseded" and item.superseded_by
        }
        # Nothing new: the chains have ended, or form a circle.
        if after <= wanted:
            break
        wanted |= after
    holding = [item for name in wanted if (item := known.get(name)) is not None and memory.holds(item)]
    holding.sort(key=lambda item: (item.updated_at, item.id), reverse=True)
    return {item.id: item for item in holding}


def warning(gone: Iterable[Shown], listed: Collection[str]) -> str:
    """Return the text that warns the model about outdated memories it saw earlier in the session."""
    words = [_told(each, listed) for each in gone]
    if not words:
        return ""
    return (
        f"Shown earlier in this session and no longer true: {', '.join(words)}. Do not rely on anything that earlier"
        " messages or a summary took from them."
    )


def _told(each: Shown, listed: Collection[str]) -> str:
    if each.stale == "changed":
        return f"{each.id} in its earlier version"
    if each.by is not None and each.by in listed:
        return f"{each.id} (now {each.by})"
    return f"{each.id} ({each.stale})"
