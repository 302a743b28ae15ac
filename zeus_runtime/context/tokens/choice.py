"""Choose the counter of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zeus_runtime.context.tokens.counter import Counter, FramedCounter
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.context.tokens.estimate import estimator
from zeus_runtime.context.tokens.framing import framing_for, text_costs
from zeus_runtime.context.tokens.pictures import picture_tokens

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile


def counter_for(profile: ModelProfile) -> Counter:
    """The counter of the model ``profile``: exact if it has a public tokenizer, else an estimate.

    ``profiles.models.NAME.tokenizer`` in the YAML overrides the choice.

    Raises:
        EncodingMissingError: the profile names an encoding that is not on this machine.
    """
    if profile.tokenizer == "estimate":
        return counter_with(estimator(text_costs(framing_for(profile).vocabulary)), profile, exact=False)
    return counter_with(exact(profile.tokenizer), profile)


def counter_with(count: Callable[[str], float], profile: ModelProfile, *, exact: bool = True) -> Counter:
    """A counter from a tokenizer: ``count`` for the texts, plus the framing of the model's provider.

    Args:
        count: the tokens of a text; pure and fast.
        profile: the model's.
        exact: whether ``count`` is the model's own tokenizer; else its result is scaled as the family needs.
    """
    return FramedCounter(count, framing_for(profile), exact=exact, picture=picture_tokens(profile))
