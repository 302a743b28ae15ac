"""The example's memory backend does what every one must, as its own tests say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zeus_runtime.memory.backend import MemoryBackend
from zeus_runtime.testing import MemoryConformance

pytest.importorskip("langgraph.store.sqlite")
sys.path.append(str(Path(__file__).parents[2] / "examples" / "zeus-langgraph-memory"))


class TestLangGraphMemory(MemoryConformance):
    def backend(self, folder: Path) -> MemoryBackend:
        from zeus_langgraph_memory.backend import LangGraphMemory, OpenedStore

        return LangGraphMemory(OpenedStore(folder / "store.db"), None)
