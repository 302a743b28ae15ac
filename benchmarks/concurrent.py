"""Many sessions at once in one process: CPU per step, how late the event loop is, and the write-ahead log.

``python -m benchmarks.concurrent [--sessions 100] [--steps 20] [--answer-seconds 0.5] [--runs 3]``
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peers import ANSWER_TEXT, TOOL_RESULT

_TICK_SECONDS: Final = 0.005


class _Ticker:
    """How late the event loop calls back, in milliseconds, every 5 ms; and the longest write-ahead log, in bytes."""

    def __init__(self, log: Path) -> None:
        self.late_ms: list[float] = []
        self.log_bytes = 0
        self._log = log

    async def run(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_TICK_SECONDS)
            self.late_ms.append((time.perf_counter() - began - _TICK_SECONDS) * 1000)
            if len(self.late_ms) % 20 == 0 and self._log.exists():
                self.log_bytes = max(self.log_bytes, self._log.stat().st_size)


async def play(folder: Path, sessions: int, steps: int, answer_seconds: float) -> dict[str, Any]:
    """Run one agent's sessions side by side; the model answers after a pause, with one tool call in each answer."""
    from langchain_core.messages import AIMessage

    from zeus_runtime import Agent
    from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse

    number = itertools.count()

    class Scripted:
        name = "scripted"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            said = sum(message.type == "ai" for message in request.messages)
            await asyncio.sleep(answer_seconds)
            if said >= steps:
                yield ModelResponse(AIMessage("done"))
                return
            call = {
                "name": "lookup",
                "args": {"key": f"part-{said}"},
                "id": f"call_{said}",
                "type": "tool_call",
            }
            # No text is the same twice, as in real sessions: otherwise counting its tokens once would be enough.
            yield ModelResponse(AIMessage(f"{ANSWER_TEXT} {next(number)}", tool_calls=[call]))

    (folder / "lookup.py").write_text(
        "import itertools\n"
        "from zeus_runtime.plugin import Component, hookimpl\nfrom zeus_runtime.plugin.tool import tool\n"
        "number = itertools.count()\n"
        "@tool(access='read')\n"
        "async def lookup(key: str) -> str:\n"
        '    """Look a part up.\n\n    Args:\n        key: which.\n    """\n'
        f"    return {TOOL_RESULT!r} + str(next(number))\n"
        "@hookimpl\n"
        "def register_tools():\n"
        "    return [Component('lookup', create=lambda options, context: [lookup])]\n"
    )
    config = folder / "zeus.yaml"
    config.write_text(
        "version: 1\nextends: default\nmodel: gpt-4o\ntools: [lookup]\nplugins: {files: [lookup.py]}\n"
        f"limits: {{max_steps: {steps + 1}, timeout_seconds: null}}\nstorage: {{url: 'sqlite:///zeus.db'}}\n"
    )
    ticker = _Ticker(folder / "zeus.db-wal")
    async with Agent.from_config(config, directory=folder, model=Scripted(), trust="all") as agent:
        await agent.run("Go through the file.")  # imports and tables are not what is measured
        # As `zeus` and a service do: modules are never garbage, and there is much that is not.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        ticking = asyncio.create_task(ticker.run())
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(agent.run("Go through the file.") for _ in range(sessions)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        ticking.cancel()
    late = sorted(ticker.late_ms)
    return {
        "ms_per_step": cpu / (sessions * (steps + 1)) * 1000,
        "late_ms_50": late[len(late) // 2],
        "late_ms_95": late[len(late) * 95 // 100],
        "late_ms_99": late[len(late) * 99 // 100],
        "log_mb": ticker.log_bytes / 1e6,
        "seconds": wall,
    }


@click.command()
@click.option("--sessions", default=100, show_default=True, help="Sessions at once.")
@click.option("--steps", default=20, show_default=True, help="Model calls with a tool call, in each session.")
@click.option("--answer-seconds", default=0.5, show_default=True, help="How long the model takes to answer.")
@click.option(
    "--runs", default=3, show_default=True, help="Runs, each in a new process; the medians are printed."
)
@click.option("--in-process", hidden=True, type=click.Path(path_type=Path))
def main(sessions: int, steps: int, answer_seconds: float, runs: int, in_process: Path | None) -> None:
    """Measure one agent with many sessions at once."""
    if in_process is not None:
        print(json.dumps(asyncio.run(play(in_process, sessions, steps, answer_seconds))))
        return
    found: list[dict[str, Any]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            words = [f"--sessions={sessions}", f"--steps={steps}", f"--answer-seconds={answer_seconds}"]
            command = [sys.executable, "-m", "benchmarks.concurrent", *words, f"--in-process={folder}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise click.ClickException(done.stderr[-2000:])
        found.append(json.loads(done.stdout.splitlines()[-1]))
    for name in found[0]:
        print(f"{name:<12}{statistics.median(each[name] for each in found):>10.2f}")


if __name__ == "__main__":
    main()
