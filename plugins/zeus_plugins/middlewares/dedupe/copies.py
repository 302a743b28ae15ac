"""Finds older copies of results that were read again, and selects those whose replacement saves money."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import Item, View
    from zeus_runtime.plugin.model import ModelProfile

READ_SHARE = 0.1
"""The price of a cached token as a share of a fresh one's if no price is known; most providers charge this."""


@dataclass(frozen=True)
class Copy:
    """An older result and the newer result of the same call.

    Args:
        seq: the older result.
        tool: the tool's name.
        call_id: the older call.
        tokens: the size of the older result.
        newer: the newer result's seq.
    """

    seq: int
    tool: str
    call_id: str
    tokens: int
    newer: int


class Readings:
    """Records which calls read what, as messages arrive."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._latest: dict[str, Item] = {}

    def take(self, items: Sequence[Item]) -> Sequence[Copy]:
        """Record new messages, oldest first.

        Returns:
            the older copies of the results that the new messages repeat.
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
    """Return a key that is equal for two calls with the same tool and arguments."""
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
    """Return the copies whose replacement saves more over the next calls than it costs: all, or only the newest.

    After a replacement all messages behind it miss the cache once. Each later call then saves the copy's tokens at the
    price of a cached token. So a copy is weighed together with all copies behind it.

    Args:
        copies: the copies that may be replaced, in any order.
        pointer_tokens: the size of the pointer.
        horizon_calls: the number of further calls over which the saving counts.
        prices: the prices of a cached and of a newly written token, as shares of a fresh token's price.
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
    """Return the prices of a cached and of a newly written token, as shares of a fresh token's price."""
    fresh = profile.input_cost_per_token
    if not fresh:
        return READ_SHARE, 1.0
    read, write = profile.cache_read_cost_per_token, profile.cache_write_cost_per_token
    return (1.0 if read is None else read / fresh), (1.0 if write is None else write / fresh)
