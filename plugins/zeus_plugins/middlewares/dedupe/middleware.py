"""The dedupe policy: replaces superseded results by pointers, when that pays or makes room for less than a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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

_TRIGGER: Final = Size(fraction=0.7)
_TRIGGER_UNKNOWN: Final = Size(messages=60)


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
        self._readings = Readings(context.tools)
        self._waiting: list[Copy] = []
        self._stale: list[Copy] = []
        self._seen = 0
        self._ask_again_at = 0.0

    @property
    def _trigger(self) -> Size:
        return self._options.trigger or (_TRIGGER if self._context.profile.known else _TRIGGER_UNKNOWN)

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        new = arrivals(view, self._seen)
        self._seen = max(self._seen, view.upto)
        found = [
            copy
            for copy in self._readings.take(new)
            if copy.tokens >= self._options.min_tokens and copy.tool not in self._options.exclude
        ]
        self._waiting += [copy for copy in found if not copy.changed]
        self._stale += [copy for copy in found if copy.changed]
        if budget.room_before or budget.overflow:
            self._stale = [copy for copy in self._stale if _shown_whole(view, copy)]
        # A compaction is due and asks what would be cheaper: also results that a later write made out of date.
        if budget.room_before:
            self._waiting = [copy for copy in self._waiting if _both_shown(view, copy)]
            old = [copy for copy in self._stale if copy.seq < budget.room_before]
            why = "that makes room for less than a compaction"
            return [self._edit(copy, why) for copy in _once(self._waiting, old)]
        full = budget.at_least(self._trigger) and budget.fraction_used >= self._ask_again_at
        # Each edit costs a prefix, so nothing is weighed at a step that brought no new copy and no new pressure.
        is_asked = any(not copy.changed for copy in found) or full or budget.overflow
        if not is_asked or not (self._waiting or (budget.overflow and self._stale)):
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
        # Refused edits would be refused again at the next step: the cached prefix is as dear as before.
        if chosen:
            self._ask_again_at = budget.fraction_used + ASK_AGAIN_AFTER
        why = "the window is filling" if full else "sending the rest again once costs less than the copy"
        return [self._edit(copy, why) for copy in _once(chosen, self._stale if budget.overflow else ())]

    def _edit(self, copy: Copy, why: str) -> Evict:
        handle = self._context.archive.result_handle(copy.call_id)
        if copy.changed:
            told = f"{copy.changed_by} changed {copy.changed} in message {copy.newer}"
            shown = (
                f"[{copy.changed_by} changed {copy.changed} further below, so this earlier result of {copy.tool} is"
                f" out of date. It is kept in {handle}]"
            )
        else:
            told = f"{copy.tool} was called again, with its newer result in message {copy.newer}"
            shown = (
                f"[{copy.tool} was called again later with the same arguments: its newer result is further below."
                f" This older one is kept in {handle}]"
            )
        return Evict("dedupe", f"{told}; {why}", copy.seq, shown, handle)


def _once(copies: Sequence[Copy], stale: Sequence[Copy]) -> Sequence[Copy]:
    """Return each superseded result once, oldest first; a copy rather than a stale one."""
    by_seq = {copy.seq: copy for copy in (*stale, *copies)}
    return [by_seq[seq] for seq in sorted(by_seq)]


def _both_shown(view: View, copy: Copy) -> bool:
    return _shown_whole(view, copy) and view.shown(copy.newer) and not view.evicted(copy.newer)


def _shown_whole(view: View, copy: Copy) -> bool:
    return view.shown(copy.seq) and copy.seq not in view.pinned and not view.evicted(copy.seq)
