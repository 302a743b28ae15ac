"""The providers that accept cache points. Whether a model needs them, and the minimum length, is in its cache rules."""

from __future__ import annotations

from typing import Final

from zeus_runtime.plugin.model import ModelProfile, rules_for

TAKES_POINTS: Final = ("anthropic", "azure_ai", "bedrock", "openrouter", "vercel_ai_gateway", "vertex_ai")
"""litellm's names of the providers to which it passes `cache_control` on (November 2026)."""


def minimum_tokens(profile: ModelProfile) -> int | None:
    """Return the shortest prefix that the model caches on request, in tokens; None if it never caches on request."""
    rules = rules_for(profile.name)
    if rules is None or not rules.marked or profile.provider not in TAKES_POINTS:
        return None
    return rules.minimum_tokens
