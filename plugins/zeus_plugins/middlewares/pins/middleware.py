"""The pins policy: pinned messages stay in the view byte for byte; no policy may change them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from zeus_runtime.plugin.context import Pin, Refusal, arrivals, tool_groups
from zeus_runtime.plugin.middleware import Middleware

if TYPE_CHECKING:
    from zeus_plugins.middlewares.pins.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, Item, View

ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}


class Pins(Middleware):
    """Checks each message once, when it arrives.

    Args:
        options: which messages are pinned.
    """

    proposes = (Pin,)

    def __init__(self, options: Options, _context: RunContext) -> None:
        self._options = options
        self._seen = 0
        self._taken: int | None = None

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit | Refusal]:
        # After a resume the pins of earlier runs count too.
        if self._taken is None:
            self._taken = sum(view.item_of(seq).tokens for seq in view.pinned)
        pins: list[Edit | Refusal] = []
        for group in tool_groups(arrivals(view, self._seen)):
            reason = next((why for item in group if (why := self._why(item))), "")
            tokens = sum(item.tokens for item in group)
            # Pinned by an earlier run: its tokens are in `_taken` already.
            if not reason or group[0].seq in view.pinned:
                continue
            pin = Pin(policy="pins", reason=reason, seq=group[0].seq)
            if self._taken + tokens > self._options.max_tokens:
                pins.append(Refusal(pin, self._too_much(reason, tokens)))
                continue
            self._taken += tokens
            pins.append(pin)
        self._seen = max(self._seen, view.upto)
        return pins

    def _too_much(self, reason: str, tokens: int) -> str:
        limit = self._options.max_tokens
        return f"{tokens:,} tokens ({reason}) and {self._taken:,} already pinned ones exceed max_tokens = {limit:,}"

    @cached_property
    def _patterns(self) -> Sequence[re.Pattern[str]]:
        return [re.compile(pattern) for pattern in self._options.patterns]

    def _why(self, item: Item) -> str:
        if self._options.first_user and item.seq == 1 and item.source == "user":
            return "the user's first message"
        kind, _, tool = item.source.partition(":")
        if kind == "tool" and tool in self._options.tools:
            return f"a result of {tool}"
        if ROLES.get(item.message.type) in self._options.roles and item.source not in ("summary", "runtime"):
            text = item.message.text if isinstance(item.message.content, list) else item.message.content
            for pattern in self._patterns:
                if pattern.search(str(text)):
                    return f"it has {pattern.pattern!r}"
        return ""
