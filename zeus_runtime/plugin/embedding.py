"""Embeddings: the interface of an embedder, its calibration, and its worker process.

An ``Embedder`` turns texts into vectors; ``Calibration`` maps its similarities to 0..1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Calibration as Calibration
    from zeus_runtime.memory.embedding import Embedder as Embedder
    from zeus_runtime.memory.embedding import EmbeddingUnavailableError as EmbeddingUnavailableError
    from zeus_runtime.memory.embedding import WorkerFactory as WorkerFactory

_ROOMS = {
    "Calibration": "memory.embedding",
    "Embedder": "memory.embedding",
    "EmbeddingUnavailableError": "memory.embedding",
    "WorkerFactory": "memory.embedding",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
