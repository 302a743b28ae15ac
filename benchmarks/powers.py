"""What a power of an agent costs above the work itself: ``python -m benchmarks.powers [--calls 100] [--runs 5]``.

A hook: the time of a tool call with one hook, without the same call's time and without the time of the hook's process
alone. A fallback: the time of a run whose first model fails, without that of a run with the second model alone.
Tracing: how much more CPU time a step takes if an SDK collects its spans, and the share of a step that its spans take
without an SDK. Cases alternate, so that other work on the machine touches all alike; the median of the runs counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted
from zeus_runtime.testing import ScriptedModel, calling

HOOK: Final = ("sh", "-c", "read -r call; printf '{}'")
HOOK_AIM_MS: Final = 10.0
FALLBACK_AIM_MS: Final = 2.0
OFF_AIM, ON_AIM = 0.01, 0.05
"""Of the CPU time of a step."""

MODELS: Final = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelError, ModelResponse


class Down:
    name = "down"

    async def stream(self, request):
        raise ModelError("down", kind="server")
        yield


class Up:
    name = "up"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        yield ModelResponse(AIMessage("done"))


@hookimpl
def register_models():
    return [
        Component("down", create=lambda options, context: Down()),
        Component("up", create=lambda options, context: Up()),
    ]
"""


def bare_seconds(calls: int, folder: Path) -> float:
    """The time of one process with the same input and environment, without Zeus."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = json.dumps({"tool": "ls", "arguments": {"path": "/"}}).encode()
    start = time.perf_counter()
    for _ in range(calls):
        subprocess.run(HOOK, input=given, capture_output=True, check=True, cwd=folder, env=environ)
    return (time.perf_counter() - start) / calls


async def call_seconds(
    calls: int, folder: Path, middlewares: list[Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """The time of one step with one tool call, on a clock."""
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
                    began = clock()
        assert isinstance(event, RunCompleted), event
        return (clock() - began) / calls


async def run_seconds(runs: int, folder: Path, model: Any) -> float:
    """The time of one run with one answer."""
    (folder / "models.py").write_text(MODELS)
    config = {
        "version": 1,
        "model": model,
        "plugins": {"files": ["models.py"]},
        "retry": {"attempts": 1},
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    async with Agent.from_config(directory=folder, trust="all") as agent:
        began = 0.0
        for number in range(runs + 1):
            if number == 1:  # the first one imports
                began = time.perf_counter()
            assert (await agent.run("go")).answer == "done"
        return (time.perf_counter() - began) / runs


def traced(on: bool) -> None:
    """Set up an SDK that collects the spans of this process in batches, or take it away."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    if trace._TRACER_PROVIDER is not None:
        trace._TRACER_PROVIDER.shutdown()  # type: ignore[attr-defined]
    provider = TracerProvider(shutdown_on_exit=False) if on else None
    if provider is not None:
        provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace._TRACER_PROVIDER = provider


def idle_spans_seconds(steps: int) -> float:
    """The CPU time of the spans of one step without an SDK."""
    from zeus_runtime.tracing import TraceSpan

    began = time.process_time()
    for _ in range(steps):
        for name in ("chat", "execute_tool"):
            with TraceSpan(name, {"gen_ai.operation.name": name}, is_current=True) as span:
                span.note({"zeus.context.tokens": 1})
    return (time.process_time() - began) / steps


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
    alone: dict[str, Any] = {"up": {}}
    chained = {"chain": [{"down": {}}, alone], "breaker": {"failures": 1_000_000}}
    fallback: list[float] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            times = [asyncio.run(run_seconds(calls, Path(name).resolve(), each)) for each in (alone, chained)]
            fallback.append((times[1] - times[0]) * 1000)
    steps: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(runs):
        for on, seconds in steps.items():
            with tempfile.TemporaryDirectory() as name:
                traced(on)
                folder = Path(name).resolve()
                seconds.append(asyncio.run(call_seconds(calls, folder, [], time.process_time)))
    traced(on=False)
    off, on_ = (statistics.median(each) for each in steps.values())
    idle = idle_spans_seconds(10_000)
    print(f"{runs} runs of {calls} calls, milliseconds\n")
    for case, times in found.items():
        aim = f"  (aim {HOOK_AIM_MS:g})" if case == "overhead" else ""
        print(f"{case:<18}{statistics.median(times):>8.2f}{aim}")
    print(f"{'fallback':<18}{statistics.median(fallback):>8.2f}  (aim {FALLBACK_AIM_MS:g})")
    print(f"{'spans, no SDK':<18}{idle * 1000:>8.3f}  {idle / off:.1%} of a step's CPU (aim {OFF_AIM:.0%})")
    print(
        f"{'spans, SDK':<18}{(on_ - off) * 1000:>8.3f}  {on_ / off - 1:.1%} of a step's CPU (aim {ON_AIM:.0%})"
    )


if __name__ == "__main__":
    main()
