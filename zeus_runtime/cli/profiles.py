"""A model's profile as rows for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile

_REASONING = {"effort": "by effort", "budget": "by a budget", "both": "by effort or a budget"}
_PRICES = ("input", "output", "cache_read", "cache_write")


def profile_rows(profile: ModelProfile) -> Iterator[tuple[str, str, str]]:
    """Name, value and source of everything known of a model; prices in US dollars per million tokens."""
    source = profile.sources
    yield "input limit", f"{profile.max_input_tokens:,} tokens", source.get("max_input_tokens", "fallback")
    if profile.max_output_tokens is not None:
        yield "output limit", f"{profile.max_output_tokens:,} tokens", source.get("max_output_tokens", "")
    yield "tokenizer", profile.tokenizer, source.get("tokenizer", "fallback")
    for kind in _PRICES:
        name = f"{kind}_cost_per_token"
        price: float | None = getattr(profile, name)
        if price is not None:
            label = f"{kind.replace('_', ' ')} price"
            yield label, f"{dollars(price)} per million tokens", source.get(name, "")
    if profile.provider:
        yield "provider", profile.provider, source.get("provider", "the name")
    if "vision" in source:
        yield "pictures", "seen" if profile.vision else "not seen", source["vision"]
    if profile.reasoning != "none":
        yield "reasoning", _REASONING[profile.reasoning], source.get("reasoning", "")
    if profile.mode is not None:
        yield "kind", profile.mode, source.get("mode", "")


def dollars(per_token: float) -> str:
    """A price per token as US dollars per million tokens: ``$1.25``, ``$0.075``."""
    amount = f"{per_token * 1_000_000:.6f}".rstrip("0")
    whole, _, cents = amount.partition(".")
    return f"${whole}.{cents:0<2}"
