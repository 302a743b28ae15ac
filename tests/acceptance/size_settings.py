"""Sizes: each way to write one, at each place that takes one, and what it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.acceptance.context_settings import messages_sent
from tests.acceptance.policy_settings import SMALL_WINDOW, cut_arguments, policy, shown_results
from tests.acceptance.settings import Flip, See
from tests.acceptance.shared_settings import PROBED

UNKNOWN: Final = {"model": "acme-of-unknown-limit"}
"""A model whose input limit is assumed to be 64,000 tokens, against 60,000 of the known one."""


@dataclass(frozen=True)
class Place:
    """A key that takes a size.

    Args:
        key: the key.
        messages: its size as a number of messages.
        tokens: about the same size in tokens.
        see: what is looked at.
        before: what is seen without the key.
        after: what is seen with it.
        given: what the config says in both cases, but for the model.
        otherwise: what is seen without and with it where a unit gives something else, by unit.
    """

    key: str
    messages: int
    tokens: int
    see: See
    before: Any
    after: Any
    given: Mapping[str, Any]
    otherwise: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def flips(self) -> Iterator[Flip]:
        units = {
            "tokens": (self.tokens, SMALL_WINDOW),
            "messages": (self.messages, SMALL_WINDOW),
            "fraction": (self.tokens / 60_000, SMALL_WINDOW),
            "assumed_fraction": (self.tokens / 64_000, UNKNOWN),
        }
        for unit, (value, window) in units.items():
            given = {**PROBED, **self.given, **window}
            before, after = self.otherwise.get(unit, (self.before, self.after))
            yield Flip(f"middleware:{self.key}.{unit}", value, self.see, before, after, given)


PLACES: Final = (
    Place(
        "summarization.trigger",
        5,
        6_000,
        messages_sent,
        [1, 3, 5, 7],
        [1, 3, 3, 3],
        {"middlewares": [{"summarization": {"keep": {"messages": 2}}}]},
        {
            "tokens": ([1, 3, 5, 7], [1, 3, 2, 4]),
            "fraction": ([1, 3, 5, 7], [1, 3, 2, 4]),
            "assumed_fraction": ([1, 3, 5, 7], [1, 3, 2, 4]),
        },
    ),
    Place(
        "summarization.keep",
        2,
        2_500,
        messages_sent,
        [1, 3, 5, 5],
        [1, 3, 5, 3],
        {"middlewares": [{"summarization": {"trigger": {"messages": 7}}}]},
        {"assumed_fraction": ([1, 3, 5, 7], [1, 3, 5, 3])},
    ),
    Place(
        "truncation.trigger",
        4,
        3_000,
        cut_arguments,
        0,
        2,
        policy("truncation", keep={"messages": 2}),
    ),
    Place(
        "truncation.keep",
        4,
        2_000,
        cut_arguments,
        1,
        2,
        policy("truncation", trigger={"tokens": 6_050}),
        {"assumed_fraction": (0, 2)},
    ),
    Place(
        "dedupe.trigger",
        3,
        500,
        shown_results(*(("look", {"words": 100}),) * 2),
        ["whole", "whole"],
        ["evicted", "whole"],
        policy("dedupe", horizon_calls=0),
    ),
)
SIZES: Final = tuple(flip for place in PLACES for flip in place.flips())
