"""Puts the profiles and the memories relevant to the user's message into the prompt: sections 11 and 12."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.middlewares.memory.shown import (
    entry_of,
    restored,
    sources_of,
    stale,
    successors,
    warning,
)
from zeus_runtime.plugin import ZeusError
from zeus_runtime.plugin.middleware import Middleware, Section, SourcedText
from zeus_runtime.plugin.model import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from zeus_plugins.middlewares.memory.options import Options
    from zeus_plugins.middlewares.memory.shown import (
        Shown,
    )
    from zeus_runtime.plugin import Ref, RunContext
    from zeus_runtime.plugin.memory import MemoryItem, MemoryService, Ranked
    from zeus_runtime.plugin.middleware import CallRun, Turn

_log = logging.getLogger(__name__)

QUERY_CHARACTERS: Final = 2_000
"""For a longer message, the query is its beginning and its end."""


class RememberedContext(Middleware):
    """Shows all memories while they are few, else those that one search for each user message finds.

    Before each step it checks whether the memories it showed are still valid.

    Without a memory it does nothing.

    Args:
        options: how much to show.
        context: the memory service.
    """

    judges = False

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._found: list[Ranked] | None = None
        self._former: dict[str, Shown] = {}
        self._stale: dict[str, Shown] = {}

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        memory = self._context.memory
        if memory is None:
            return {}
        filled: dict[Section, str] = {}
        if self._options.profile:
            filled[Section.PROFILE] = await memory.get_profile_for_agent(
                max_characters=self._options.max_profile_characters
            )
        filled[Section.MEMORIES] = await self._memories(memory, turn)
        return {section: text for section, text in filled.items() if text}

    async def wrap_run(self, turn: Turn, call_next: CallRun) -> None:
        await call_next(turn)
        memory, after = self._context.memory, self._options.profile_after
        if memory is not None and after is not None:
            await self._draw_profiles(memory, after)

    async def _memories(self, memory: MemoryService, turn: Turn) -> SourcedText:
        if self._found is None:
            self._former, self._stale = sources_of(turn.sources.get(Section.MEMORIES, ()))
            self._found = await self._search(memory, turn)
        known = {**self._former, **{each.item.id: entry_of(each) for each in self._found}}
        current = await memory.current_memories(known.keys() | self._stale.keys())
        gone = stale(memory, known, current)
        still = {name: each for name, each in self._stale.items() if not restored(memory, each, current)}
        self._stale = still | gone
        # Only then: a search at each step would change the section, and with it the provider's cached prefix.
        if gone.keys() & {each.item.id for each in self._found}:
            self._found = await self._search(memory, turn)
        # Changed memories now count in their new version; their version as shown stays listed as outdated.
        self._former = {name: shown for name, shown in known.items() if name not in gone}
        following = await successors(memory, self._stale.values(), current)
        return self._section(memory, following)

    async def _search(self, memory: MemoryService, turn: Turn) -> list[Ranked]:
        text = turn.user_text
        if len(text) > QUERY_CHARACTERS:
            half = QUERY_CHARACTERS // 2
            text = f"{text[:half]}\n{text[-half:]}"
        top_k = self._top_k(memory)
        found = await memory.search_memories(text, k=top_k)
        if self._options.top_k is None and top_k > 0:
            found = await memory.all_if_they_fit(found, max_characters=self._options.max_characters)
        found = [each for each in found if each.final_score >= self._options.min_score]
        return (await memory.newest_first(found))[: max(top_k, len(found))]

    def _section(self, memory: MemoryService, following: Mapping[str, MemoryItem]) -> SourcedText:
        """Return the section: replacements of memories shown before, then search results, then outdated memories."""
        found = {each.item.id: each for each in self._found or ()}
        items = [item for name, item in following.items() if name not in found]
        top_k = self._top_k(memory)
        block = memory.format_memories_for_prompt(
            [*items, *found.values()],
            top_k=top_k if len(found) <= top_k else len(items) + len(found),
            max_characters=self._options.max_characters,
        )
        shown = [entry_of(found.get(name) or following[name]) for name in block.ids]
        listed = {each.id for each in shown}
        former = [each for name, each in self._former.items() if name not in listed]
        sources = [
            *({**each.as_json(), "shown": True} for each in shown),
            *(each.as_json() for each in self._stale.values()),
            *({**each.as_json(), "shown": False} for each in former),
        ]
        text = "\n".join(filter(None, (block.text, warning(self._stale.values(), listed))))
        # Memories shown before are tracked only up to a number, so that the ledger's entry stays small.
        return SourcedText(text, sources[:_MOST_SOURCES])

    def _top_k(self, memory: MemoryService) -> int:
        return memory.settings.top_k if self._options.top_k is None else self._options.top_k

    async def _draw_profiles(self, memory: MemoryService, after: int) -> None:
        model = self._options.profile_model
        ask = None if model is None else partial(self._ask, model)
        for kind in ("user", "project"):
            try:
                if await memory.profiles.news(kind) >= after:
                    await memory.profiles.draw(kind, ask)
            except ZeusError as error:
                # The run already has its answer; the next run derives the profile again.
                _log.warning("the profile of the %s could not be derived: %s", kind, error)

    async def _ask(self, name: Ref, system: str, text: str) -> str:
        from langchain_core.messages import HumanMessage

        model = self._context.open_model(name)
        request = ModelRequest(system=system, messages=[HumanMessage(text)], purpose="profile")
        answer: Any = None
        async for piece in model.stream(request):
            if isinstance(piece, ModelResponse):
                answer = piece.message.text
        return str(answer or "")


_MOST_SOURCES: Final = 40
