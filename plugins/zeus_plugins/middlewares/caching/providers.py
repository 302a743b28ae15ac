"""Which providers take cache points: data. Whether a model needs them, and from which length, its cache rules say."""

from __future__ import annotations

from typing import Final

from zeus_runtime.plugin.model import ModelProfile, rules_for

TAKES_POINTS: Final = ("anthropic", "azure_ai", "bedrock", "openrouter", "vercel_ai_gateway", "vertex_ai")
"""litellm's names of the providers whose `cache_control` it hands on (November 2026)."""


def minimum_tokens(profile: ModelProfile) -> int | None:
    """The shortest prefix the model caches on demand, in tokens; None where it caches by itself or not at all."""
    rules = rules_for(profile.name)
    if rules is None or not rules.marked or profile.provider not in TAKES_POINTS:
        return None
    return rules.minimum_tokens
