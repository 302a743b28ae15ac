"""Checkpoints in the process's memory: for tests and for runs that need no resume."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver
from zeus_runtime.plugin import PlanContext


@asynccontextmanager
async def create(_options: None, _context: PlanContext) -> AsyncIterator[SqliteSaver]:
    """Yield the SQLite saver without a file, so that pruning and copying have one implementation."""
    saver = SqliteSaver(":memory:")
    try:
        yield saver
    finally:
        await saver.aclose()
