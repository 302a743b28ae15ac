"""Chooses the messages to evict: those that arrive too large, and the largest ones if a request does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_plugins.middlewares.eviction.options import Options
    from zeus_runtime.plugin.context import Budget, Item, View

LEAST_TOKENS = 400
"""Smaller messages are never evicted: a pointer with its preview would save too little."""

ROOM = 0.95
"""The share of the window that a request may take after messages were evicted to make it fit."""


WAY_BACK = "recall"
"""The tool that returns evicted texts by pages. If its pages were evicted, they could never be read."""


@dataclass(frozen=True)
class Choice:
    """A message to evict.

    Args:
        item: the message.
        limit_tokens: the limit that it exceeds.
        reason: one sentence.
    """

    item: Item
    limit_tokens: int
    reason: str


def too_large(items: Sequence[Item], view: View, budget: Budget, options: Options) -> Iterator[Choice]:
    """Yield those of ``items`` that exceed their limit."""
    for item in items:
        limit = limit_of(item, options, budget)
        if limit is not None and item.tokens > limit and evictable(view, item):
            yield Choice(item, limit, f"{item.tokens:,} tokens are more than {limit:,}")


def too_much(view: View, budget: Budget, options: Options) -> Sequence[Choice]:
    """Return the largest messages, so many that the request fits the window; the last resort.

    Results of excluded tools come last, and are evicted only if the request could not be sent otherwise.
    """
    excess = budget.used_tokens - int(ROOM * budget.usable_tokens)
    if not budget.overflow or excess <= 0:
        return ()
    large = [item for item in view.items() if item.tokens > LEAST_TOKENS and evictable(view, item)]
    # The largest first, so that as few messages as possible are changed.
    large.sort(key=lambda item: (limit_of(item, options, budget) is None, -item.tokens, item.seq))
    chosen: list[Choice] = []
    saved = 0
    for item in large:
        if saved >= excess:
            break
        chosen.append(Choice(item, LEAST_TOKENS, "the request would not fit the window"))
        # Rather too little: a pointer with its preview is shorter than LEAST_TOKENS.
        saved += item.tokens - LEAST_TOKENS
    return chosen


def instead_of_summary(view: View, budget: Budget, options: Options) -> Iterator[Choice]:
    """Yield the old results that could be evicted to spare a compaction, also of excluded tools."""
    for item in view.items():
        kind, _, tool = item.source.partition(":")
        if item.seq >= budget.room_before or kind != "tool" or item.tokens <= LEAST_TOKENS:
            continue
        if tool != WAY_BACK and options.tools.get(tool, 0) is not None and evictable(view, item):
            yield Choice(item, LEAST_TOKENS, f"{item.tokens:,} tokens make room for less than a compaction")


def limit_of(item: Item, options: Options, budget: Budget) -> int | None:
    """Return a message's limit in tokens; None if it is never evicted on arrival."""
    limit = _written_limit(item, options)
    if limit is None or options.max_fraction is None:
        return limit
    return max(1, min(limit, int(options.max_fraction * budget.usable_tokens)))


def _written_limit(item: Item, options: Options) -> int | None:
    if item.source == "user":
        return options.max_user_tokens
    kind, _, tool = item.source.partition(":")
    if kind != "tool":
        return None
    if tool in options.tools:
        return options.tools[tool]
    return None if tool == WAY_BACK or tool in options.exclude else options.max_tokens


def evictable(view: View, item: Item) -> bool:
    """Whether a message is a user's or a tool's text, shown whole and not pinned."""
    kind = item.source.partition(":")[0]
    return (
        kind in ("user", "tool")
        and isinstance(item.message.content, str)
        and item.seq not in view.pinned
        and not view.evicted(item.seq)
    )
