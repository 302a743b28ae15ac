"""Older copies of what was read again, and which of them pay to be replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import Item, View
    from zeus_runtime.plugin.model import ModelProfile

READ_SHARE = 0.1
"""What a cached token costs of a fresh one where no price is known: what most providers ask."""


@dataclass(frozen=True)
class Copy:
    """An older result and the newer one of the same call.

    Args:
        seq: the older result.
        tool: the tool's name.
        call_id: the older call.
        tokens: what the older result takes.
        newer: the newer result's seq.
    """

    seq: int
    tool: str
    call_id: str
    tokens: int
    newer: int


class Readings:
    """What was read with which arguments, kept as messages arrive."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._latest: dict[str, Item] = {}

    def take(self, items: Sequence[Item]) -> Sequence[Copy]:
        """Look at new messages, oldest first.

        Returns:
            the older copies of what they read again.
        """
        copies = []
        for item in items:
            message = item.message
            if message.type == "ai":
                for call in message.tool_calls:  # type: ignore[attr-defined]
                    self._calls[str(call["id"])] = same(call["name"], call["args"])
            elif message.type == "tool" and item.survival == "replayable":
                key = self._calls.pop(message.tool_call_id, None)  # type: ignore[attr-defined]
                if key is None or message.status == "error":  # type: ignore[attr-defined]
                    continue
                older = self._latest.get(key)
                self._latest[key] = item
                if older is not None:
                    copies.append(_copy(older, item))
        return copies


def same(tool: str, arguments: object) -> str:
    """A key that two calls share if they ask for the same."""
    return f"{tool} {json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)}"


def _copy(older: Item, newer: Item) -> Copy:
    call_id = older.message.tool_call_id  # type: ignore[attr-defined]
    return Copy(older.seq, older.source.partition(":")[2], call_id, older.tokens, newer.seq)


def paying(
    copies: Sequence[Copy],
    view: View,
    *,
    pointer_tokens: int,
    horizon_calls: int,
    prices: tuple[float, float],
) -> Sequence[Copy]:
    """The copies whose replacement costs less than it saves over the next calls; all or the newest few.

    Replacing one at some place sends all behind it past the cache once. Its tokens are saved at each call, at the
    price of a cached token. So a copy pays together with all that stand behind it.

    Args:
        copies: what may be replaced, in any order.
        pointer_tokens: what the pointer takes instead.
        horizon_calls: how many further calls count.
        prices: of a cached and of a newly written token, as shares of a fresh one's.
    """
    read, write = prices
    newest_first = sorted(copies, key=lambda copy: -copy.seq)
    most = sum(max(0, copy.tokens - pointer_tokens) for copy in copies)
    loss = max(0.0, write - read)
    reach = most * (1 + read * horizon_calls / loss) if loss else float("inf")
    best, best_gain = 0, 0.0
    saved = behind = 0
    place = len(view) - 1
    for count, copy in enumerate(newest_first, start=1):
        while place >= 0 and behind <= reach and (item := view.item(place)).seq > copy.seq:
            behind += item.tokens
            place -= 1
        if behind > reach:
            break
        saved += copy.tokens - pointer_tokens
        rewritten = max(0, behind - (saved - copy.tokens + pointer_tokens))
        gain = saved * read * horizon_calls - rewritten * loss
        if gain > best_gain:
            best, best_gain = count, gain
    return newest_first[:best][::-1]


def prices_of(profile: ModelProfile) -> tuple[float, float]:
    """What a cached and a newly written token cost, as shares of a fresh one's price."""
    fresh = profile.input_cost_per_token
    if not fresh:
        return READ_SHARE, 1.0
    read, write = profile.cache_read_cost_per_token, profile.cache_write_cost_per_token
    return (1.0 if read is None else read / fresh), (1.0 if write is None else write / fresh)
