"""The history policy: at the start of a turn, send the most recent messages only; the whole history stays stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin.context import DropBefore
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.model import is_users

if TYPE_CHECKING:
    from zeus_plugins.middlewares.history.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, View


class History(Middleware):
    """Drops messages in chunks and only at the start of a turn, so that the prefix stays the same between chunks.

    Pinned messages stay and do not count. A summary does not count either.

    Args:
        options: how many messages stay, and how many are dropped at once.
    """

    proposes = (DropBefore,)

    def __init__(self, options: Options, _context: RunContext) -> None:
        self._options = options

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        # Without the last message, which begins the turn.
        seqs = range(view.first, view.upto)
        earlier = len(seqs) - sum(seq in seqs for seq in view.pinned)
        if earlier <= self._options.max_messages or not is_users(view[-1]):
            return ()
        seq = _cut(view, max(earlier - self._options.max_messages, self._options.chunk), self._options.chunk)
        if seq is None:
            return ()
        return (
            DropBefore(
                policy="history",
                reason=f"{earlier} earlier messages, at most {self._options.max_messages} are sent;"
                f" {seq - view.first} dropped",
                seq=seq,
            ),
        )


def _cut(view: View, count: int, chunk: int) -> int | None:
    """Return the first message to keep if ``count`` are dropped; up to ``chunk`` more, if a turn begins there."""
    wanted = view.first
    while count > 0 and wanted < view.upto:
        count -= wanted not in view.pinned
        wanted += 1
    # The view then begins with a prompt and not in the middle of a turn.
    soon = range(wanted, min(wanted + chunk, view.upto) + 1)
    turn = next((seq for seq in soon if is_users(view.original(seq))), None)
    if turn is not None:
        return turn
    # Not at a tool's result: its call would be dropped without it.
    return next((seq for seq in range(wanted, view.upto + 1) if view.original(seq).type != "tool"), None)
