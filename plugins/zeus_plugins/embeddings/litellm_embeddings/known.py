"""Facts about embedding models that need no request: dimension, the key's variable, typical cosines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zeus_runtime.plugin.embedding import Calibration

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "jina_ai": ("JINA_AI_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "voyage": ("VOYAGE_API_KEY",),
}
"""Each provider's variables, the usual one first. Other providers need no key or authenticate in another way."""

_CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "text-embedding-3-small": Calibration(cosine_zero=0.15, cosine_one=0.6, trust=0.9),
    "text-embedding-3-large": Calibration(cosine_zero=0.15, cosine_one=0.6, trust=0.9),
    "text-embedding-ada-002": Calibration(cosine_zero=0.72, cosine_one=0.9, trust=0.9, duplicate=0.96),
}
"""Round figures from published examples, which put the search's floor at a cosine of about 0.26 (0.76 for ada-002).
They were not measured here, because that needs a key."""


class Known(NamedTuple):
    """Facts about a model.

    Args:
        name: without a redundant prefix: a name without a provider means ``openai/``.
        dimension: None if not known.
        keys: the variables that may hold the key, the usual one first; empty if the model needs none.
        calibration: the default model's calibration if this model's is not known.
    """

    name: str
    dimension: int | None
    keys: tuple[str, ...]
    calibration: Calibration


def known(model: str) -> Known:
    """Return the facts about ``model``; models other than OpenAI's come from litellm's list, without importing it."""
    name = model.removeprefix("openai/")
    default = _CALIBRATIONS["text-embedding-3-small"]
    if name in _CALIBRATIONS:
        dimension = 3072 if name.endswith("large") else 1536
        return Known(name, dimension, _KEYS["openai"], _CALIBRATIONS[name])
    entry = _listed(model)
    listed = str(entry.get("litellm_provider", "")).removesuffix("-embedding-models")
    provider = model.partition("/")[0] if "/" in model else listed
    size = entry.get("output_vector_size")
    return Known(name, size if isinstance(size, int) else None, _KEYS.get(provider, ()), default)


def _listed(model: str) -> Mapping[str, Any]:
    """Read the model's entry from litellm's JSON list: importing litellm would take seconds."""
    import json
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    try:
        table = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    entry = table.get(model) or table.get(model.partition("/")[2]) or {}
    return entry if isinstance(entry, dict) else {}
