"""What the services of one memory hold open together: database, vectors, embedding models, work in the background."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config import ConfigError
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import MissingError, OptionsError, UsageError, ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.embedding import Embedded, Embedder, EmbeddingUnavailableError, Purpose
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem, MemorySettings
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    import asyncio
    import logging
    from pathlib import Path

    from zeus_runtime.config.ref import Ref
    from zeus_runtime.memory.backend import MemoryBackend
    from zeus_runtime.memory.operations import Operations
    from zeus_runtime.memory.removal import Derived
    from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets
    from zeus_runtime.memory.vectors import VectorStore


BATCH: Final = 128
"""Texts that are embedded at once by ``backfill`` and ``reindex``."""

_NO_MODEL: Final = Embedding("", 0)
_NOT_WRITTEN: Final = "when memories were used is not written"
_USED_AT_ONCE: Final = 64
_USED_EVERY: Final = timedelta(seconds=10)


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
        open_offline: makes the model that the gate asks which values are of a kind, whatever embeds; None: none.
        secrets: known secrets; a text that holds one is refused.
        masked: those of them that no reader is shown; by default the same.
        open_backend: makes the memory backend; None: the one in the database of ``url``.
    """

    url: str
    directory: Path
    open_vectors: Callable[[], VectorStore]
    open_embedder: Callable[[], Embedder] | None = None
    settings: MemorySettings = field(default_factory=MemorySettings)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    new_id: Callable[[], str] = lambda: f"mem_{os.urandom(8).hex()}"
    derived: Sequence[Derived] = ()
    open_chosen: Callable[[str, Ref], Embedder] | None = None
    open_offline: Callable[[], Embedder] | None = None
    secrets: Redactor = field(default_factory=Redactor)
    masked: Redactor | None = None
    open_backend: Callable[[], MemoryBackend] | None = None


class OpenedMemory:
    """What is open of one source; everything opens at first use.

    Args:
        source: where the memories are and what embeds them.
    """

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.choices: dict[str, str | None] = {}
        self._embedders: dict[str | None, Embedder] = {}
        self._operations: Operations | None = None
        self._withheld: HeldSecrets | None = None
        self.made_backend: MemoryBackend | None = None
        self._places: dict[tuple[str, str], asyncio.Lock] = {}
        self._opening: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._used: dict[str, datetime] = {}
        self._flushed: datetime | None = None
        self._backfilling: set[str | None] = set()
        self._told_of_others: set[str] = set()

    @property
    def withheld(self) -> HeldSecrets:
        """Finds the memories that are as if they were not there: they hold a secret that no reader is shown."""
        from zeus_runtime.memory.retrieval.held_secrets import HeldSecrets

        if self._withheld is None:
            masked = self.source.masked
            self._withheld = HeldSecrets(self.source.secrets if masked is None else masked)
        return self._withheld

    def writing(self, scope: str, scope_id: str) -> asyncio.Lock:
        """Held while one memory of a place is written in this process, for a backend without transactions."""
        import asyncio

        self._renew_for_loop()
        return self._places.setdefault((scope, scope_id), asyncio.Lock())

    def _renew_for_loop(self) -> None:
        """Make locks and tasks anew for another event loop: a program may call ``asyncio.run`` more than once."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._opening is None:
            self._loop, self._opening = loop, asyncio.Lock()
            self._tasks, self._backfilling, self._places = set(), set(), {}

    async def operations(self) -> Operations:
        self._renew_for_loop()
        if self._operations is None:
            assert self._opening is not None, "it was renewed"
            async with self._opening:
                # Asked again: the call that held the lock may have opened it.
                if self._operations is None:
                    self._operations = await self._open()
                    if not self._operations.transactional:
                        self.backfill_soon(None)
        return self._operations

    async def acting(self, caller: Caller) -> Caller:
        """``caller`` in the role that holds now: the project's members win over what a config says.

        Asked anew each time: one who is no longer a member loses access with the next call.
        """
        if caller.project_id is None:
            return caller
        from zeus_runtime.memory.members import current_role

        operations = await self.operations()
        role = await operations.database.read(lambda connection: current_role(connection, caller), caller)
        return replace(caller, role=role)

    async def _open(self) -> Operations:
        from zeus_runtime.memory.operations import Operations
        from zeus_runtime.memory.profile.rows import ProfileLines
        from zeus_runtime.store.database import Database

        source = self.source
        database = Database(source.url, directory=source.directory)
        operations = Operations(
            database,
            source.open_vectors(),
            source.settings,
            now=source.now,
            derived=(ProfileLines(), *source.derived),
            of_a_kind=None if source.open_offline is None else source.open_offline().of_a_kind,
            withheld=self.withheld,
        )
        try:
            await operations.open()
        except BaseException:
            await database.close()
            raise
        return operations

    async def close_all(self, caller: Caller) -> None:
        """Close the backend, and the database that holds the rest."""
        of_backend = None if self.made_backend is None else self.made_backend.aclose
        await all_tried(of_backend, partial(self.close, caller))

    async def close(self, caller: Caller) -> None:
        operations = self._operations
        if operations is None:
            return
        # First, because work in the background uses the database and may note more memories as used.
        await self._idle()
        if self._used:
            self._begin(self._flush(operations), _NOT_WRITTEN)
            await self._idle()
        # Before the await below: a call in between opens the memory anew instead of using one that is being closed.
        self._operations = None
        embedders, self._embedders, self.choices = self._embedders, {}, {}
        await all_tried(operations.close, *(each.close for each in embedders.values()))

    async def _idle(self) -> None:
        import asyncio

        # A task may have begun another one.
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def choice(self, user_id: str) -> str | None:
        """What the user chose, as it is stored; read once while the database is open."""
        from zeus_runtime.memory.embedding_choice import stored_choice

        operations = await self.operations()
        if self.source.open_chosen is None:
            return None
        if user_id not in self.choices:
            self.choices[user_id] = await operations.database.read(
                lambda connection: stored_choice(connection, user_id), Caller(user_id)
            )
        return self.choices[user_id]

    async def embedder(self, user_id: str) -> Embedder | None:
        """The user's own embedding model, else the config's; None without one."""
        return self.made(user_id, await self.choice(user_id))

    def made(self, user_id: str, stored: str | None) -> Embedder | None:
        """The model of a stored choice, made once for all users who chose it; None of ``stored`` is the config's."""
        from zeus_runtime.memory.embedding_choice import chosen_ref

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
        self,
        caller: Caller,
        *,
        any_model: bool,
        progress: Callable[[int, int], None] | None,
        own: bool = False,
    ) -> int:
        operations = await self.operations()
        embedder = await self._needed(caller.user_id)
        embedding = Embedding(embedder.model, embedder.dimension)
        done = 0
        while True:
            items, left = await operations.late_vectors.without(
                caller, embedding, any_model=any_model, limit=BATCH, own=own
            )
            if not items:
                return done
            texts = await operations.late_vectors.texts(items, caller)
            embedded = await _embedded_items(embedder, items, texts)
            # Each round marks its rows or finds them changed, so the loop ends, and a stop loses one batch of vectors
            # at most.
            done += await operations.late_vectors.put(embedded)
            for item, each in embedded:
                if item.embedding is None:
                    await operations.second_look.at(caller, item, each)
            if progress is not None:
                progress(done, done + max(0, left - len(items)))

    async def _embed_everybodys(self) -> None:
        """Embed what has no vector, each memory by its author's model; a model that fails stops its author's alone."""
        operations = await self.operations()
        failed: set[str] = set()
        while True:
            items, _ = await operations.late_vectors.without(
                None, _NO_MODEL, any_model=False, limit=BATCH, but_of=failed
            )
            if not items:
                return
            by_author: dict[str, list[MemoryItem]] = {}
            for item in items:
                by_author.setdefault(item.created_by, []).append(item)
            for author, written in by_author.items():
                try:
                    embedder = await self._needed(author)
                    texts = await operations.late_vectors.texts(written, None)
                    vectors = await _embedded_items(embedder, written, texts)
                except (EmbeddingUnavailableError, MissingError, OptionsError, ConfigError) as error:
                    # Left out of the next query too, which would otherwise return the same items for ever.
                    failed.add(author)
                    _log().warning("memories of %r wait for their vectors: %s", author, error.message)
                    continue
                await operations.late_vectors.put(vectors)
                for item, each in vectors:
                    await operations.second_look.at(None, item, each)

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
        # One at a time for each user: two would embed, and pay for, the same texts.
        if user in self._backfilling or not (self.source.open_embedder or self.source.open_chosen):
            return
        self._backfilling.add(user)

        async def work() -> None:
            try:
                if caller is None:
                    await self._embed_everybodys()
                elif await self.embedder(caller.user_id) is not None:
                    await self.embed_missing(caller, any_model=False, progress=None)
            finally:
                self._backfilling.discard(user)

        self._begin(work(), "memories wait for their vectors")

    def tell_of_other_models(self, caller: Caller, embedding: Embedding) -> None:
        """Once, embed what another model embedded again, if the user chose the model; else say in the log how many.

        Words alone find those. It can be stopped at any time: the next process goes on.
        """
        if caller.user_id in self._told_of_others:
            return
        self._told_of_others.add(caller.user_id)
        if self.choices.get(caller.user_id) is not None:
            again = self._embed_again(caller)
            self._begin(again, "memories of another model are embedded again by the next process")
            return

        async def work() -> None:
            late = (await self.operations()).late_vectors
            _, of_others = await late.without(caller, embedding, any_model=True, limit=0)
            _, of_none = await late.without(caller, embedding, any_model=False, limit=0)
            if count := of_others - of_none:
                _log().warning(
                    "%d memories were embedded by another model than %s, so only their words are compared. Name that"
                    " model under memory.embeddings, such as `embeddings: litellm` for text-embedding-3-small, or embed"
                    " them again: zeus memory reindex",
                    count,
                    embedding.model,
                )

        self._begin(work(), "it is not known which memories another model embedded")

    async def _embed_again(self, caller: Caller) -> None:
        done = await self.embed_missing(caller, any_model=True, progress=None, own=True)
        if done:
            _log().info("%d memories were embedded again by the model that %s chose", done, caller.user_id)

    def note_used(self, ids: Sequence[str]) -> None:
        """Remember that memories were used; written for many at once, so that no search waits for it."""
        now = self.source.now()
        self._used |= dict.fromkeys(ids, now)
        self._flushed = self._flushed or now
        if len(self._used) >= _USED_AT_ONCE or now - self._flushed >= _USED_EVERY:
            self._flushed = now
            if self._operations is not None:
                self._begin(self._flush(self._operations), _NOT_WRITTEN)

    def forget_used(self, ids: Iterable[str]) -> None:
        for each in ids:
            self._used.pop(each, None)

    async def _flush(self, operations: Operations) -> None:
        used, self._used = self._used, {}
        try:
            await operations.mark_used(used)
        except BaseException:
            # Memories used since then keep their later time.
            self._used = used | self._used
            raise

    def _begin(self, work: Coroutine[Any, Any, None], failed: str) -> None:
        """Run work in the background; a failure is logged and affects no other work."""
        import asyncio

        async def heard() -> None:
            try:
                await work
            except ZeusError as error:
                _log().warning("%s: %s", failed, error.message)
            except Exception:  # noqa: BLE001 - the edge of work that nobody waits for: only the log says it
                _log().exception("%s", failed)

        task = asyncio.get_running_loop().create_task(heard())
        # The loop itself refers to tasks only weakly, so an unreferenced one could be collected while it runs.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def embedded_texts(embedder: Embedder, texts: Sequence[str], purpose: Purpose) -> list[Embedded]:
    vectors = await embedder.embed(texts, purpose=purpose)
    embedding = Embedding(embedder.model, embedder.dimension)
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbeddingUnavailableError(
            f"the embedding model {embedder.model} gave vectors of shape {vectors.shape} for {len(texts)} texts",
            remedy=f"It says that its dimension is {embedder.dimension}: correct memory.embeddings.",
        )
    return [Embedded(vector, embedding, embedder.calibration) for vector in vectors]


async def embedded_query(embedder: Embedder, query: str) -> Embedded | None:
    """None for a query that the model knows nothing of."""
    (found,) = await embedded_texts(embedder, [query], "query")
    return found if found.vector.any() else None


async def _embedded_items(
    embedder: Embedder, items: Sequence[MemoryItem], texts: Sequence[str]
) -> list[tuple[MemoryItem, Embedded]]:
    vectors = await embedded_texts(embedder, texts, "memory")
    return list(zip(items, vectors, strict=True))


def _log() -> logging.Logger:
    import logging

    return logging.getLogger(__name__)
