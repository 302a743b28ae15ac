"""For tests of agents and of plugins: a scripted model and conformance classes. Each name is loaded at first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.testing.embedder_conformance import EmbedderConformance as EmbedderConformance
    from zeus_runtime.testing.memory_conformance import MemoryConformance as MemoryConformance
    from zeus_runtime.testing.model_conformance import ModelConformance as ModelConformance
    from zeus_runtime.testing.protocol_conformance import ProtocolConformance as ProtocolConformance
    from zeus_runtime.testing.sandbox_conformance import SandboxConformance as SandboxConformance
    from zeus_runtime.testing.scripted_model import ScriptedModel as ScriptedModel
    from zeus_runtime.testing.scripted_model import calling as calling
    from zeus_runtime.testing.vector_store_conformance import VectorStoreConformance as VectorStoreConformance

_ROOMS = {
    "EmbedderConformance": "embedder_conformance",
    "MemoryConformance": "memory_conformance",
    "ModelConformance": "model_conformance",
    "ProtocolConformance": "protocol_conformance",
    "SandboxConformance": "sandbox_conformance",
    "ScriptedModel": "scripted_model",
    "VectorStoreConformance": "vector_store_conformance",
    "calling": "scripted_model",
}

if "pytest" in sys.modules:
    # Without it, an inherited test that fails says `AssertionError` and no value.
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{room}" for room in set(_ROOMS.values())))

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
