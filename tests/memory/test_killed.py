"""Processes write and delete memories and are killed again and again: what was acknowledged holds.

``ZEUS_KILLED_WRITERS=8 ZEUS_KILLED_WRITES=200 ZEUS_KILLS=0`` are 8 processes with 200 saves each;
``ZEUS_KILLED_WRITES=1200 ZEUS_KILLS=25`` kills twice 25 times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support import forked
from tests.support.databases import execute
from tests.support.extracting import vectors_of
from tests.support.memory import service
from zeus_runtime.memory.items import Caller, MemorySettings
from zeus_runtime.memory.service import MemoryService

WRITES: Final = int(os.environ.get("ZEUS_KILLED_WRITES", "120"))
"""Of each process; 5000 takes minutes."""
KILLS: Final = int(os.environ.get("ZEUS_KILLS", "3"))
"""Of each process."""
NAMES: Final = "left right north south east west upper lower".split()
WRITERS: Final = int(os.environ.get("ZEUS_KILLED_WRITERS", "2"))
AHEAD: Final = 5
"""How many writes a process may be ahead of what is known of it: none has written everything before it is killed."""
SETTINGS: Final = MemorySettings(related_threshold=1, related_words=1, duplicate_threshold=1)


def opened(folder: Path, url: str) -> MemoryService:
    return service(folder, Caller("ann"), settings=SETTINGS, url=url, open_vectors=vectors_of(url))


def text_of(name: str, number: int) -> str:
    return f"{name} notes number {number} word{number * 7919 % 1_000} {name}{number}"


async def writer(folder: Path, url: str, name: str, first: int) -> None:
    """Save a text per line of standard input; say so, delete every fifth one, and say so."""
    memory = opened(folder, url)
    for number in range(first, WRITES):
        sys.stdin.readline()
        saved = await memory.add_explicit_memory(text_of(name, number))
        assert saved.item is not None
        print(f"kept {number} {saved.item.id}", flush=True)
        if number % 5 == 4:
            await memory.delete_memory(saved.item.id)
            print(f"gone {number} {saved.item.id}", flush=True)
    print("done", flush=True)
    await memory.aclose()


class Writer:
    """A process that writes, killed ``KILLS`` times while it does, and what it acknowledged."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.folder, self.url, self.name = folder, url, name
        self.kept: dict[str, int] = {}
        self.gone: set[str] = set()
        self.next = 0
        self.kills = 0
        self.failure: BaseException | None = None

    def __call__(self) -> None:
        choose = random.Random(self.name)
        try:
            while self.next < WRITES:
                process = start(self.folder, self.url, self.name, self.next)
                assert process.stdout is not None
                self.let(process, AHEAD)
                until = choose.randrange(10, 45) if self.kills < KILLS else WRITES * 2
                done = False
                for count, line in enumerate(process.stdout):
                    done = self.heard(line.split())
                    self.let(process, line.startswith("kept"))
                    if count == until and not done:
                        os.kill(process.pid, signal.SIGKILL)
                        self.kills += 1
                assert process.wait() == -signal.SIGKILL or done
                # The write after the last acknowledged one may be there: its number is left out.
                self.next = WRITES if done else self.next + 1
        except BaseException as error:  # noqa: BLE001 - carried out of the thread
            self.failure = error

    def let(self, process: subprocess.Popen[str], writes: int) -> None:
        """Let the process write so often, if it lives."""
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            os.write(process.stdin.fileno(), b"\n" * writes)

    def heard(self, words: list[str]) -> bool:
        if words[0] == "kept":
            self.kept[words[2]] = int(words[1])
            self.next = int(words[1]) + 1
        elif words[0] == "gone":
            self.gone.add(words[2])
        return words == ["done"]


def test_no_acknowledged_memory_is_lost_and_no_deleted_one_is_found(
    tmp_path: Path, database_url: str
) -> None:
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION vector")
    writers = [Writer(tmp_path, database_url, name) for name in NAMES[:WRITERS]]
    threads = [threading.Thread(target=writer) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [writer.failure for writer in writers] == [None] * WRITERS
    assert [writer.kills for writer in writers] == [KILLS] * WRITERS
    kept = {
        memory_id: (writer.name, number) for writer in writers for memory_id, number in writer.kept.items()
    }
    gone = set().union(*(writer.gone for writer in writers))
    assert len(kept) > WRITES
    assert len(gone) > WRITES // 5
    asyncio.run(check(tmp_path, database_url, kept, gone))


async def check(folder: Path, url: str, kept: dict[str, tuple[str, int]], gone: set[str]) -> None:
    memory = opened(folder, url)
    await memory.check()
    there = {item.id: item for item in await memory.list_memories(status=None)}
    assert not gone & there.keys()
    # Of a delete that was cut off nobody knows.
    sure = {memory_id for memory_id, (_, number) in kept.items() if number % 5 != 4}
    assert sure <= there.keys()
    assert len(there.keys() - kept.keys()) <= WRITERS * KILLS
    for memory_id, (name, number) in kept.items():
        by_word = await memory.search_memories(f"{name}{number}", k=5)
        by_vector = await memory.search_memories(text_of(name, number), k=1, mode="vector")
        ids = [[each.item.id for each in found] for found in (by_word, by_vector)]
        if memory_id in gone:
            assert memory_id not in ids[0] + ids[1]
        elif memory_id in sure:
            assert memory_id in ids[0]
            assert ids[1] == [memory_id]
    await memory.aclose()


def start(folder: Path, url: str, name: str, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.memory.test_killed", str(folder), url, name, str(first)]
    return forked.Forked(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )


if __name__ == "__main__":
    asyncio.run(writer(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
