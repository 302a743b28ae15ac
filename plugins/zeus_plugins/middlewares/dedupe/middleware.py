"""The dedupe policy: replaces the older copy of a repeated result by a pointer to the newer one, when that pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_plugins.middlewares.dedupe.copies import Readings, paying, prices_of
from zeus_runtime.plugin.context import Evict, Size, arrivals
from zeus_runtime.plugin.middleware import Middleware

if TYPE_CHECKING:
    from zeus_plugins.middlewares.dedupe.copies import Copy
    from zeus_plugins.middlewares.dedupe.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, View

POINTER_TOKENS = 60
"""The approximate size of a pointer."""

ASK_AGAIN_AFTER = 0.1
"""How much fuller the window must be before refused edits are proposed again, as a share of the window."""


class Dedupe(Middleware):
    """Weighs older copies when a new one appears, and replaces all of them once the window is full enough.

    Args:
        options: when a replacement is worth it.
        context: the model's prices and the archive's handles.
    """

    proposes = (Evict,)

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._trigger = options.trigger or (
            Size(fraction=0.7) if context.profile.known else Size(messages=60)
        )
        self._readings = Readings()
        self._waiting: list[Copy] = []
        self._seen = 0
        self._ask_again_at = 0.0

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        new = arrivals(view, self._seen)
        self._seen = max(self._seen, view.upto)
        found = [
            copy
            for copy in self._readings.take(new)
            if copy.tokens >= self._options.min_tokens and copy.tool not in self._options.exclude
        ]
        self._waiting += found
        full = budget.at_least(self._trigger) and budget.fraction_used >= self._ask_again_at
        if not self._waiting or not (found or full or budget.overflow):
            return ()
        self._waiting = [copy for copy in self._waiting if _both_shown(view, copy)]
        chosen: Sequence[Copy] = self._waiting
        if not full and not budget.overflow:
            chosen = paying(
                self._waiting,
                view,
                pointer_tokens=POINTER_TOKENS,
                horizon_calls=self._options.horizon_calls,
                prices=prices_of(self._context.profile),
            )
        if chosen:
            self._ask_again_at = budget.fraction_used + ASK_AGAIN_AFTER
        return [self._edit(copy, full=full) for copy in sorted(chosen, key=lambda copy: copy.seq)]

    def _edit(self, copy: Copy, *, full: bool) -> Evict:
        handle = self._context.archive.result_handle(copy.call_id)
        why = "the window is filling" if full else "sending the rest again once costs less than the copy"
        return Evict(
            policy="dedupe",
            reason=f"{copy.tool} was called again, with its newer result in message {copy.newer}; {why}",
            seq=copy.seq,
            content=(
                f"[{copy.tool} was called again later with the same arguments: its newer result is further below."
                f" This older one is kept in {handle}]"
            ),
            handle=handle,
        )


def _both_shown(view: View, copy: Copy) -> bool:
    return (
        view.shown(copy.seq)
        and view.shown(copy.newer)
        and copy.seq not in view.pinned
        and not view.evicted(copy.seq)
        and not view.evicted(copy.newer)
    )
