"""A process that saves memories of its own accord, all at once, when it is told to.

``python -m tests.support.extracting FOLDER URL NAME COUNT`` prints ``ready``, waits for a line, and prints what became
of each as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.support.memory import service
from zeus_runtime.memory.items import Caller


def vectors_of(url: str) -> Any:
    """The vector store that goes with a database."""
    if url.startswith("postgres"):
        from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

        return PgVectorStore
    from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

    return SqliteVectorStore


async def main(folder: Path, url: str, name: str, count: int) -> None:
    memory = service(folder, Caller("ann", session_id="s1"), url=url, open_vectors=vectors_of(url))
    await memory.stats()
    print("ready", flush=True)
    sys.stdin.readline()
    saved = await asyncio.gather(
        *(
            memory.add_extracted_memory(f"{name}{number} is one of the {name} words", confidence=0.9)
            for number in range(count)
        )
    )
    print(json.dumps([each.code or each.outcome for each in saved]), flush=True)
    await memory.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
