"""When a summary pays: sending the old messages again at each step has cost as much as replacing them.

Nobody knows how long a session will be. The rule needs no such guess: it looks back, as a skier who rents until the
rent has reached the price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import View
    from zeus_runtime.plugin.model import ModelProfile

_PATIENCE: Final = 2.0
"""Times a summary's cost. Once is the cheapest; twice costs 4 % more on recorded sessions and writes a third fewer
summaries, each of which loses details (``python -m benchmarks.context``)."""


class Prices(NamedTuple):
    """The prices that matter for a summary, in US dollars per token.

    Args:
        again: for a token that was sent before.
        anew: for one behind the place where the prefix changed.
        output: for one of the summary.
    """

    again: float
    anew: float
    output: float


def prices_of(profile: ModelProfile) -> Prices | None:
    """Return a model's prices; None if one of them is not known, or nothing costs anything."""
    fresh, output = profile.input_cost_per_token, profile.output_cost_per_token
    if not fresh or output is None:
        return None
    again, anew = profile.cache_read_cost_per_token, profile.cache_write_cost_per_token
    return Prices(fresh if again is None else again, fresh if anew is None else anew, output)


class SentAgain:
    """The cost of sending messages that a summary would replace, since the last summary. Each step is added once.

    After a pause, the provider's cache has expired, and the next request pays the full price whether or not it is
    shortened before. So a summary costs much less then: the summarizer reads what would be sent anyway.

    Args:
        prices: of the model.
        stays_tokens: the tokens of a view after a summary: the kept messages, the summary, the user's words.
        summary_tokens: the expected length of a summary.
    """

    def __init__(self, prices: Prices, *, stays_tokens: int, summary_tokens: int) -> None:
        self._prices = prices
        self._stays = stays_tokens
        self._summary_tokens = summary_tokens
        self._first: int | None = None
        self._upto = 0
        self._leaving = 0
        self._is_cached = True
        self._unpaid = 0.0
        self.cost_usd = 0.0
        """The cost of sending so far; without this step's if the cache has expired, since a summary saves it."""

    def note(self, view: View, *, is_cached: bool = True) -> None:
        """Add the step that sends ``view``. After a resume, the steps since the last summary are added up once.

        Args:
            is_cached: whether the provider may still have the messages that were sent before.
        """
        stays = self._stays + _pinned(view)
        # The first look, or one after `forget`: the steps before it are known from the view alone.
        if self._first is None:
            self.cost_usd = _sent_before(view, stays) * self._prices.again
        # A summary, or another policy, took the beginning away, and its cost with it.
        elif self._first != view.first:
            self.cost_usd = self._unpaid = 0.0
        # The same step asked once more, as after an overflow.
        elif self._upto == view.upto:
            return
        self._first, self._upto, self._is_cached = view.first, view.upto, is_cached
        self._leaving = max(0, view.tokens - stays)
        # The last step was sent without its cache after all: its price is paid by now.
        self.cost_usd += self._unpaid
        self._unpaid = 0.0
        if is_cached:
            self.cost_usd += self._leaving * self._prices.again
        else:
            self._unpaid = self._leaving * self._prices.anew

    def forget(self) -> None:
        """Add up anew what the messages that the next view shows have cost: some were shortened."""
        self._first, self._unpaid = None, 0.0

    def summary_usd(self, used_tokens: int) -> float:
        """The cost of a summary: reading the conversation, writing the summary, and sending what stays anew.

        Args:
            used_tokens: the tokens of the request.
        """
        again, anew, output = self._prices
        written = self._summary_tokens * output
        if not self._is_cached:
            return (used_tokens - self._leaving) * anew + written
        return used_tokens * again + written + self._stays * max(0.0, anew - again)

    def pays(self, used_tokens: int) -> bool:
        """Whether a summary pays now."""
        return self.cost_usd >= _PATIENCE * self.summary_usd(used_tokens)


def _pinned(view: View) -> int:
    """The tokens of pinned messages, which no summary replaces."""
    return sum(view.item_of(seq).tokens for seq in view.pinned)


def _sent_before(view: View, stays: int) -> int:
    """The tokens above ``stays`` that the steps in the view sent: each answer was asked for with what is before it."""
    tokens = sent = 0
    for item in view.items():
        if item.message.type == "ai":
            sent += max(0, tokens - stays)
        tokens += item.tokens
    return sent
