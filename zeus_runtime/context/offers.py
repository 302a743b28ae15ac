"""A compaction that costs a model call, and the choice of cheaper edits that make enough room instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zeus_runtime.context.edits import Evict, TruncateArguments
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.context.edit_rules import Refusal
    from zeus_runtime.context.edits import Edit
    from zeus_runtime.context.view import View
    from zeus_runtime.models.profiles import ModelProfile

InPlace: TypeAlias = Evict | TruncateArguments
"""An edit that shortens one message where it is; it costs no model call."""


@dataclass(frozen=True)
class CompactionOffer:
    """A compaction that is due and not made yet. The planner makes it unless cheaper edits make enough room.

    Args:
        policy: the middleware that offers it.
        reason: why it is due.
        seq: the first message that it would leave unchanged.
        cheaper_first: the middlewares that are asked first for edits in place, in this order.
        at_most_tokens: how large the request may be so that the compaction is not due again at once.
        removes_tokens: how many tokens it removes.
        make: makes its edits.
        price_usd: its price, with that of the broken cache; None where a price is unknown.
        spent_usd: the cost, so far, of sending again what it removes.
    """

    policy: str
    reason: str
    seq: int
    cheaper_first: tuple[str, ...]
    at_most_tokens: int
    removes_tokens: int
    make: Callable[[], Awaitable[Sequence[Edit | Refusal]]]
    price_usd: float | None = None
    spent_usd: float = 0.0

    def worth_usd(self, saved_tokens: int) -> float:
        """What edits that save so many tokens are worth, measured by this compaction; 0 without a price.

        A share s of its room is worth the share s of its price, less the cost of sending the rest on while that room
        fills again. The rest is the share 1 - s, and the room lasts for the share s of the steps, so that is
        s * (1 - s) of the cost of sending so far. Both follow from a window that fills evenly.
        """
        if self.price_usd is None:
            return 0.0
        share = min(1.0, saved_tokens / max(1, self.removes_tokens))
        return share * (self.price_usd - (1 - share) * self.spent_usd)


class TokenPrices(NamedTuple):
    """Prices in US dollars.

    Args:
        again: for a token that the provider has cached.
        anew: for one behind the place where the prefix changed.
    """

    again: float
    anew: float


def token_prices(profile: ModelProfile) -> TokenPrices:
    """The prices of a model; where one is unknown, a changed prefix counts as free."""
    fresh = profile.input_cost_per_token or 0.0
    again, anew = profile.cache_read_cost_per_token, profile.cache_write_cost_per_token
    if again is None:
        return TokenPrices(fresh, fresh)
    return TokenPrices(again, fresh if anew is None else anew)


class Shortening(NamedTuple):
    """An edit in place, and the tokens that it saves."""

    edit: InPlace
    saved_tokens: int


class Cheaper(NamedTuple):
    """Edits in place that might replace a compaction.

    Args:
        edits: oldest message first.
        saved_tokens: what they save together.
        cost_usd: the cost of sending anew what follows the first of them; negative if they save money at once.
        worth_usd: what as much room costs by the compaction.
        is_enough: whether the compaction would then not be due again at once.
    """

    edits: tuple[InPlace, ...]
    saved_tokens: int
    cost_usd: float
    worth_usd: float
    is_enough: bool

    @property
    def pays(self) -> bool:
        """Whether they make enough room for at most the compaction's price."""
        return self.is_enough and self.cost_usd <= self.worth_usd


def best_part(
    view: View,
    shortenings: Iterable[Shortening],
    offer: CompactionOffer,
    *,
    prices: TokenPrices,
    sent: View | None,
    reach: int,
    fits: Callable[[int], bool],
) -> Cheaper | None:
    """The part of ``shortenings`` that saves most money compared with the offer; None without any.

    The oldest changed message decides which part of the cached prefix is lost, so every edit of a newer message is free
    beside it: a part is all edits from one message on.

    Args:
        prices: of the model.
        sent: the last request's view, as far as the provider still has it cached; None if it does not.
        reach: a change before so many of the newest messages loses the cached prefix of all; 0 if it never does.
        fits: whether a request is small enough after so many tokens were saved.
    """
    by_place: dict[int, list[Shortening]] = {}
    for each in shortenings:
        by_place.setdefault(view.index(each.edit.seq), []).append(each)
    found: list[Cheaper] = []
    chosen: list[InPlace] = []
    saved = behind = 0
    end = len(view)
    # From the newest message to the oldest. Invariant: `behind` are the cached tokens from `first` on, after these
    # edits.
    for place in sorted(by_place, reverse=True):
        first = 0 if reach and len(view) - place > reach else place
        behind += sum(_cached_tokens(view, sent, index) for index in range(first, end))
        end = min(end, first)
        here = sum(each.saved_tokens for each in by_place[place])
        saved += here
        behind -= here if _cached_tokens(view, sent, place) else 0
        chosen += [each.edit for each in by_place[place][::-1]]
        cost = -saved * prices.anew if sent is None else behind * (prices.anew - prices.again)
        # Without a price nothing can be weighed in money: the part that makes most room wins.
        if offer.price_usd is None:
            cost = 0.0
        found.append(Cheaper(tuple(chosen[::-1]), saved, cost, offer.worth_usd(saved), fits(saved)))
    return max(found, key=_gain, default=None)


def _cached_tokens(view: View, sent: View | None, index: int) -> int:
    item = view.item(index)
    return item.tokens if sent is not None and item.seq <= sent.upto else 0


def _gain(part: Cheaper) -> tuple[bool, float, int]:
    return part.is_enough, part.worth_usd - part.cost_usd, part.saved_tokens
