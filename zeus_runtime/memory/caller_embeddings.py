"""What a caller's memories are embedded with: the choice of a model, and vectors that are still to be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zeus_runtime.errors import ErrorsMasked, UsageError
from zeus_runtime.memory.items import Caller, Embedding
from zeus_runtime.memory.opened import embedded_texts

if TYPE_CHECKING:
    from zeus_runtime.config.ref import Ref
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.memory.opened import OpenedMemory


class CallerEmbeddings(ErrorsMasked):
    """The embedding model of the caller's user.

    Args:
        opened: the memories.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._opened = opened
        self._caller = caller

    def _error_mask(self) -> Redactor:
        return self._opened.source.secrets

    async def model(self) -> Embedding | None:
        """What the caller's texts and queries are embedded with; None without a model.

        Raises:
            MissingError: the user's choice, its key or a package of it is missing.
            OptionsError: the user's choice cannot be used.
        """
        embedder = await self._opened.embedder(self._caller.user_id)
        return None if embedder is None else Embedding(embedder.model, embedder.dimension)

    async def stored(self) -> str | None:
        """The choice of the caller's user as it is kept, whether it can be used or not; None without one."""
        return await self._opened.choice(self._caller.user_id)

    async def chosen(self) -> Ref | None:
        """The embedding model that the caller's user chose; None for the config's.

        Raises:
            OptionsError: the stored choice is invalid.
        """
        from zeus_runtime.memory.embedding_choice import chosen_ref

        stored = await self._opened.choice(self._caller.user_id)
        return None if stored is None else chosen_ref(stored, self._caller.user_id)

    async def choose(self, ref: Ref | None) -> None:
        """Embed this user's later texts and queries by a model that the user chooses; None: by the config's again.

        Memories keep their vectors, which are then compared with nothing. They are found by their words until
        ``embed_again``, ``reindex`` or, after its first search, an agent in the background embeds them again. An agent
        that already has its memory open uses the choice after it opens the memory again.

        Args:
            ref: secrets do not belong in its options, they are read from the environment.

        Raises:
            MissingError: there is no such component, or its key or a package of it is missing; nothing is stored.
            OptionsError: the options do not fit it; nothing is stored.
            EmbeddingUnavailableError: it does not answer; nothing is stored.
            UsageError: memory without a config has no choice, or the options cannot be stored.
        """
        from zeus_runtime.memory.embedding_choice import as_stored, store_choice

        self._refuse_other_backends()
        user, stored = self._caller.user_id, None if ref is None else as_stored(ref)
        operations = await self._opened.operations()
        if stored is not None:
            made = self._opened.made(user, stored)
            assert made is not None, "a choice names one"
            await embedded_texts(made, ["a text"], "memory")
        now = operations.database.time()
        await operations.database.write(
            lambda connection: store_choice(connection, user, stored, now), self._caller
        )
        # After the commit: if the write fails, the former choice stays in force.
        self._opened.choices[user] = stored

    async def backfill(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed the caller's memories that have no vector yet. Returns their number.

        Raises:
            EmbeddingUnavailableError: the model does not answer; finished work is kept.
        """
        self._refuse_other_backends()
        return await self._opened.embed_missing(
            await self._opened.acting(self._caller), any_model=False, progress=progress
        )

    async def embed_again(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed the memories that the caller's user wrote and another model embedded. Returns their number.

        It may be stopped at any time and continues from there, also in the background of an agent.

        Raises:
            EmbeddingUnavailableError: the model does not answer; finished work is kept.
        """
        self._refuse_other_backends()
        caller = await self._opened.acting(self._caller)
        return await self._opened.embed_missing(caller, any_model=True, progress=progress, own=True)

    async def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Rebuild the lexical index, and the vectors of the caller's memories that another model made.

        It may be stopped at any time and continues from there.

        Args:
            progress: called with (done, in all) after each batch.

        Raises:
            EmbeddingUnavailableError: there is no model or it does not answer; finished work is kept.
        """
        self._refuse_other_backends()
        await (await self._opened.operations()).rebuild_words()
        return await self._opened.embed_missing(
            await self._opened.acting(self._caller), any_model=True, progress=progress
        )

    def _refuse_other_backends(self) -> None:
        from zeus_runtime.memory.database_memory import backend_of

        if not backend_of(self._opened, self._caller).in_database:
            raise UsageError(
                "this memory's backend embeds in its own way",
                remedy="Set memory.backend to `database` to use this, or see the options of the backend.",
            )
