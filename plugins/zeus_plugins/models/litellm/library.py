"""Loads the litellm library on first use, in a thread, and turns its output off."""

from __future__ import annotations

from typing import Any

from zeus_runtime.plugin import MissingError


async def library() -> Any:
    """Return litellm, ready for use. The first call imports it in a thread, because that takes seconds.

    Raises:
        MissingError: litellm is not installed.
    """
    import asyncio
    import sys

    loaded = sys.modules.get("litellm")
    # While another run imports litellm, the module has only some of its names; another import waits for the rest.
    if loaded is None or getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return await asyncio.to_thread(_load)
    return _quiet(loaded)


def _load() -> Any:
    import os

    # litellm reads these at import. Without them it fetches the price map from the network, and loads a `.env` above
    # its folder into this process's environment, which a project must not change.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    try:
        import litellm
    except ImportError as problem:
        raise MissingError(
            f"the model plugin needs litellm, which cannot be imported: {problem}",
            remedy="pip install litellm",
        ) from problem
    return _quiet(litellm)


def _quiet(litellm: Any) -> Any:
    """Turn off telemetry, advertising, logging and downloads of tokenizers; make unsupported settings errors."""
    import logging
    import warnings

    # It logs errors, with a traceback, that it also raises, and warns about answers that it then reads anyway.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    # Settings that the provider does not support are refused, not dropped: no key of the YAML may be without effect.
    litellm.drop_params = False
    return litellm
