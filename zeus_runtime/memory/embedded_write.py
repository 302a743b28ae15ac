"""The vectors of texts that are about to be written, where the write can wait for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zeus_runtime.memory.embedding import Embedded, Embedder, EmbeddingUnavailableError
from zeus_runtime.memory.opened import embedded_texts
from zeus_runtime.memory.turns import turn_of

if TYPE_CHECKING:
    from zeus_runtime.memory.items import Caller, MemoryItem
    from zeus_runtime.memory.opened import OpenedMemory

_log = logging.getLogger(__name__)


async def embedded_for(
    opened: OpenedMemory, caller: Caller, item: MemoryItem, *, waits: bool = False
) -> Embedded | None:
    """The vector of an item that is about to be written, if it may have one and the write can wait for it.

    Args:
        waits: the write also waits for a model that is not quick; if that does not answer, there is no vector yet.
    """
    embedder = await opened.embedder(caller.user_id)
    if embedder is None or item.trust == "quarantined" or not (embedder.quick or waits):
        return None
    text = item.content
    if turn_of(item.source_id) is not None:
        operations = await opened.operations()
        (text,) = await operations.late_vectors.texts([item], caller)
    if not embedder.quick:
        return await embedded_if_it_answers(embedder, text)
    (found,) = await embedded_texts(embedder, [text], "memory")
    return found


async def embedded_if_it_answers(embedder: Embedder | None, text: str) -> Embedded | None:
    """The vector of a text; None where no model answers, and words alone are compared."""
    if embedder is None:
        return None
    try:
        (found,) = await embedded_texts(embedder, [text], "memory")
    except EmbeddingUnavailableError as error:
        _log.warning("a text is compared by words alone: %s", error.message)
        return None
    return found
