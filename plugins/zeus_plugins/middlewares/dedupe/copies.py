"""Finds results that later calls superseded, and selects the copies whose replacement saves money."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import Item, View
    from zeus_runtime.plugin.model import ModelProfile
    from zeus_runtime.plugin.tool import Tool

READ_SHARE = 0.1
"""The price of a cached token as a share of a fresh one's if no price is known; most providers charge this."""


@dataclass(frozen=True)
class Copy:
    """An older result, and the newer result that superseded it.

    Args:
        seq: the older result.
        tool: the tool's name.
        call_id: the older call.
        tokens: the size of the older result.
        newer: the newer result's seq.
        changed: the file that the newer call changed after the older one had read it; empty for a copy of a result.
        changed_by: the tool that changed it.
    """

    seq: int
    tool: str
    call_id: str
    tokens: int
    newer: int
    changed: str = ""
    changed_by: str = ""


class Readings:
    """Records which calls read what, as messages arrive.

    Args:
        tools: every tool by name, as a live mapping.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._calls: dict[str, tuple[str, Sequence[str]]] = {}
        self._latest: dict[str, Item] = {}
        self._read: dict[str, list[Item]] = {}

    def take(self, items: Sequence[Item]) -> Sequence[Copy]:
        """Record new messages, oldest first.

        Returns:
            the older results that the new messages supersede: by a newer result of the same call, or by a change of the
            file that was read.
        """
        found = []
        for item in items:
            message = item.message
            if message.type == "ai":
                for call in message.tool_calls:  # type: ignore[attr-defined]
                    key = same(call["name"], call["args"])
                    self._calls[str(call["id"])] = key, self._files(call["name"], call["args"])
                continue
            # Popped, so that only calls without a result are kept.
            key, files = self._calls.pop(getattr(message, "tool_call_id", ""), ("", ()))
            # A failed read says nothing of the file, and a failed write has not changed it.
            if not key or message.status == "error":  # type: ignore[attr-defined]
                continue
            name = item.source.partition(":")[2]
            if item.survival == "replayable":
                older = self._latest.get(key)
                self._latest[key] = item
                if older is not None:
                    found.append(_copy(older, item))
                if len(files) == 1:
                    self._read.setdefault(files[0], []).append(item)
            elif name in self._tools and self._tools[name].access == "write":
                for file in files:
                    found += [_copy(read, item, file, name) for read in self._read.pop(file, ())]
        return found

    def _files(self, name: str, arguments: Mapping[str, object]) -> Sequence[str]:
        """Return the files that a call names; none for an unknown tool."""
        from zeus_plugins.middlewares.approve.rules import is_path

        tool = self._tools.get(name)
        if tool is None:
            return ()
        return [
            posixpath.normpath("/" + value.lstrip("/"))
            for argument, value in arguments.items()
            if isinstance(value, str) and value and (argument in tool.paths or is_path(argument))
        ]


def same(tool: str, arguments: object) -> str:
    """Return a key that is equal for two calls with the same tool and arguments."""
    return f"{tool} {json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)}"


def _copy(older: Item, newer: Item, changed: str = "", changed_by: str = "") -> Copy:
    call_id = older.message.tool_call_id  # type: ignore[attr-defined]
    tool = older.source.partition(":")[2]
    return Copy(older.seq, tool, call_id, older.tokens, newer.seq, changed, changed_by)


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
    # With more than this behind a copy no saving can pay, so the walk back through the view ends there.
    reach = most * (1 + read * horizon_calls / loss) if loss else float("inf")
    best, best_gain = 0, 0.0
    saved = behind = 0
    place = len(view) - 1
    for count, copy in enumerate(newest_first, start=1):
        # Invariant: `behind` are the tokens of all messages from `place + 1` on; each message is added once for all
        # copies.
        while place >= 0 and behind <= reach and (item := view.item(place)).seq > copy.seq:
            behind += item.tokens
            place -= 1
        if behind > reach:
            break
        saved += copy.tokens - pointer_tokens
        # The copies behind this one are pointers by then, so they are not sent anew.
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
