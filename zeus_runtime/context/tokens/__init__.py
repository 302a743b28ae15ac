"""Token counts: exact where the tokenizer is public, else estimated by class of text; framed as each provider does."""

from zeus_runtime.context.tokens.choice import counter_for, counter_with
from zeus_runtime.context.tokens.counter import Counter, FramedCounter, request_tokens
from zeus_runtime.context.tokens.encodings import EncodingMissingError, exact
from zeus_runtime.context.tokens.framing import Framing, framing_for

__all__ = [
    "Counter",
    "EncodingMissingError",
    "FramedCounter",
    "Framing",
    "counter_for",
    "counter_with",
    "exact",
    "framing_for",
    "request_tokens",
]
