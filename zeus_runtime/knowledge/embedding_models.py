"""The embedding models available to a caller: the one that embeds a new base, and the one that embedded an older base.

Each base has one model, which it records. A user's new base is embedded by the model that the user chose, else by the
config's. A project's base is embedded by the config's model, since one user's choice must not affect the others.

Later texts and queries use the base's model, if the config or the user names it or it needs neither key nor network. No
other model is opened: a base in a shared database must not decide where a user's texts are sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import MissingError, OptionsError, ZeusError
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from zeus_runtime.config.ref import Ref
    from zeus_runtime.knowledge.records import BaseInfo
    from zeus_runtime.memory.embedding import Embedder


class UnavailableModelError(ZeusError):
    """The model that embedded a base is not available (exit 4)."""

    exit_code = 4
    code = "embedding-not-configured"


class AvailableModels:
    """Each is made once, at first use.

    Args:
        configured: makes the config's.
        chosen: makes the one that a user chose.
        offline: makes those that need no key and no network.
        choice: what the user chose, if anything; asked once.
        user: whose choice.
    """

    def __init__(
        self,
        configured: Callable[[], Embedder],
        chosen: Callable[[str, Ref], Embedder] | None,
        offline: Sequence[Callable[[], Embedder]],
        choice: Callable[[], Awaitable[Ref | None]],
        user: str,
    ) -> None:
        self._configured = configured
        self._chosen = chosen
        self._offline = tuple(offline)
        self._choice = choice
        self._user = user
        self._made: dict[object, Embedder] = {}

    async def for_new(self, scope: str) -> Embedder:
        """What embeds a base of the user's or the project's from now on.

        Raises:
            MissingError, OptionsError: it cannot be opened.
        """
        own = await self._own() if scope == "user" else None
        return own or self._open(self._configured)

    async def of(self, base: BaseInfo) -> Embedder:
        """The model of a base's vectors.

        Raises:
            UnavailableModelError: it is not available; the error lists the available models.
        """
        there: list[str] = []
        problems: list[str] = []
        for opened in (self._config_s, self._own, *map(self._later, self._offline)):
            try:
                embedder = await opened()
            except (MissingError, OptionsError) as error:
                problems.append(error.message)
                continue
            if embedder is None:
                continue
            if (embedder.model, embedder.dimension) == (base.embedding, base.dimension):
                return embedder
            there.append(embedder.model)
        known = "; ".join([f"there is {', '.join(dict.fromkeys(there)) or 'none'}", *problems])
        raise UnavailableModelError(
            f"the knowledge base {base.name!r} is embedded by {base.embedding} of {base.dimension} dimensions, which is"
            f" not configured any more ({known})",
            remedy="Name it under memory.embeddings again, or embed the base anew:"
            f" `{zeus_command('kb', 'reindex', base.name)}`.",
        )

    async def close(self) -> None:
        # Taken first, so that a model that is asked for meanwhile is made anew.
        made, self._made = self._made, {}
        await all_tried(*(each.close for each in made.values()))

    async def _config_s(self) -> Embedder:
        return self._open(self._configured)

    async def _own(self) -> Embedder | None:
        if self._chosen is None:
            return None
        ref = await self._choice()
        return None if ref is None else self._open_chosen(self._chosen, ref)

    def _open_chosen(self, chosen: Callable[[str, Ref], Embedder], ref: Ref) -> Embedder:
        # By the function that makes it: a user has one choice while this is open.
        if chosen not in self._made:
            self._made[chosen] = chosen(self._user, ref)
        return self._made[chosen]

    def _later(self, opens: Callable[[], Embedder]) -> Callable[[], Awaitable[Embedder]]:
        async def opened() -> Embedder:
            return self._open(opens)

        return opened

    def _open(self, opens: Callable[[], Embedder]) -> Embedder:
        if opens not in self._made:
            self._made[opens] = opens()
        return self._made[opens]
