"""What each provider writes around texts, in tokens, and which counter that makes for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeus_runtime.context.tokens.counter import Counter, FramedCounter
from zeus_runtime.context.tokens.encodings import exact
from zeus_runtime.context.tokens.estimate import estimate

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile


@dataclass(frozen=True)
class Framing:
    """One provider's overheads, in tokens."""

    request: float = 3
    system: float = 4
    message: float = 4
    call: float = 8
    tools: float = 8
    tool: float = 8


def framing_for(profile: ModelProfile) -> Framing:
    """The overheads of the provider whose model ``profile`` is."""
    return Framing()


def counter_for(profile: ModelProfile) -> Counter:
    """What counts the tokens of the model ``profile``: exact if it has a public tokenizer, else an estimate.

    Raises:
        EncodingMissingError: the profile names an encoding that is not on this machine.
    """
    framing = framing_for(profile)
    if profile.tokenizer == "estimate":
        return FramedCounter(estimate, framing, exact=False)
    return FramedCounter(exact(profile.tokenizer), framing, exact=True)
