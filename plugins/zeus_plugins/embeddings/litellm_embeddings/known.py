"""What is known of a model before anything is asked of it: its dimension, its key's variable, its cosines."""

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
"""A provider's variables, the usual one first. Other providers need no key or sign in another way."""

_CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "text-embedding-3-small": Calibration(cosine_zero=0.15, cosine_one=0.6, trust=0.9),
    "text-embedding-3-large": Calibration(cosine_zero=0.15, cosine_one=0.6, trust=0.9),
    "text-embedding-ada-002": Calibration(cosine_zero=0.72, cosine_one=0.9, trust=0.9, duplicate=0.96),
}
"""Round figures from published examples, so that the search's floor lies at a cosine of about 0.26 (0.76 for ada-002);
they were not measured here, which takes a key."""


class Known(NamedTuple):
    """What is known of a model.

    Args:
        name: without a prefix that says nothing: ``openai/`` is what names without one mean.
        dimension: None if not known.
        keys: the variables that may hold the key, the usual one first; empty if there is none to look for.
        calibration: that of the default model, if the model's own is not known.
    """

    name: str
    dimension: int | None
    keys: tuple[str, ...]
    calibration: Calibration


def known(model: str) -> Known:
    """What is known of ``model``, from litellm's list where it is not one of OpenAI's; nothing is imported for it."""
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
    """The model's entry in the list that comes with litellm; importing litellm would take seconds."""
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
