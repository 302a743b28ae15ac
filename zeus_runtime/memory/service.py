"""Long-term memory for one caller: save, search, change, delete, and the memories of a prompt.

A text is refused before a vector is requested, if possible. The vector is made before the transaction, so this is
short (``operations``). Importing this module loads neither database nor numpy: they come with the first use.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from zeus_runtime.errors import ErrorsMasked
from zeus_runtime.memory.admission.decisions import Decision, Passed, Rejected
from zeus_runtime.memory.caller_embeddings import CallerEmbeddings
from zeus_runtime.memory.drafts import Draft
from zeus_runtime.memory.items import (
    MEMORY_TYPES,
    SCOPES,
    STATUSES,
    Caller,
    Embedding,
    HiddenMemory,
    MemoryItem,
    MemorySettings,
    MemoryType,
    Scope,
    Source,
    Status,
    Visibility,
)
from zeus_runtime.memory.opened import MemorySource, OpenedMemory
from zeus_runtime.memory.outcomes import (
    Imported,
    MemoryStats,
    RateLimit,
    Saved,
    figures_of,
    known,
    refuse_shown,
    refuse_unknown,
)
from zeus_runtime.memory.profile.profiles import MemoryProfiles
from zeus_runtime.memory.retrieval.ranking import PromptMemories, Ranked, format_memories_for_prompt
from zeus_runtime.memory.writing import Writing
from zeus_runtime.tracing import retrieval_span

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.backend import MemoryBackend
    from zeus_runtime.memory.batches import MemoryBatches
    from zeus_runtime.memory.checked_memory import CheckedMemory
    from zeus_runtime.memory.members import Members
    from zeus_runtime.memory.operations import Operations
    from zeus_runtime.memory.records import HistoryEntry
    from zeus_runtime.prompt import SourcedText

_log = logging.getLogger(__name__)

SearchMode: TypeAlias = Literal["fused", "vector"]
SEARCH_MODES: Final[tuple[SearchMode, ...]] = get_args(SearchMode)


class MemoryService(ErrorsMasked):
    """Memory on behalf of ``caller``. It opens itself at first use; ``aclose`` when done (it may be used again).

    Args:
        source: where the memories are; services of one source share what is open (``for_caller``).
    """

    def __init__(self, source: MemorySource, caller: Caller) -> None:
        self._shared = OpenedMemory(source)
        self._caller = caller

    def _error_mask(self) -> Redactor:
        return self._shared.source.secrets

    @property
    def caller(self) -> Caller:
        """On whose behalf, in the role that the config says; ``members`` may say another."""
        return self._caller

    @property
    def settings(self) -> MemorySettings:
        """The thresholds."""
        return self._shared.source.settings

    @property
    def lacks(self) -> Mapping[str, str]:
        """What the backend does not do, to what happens instead."""
        from zeus_runtime.memory.database_memory import backend_of

        backend = backend_of(self._shared, self._caller)
        return {} if backend.in_database else {**_ONLY_IN_DATABASE, **backend.lacks}

    @property
    def profiles(self) -> MemoryProfiles:
        """The caller's user's and project's."""
        return MemoryProfiles(self._shared, self._caller)

    @property
    def batches(self) -> MemoryBatches:
        """What models proposed in the background for the caller's user.

        Raises:
            UsageError: the memories are not in Zeus's own database, where a proposal and its mark are one transaction.
        """
        if not self.is_in_database:
            from zeus_runtime.errors import UsageError

            raise UsageError(
                "this memory backend keeps no batches: nothing is extracted, consolidated or undone there",
                remedy="Use the memory backend `database`.",
            )
        from zeus_runtime.memory.batches import MemoryBatches

        return MemoryBatches(self._shared, self._caller)

    @property
    def embeddings(self) -> CallerEmbeddings:
        """The model of the caller's user, and what is still to be embedded."""
        return CallerEmbeddings(self._shared, self._caller)

    @property
    def members(self) -> Members:
        """The members of the caller's project."""
        from zeus_runtime.memory.members import Members

        return Members(self._shared, self._caller)

    @property
    def is_in_database(self) -> bool:
        """Whether memories are rows of the agent's own database."""
        from zeus_runtime.memory.database_memory import backend_of

        return backend_of(self._shared, self._caller).in_database

    @property
    def in_database(self) -> MemoryBackend:
        """The bundled backend, in the database that holds profiles and members too."""
        from zeus_runtime.memory.database_memory import DatabaseMemory

        return DatabaseMemory(self._shared, self._caller)

    async def _checked(self) -> CheckedMemory:
        from zeus_runtime.memory.checked_memory import CheckedMemory

        return CheckedMemory(self._shared, await self._shared.acting(self._caller))

    async def _acting(self) -> tuple[Operations, Caller]:
        """The open memory, and the caller in the role that holds now."""
        return await self._shared.operations(), await self._shared.acting(self._caller)

    async def _writing(self) -> Writing:
        return Writing(self._shared, await self._shared.acting(self._caller))

    def for_caller(self, caller: Caller) -> MemoryService:
        """The same memory on behalf of ``caller``."""
        other = object.__new__(MemoryService)
        other._shared, other._caller = self._shared, caller
        return other

    def for_session(self, session: str) -> MemoryService:
        """The same memory for one of the caller's sessions."""
        return self.for_caller(replace(self._caller, session_id=session))

    async def aclose(self) -> None:
        """Finish what is being embedded, write what is due and close the database."""
        await self._shared.close_all(self._caller)

    # Saving

    async def add_explicit_memory(
        self,
        content: str,
        *,
        memory_type: str = "fact",
        scope: str = "user",
        confidence: float = 1.0,
        source: Source = "user",
        source_id: str | None = None,
        visibility: Visibility = "members",
        subject: str | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        replaces: Sequence[str] | None = None,
    ) -> Saved:
        """Keep a text that the user asked to keep; it does not count against the limit of extractions.

        Args:
            memory_type, scope: as a model gave them; an unknown one is a rejection.
            confidence: 0 to 1.
            valid_from, valid_until: UTC. Memories that it replaces hold until ``valid_from``, if that is in the future.
            replaces: the ids of the memories that it replaces, maybe none, if a model or a person decides that. None:
                rules decide.

        Raises:
            MissingError: the database or the vector store cannot be used.
            RunError: the database failed.
        """
        draft = Draft(
            content,
            memory_type,
            scope,
            confidence,
            source,
            source_id,
            visibility,
            subject,
            valid_from,
            valid_until,
        )
        return await (await self._writing()).save(draft, explicit=True, replaces=replaces)

    async def add_extracted_memory(
        self,
        content: str,
        *,
        memory_type: str = "fact",
        scope: str = "user",
        confidence: float,
        source: Source = "ai",
        source_id: str | None = None,
        visibility: Visibility = "members",
        subject: str | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        replaces: Sequence[str] | None = None,
        answer: str | None = None,
    ) -> Saved:
        """Keep a text that the agent found worth keeping: at most ``max_extractions`` in a session's window.

        Args:
            answer: names the model's answer that saves it; the saves of one answer are one extraction.
        """
        draft = Draft(
            content,
            memory_type,
            scope,
            confidence,
            source,
            source_id,
            visibility,
            subject,
            valid_from,
            valid_until,
        )
        return await (await self._writing()).save(draft, explicit=False, replaces=replaces, answer=answer)

    async def validate_memory(
        self,
        content: str,
        *,
        memory_type: str = "fact",
        scope: str = "user",
        confidence: float = 1.0,
        source: Source = "user",
    ) -> Passed | Rejected:
        """Whether a text may be kept at all, whatever is kept already."""
        return (await self._writing()).validated(Draft(content, memory_type, scope, confidence, source))

    async def check_duplicate(
        self, content: str, *, memory_type: str = "fact", scope: str = "user", source: Source = "user"
    ) -> Decision:
        """The result that saving a text would have; nothing is written."""
        return await (await self._writing()).decided(Draft(content, memory_type, scope, 1.0, source))

    async def check_rate_limit(self) -> RateLimit:
        """How often the agent may still save on its own initiative in this session."""
        operations, caller = await self._acting()
        return RateLimit(await operations.extractions(caller), self.settings.max_extractions)

    # Finding

    async def search_memories(
        self,
        query: str,
        *,
        k: int | None = None,
        memory_type: MemoryType | None = None,
        scope: Scope | None = None,
        mode: SearchMode = "fused",
    ) -> list[Ranked]:
        """The memories that fit ``query`` best, of all that the caller may read, best first.

        ``final_score = similarity × 0.5 + confidence × 0.3 + scope_priority × 0.2`` (SPEC section 8), exactly. Without
        a relevant memory the result is empty. While the embedding model does not answer, words alone are compared.

        Args:
            k: how many at most; ``settings.top_k`` by default.
            mode: ``fused`` compares words and vectors; ``vector`` is the bare cosine, without a floor.

        Raises:
            EmbeddingUnavailableError: in mode ``vector``, there is no embedding model or it does not answer.
            UsageError: there is no such type, scope or mode.
        """
        refuse_unknown(
            memory_type=(memory_type, MEMORY_TYPES), scope=(scope, SCOPES), mode=(mode, SEARCH_MODES)
        )
        asked = _normalised(query)
        top_k = self.settings.top_k if k is None else k
        if not asked or top_k <= 0:
            return []
        with retrieval_span("memory") as span:
            memories = await self._checked()
            found = await memories.searching.best(
                asked, limit=top_k, mode=mode, memory_type=memory_type, scope=scope
            )
            span.note({"zeus.retrieval.found": len(found)})
        return found

    async def search_past(
        self,
        query: str,
        *,
        k: int | None = None,
        memory_type: MemoryType | None = None,
        scope: Scope | None = None,
    ) -> list[Ranked]:
        """What was true before and fits ``query`` best: superseded, archived and expired memories.

        A memory that was replaced fits as well as the one in its place: "where did I live before" finds it so.

        Args:
            k: how many at most; ``settings.top_k`` by default.

        Raises:
            UsageError: there is no such type or scope.
        """
        refuse_unknown(memory_type=(memory_type, MEMORY_TYPES), scope=(scope, SCOPES))
        asked = _normalised(query)
        top_k = self.settings.top_k if k is None else k
        if not asked or top_k <= 0:
            return []
        memories = await self._checked()
        return await memories.searching.past(asked, limit=top_k, memory_type=memory_type, scope=scope)

    def format_memories_for_prompt(
        self,
        memories: Sequence[MemoryItem | Ranked],
        *,
        top_k: int | None = None,
        max_characters: int | None = None,
        past: bool = False,
    ) -> PromptMemories:
        """The memories as one block of data for a prompt.

        Args:
            top_k: how many at most; ``settings.top_k`` by default.
            max_characters: of the whole block; ``settings.max_prompt_characters`` by default.
            past: they are no longer true, and the block says so.
        """
        items = [each.item if isinstance(each, Ranked) else each for each in memories]
        settings = self.settings
        return format_memories_for_prompt(
            items,
            settings.top_k if top_k is None else top_k,
            settings.max_prompt_characters if max_characters is None else max_characters,
            past=past,
        )

    async def all_if_they_fit(
        self, found: Sequence[Ranked], *, max_characters: int | None = None
    ) -> list[Ranked]:
        """All memories that hold, if one block of a prompt has room for all; else only ``found``.

        Args:
            found: what a search found, which comes first.
            max_characters: of the block; ``settings.max_prompt_characters`` by default.
        """
        from zeus_runtime.memory.retrieval.ranking import LEAST_LINE, rank

        room = self.settings.max_prompt_characters if max_characters is None else max_characters
        # More memories than this cannot fit, so no more rows are read to find that out.
        most = room // LEAST_LINE
        listed = await self.list_memories(limit=most + 1)
        if len(listed) > most:
            return list(found)
        known = {each.item.id for each in found}
        others = rank(((item, 0.0) for item in listed if item.id not in known and self.holds(item)), None)
        whole = [*found, *others]
        block = self.format_memories_for_prompt(whole, top_k=len(whole), max_characters=sys.maxsize)
        return whole if len(block.text) <= room else list(found)

    async def linked_memories(self, ids: Collection[str]) -> Mapping[str, tuple[MemoryItem, ...]]:
        """Of each of ``ids`` the active memories that were near it and were kept beside it, newest first."""
        return await (await self._checked()).linked(ids)

    async def newest_first(self, found: Sequence[Ranked]) -> list[Ranked]:
        """``found``, where newer memories that are linked with one come before it, also those that were not found.

        So an older memory that may be out of date is never shown without the newer one.
        """
        from zeus_runtime.memory.retrieval.ranking import newest_first

        linked = await self.linked_memories({each.item.id for each in found})
        holding = {each: [item for item in others if self.holds(item)] for each, others in linked.items()}
        return newest_first(found, holding)

    async def current_memories(self, ids: Collection[str]) -> dict[str, MemoryItem]:
        """Those of ``ids`` that the caller may read, as they are now, whatever their status."""
        return await (await self._checked()).readable(ids) if ids else {}

    def holds(self, item: MemoryItem) -> bool:
        """Whether a memory may be shown as what holds now: active, not quarantined, neither over nor yet to begin."""
        return item.is_searchable and item.holds_at(self._shared.source.now())

    async def get_profile_for_agent(self, *, max_characters: int = 2_000) -> SourcedText:
        """What is known of the user and the project, as a section of a prompt; empty if nothing is.

        Args:
            max_characters: of the lines; the last ones go first.
        """
        from zeus_runtime.memory.profile.text import profile_section

        profiles = self.profiles
        caller = await self._shared.acting(self._caller)
        project = await profiles.fields("project") if caller.project_id and caller.role else ()
        return profile_section(await profiles.fields("user"), project, max_characters=max_characters)

    async def get(self, memory_id: str) -> MemoryItem:
        """One memory.

        Raises:
            UnknownMemoryError: there is none that the caller may read.
        """
        return known(await (await self._checked()).permitted(memory_id, "read"), memory_id)

    async def list_memories(
        self,
        *,
        scope: Scope | None = None,
        memory_type: MemoryType | None = None,
        status: Status | None = "active",
        limit: int | None = None,
        offset: int = 0,
    ) -> list[MemoryItem]:
        """What the caller may read, last changed first; None of ``status`` is every status.

        Raises:
            UsageError: there is no such scope, type or status.
        """
        refuse_unknown(
            scope=(scope, SCOPES), memory_type=(memory_type, MEMORY_TYPES), status=(status, STATUSES)
        )
        return await (await self._checked()).listed(
            scope=scope, memory_type=memory_type, status=status, limit=limit, offset=offset
        )

    async def hidden_memories(
        self, *, scope: Scope | None = None, status: Status | None = "active", limit: int | None = None
    ) -> list[HiddenMemory]:
        """What the caller may see the existence of and delete, but not read, last changed first.

        Those are a project's ``owner_only`` memories of other members, for its owner and admins.
        """
        from zeus_runtime.memory import records
        from zeus_runtime.memory.permissions import reach

        if not self.is_in_database:
            return await (await self._checked()).hidden(scope=scope, status=status, limit=limit)
        operations, caller = await self._acting()
        seen, read = reach(caller, "see", scope), reach(caller, "read", scope)
        # Most callers read all that they see, and cost no query here.
        if seen == read:
            return []
        return await operations.database.read(
            lambda connection: records.hidden(
                connection, seen, read, caller.user_id, status=status, limit=limit
            ),
            caller,
        )

    async def memory_history(self, memory_id: str) -> list[HistoryEntry]:
        """What happened to a memory, in order.

        Raises:
            UnknownMemoryError: there is none that the caller may read.
        """
        await self.get(memory_id)
        return await (await self._checked()).history(memory_id)

    async def stats(self) -> MemoryStats:
        """Figures of all that the caller may read."""
        if not self.is_in_database:
            return figures_of(await self.list_memories(status=None))
        operations, caller = await self._acting()
        by = await operations.figures(caller)
        embedder = await self._shared.embedder(self._caller.user_id)
        waiting = 0
        if embedder is not None:
            _, waiting = await operations.late_vectors.without(
                caller, Embedding(embedder.model, embedder.dimension), any_model=True, limit=0
            )
        return MemoryStats(by["status"].get("active", 0), by, waiting)

    # Changing

    async def update_memory(
        self, memory_id: str, *, content: str | None = None, version: int | None = None, **changes: Any
    ) -> MemoryItem:
        """Write a memory's next version.

        Args:
            content: the new text; it passes the same checks as one that is saved.
            version: the version that is edited; None for any.
            changes: any of memory_type, confidence, visibility, status (``active`` or ``archived``), subject,
                valid_from, valid_until.

        Raises:
            UnknownMemoryError: there is none that the caller may edit.
            ChangedError: the memory has another version.
            UsageError: a change that cannot be made.
        """
        return await (await self._writing()).change(memory_id, content, changes, version=version)

    async def quarantined_memories(self) -> list[MemoryItem]:
        """The memories that the caller may read and no model is shown, last changed first."""
        return [each for each in await self.list_memories() if each.trust == "quarantined"]

    async def quarantined(self, memory_id: str) -> MemoryItem:
        """One quarantined memory.

        Raises:
            UnknownMemoryError: there is none that the caller may read.
            UsageError: it is not quarantined.
        """
        return refuse_shown(await self.get(memory_id))

    async def release_memory(self, memory_id: str, *, version: int | None = None) -> MemoryItem:
        """Show a quarantined memory to models from now on. It replaces no other memory.

        Args:
            version: the version that a person read; None for the present one.

        Raises:
            UnknownMemoryError: there is none that the caller may edit.
            ChangedError: the memory has another version.
            UsageError: it is not quarantined, or another check of the gate refuses it.
        """
        return await (await self._writing()).release(memory_id, version=version)

    async def delete_memory(
        self, memory_id: str, *, version: int | None = None, along: Collection[str] | None = None
    ) -> None:
        """Remove a memory and what it had superseded: rows, vectors, words, the texts of their histories.

        Args:
            version: the version that a person read; None for any.
            along: the older memories that a person read, of which ``deleted_with`` told; None for any.

        Raises:
            UnknownMemoryError: there is none that the caller may delete.
            ChangedError: the memory has another version, or an older memory would go that is not in ``along``.
        """
        await (await self._checked()).delete(memory_id, version=version, along=along)

    def as_stored(self, content: str) -> str:
        """``content`` in the form in which a save stores it: without invisible characters, in Unicode NFKC."""
        return _normalised(content)

    async def deleted_with(self, memory_id: str) -> list[MemoryItem]:
        """What ``delete_memory`` would remove: the memory, and then what it superseded, the oldest first.

        Raises:
            UnknownMemoryError: there is none that the caller may delete.
            UnreadableMemoryError: the caller may delete it, but not read all of it.
        """
        return await (await self._checked()).going(memory_id)

    async def kept_of_sessions(self, sessions: Sequence[str]) -> int | None:
        """How many memories ``forget_sessions`` would remove now; None if they are not in the database."""
        if not self.is_in_database:
            return None
        return await (await self._shared.operations()).removal.kept_of_sessions(sessions)

    async def forget_sessions(
        self, sessions: Sequence[str], *, along: Callable[[Connection], None] = lambda _: None
    ) -> int:
        """Remove all that is kept of sessions that are being deleted, whoever saved it; how many memories went.

        Args:
            along: what the same transaction removes besides; where that raises, all stays.
        """
        removed = 0
        if not self.is_in_database:  # first, so that a session that is still there can be deleted again
            for session in sessions:
                removed += await (await self.for_session(session)._checked()).forget_session(session)
        operations = await self._shared.operations()
        gone = await operations.removal.forget_sessions(self._caller.user_id, sessions, along)
        self._shared.forget_used(gone)
        return removed + len(gone)

    async def export_memories(self, *, status: Status | None = None) -> AsyncIterator[dict[str, Any]]:
        """Everything that the caller may read, as JSON objects: memories, last changed first, and profiles.

        A memory has its history (``history``) and the ids of the memories that it is linked with (``near``).
        """
        from zeus_runtime.memory.transfer import exported

        async for entry in exported(await self._checked(), self.profiles, status):
            yield entry

    async def import_memories(
        self,
        entries: Iterable[Mapping[str, Any]],
        *,
        progress: Callable[[int, int], None] | None = None,
        instructions: bool = False,
    ) -> Imported:
        """Save what ``export_memories`` gave, through the same gate as everything else, as the caller's own.

        Scopes keep their kind and become the caller's own user, project or session; ids are new, and since when each
        is kept, or was last edited, stays. Memories of one export affect each other no more; rules decide whether they
        replace one that was here before. Fields of a profile that a hand wrote here stay. The result says
        what was left out, and of which parts the backend has no place.

        Args:
            progress: called with (done, in all) after each memory.
            instructions: also the instructions of the user's profile, which the model follows.

        Raises:
            UsageError: an entry is neither a memory nor a profile; the error names it, and nothing was saved.
        """
        from zeus_runtime.memory.transfer import Import

        writing, checked = await self._writing(), await self._checked()
        return await Import(writing, checked, self.profiles, progress).run(entries, instructions=instructions)

    async def answers(self) -> None:
        """Ask the backend for one memory of the caller's user; nothing is written.

        Raises:
            ZeusError, or what the backend's engine raises: it does not answer.
        """
        from zeus_runtime.memory.backend import MemoryFilter
        from zeus_runtime.memory.database_memory import backend_of

        wanted = MemoryFilter(Caller(self._caller.user_id), scope="user")
        await backend_of(self._shared, self._caller).list(wanted, limit=1)

    async def check(self) -> None:
        """That rows, words and vectors agree.

        Raises:
            RunError: they do not.
        """
        await (await self._shared.operations()).check()


def _normalised(text: str) -> str:
    from zeus_runtime.memory.normalise import normalise

    return normalise(text)


_ONLY_IN_DATABASE: Final[Mapping[str, str]] = {
    "profiles drawn from memories": "a profile has the lines that are written by hand",
    "links": "memories that are near each other are stored beside each other, and shown by their own rank",
    "extraction, consolidation and undo": "memories are saved by tools and by hand",
    "the commands embeddings and reindex": "the backend embeds in its own way",
}
"""What only memories in Zeus's own database have."""
