"""What a power of an agent costs above the work itself: ``python -m benchmarks.powers [--calls 100] [--runs 5]``.

A hook: the time of a tool call with one hook, without the same call's time and without the time of the hook's process
alone. Cases alternate, so that other work on the machine touches all alike; the median of the runs counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click

from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted
from zeus_runtime.testing import ScriptedModel, calling

HOOK: Final = ("sh", "-c", "read -r call; printf '{}'")
HOOK_AIM_MS: Final = 10.0


def bare_seconds(calls: int, folder: Path) -> float:
    """The time of one process with the same input and environment, without Zeus."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = json.dumps({"tool": "ls", "arguments": {"path": "/"}}).encode()
    start = time.perf_counter()
    for _ in range(calls):
        subprocess.run(HOOK, input=given, capture_output=True, check=True, cwd=folder, env=environ)
    return (time.perf_counter() - start) / calls


async def call_seconds(calls: int, folder: Path, middlewares: list[Any]) -> float:
    """The time of one step with one tool call."""
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": ["filesystem"],
        "middlewares": middlewares,
        "limits": {"max_steps": calls + 2, "repeated_calls": None},
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    model = ScriptedModel([*[calling(("ls", {"path": "/"}))] * (calls + 1), "done"])
    async with Agent.from_config(directory=folder, model=model, trust="all") as agent:
        began = 0.0
        results = 0
        async for event in agent.stream("go"):
            if event.type == "tool_call_result":
                results += 1
                if results == 1:  # the first one imports
                    began = time.perf_counter()
        assert isinstance(event, RunCompleted), event
        return (time.perf_counter() - began) / calls


@click.command()
@click.option("--calls", default=100, show_default=True)
@click.option("--runs", default=5, show_default=True)
def main(calls: int, runs: int) -> None:
    """Print the median of each time, and the overhead beside its aim."""
    hooked = [{"hooks": {"before_tool_call": [{"command": list(HOOK)}]}}]
    found: dict[str, list[float]] = {"process alone": [], "call": [], "call with a hook": [], "overhead": []}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            (folder / "plain").mkdir()
            (folder / "hooked").mkdir()
            bare = bare_seconds(calls, folder)
            plain = asyncio.run(call_seconds(calls, folder / "plain", []))
            whole = asyncio.run(call_seconds(calls, folder / "hooked", hooked))
        for times, each in zip(found.values(), (bare, plain, whole, whole - plain - bare), strict=True):
            times.append(each * 1000)
    print(f"{runs} runs of {calls} calls, milliseconds\n")
    for case, times in found.items():
        aim = f"  (aim {HOOK_AIM_MS:g})" if case == "overhead" else ""
        print(f"{case:<18}{statistics.median(times):>8.2f}{aim}")


if __name__ == "__main__":
    main()
