"""What a program in the bubblewrap sandbox costs beside the same program without one.

    python -m benchmarks.sandbox [--runs 60] [--files 0]

Each run is a pair: `/bin/true` as a plain process of asyncio, and in the sandbox with everything that belongs to it
(namespaces, filter, limits, files in and out), in turn; the difference of the two medians is the overhead. CPU time is
this process's and its children's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from zeus_plugins.sandboxes.bubblewrap.backend import sandboxes
from zeus_plugins.sandboxes.bubblewrap.options import Options

from zeus_runtime.plugin.sandbox import OwnPrograms, Program, SandboxLimits


async def plain() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", env={}, stdin=asyncio.subprocess.DEVNULL)
    await process.wait()


async def measured(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU."""
    started, cpu = time.perf_counter(), _cpu_seconds()
    await work()
    return (time.perf_counter() - started) * 1000, (_cpu_seconds() - cpu) * 1000


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def main(runs: int, files: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = sandboxes(Options(), Path(folder), OwnPrograms(os.environ))
        backend.check()
        box = await backend.create("bench")
        for number in range(files):
            await box.write(f"data/{number}.txt", b"x" * 4096)

        async def contained() -> None:
            outcome = await box.exec(Program(("/bin/true",)), SandboxLimits())
            assert outcome.exit_code == 0

        pairs = [(await measured(plain), await measured(contained)) for _ in range(runs + 5)][5:]
    bare, boxed = zip(*pairs, strict=True)
    print(f"{runs} pairs, {files} files of 4 KB in the sandbox; medians, milliseconds")
    for name, side in (("plain", bare), ("sandbox", boxed)):
        wall, cpu = (statistics.median(each) for each in zip(*side, strict=True))
        print(f"{name:8} wall {wall:6.1f}  cpu {cpu:6.1f}")
    over = [statistics.median(each[1][place] - each[0][place] for each in pairs) for place in (0, 1)]
    print(f"{'overhead':8} wall {over[0]:6.1f}  cpu {over[1]:6.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--files", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(main(given.runs, given.files))
