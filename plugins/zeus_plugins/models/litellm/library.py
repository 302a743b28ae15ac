"""Loads the litellm library on first use, in a thread, turns its output off, and closes its clients with the loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from zeus_plugins.models.litellm.redirects import wrap_senders
from zeus_runtime.plugin import MissingError

if TYPE_CHECKING:
    import asyncio

_closings: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()


async def library() -> Any:
    """Return litellm, ready for use in the running event loop, whose end closes the clients that litellm makes in it.

    The first call imports it in a thread, because that takes seconds. Calls that send something are awaited by
    ``unredirected``.

    Raises:
        MissingError: litellm is not installed.
    """
    import asyncio
    import sys

    loaded = sys.modules.get("litellm")
    # While another run imports litellm, the module has only some of its names; another import waits for the rest.
    if loaded is None or getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        litellm = await asyncio.to_thread(_load)
    else:
        litellm = _quiet(loaded)
    wrap_senders()
    loop = asyncio.get_running_loop()
    if loop not in _closings:
        _closings[loop] = _closing(litellm)
        # `asyncio.run` closes, before the loop, the generators that have begun.
        await anext(_closings[loop])
    return litellm


async def _closing(litellm: Any) -> AsyncGenerator[None, None]:
    """Close litellm's clients of the running loop at its end; litellm keeps one for each loop, provider and address."""
    import asyncio

    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        kept = litellm.in_memory_llm_clients_cache.cache_dict
        # All loops share this client, which litellm makes when it is first read; only its connections of this loop end.
        shared = vars(litellm).get("module_level_aclient")
        client = getattr(shared, "client", None)
        session = getattr(getattr(client, "_transport", None), "client", None)
        if getattr(session, "_loop", None) is loop:
            await _closed(session)
        # litellm ends a client's key with the id of its loop.
        for key in [each for each in kept if each.endswith(f"-{id(loop)}")]:
            client = kept.pop(key)
            if client is not shared:
                await _closed(client)


async def _closed(client: Any) -> None:
    import contextlib

    # The loop ends in any case, so a client that fails to close must not keep the others open.
    with contextlib.suppress(Exception):
        await client.close()


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
