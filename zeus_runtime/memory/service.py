"""Long-term memory for one caller: save, search, change, delete, and what a prompt gets of it.

What can be refused is refused before a vector is asked for; the vector is made before the transaction; the transaction
is short (``operations``). Importing this module loads neither database nor numpy: they come with the first use.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.memory.embedding import Embedder, EmbeddingUnavailableError, Purpose
from zeus_runtime.memory.gate import (
    Decision,
    Duplicate,
    Passed,
    Rejected,
    Stored,
    Superseded,
    validate,
)
from zeus_runtime.memory.items import (
    STATUSES,
    VISIBILITIES,
    Caller,
    Embedding,
    MemoryItem,
    MemorySettings,
    MemoryType,
    Scope,
    Source,
    Status,
    Visibility,
)
from zeus_runtime.memory.ranking import PromptMemories, Ranked, format_memories_for_prompt

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from sqlalchemy import Connection

    from zeus_runtime.config.ref import Ref
    from zeus_runtime.memory.operations import Derived, Embedded, Operations
    from zeus_runtime.memory.permissions import Reach
    from zeus_runtime.memory.profiles import ProfileField, ProfileKind
    from zeus_runtime.memory.records import Change
    from zeus_runtime.memory.search import Measure
    from zeus_runtime.memory.vectors import VectorStore
    from zeus_runtime.prompt import SourcedText

_log = logging.getLogger(__name__)

SearchMode: TypeAlias = Literal["fused", "vector"]
AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Asks a model: (system, user) to its answer."""
Outcome: TypeAlias = Literal["stored", "duplicate", "superseded", "rejected"]

BATCH: Final = 128
"""Texts that are embedded at once by ``backfill`` and ``reindex``."""

_USED_AT_ONCE: Final = 64
_USED_EVERY: Final = timedelta(seconds=10)
_CHANGEABLE: Final = frozenset(
    "memory_type confidence visibility status subject valid_from valid_until".split()
)


class UnknownMemoryError(UsageError):
    """There is no such memory, or none that the caller may do this with: the two look the same."""

    code = "unknown-memory"


@dataclass(frozen=True)
class Saved:
    """What became of a text.

    Args:
        outcome: what the gate decided.
        item: the memory that holds it now: the new one, or the one that said it already; None if rejected.
        replaced: the memory that it took the place of.
        code: why it was rejected, one of ``gate.REJECTIONS``.
        message: one sentence for the model: what happened and, if rejected, what to do.
    """

    outcome: Outcome
    item: MemoryItem | None
    message: str
    replaced: MemoryItem | None = None
    code: str | None = None


@dataclass(frozen=True)
class RateLimit:
    """How many memories this session may still save of its own accord within the window."""

    used: int
    allowed: int

    @property
    def remaining(self) -> int:
        return max(0, self.allowed - self.used)


@dataclass(frozen=True)
class MemoryStats:
    """Figures of all that the caller may read; those of ``by`` other than ``status`` count active memories.

    Args:
        by: ``status``, ``scope``, ``memory_type``, ``source``, ``trust``, ``embedding_model`` to value to number.
        waiting: memories that have no vector of the present embedding model yet.
    """

    active: int
    by: Mapping[str, Mapping[str, int]]
    waiting: int


@dataclass(frozen=True)
class Imported:
    """What became of the memories of an import, by outcome, and why those that were rejected were (code to number)."""

    outcomes: Mapping[Outcome, int]
    rejections: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Where a service's memories are and what embeds them.

    Args:
        url: of the database.
        directory: where a relative SQLite path starts.
        open_vectors: makes the vector store.
        open_embedder: makes the embedding model; None for words alone.
        settings: thresholds.
        now: the clock, UTC.
        new_id: of a memory.
        derived: told of every deletion.
        open_chosen: makes the embedding model that a user chose, of (user id, choice); None: users have no choice.
    """

    url: str
    directory: Path
    open_vectors: Callable[[], VectorStore]
    open_embedder: Callable[[], Embedder] | None = None
    settings: MemorySettings = field(default_factory=MemorySettings)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    new_id: Callable[[], str] = lambda: f"mem_{secrets.token_hex(8)}"
    derived: Sequence[Derived] = ()
    open_chosen: Callable[[str, Ref], Embedder] | None = None


class MemoryService:
    """Memory on behalf of ``caller``. It opens itself at first use; ``aclose`` when done (it may be used again).

    Args:
        source: where the memories are; services of one source share what is open (``for_caller``).
    """

    def __init__(self, source: MemorySource, caller: Caller) -> None:
        self._shared = _Shared(source)
        self._caller = caller

    @property
    def caller(self) -> Caller:
        """On whose behalf."""
        return self._caller

    @property
    def settings(self) -> MemorySettings:
        """The thresholds."""
        return self._shared.source.settings

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
        await self._shared.close(self._caller)

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
    ) -> Saved:
        """Keep a text that the user asked to keep; it does not count against the limit of extractions.

        Args:
            memory_type, scope: as a model gave them; an unknown one is a rejection.
            confidence: 0 to 1.
            valid_from, valid_until: UTC.

        Raises:
            MissingError: the database or the vector store cannot be used.
            RunError: the database failed.
        """
        draft = _Draft(
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
        return await self._save(draft, explicit=True)

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
    ) -> Saved:
        """Keep a text that the agent found worth keeping: at most ``max_extractions`` in a session's window."""
        draft = _Draft(
            content, memory_type, scope, confidence, source, source_id, visibility, subject, None, None
        )
        return await self._save(draft, explicit=False)

    async def _save(self, draft: _Draft, *, explicit: bool) -> Saved:
        passed = self._validated(draft)
        if isinstance(passed, Rejected):
            return _rejected(passed)
        operations = await self._shared.operations()
        embedded = await self._quickly(passed)
        item = self._item(draft, passed, operations.time())
        written = await operations.add(self._caller, passed, item, embedded, explicit=explicit)
        if written.item is not None and written.item.embedding is None and passed.trust != "quarantined":
            self._shared.backfill_soon(self._caller)
        return _saved(written.decision, written.item)

    async def _quickly(self, passed: Passed) -> Embedded | None:
        """The vector of a text that is about to be written, if the write can wait for it and it may have one."""
        embedder = await self._shared.embedder(self._caller.user_id)
        if embedder is None or not embedder.quick or passed.trust == "quarantined":
            return None
        (found,) = await _embedded(embedder, [passed.content], "memory")
        return found

    def _validated(self, draft: _Draft) -> Passed | Rejected:
        passed = validate(
            draft.content,
            memory_type=draft.memory_type,
            scope=draft.scope,
            confidence=draft.confidence,
            source=draft.source,
            caller=self._caller,
            settings=self.settings,
        )
        rule = passed.rule
        if rule is not None:
            what = "refused" if isinstance(passed, Rejected) else "quarantined"
            _log.warning("a memory was %s by the rule %r", what, rule)
        return passed

    def _item(self, draft: _Draft, passed: Passed, now: datetime) -> MemoryItem:
        scope = cast(Scope, draft.scope)
        scope_id = self._caller.scope_id(scope)
        assert scope_id is not None, "validated"
        return MemoryItem(
            id=self._shared.source.new_id(),
            content=passed.content,
            memory_type=cast(MemoryType, draft.memory_type),
            scope=scope,
            scope_id=scope_id,
            created_by=self._caller.user_id,
            source=draft.source,
            source_id=draft.source_id,
            confidence=float(draft.confidence),
            visibility=draft.visibility,
            subject=draft.subject,
            valid_from=draft.valid_from,
            valid_until=draft.valid_until,
            trust=passed.trust,
            created_at=now,
            updated_at=now,
        )

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
        return self._validated(_Draft(content, memory_type, scope, confidence, source))

    async def check_duplicate(
        self, content: str, *, memory_type: str = "fact", scope: str = "user", source: Source = "user"
    ) -> Decision:
        """What saving a text would come to beside what is kept: nothing is written."""
        passed = self._validated(_Draft(content, memory_type, scope, 1.0, source))
        if isinstance(passed, Rejected):
            return passed
        operations = await self._shared.operations()
        embedded = await self._quickly(passed)
        return await operations.decide(self._caller, passed, cast(Scope, scope), embedded)

    async def check_rate_limit(self) -> RateLimit:
        """How many memories the agent may still save of its own accord in this session."""
        operations = await self._shared.operations()
        return RateLimit(await operations.extractions(self._caller), self.settings.max_extractions)

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

        ``final_score = similarity × 0.5 + confidence × 0.3 + scope_priority × 0.2`` (SPEC section 8), exactly. Nothing
        relevant means nothing. While the embedding model does not answer, words alone are compared.

        Args:
            k: how many at most; ``settings.top_k`` by default.
            mode: ``fused`` compares words and vectors; ``vector`` is the bare cosine, without a floor.

        Raises:
            EmbeddingUnavailableError: in mode ``vector``, there is no embedding model or it does not answer.
        """
        from zeus_runtime.memory.search import BareCosine

        operations = await self._shared.operations()
        text = _query(query)
        top_k = self.settings.top_k if k is None else k
        if not text or top_k <= 0:
            return []
        embedder = await self._shared.embedder(self._caller.user_id)
        try:
            embedded = None if embedder is None else await _embedded_query(embedder, text)
        except EmbeddingUnavailableError as error:
            if mode == "vector":
                raise
            _log.warning("memories are searched by words alone: %s", error.message)
            embedded = None
        if mode == "vector" and embedded is None:
            raise EmbeddingUnavailableError(
                "there is no embedding model", remedy="Name one under memory.embeddings, or search by words."
            )
        measure: Measure = BareCosine() if mode == "vector" else _fused(embedder, text)
        found = await operations.search(
            self._caller, text, embedded, measure, top_k=top_k, memory_type=memory_type, scope=scope
        )
        self._shared.note_used([each.item.id for each in found])
        return found

    def format_memories_for_prompt(
        self,
        memories: Sequence[MemoryItem | Ranked],
        *,
        top_k: int | None = None,
        max_characters: int | None = None,
    ) -> PromptMemories:
        """The memories as one block of data for a prompt.

        Args:
            top_k: how many at most; ``settings.top_k`` by default.
            max_characters: of the whole block; ``settings.max_prompt_characters`` by default.
        """
        items = [each.item if isinstance(each, Ranked) else each for each in memories]
        settings = self.settings
        return format_memories_for_prompt(
            items,
            settings.top_k if top_k is None else top_k,
            settings.max_prompt_characters if max_characters is None else max_characters,
        )

    async def current_memories(self, ids: Collection[str]) -> dict[str, MemoryItem]:
        """Those of ``ids`` that the caller may read, as they are now, whatever their status."""
        from zeus_runtime.memory import records
        from zeus_runtime.memory.permissions import reach

        if not ids:
            return {}
        caller, operations = self._caller, await self._shared.operations()
        return await operations.read(
            lambda connection: records.by_ids(connection, ids, reach(caller, "read"), caller.user_id), caller
        )

    async def get_profile_for_agent(self, *, max_characters: int = 2_000) -> SourcedText:
        """What is known of the user and the project, as a section of a prompt; empty if nothing is.

        Args:
            max_characters: of the lines; the last ones go first.
        """
        from zeus_runtime.memory.profile_text import profile_section

        project = await self.profile("project") if self._caller.project_id and self._caller.role else ()
        return profile_section(await self.profile("user"), project, max_characters=max_characters)

    async def profile(self, kind: ProfileKind) -> tuple[ProfileField, ...]:
        """Every field of the user's or the project's profile, with who wrote it and the memories it comes from.

        Raises:
            UsageError: the caller belongs to no project.
        """
        from zeus_runtime.memory import profile_rows

        owner, parts = self._profiled(kind, "read")
        operations, user = await self._shared.operations(), self._caller.user_id
        now = operations.time()
        return await operations.read(
            lambda connection: profile_rows.shown(connection, kind, owner, parts, user, now), self._caller
        )

    async def edit_profile(self, kind: ProfileKind, changes: Mapping[str, str]) -> None:
        """Write fields by hand; what a hand wrote stays until a hand changes it.

        Args:
            changes: field to text (``profiles.written_value``); an empty text gives the field back to the memories.

        Raises:
            UsageError: the caller may not edit it, or a field cannot hold this.
        """
        from zeus_runtime.memory import profile_rows
        from zeus_runtime.memory.profiles import written_value

        owner, _ = self._profiled(kind, "edit")
        values = {name: written_value(kind, name, text) for name, text in changes.items()}
        operations = await self._shared.operations()
        now = operations.time()

        def work(connection: Connection) -> None:
            former = profile_rows.stored(connection, kind, owner, held=True)
            kept = replace(former, written={**former.written, **values})
            profile_rows.keep(connection, kind, owner, kept, now)

        await operations.write(work, self._caller)

    async def profile_news(self, kind: ProfileKind) -> int:
        """How many memories are new, changed or gone since the profile was drawn; 0 for who may not draw it."""
        from zeus_runtime.memory import profile_rows

        if not self._may_draw(kind):
            return 0
        owner, parts = self._profiled(kind, "read")
        operations, user = await self._shared.operations(), self._caller.user_id
        now = operations.time()
        return await operations.read(
            lambda connection: profile_rows.fresh(connection, kind, owner, parts, user, now), self._caller
        )

    async def draw_profile(self, kind: ProfileKind, ask: AskModel | None = None) -> int:
        """Draw the profile's lines anew from the memories: by rules, and by a model what the rules do not find.

        What a hand wrote is not touched.

        Args:
            ask: gets (system, user), gives the model's answer; while it fails, the rules draw alone.

        Returns:
            how many lines there are.

        Raises:
            UsageError: the caller belongs to no project, or only reads it.
        """
        from zeus_runtime.memory import profile_rows, records
        from zeus_runtime.memory.profiles import lines_by_model, lines_by_rule, profile_question

        if not self._may_draw(kind):
            raise UsageError(f"the {kind}'s profile cannot be drawn by {self._caller.user_id!r}")
        owner, parts = self._profiled(kind, "read")
        operations, user = await self._shared.operations(), self._caller.user_id
        now = operations.time()
        items = await operations.read(
            lambda connection: profile_rows.sources(connection, kind, owner, parts, user, now), self._caller
        )
        lines = lines_by_rule(items, kind)
        if ask is not None and items:
            try:
                answer = await ask(*profile_question(items, kind, lines))
                lines = [*lines_by_model(answer, items, kind), *lines]
            except (ValueError, ZeusError) as error:
                _log.warning("the %s profile is drawn by rules alone: %s", kind, error)

        def work(connection: Connection) -> None:
            former = profile_rows.stored(connection, kind, owner, held=True)
            drawn_ms = max((records.to_ms(item.updated_at) for item in items), default=former.drawn_ms)
            # A memory may have been deleted while the model was asked.
            there = records.by_ids(connection, [item.id for item in items], parts, user)
            gone = {item.id for item in items} - there.keys()
            left = [kept for line in lines if (kept := line.without(gone)) is not None]
            profile_rows.keep(connection, kind, owner, replace(former, lines=left, drawn_ms=drawn_ms), now)

        await operations.write(work, self._caller)
        return len(lines)

    def _profiled(
        self, kind: ProfileKind, operation: Literal["read", "edit"]
    ) -> tuple[str, tuple[Reach, ...]]:
        """Whose profile it is, and the part of the memories that it is about."""
        from zeus_runtime.memory.permissions import reach

        caller = self._caller
        owner = caller.scope_id(kind)
        if owner is None or (kind == "project" and caller.role is None):
            raise UsageError("there is no project", remedy="Name one under memory.project.")
        if kind == "project" and operation == "edit" and caller.role not in ("owner", "admin"):
            raise UsageError(
                f"a project's profile is edited by its owner or an admin, and {caller.user_id!r} is {caller.role}",
                remedy="Ask one of them, or edit your own profile.",
            )
        return owner, reach(caller, "read", kind)

    def _may_draw(self, kind: ProfileKind) -> bool:
        from zeus_runtime.memory.permissions import reach

        return bool(reach(self._caller, "create", kind))

    async def get(self, memory_id: str) -> MemoryItem:
        """One memory.

        Raises:
            UnknownMemoryError: there is none that the caller may read.
        """
        operations = await self._shared.operations()
        return _known(await operations.find(self._caller, memory_id, "read"), memory_id)

    async def list_memories(
        self,
        *,
        scope: Scope | None = None,
        memory_type: MemoryType | None = None,
        status: Status | None = "active",
        limit: int | None = None,
        offset: int = 0,
    ) -> list[MemoryItem]:
        """What the caller may read, last changed first; None of ``status`` is every status."""
        from zeus_runtime.memory import records
        from zeus_runtime.memory.permissions import reach

        caller = self._caller
        operations = await self._shared.operations()
        return await operations.read(
            lambda connection: records.listed(
                connection,
                reach(caller, "read", scope),
                caller.user_id,
                status=status,
                memory_type=memory_type,
                limit=limit,
                offset=offset,
            ),
            caller,
        )

    async def memory_history(self, memory_id: str) -> list[Change]:
        """What happened to a memory, in order.

        Raises:
            UnknownMemoryError: there is none that the caller may read.
        """
        from zeus_runtime.memory import records

        await self.get(memory_id)
        operations = await self._shared.operations()
        return await operations.read(lambda connection: records.history(connection, memory_id), self._caller)

    async def stats(self) -> MemoryStats:
        """Figures of all that the caller may read."""
        operations = await self._shared.operations()
        by = await operations.figures(self._caller)
        embedder = await self._shared.embedder(self._caller.user_id)
        waiting = 0
        if embedder is not None:
            _, waiting = await operations.without_vector(
                self._caller, Embedding(embedder.model, embedder.dimension), any_model=True, limit=0
            )
        return MemoryStats(by["status"].get("active", 0), by, waiting)

    # Changing

    async def update_memory(
        self, memory_id: str, *, content: str | None = None, **changes: Any
    ) -> MemoryItem:
        """Write a memory's next version.

        Args:
            content: the new text; it passes the same checks as one that is saved.
            changes: any of memory_type, confidence, visibility, status (``active`` or ``archived``), subject,
                valid_from, valid_until.

        Raises:
            UnknownMemoryError: there is none that the caller may edit.
            UsageError: a change that cannot be made.
        """
        operations = await self._shared.operations()
        item = _known(await operations.find(self._caller, memory_id, "edit"), memory_id)
        if unknown := changes.keys() - _CHANGEABLE:
            raise UsageError(f"a memory's {', '.join(sorted(unknown))} cannot be changed")
        _refuse_wrong(changes, item)
        wanted = dict(changes)
        passed = validate(
            item.content if content is None else content,
            memory_type=wanted.get("memory_type", item.memory_type),
            scope=item.scope,
            confidence=wanted.get("confidence", item.confidence),
            source=item.source,
            caller=self._caller,
            settings=replace(self.settings, min_confidence=0.0),
        )
        if isinstance(passed, Rejected):
            raise UsageError(passed.message)
        if content is not None:
            wanted |= {"content": passed.content, "trust": passed.trust}
        embedded = await self._quickly(passed)
        changed = _known(await operations.change(self._caller, memory_id, wanted, embedded), memory_id)
        if changed.embedding is None:
            self._shared.backfill_soon(self._caller)
        return changed

    async def delete_memory(self, memory_id: str) -> None:
        """Remove a memory and what it had superseded: rows, vectors, words, the texts of their histories.

        Raises:
            UnknownMemoryError: there is none that the caller may delete.
        """
        operations = await self._shared.operations()
        gone = await operations.delete(self._caller, memory_id)
        if gone is None:
            raise _unknown(memory_id)
        self._shared.forget_used(gone)

    async def export_memories(self, *, status: Status | None = None) -> AsyncIterator[dict[str, Any]]:
        """Everything that the caller may read, as JSON objects, oldest change last."""
        from zeus_runtime.memory.records import as_json

        for item in await self.list_memories(status=status):
            yield as_json(item)

    async def import_memories(self, entries: Iterable[Mapping[str, Any]]) -> Imported:
        """Save what ``export_memories`` gave, through the same gate as everything else, as the caller's own.

        Scopes keep their kind and become the caller's own user, project or session; ids are new.

        Raises:
            UsageError: an entry that is no memory; says which.
        """
        outcomes: dict[Outcome, int] = dict.fromkeys(("stored", "duplicate", "superseded", "rejected"), 0)
        rejections: dict[str, int] = {}
        for number, entry in enumerate(entries, 1):
            if entry.get("status", "active") != "active":
                continue
            saved = await self._save(_draft(entry, number), explicit=True)
            outcomes[saved.outcome] += 1
            if saved.code is not None:
                rejections[saved.code] = rejections.get(saved.code, 0) + 1
        return Imported(outcomes, rejections)

    # Embedding

    async def chosen_embeddings(self) -> Ref | None:
        """The embedding model that the caller's user chose; None for the config's.

        Raises:
            OptionsError: what is stored is no choice.
        """
        from zeus_runtime.memory.choice import chosen_ref

        stored = await self._shared.choice(self._caller.user_id)
        return None if stored is None else chosen_ref(stored, self._caller.user_id)

    async def choose_embeddings(self, ref: Ref | None) -> None:
        """Embed what this user writes and asks from now on by a model of the user's own; None: by the config's again.

        Memories keep the vectors that they have, which are compared with nothing then: they are found by their words
        until ``reindex`` embeds them anew. An agent that has its memory open elsewhere takes the choice up when it
        opens it again.

        Args:
            ref: secrets do not belong in its options, they are read from the environment.

        Raises:
            MissingError: there is no such component, or its key or a package of it is missing; nothing is stored.
            OptionsError: the options do not fit it; nothing is stored.
            UsageError: memory without a config has no choice, or the options cannot be stored.
        """
        from zeus_runtime.memory.choice import as_stored, store_choice

        user, stored = self._caller.user_id, None if ref is None else as_stored(ref)
        operations = await self._shared.operations()
        if stored is not None:
            self._shared.made(user, stored)
        now = operations.time()
        await operations.write(lambda connection: store_choice(connection, user, stored, now), self._caller)
        self._shared.choices[user] = stored

    async def backfill(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed the caller's memories that have no vector yet; how many were.

        Raises:
            EmbeddingUnavailableError: the model does not answer; what was done stays done.
        """
        return await self._shared.embed_missing(self._caller, any_model=False, progress=progress)

    async def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Make the lexical index anew, and the vectors of the caller's memories that are not of the present model.

        It may be stopped at any time and goes on where it was.

        Args:
            progress: called with (done, in all) after each batch.

        Raises:
            EmbeddingUnavailableError: there is no model or it does not answer; what was done stays done.
        """
        await (await self._shared.operations()).rebuild_words()
        return await self._shared.embed_missing(self._caller, any_model=True, progress=progress)

    async def check(self) -> None:
        """That rows, words and vectors agree.

        Raises:
            RunError: they do not.
        """
        await (await self._shared.operations()).check()


@dataclass(frozen=True)
class _Draft:
    content: str
    memory_type: str
    scope: str
    confidence: float
    source: Source
    source_id: str | None = None
    visibility: Visibility = "members"
    subject: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


class _Shared:
    """What the services of one source hold open together."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.choices: dict[str, str | None] = {}
        self._embedders: dict[str | None, Embedder] = {}
        self._operations: Operations | None = None
        self._opening: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._used: dict[str, datetime] = {}
        self._flushed: datetime | None = None
        self._backfilling: set[str | None] = set()

    async def operations(self) -> Operations:
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._opening is None:
            self._loop, self._opening = loop, asyncio.Lock()
            self._tasks, self._backfilling = set(), set()
        if self._operations is None:
            async with self._opening:
                if self._operations is None:
                    self._operations = await self._open()
                    if not self._operations.transactional:
                        self.backfill_soon(None)
        return self._operations

    async def _open(self) -> Operations:
        from zeus_runtime.memory.operations import Operations
        from zeus_runtime.memory.profile_rows import ProfileLines
        from zeus_runtime.store.database import Database

        source = self.source
        database = Database(source.url, directory=source.directory)
        operations = Operations(
            database,
            source.open_vectors(),
            source.settings,
            now=source.now,
            derived=(ProfileLines(), *source.derived),
        )
        try:
            await operations.open()
        except BaseException:
            await database.close()
            raise
        return operations

    async def close(self, caller: Caller) -> None:
        operations = self._operations
        if operations is None:
            return
        import asyncio

        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._used:
            await self._flush(operations)
        self._operations = None
        await operations.close()
        embedders, self._embedders, self.choices = self._embedders, {}, {}
        for each in embedders.values():
            await each.close()

    async def choice(self, user_id: str) -> str | None:
        """What the user chose, as it is stored; read once while the database is open."""
        from zeus_runtime.memory.choice import stored_choice

        operations = await self.operations()
        if self.source.open_chosen is None:
            return None
        if user_id not in self.choices:
            self.choices[user_id] = await operations.read(
                lambda connection: stored_choice(connection, user_id)
            )
        return self.choices[user_id]

    async def embedder(self, user_id: str) -> Embedder | None:
        """The user's own embedding model, else the config's; None without one."""
        return self.made(user_id, await self.choice(user_id))

    def made(self, user_id: str, stored: str | None) -> Embedder | None:
        """The model of a stored choice, made once for all users who chose it; None of ``stored`` is the config's."""
        from zeus_runtime.memory.choice import chosen_ref

        if stored in self._embedders:
            return self._embedders[stored]
        if stored is None:
            if self.source.open_embedder is None:
                return None
            made = self.source.open_embedder()
        elif self.source.open_chosen is None:
            raise UsageError("the embedding model of this memory cannot be chosen")
        else:
            made = self.source.open_chosen(user_id, chosen_ref(stored, user_id))
        self._embedders[stored] = made
        return made

    async def embed_missing(
        self, caller: Caller, *, any_model: bool, progress: Callable[[int, int], None] | None
    ) -> int:
        operations = await self.operations()
        embedder = await self._needed(caller.user_id)
        embedding = Embedding(embedder.model, embedder.dimension)
        done = 0
        while True:
            items, left = await operations.without_vector(caller, embedding, any_model=any_model, limit=BATCH)
            if not items:
                return done
            done += await _put_vectors(operations, embedder, items)
            if progress is not None:
                progress(done, done + max(0, left - len(items)))

    async def _embed_everybodys(self) -> None:
        """Embed what has no vector, each memory by its author's model."""
        operations = await self.operations()
        while True:
            items, _ = await operations.without_vector(None, _NO_MODEL, any_model=False, limit=BATCH)
            if not items:
                return
            by_author: dict[str, list[MemoryItem]] = {}
            for item in items:
                by_author.setdefault(item.created_by, []).append(item)
            for author, written in by_author.items():
                await _put_vectors(operations, await self._needed(author), written)

    async def _needed(self, user_id: str) -> Embedder:
        embedder = await self.embedder(user_id)
        if embedder is None:
            raise EmbeddingUnavailableError(
                "there is no embedding model", remedy="Name one under memory.embeddings."
            )
        return embedder

    def backfill_soon(self, caller: Caller | None) -> None:
        """Embed in the background what was stored without a vector: the caller's, or with None everybody's."""
        user = None if caller is None else caller.user_id
        if user in self._backfilling or not (self.source.open_embedder or self.source.open_chosen):
            return
        self._backfilling.add(user)

        async def work() -> None:
            try:
                if caller is None:
                    await self._embed_everybodys()
                elif await self.embedder(caller.user_id) is not None:
                    await self.embed_missing(caller, any_model=False, progress=None)
            except ZeusError as error:
                _log.warning("memories wait for their vectors: %s", error.message)
            finally:
                self._backfilling.discard(user)

        self._begin(work())

    def note_used(self, ids: Sequence[str]) -> None:
        """Remember that memories were used; written for many at once, so that no search waits for it."""
        now = self.source.now()
        self._used |= dict.fromkeys(ids, now)
        self._flushed = self._flushed or now
        if len(self._used) >= _USED_AT_ONCE or now - self._flushed >= _USED_EVERY:
            self._flushed = now
            if self._operations is not None:
                self._begin(self._flush(self._operations))

    def forget_used(self, ids: Iterable[str]) -> None:
        for each in ids:
            self._used.pop(each, None)

    async def _flush(self, operations: Operations) -> None:
        used, self._used = self._used, {}
        await operations.mark_used(used)

    def _begin(self, work: Any) -> None:
        import asyncio

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_NO_MODEL: Final = Embedding("", 0)


async def _embedded(embedder: Embedder, texts: Sequence[str], purpose: Purpose) -> list[Embedded]:
    from zeus_runtime.memory.operations import Embedded

    vectors = await embedder.embed(texts, purpose=purpose)
    embedding = Embedding(embedder.model, embedder.dimension)
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbeddingUnavailableError(
            f"the embedding model {embedder.model} gave vectors of shape {vectors.shape} for {len(texts)} texts",
            remedy=f"It says that its dimension is {embedder.dimension}: correct memory.embeddings.",
        )
    return [Embedded(vector, embedding, embedder.calibration) for vector in vectors]


async def _embedded_query(embedder: Embedder, query: str) -> Embedded | None:
    """None for a query that the model knows nothing of."""
    (found,) = await _embedded(embedder, [query], "query")
    return found if found.vector.any() else None


async def _put_vectors(operations: Operations, embedder: Embedder, items: Sequence[MemoryItem]) -> int:
    vectors = await _embedded(embedder, [item.content for item in items], "memory")
    return await operations.put_vectors(list(zip(items, vectors, strict=True)))


def _fused(embedder: Embedder | None, query: str) -> Measure:
    """How words and vectors count together for ``query``, which the model may know in part."""
    from zeus_runtime.memory.fusion import Fusion
    from zeus_runtime.memory.search import Fused

    if embedder is None:
        return Fused(Fusion())
    scale = embedder.calibration
    trust = scale.trust * min(1.0, max(0.0, embedder.coverage(query)))
    return Fused(Fusion(scale.cosine_zero, scale.cosine_one, dense_trust=trust))


def _query(query: str) -> str:
    from zeus_runtime.memory.normalise import normalise

    return normalise(query)


def _rejected(why: Rejected) -> Saved:
    return Saved("rejected", None, why.message, code=why.code)


def _saved(decision: Decision, item: MemoryItem | None) -> Saved:
    if isinstance(decision, Rejected):
        return _rejected(decision)
    if isinstance(decision, Duplicate):
        return Saved(
            "duplicate", decision.of, f"This is kept already ({decision.reason}): there is nothing to do."
        )
    if isinstance(decision, Superseded):
        return Saved(
            "superseded",
            item,
            f"Saved in place of an older memory ({decision.reason}).",
            replaced=decision.of,
        )
    assert isinstance(decision, Stored)
    if item is not None and item.trust == "quarantined":
        message = "Kept for a person to look at, and shown to no model: the text reads like an instruction."
        return Saved("stored", item, message)
    return Saved("stored", item, "Saved.")


def _known(item: MemoryItem | None, memory_id: str) -> MemoryItem:
    if item is None:
        raise _unknown(memory_id)
    return item


def _unknown(memory_id: str) -> UnknownMemoryError:
    return UnknownMemoryError(
        f"there is no memory {memory_id!r} with which this could be done",
        remedy="`zeus memory list` shows those there are.",
    )


def _refuse_wrong(changes: Mapping[str, Any], item: MemoryItem) -> None:
    if item.status == "superseded":
        raise UsageError(f"{item.id} was superseded by {item.superseded_by}", remedy="Change that one.")
    if changes.get("status", "active") not in ("active", "archived"):
        raise UsageError("a memory's status can be set to active or archived")
    if changes.get("visibility", "members") not in VISIBILITIES:
        raise UsageError(f"the visibilities are {', '.join(VISIBILITIES)}")


def _draft(entry: Mapping[str, Any], number: int) -> _Draft:
    try:
        if (
            entry.get("status", "active") not in STATUSES
            or entry.get("visibility", "members") not in VISIBILITIES
        ):
            raise ValueError("an unknown status or visibility")
        return _Draft(
            content=str(entry["content"]),
            memory_type=str(entry.get("memory_type", "fact")),
            scope=str(entry.get("scope", "user")),
            confidence=float(entry.get("confidence", 1.0)),
            source=entry.get("source", "user"),
            source_id=entry.get("source_id"),
            visibility=entry.get("visibility", "members"),
            subject=entry.get("subject"),
            valid_from=_imported_time(entry.get("valid_from")),
            valid_until=_imported_time(entry.get("valid_until")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"entry {number} is no memory: {type(error).__name__}: {error}",
            remedy="Import what `zeus memory export` wrote: one JSON object per line, with at least a content.",
        ) from None


def _imported_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
