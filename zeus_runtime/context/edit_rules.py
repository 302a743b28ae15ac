"""The rules for edits: the conditions for an edit to change the view, and the cost of a changed prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.edits import DropBefore, Edit, Evict, Pin, Summarize, TruncateArguments
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.context.budget import Budget
    from zeus_runtime.context.items import Item
    from zeus_runtime.context.view import Effect, View
    from zeus_runtime.models.profiles import ModelProfile

CACHE_HORIZON_CALLS: Final = 20
"""How many further calls a shorter prefix is expected to save tokens for."""

PRESSURE: Final = 0.5
"""From this share of the window on, room itself is worth a changed prefix, since it delays the next compaction."""


@dataclass(frozen=True)
class Refusal:
    """Why an edit was not admitted; policies also return it for an edit that their own limits forbid."""

    edit: Edit
    reason: str


@dataclass(frozen=True)
class Reported:
    """The true size of a request besides its counted size; the part that stays the same need not be estimated again.

    Args:
        tokens_reported: by the provider; 0, as ``tokens_counted``, before its first report.
        tokens_counted: by the counter.
    """

    tokens_reported: int
    tokens_counted: int

    def tokens(self, counted: int) -> int:
        """The size of a request that extends or shortens that one and is counted as ``counted``."""
        if counted >= self.tokens_counted:
            return self.tokens_reported + counted - self.tokens_counted
        # By the ratio: which tokens of the reported request are gone is not known.
        return round(self.tokens_reported * counted / max(1, self.tokens_counted))


@dataclass(frozen=True)
class Cached:
    """The part of the last request that the provider may still have cached, and its value.

    Args:
        sent: the view as it was sent last; None before the first call.
        read_price, write_price: relative to a fresh input token (1.0).
        minimum_tokens: shorter prefixes are not cached.
    """

    sent: View | None = None
    read_price: float = 0.1
    write_price: float = 1.0
    minimum_tokens: int = 1024


def cached_prices(profile: ModelProfile, sent: View | None) -> Cached:
    """The cost of a changed prefix with this model; without known cache prices, a change counts as free."""
    price, read, write = (
        profile.input_cost_per_token,
        profile.cache_read_cost_per_token,
        profile.cache_write_cost_per_token,
    )
    if not price or read is None:
        return Cached(sent, 1.0, 1.0)
    return Cached(sent, read / price, 1.0 if write is None else write / price)


def review(view: View, edit: Edit, effect: Effect | None = None) -> Refusal | None:
    """None if ``edit`` may be admitted to ``view``, else the reason for refusing it.

    An edit must name existing messages, touch no pinned one, never separate a tool call from its result, leave
    something to send and shrink the view.

    Args:
        effect: the result of ``view.effect(edit)``, if it is already known.
    """
    reason = _misfit(view, edit)
    if reason is None and not isinstance(edit, Pin):
        effect = effect or view.effect(edit)
        if effect.tokens_after >= view.tokens:
            reason = "it does not shrink the view"
    return None if reason is None else Refusal(edit, reason)


def _misfit(view: View, edit: Edit) -> str | None:
    if isinstance(edit, DropBefore | Summarize):
        return _bad_cut(view, edit)
    if not 1 <= edit.seq <= view.upto:
        return f"there is no message {edit.seq}"
    if isinstance(edit, Pin):
        if edit.seq in view.pinned:
            return f"message {edit.seq} is pinned already"
        return None if view.shown(edit.seq) else f"message {edit.seq} has left the view"
    if edit.seq in view.pinned:
        return f"message {edit.seq} is pinned"
    if not view.shown(edit.seq):
        return f"message {edit.seq} has left the view"
    if isinstance(edit, Evict):
        return None
    return _bad_arguments(view, edit)


def _bad_cut(view: View, edit: DropBefore | Summarize) -> str | None:
    # At `view.first` itself a cut removes no message, but it can replace the summary.
    if edit.seq < view.first or (edit.seq == view.first and view.summary is None):
        return "it does not shrink the view"
    if edit.seq > view.upto:
        return "it would leave nothing to send"
    if view.original(edit.seq).type == "tool":
        return f"message {edit.seq} is a tool result whose call would be dropped"
    return None


def _bad_arguments(view: View, edit: TruncateArguments) -> str | None:
    calls = getattr(view.item_of(edit.seq).message, "tool_calls", ())
    call = next((each for each in calls if each["id"] == edit.call_id), None)
    if call is None:
        return f"message {edit.seq} has no call {edit.call_id!r}"
    if unknown := [name for name in edit.arguments if name not in call["args"]]:
        return f"the call {edit.call_id!r} has no argument {unknown[0]!r}"
    return None


def breaks_cache(view: View, edits: Sequence[Edit], budget: Budget, cached: Cached) -> str | None:
    """Why the in-place ``edits`` of one policy together cost more than they save; None if they pay.

    Only content that was sent before can be cached, so newer content is free to change. After a changed prefix,
    everything that follows the first changed message is written to the cache again at once. In return, the saved tokens
    need not be read at each of the next ``CACHE_HORIZON_CALLS`` calls. From ``PRESSURE`` on, room is worth more than
    the prefix.

    Args:
        view: before the edits.
        edits: those that passed ``review``.
    """
    sent = cached.sent
    replacing = [edit for edit in edits if isinstance(edit, Evict | TruncateArguments)]
    old = [edit for edit in replacing if sent is not None and edit.seq <= sent.upto and sent.shown(edit.seq)]
    if sent is None or not old or budget.overflow or budget.fraction_used >= PRESSURE:
        return None
    start = view.index(min(edit.seq for edit in old))
    rewritten = sum(item.tokens for item in _sent_items(view, start, sent.upto))
    # The rest behind the change is less than the provider's shortest cached prefix: too little to weigh.
    if rewritten < cached.minimum_tokens:
        return None
    saved = sum(view.tokens - view.effect(edit).tokens_after for edit in replacing)
    # A written token costs more than a read one, so the difference is what the changed prefix costs once.
    cost = (rewritten - saved) * (cached.write_price - cached.read_price)
    gain = saved * cached.read_price * CACHE_HORIZON_CALLS
    if cost <= gain:
        return None
    return f"{rewritten:,} cached tokens would be sent anew to save {saved:,}"


def _sent_items(view: View, start: int, upto: int) -> Sequence[Item]:
    items = (view.item(index) for index in range(start, len(view)))
    return [item for item in items if item.seq <= upto]
