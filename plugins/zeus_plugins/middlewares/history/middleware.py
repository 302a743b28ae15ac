"""At the start of a turn, send the most recent messages only; the whole history stays stored."""

from __future__ import annotations

from collections.abc import Sequence

from zeus_plugins.middlewares.history.options import Options
from zeus_runtime import Budget, Build, DropBefore, Edit, Middleware, View


class History(Middleware):
    """Drops in chunks and only where a turn begins, so that a conversation's prefix stays the same between chunks.

    Args:
        options: how many messages stay, and how many go at once.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        earlier = len(view) - 1
        if earlier <= self._options.max_messages or view[-1].type != "human":
            return ()
        start = _cut(view, earlier - self._options.max_messages, self._options.chunk)
        if start is None:
            return ()
        dropped = view.item(start).seq - view.item(0).seq
        return (
            DropBefore(
                policy="history",
                reason=f"{earlier} earlier messages, {self._options.max_messages} may stay; {dropped} dropped",
                seq=view.item(start).seq,
            ),
        )


def create(options: Options, _build: Build) -> History:
    return History(options)


def _cut(view: View, least: int, chunk: int) -> int | None:
    """Where the view shall start: at least ``least`` messages go; where a turn begins, if one begins soon enough."""
    last = len(view) - 1
    wanted = min(max(least, chunk), last)
    soon = range(wanted, min(wanted + chunk, last) + 1)
    turn = next((place for place in soon if view[place].type == "human"), None)
    if turn is not None:
        return turn
    return next((place for place in range(wanted, last + 1) if view[place].type != "tool"), None)
