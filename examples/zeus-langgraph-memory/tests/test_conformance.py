"""The backend does what every memory backend must do."""

from __future__ import annotations

from pathlib import Path

from zeus_langgraph_memory.backend import LangGraphMemory, OpenedStore

from zeus_runtime.plugin.memory import MemoryBackend
from zeus_runtime.testing import MemoryConformance


class TestLangGraphMemory(MemoryConformance):
    def backend(self, folder: Path) -> MemoryBackend:
        return LangGraphMemory(OpenedStore(folder / "store.db"), None)
