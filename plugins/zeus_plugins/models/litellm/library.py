"""The litellm library: loaded late, off the event loop, and quiet."""

from __future__ import annotations

from typing import Any

from zeus_runtime.plugin import MissingError


async def library() -> Any:
    """litellm, ready for use. The first call imports it, in a thread: it takes seconds.

    Raises:
        MissingError: it is not installed.
    """
    import asyncio
    import sys

    loaded = sys.modules.get("litellm")
    # One that another run imports just now has some of its names; importing it again waits for that.
    if loaded is None or getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return await asyncio.to_thread(_load)
    return _quiet(loaded)


def _load() -> Any:
    import os

    # Read when litellm is imported; without them it fetches the price map from the network, and puts a `.env` that it
    # finds above its own folder into this process's environment, which a project must not change.
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
    """No telemetry, no advertising, no log lines, no tokenizers from the network; unsupported settings are errors."""
    import logging
    import warnings

    # It logs, with a traceback, what it also raises, and warns of answers that it then reads all the same.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    # A setting the provider does not know is refused, not dropped: nothing in the YAML may be without effect.
    litellm.drop_params = False
    return litellm
