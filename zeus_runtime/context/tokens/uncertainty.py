"""How much larger than its count a request may be: a share of its new tokens, learned from the provider's reports."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.context.tokens.counter import Counter

ESTIMATED: Final = 0.18
"""The share before any report, for a counter that estimates and says no more: that of a model of which nothing is
known (docs/explanation/tokens.md)."""
_LARGEST: Final = 1.0
_FEWEST_TOKENS: Final = 100
"""A report of fewer new tokens teaches nothing: the rounding of a few messages would be a large share of them."""


@dataclass
class Uncertainty:
    """What a count does not know, for one model in one session.

    Args:
        share: of the counted tokens, to be expected on top of them.
    """

    share: float

    def tokens(self, counted: int) -> int:
        """The tokens that ``counted`` new ones may take more than their count."""
        return ceil(max(0, counted) * self.share)

    def learn(self, counted: int, reported: int) -> None:
        """Halve the share, or set it to the undercount that the report shows if that is more.

        Args:
            counted: tokens that were new in a request, as counted.
            reported: the same tokens, as the provider reports them.
        """
        if counted >= _FEWEST_TOKENS:
            # Up at once and down by halves: an undercount can make a request fail, an overcount only compacts early.
            self.share = min(_LARGEST, max(reported / counted - 1, self.share / 2))


def first_share(counter: Counter) -> float:
    """The share before any report: the counter's own ``uncertainty`` if it has one."""
    share: float = getattr(counter, "uncertainty", 0.0 if counter.exact else ESTIMATED)
    return share
