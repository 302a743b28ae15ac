"""The interface of the memory backends, which store, find and return memories for ``MemoryService``.

The service is on Zeus's side of it: the gate, permissions, the limit of extractions, prompts and commands. A backend
stores the memories that it is given and never decides which text is kept or who may read it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem, MemoryType, Scope, Status
from zeus_runtime.memory.permissions import Operation, may

if TYPE_CHECKING:
    from zeus_runtime.memory.admission.decisions import Decision
    from zeus_runtime.memory.records import Action, HistoryEntry


@dataclass(frozen=True)
class MemoryFilter:
    """The memories that a list or a search is about.

    Args:
        caller: on whose behalf; their user, project, role and session.
        operation: what the caller wants to do with them.
        status, scope, memory_type: only these; None for all.
        everyone: whatever user they belong to: the session that the scope names is deleted.
        said_from, said_until: only those that were said from a time on, and before one; a backend may ignore both.
    """

    caller: Caller
    operation: Operation = "read"
    scope: Scope | None = None
    memory_type: MemoryType | None = None
    status: Status | None = "active"
    said_from: datetime | None = None
    said_until: datetime | None = None
    everyone: bool = False

    @property
    def places(self) -> Sequence[tuple[Scope, str]]:
        """Each (scope, scope_id) that may have such memories."""
        from zeus_runtime.memory.permissions import reach

        return [(part.scope, part.scope_id) for part in reach(self.caller, self.operation, self.scope)]

    def covers(self, item: MemoryItem) -> bool:
        """Whether the memory is one of them; the service asks this again of all that a backend returns."""
        return (
            (self._is_of_the_session(item) if self.everyone else may(self.caller, self.operation, item))
            and self.scope in (None, item.scope)
            and self.memory_type in (None, item.memory_type)
            and self.status in (None, item.status)
            and (self.said_from is None or self.said_from <= item.said_at)
            and (self.said_until is None or item.said_at < self.said_until)
        )

    def _is_of_the_session(self, item: MemoryItem) -> bool:
        return (item.scope, item.scope_id) == ("session", self.caller.session_id)


class FoundMemory(NamedTuple):
    """A memory that a search found.

    Args:
        similarity: to the query: 0 for a text that has nothing to do with it, 1 for one that says the same.
    """

    item: MemoryItem
    similarity: float


class Written(NamedTuple):
    """What became of a write.

    Args:
        decision: of the gate; None for a change of a memory.
        item: the memory in its new version; None if nothing was written.
        near: memories that are near it and stay beside it, newest first.
        changes: all that the backend has to store, each with what happened to it, in this order.
        before: what happened to ``item`` elsewhere, before it was imported; in its history it comes before ``changes``.
            A backend that keeps no histories, or none from elsewhere, ignores it, and an import says so.
    """

    decision: Decision | None
    item: MemoryItem | None = None
    near: tuple[MemoryItem, ...] = ()
    changes: tuple[tuple[Action, MemoryItem], ...] = ()
    before: tuple[HistoryEntry, ...] = ()


class MemoryWrite(ABC):
    """A new memory, or a change of one: the backend finds what it is near, ``decide`` says what is to be stored.

    Args:
        caller: on whose behalf.
        scope, scope_id: the place that it is written in; no other memory is affected.
        content: the text whose neighbours ``decide`` needs; None if it needs none.
        ids: memories that ``decide`` needs besides, whatever their status.
    """

    caller: Caller
    scope: Scope
    scope_id: str
    content: str | None
    ids: tuple[str, ...]

    @abstractmethod
    def decide(self, found: Sequence[FoundMemory]) -> Written:
        """Say what is to be stored.

        Call it once the memories of the place cannot change any more, store all ``changes``, and return the result.

        Args:
            found: those of ``ids``, and the dozen active memories of the place that are nearest to ``content``.
        """


class MemoryBackend(ABC):
    """Memories of all users, on behalf of one caller (``for_caller``).

    Methods run in the agent's event loop. In each process, the service calls ``save`` for one write of a place at a
    time.
    It checks each memory that comes back (``MemoryFilter.covers``), so a backend that forgets a condition shows
    nothing to the wrong user; but it should filter too, so that what it returns is not mostly thrown away.
    """

    in_database: ClassVar[bool] = False
    """Whether the memories are rows of the agent's database, so that a write is one transaction with all it affects."""

    search_modes: ClassVar[Collection[str]] = ("fused",)
    """The modes of a search (``MemoryService.search_memories``); ``search`` gets ``mode`` if it is not ``fused``."""

    lacks: ClassVar[Mapping[str, str]] = {}
    """What this backend does not do, to what happens instead; ``zeus plan`` and ``zeus doctor`` say it."""

    @abstractmethod
    async def save(self, write: MemoryWrite) -> Written:
        """Store what ``write.decide`` says, completely or not at all if the engine can."""

    @abstractmethod
    async def search(self, query: str, wanted: MemoryFilter, *, limit: int) -> Sequence[FoundMemory]:
        """The memories of ``wanted`` that are most similar to ``query``; without a relevant one, none.

        The service ranks them by similarity, confidence and scope, and shows ``limit``. Return more than these, if
        the engine only knows the similarity.
        """

    @abstractmethod
    async def get(self, ids: Collection[str]) -> Sequence[MemoryItem]:
        """The memories of these ids, in any order; ids without a memory are left out."""

    @abstractmethod
    async def list(
        self, wanted: MemoryFilter, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[MemoryItem]:
        """The memories of ``wanted``, last changed first."""

    @abstractmethod
    async def delete(self, ids: Collection[str]) -> None:
        """Remove these memories, those that they superseded (``superseded_by``), and the texts of all their histories.

        Ids without a memory are skipped.
        """

    @abstractmethod
    async def history(self, memory_id: str) -> Sequence[HistoryEntry]:
        """What happened to a memory, in order; empty if the backend keeps no histories (say so in ``lacks``)."""

    @abstractmethod
    def for_caller(self, caller: Caller) -> MemoryBackend:
        """The same memories on behalf of ``caller``; what is open is shared."""

    @abstractmethod
    async def aclose(self) -> None:
        """Give back what is open, for all callers. It may be used again."""


def memory_as_json(item: MemoryItem) -> dict[str, Any]:
    """A memory as a JSON object, for engines that store one; ``memory_of_json`` reads it."""
    from zeus_runtime.memory.records import as_json

    return as_json(item)


def memory_of_json(value: Mapping[str, Any]) -> MemoryItem:
    """The memory of ``memory_as_json``.

    Raises:
        ValueError, TypeError: it is not one.
    """
    fields = dict(value)
    for name in ("created_at", "updated_at", "last_used_at", "valid_from", "valid_until"):
        fields[name] = None if fields.get(name) is None else datetime.fromisoformat(fields[name])
    embedding = fields.pop("embedding", None)
    return MemoryItem(**fields, embedding=embedding and Embedding(**embedding))


def word_similarity(query: str, text: str) -> float:
    """How much of a query's words a text has, 0 to 1, for engines that compare no words themselves."""
    from zeus_runtime.memory.retrieval.analysis import search_tokens

    asked, there = set(search_tokens(query)), set(search_tokens(text))
    return len(asked & there) / len(asked) if asked else 0.0


def last_changed_first(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """The order of ``MemoryBackend.list``."""
    return sorted(items, key=lambda item: (item.updated_at, item.id), reverse=True)
