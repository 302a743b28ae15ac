"""Which counter a model gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.context.tokens.counter import Counter, FramedCounter
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.context.tokens.estimate import estimator
from zeus_runtime.context.tokens.framing import framing_for, text_costs

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile


def counter_for(profile: ModelProfile) -> Counter:
    """What counts the tokens of the model ``profile``: exact if it has a public tokenizer, else an estimate.

    ``profiles.models.NAME.tokenizer`` in the YAML chooses otherwise.

    Raises:
        EncodingMissingError: the profile names an encoding that is not on this machine.
    """
    estimated, framing = profile.tokenizer == "estimate", framing_for(profile)
    count = estimator(text_costs(framing.vocabulary)) if estimated else exact(profile.tokenizer)
    return FramedCounter(count, framing, exact=not estimated)
