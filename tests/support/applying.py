"""A process that saves a batch's proposals and is killed while it writes one of them.

``python -m tests.support.applying FOLDER URL NUMBER`` is killed inside of the transaction of proposal NUMBER.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.support.extracting import vectors_of
from tests.support.memory import service
from zeus_runtime.memory import records
from zeus_runtime.memory.batches import CallPrice
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.proposals import ProposedMemory
from zeus_runtime.memory.service import MemoryService

CONTENTS = (
    "The user lives in Berlin",
    "The cat is called Momo",
    "Tea is drunk at four",
    "The bicycle is red",
)


def opened(folder: Path, url: str) -> MemoryService:
    return service(folder, Caller("ann", session_id="s1"), url=url, open_vectors=vectors_of(url))


async def main(folder: Path, url: str, number: int) -> None:
    memory = opened(folder, url)
    (old,) = await memory.list_memories()
    proposals = [
        ProposedMemory(
            each, "fact", "user", 0.9, "user", "s1:1", replaces=(old.id,) if each == CONTENTS[0] else ()
        )
        for each in CONTENTS
    ]
    await memory.batches.set_due("s1", "test")
    batch = await memory.batches.begin(
        "extraction", proposals, CallPrice("m", 1, 1, 0.1), session="s1", seqs=(1, 4)
    )
    put_step = records.put_step

    def killing(connection: Any, name: str, step: records.BatchStep) -> None:
        put_step(connection, name, step)
        if step.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    records.put_step = killing
    assert batch is not None
    await memory.batches.apply(batch)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
