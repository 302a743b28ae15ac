"""What a power of an agent costs above the work itself: ``python -m benchmarks.powers [--calls 100] [--runs 5]``.

A hook: the time of a tool call with one hook, without the same call's time and without the time of the hook's process
alone. A shell command: the time of its tool call, without the time of the same process alone; with bubblewrap, on a
workspace of 1,000 files. A fallback: the CPU time of a run whose first model fails, without that of a run with the
second model alone. Tracing: how much more CPU time a step takes if an SDK collects its spans; the time of the same
spans with the same attributes, made by the SDK alone in an empty loop; and the share of a step that its spans take
without an SDK. Masking: the CPU time of 400 KB of Zeus's own source with thirty secrets that it does not hold, beside
that of ``str.replace`` with the same secrets, which finds them only as they are written.

Cases alternate, so that other work on the machine touches all alike: runs, and for tracing each step. Of the calls of a
run, and of the runs, the median counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click

import zeus_runtime
from zeus_runtime import Agent
from zeus_runtime.config import Redactor
from zeus_runtime.events import RunCompleted
from zeus_runtime.testing import ScriptedModel, calling

HOOK: Final = ("sh", "-c", "read -r call; printf '{}'")
COMMAND: Final = ("sh", "-c", "true")
LS: Final = ("ls", {"path": "/"})
RUN: Final = ("run_command", {"command": "true"})
FILES: Final = 1_000
PACKAGE: Final = Path(zeus_runtime.__file__).parent
MASKED, SECRETS = 400_000, 30
BLOCK: Final = 10
AIMS_MS: Final = {
    "hook's overhead": 10.0,
    "fallback": 2.0,
    "command's overhead": 15.0,
    "overhead in bubblewrap": 60.0,
}
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


def bare_seconds(calls: int, folder: Path, command: Sequence[str]) -> float:
    """The time of one process with the input of a hook, without Zeus."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = json.dumps({"tool": "ls", "arguments": {"path": "/"}}).encode()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        subprocess.run(command, input=given, capture_output=True, check=True, cwd=folder, env=environ)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def call_seconds(calls: int, folder: Path, call: Any, **keys: Any) -> float:
    """The time of one tool call.

    Args:
        call: its name and its arguments.
        keys: of the config.
    """
    times: list[float] = []
    began = 0.0
    async for event in _events(calls, folder, call, **keys):
        if event.type == "tool_call":
            began = time.perf_counter()
        elif event.type == "tool_call_result":
            times.append(time.perf_counter() - began)
    return statistics.median(times[1:])  # the first one imports


async def step_seconds(calls: int, folder: Path) -> tuple[float, float]:
    """The CPU time of one step with one tool call: without an SDK, and with one, which each second block has."""
    times: dict[bool, list[float]] = {False: [], True: []}
    began, is_on, steps = time.process_time(), False, 0
    async for event in _events(calls * 2, folder, LS, tools=["filesystem"]):
        if event.type == "tool_call_result":
            steps += 1
            if steps % BLOCK > 1:  # in the first ones of a block, the processor's caches have the other code
                times[is_on].append(time.process_time() - began)
            elif steps % BLOCK == 0:
                is_on = not is_on
                tracing(on=is_on)
            began = time.process_time()
    off, on = (statistics.median(each[BLOCK:]) for each in times.values())
    return off, on


async def _events(calls: int, folder: Path, call: Any, **keys: Any) -> AsyncIterator[Any]:
    config = {
        "version": 1,
        "model": "gpt-4o",
        "limits": {"max_steps": calls + 2, "repeated_calls": None},
        **keys,
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    model = ScriptedModel([*[calling(call)] * (calls + 1), "done"])
    async with Agent.from_config(directory=folder, model=model, trust="all") as agent:
        async for event in agent.stream("go"):
            yield event
        assert isinstance(event, RunCompleted), event


async def fallback_seconds(runs: int, folder: Path) -> float:
    """How much more CPU time a run with one answer takes if its first model fails."""
    alone: dict[str, Any] = {"up": {}}
    chained = {"chain": [{"down": {}}, alone], "breaker": {"failures": 1_000_000}}
    times: tuple[list[float], list[float]] = ([], [])
    async with AsyncExitStack() as stack:
        agents = []
        for name, model in (("alone", alone), ("chained", chained)):
            (folder / name).mkdir()
            (folder / name / "models.py").write_text(MODELS)
            config = {
                "version": 1,
                "model": model,
                "plugins": {"files": ["models.py"]},
                "retry": {"attempts": 1},
            }
            (folder / name / "zeus.yaml").write_text(json.dumps(config))
            agent = Agent.from_config(directory=folder / name, trust="all")
            agents.append(await stack.enter_async_context(agent))
        for _ in range(runs + 1):
            for agent, taken in zip(agents, times, strict=True):
                began = time.process_time()
                assert (await agent.run("go")).answer == "done"
                taken.append(time.process_time() - began)
    one, other = (statistics.median(each[1:]) for each in times)
    return other - one


_LAST: Final[dict[str, Any]] = {}
"""The last span of each operation."""


@cache
def _provider() -> Any:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            _LAST.update({each.name.partition(" ")[0]: each for each in spans})
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    return provider


def tracing(*, on: bool) -> None:
    """Let an SDK collect the spans of this process in batches, or take it away."""
    from opentelemetry import trace

    trace._TRACER_PROVIDER = _provider() if on else None


def sdk_seconds(steps: int) -> float:
    """The CPU time that the SDK alone takes for the last spans of a step, made again as Zeus makes them."""
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import set_span_in_context

    provider = _provider()
    provider.force_flush()
    tracer = provider.get_tracer("benchmark")
    made = [(each.name, each.kind, dict(each.attributes)) for each in (_LAST["chat"], _LAST["execute_tool"])]
    detached = attach(set_span_in_context(tracer.start_span("invoke_agent")))
    times = []
    for _ in range(steps):
        began = time.process_time()
        for name, kind, attributes in made:
            span = tracer.start_span(name, kind=kind, attributes=attributes)
            token = attach(set_span_in_context(span))
            detach(token)
            span.end()
        times.append(time.process_time() - began)
    detach(detached)
    return statistics.median(times)


def idle_spans_seconds(steps: int) -> float:
    """The CPU time of the spans of one step without an SDK."""
    from zeus_runtime.tracing import TraceSpan

    began = time.process_time()
    for _ in range(steps):
        for name in ("chat", "execute_tool"):
            with TraceSpan(name, {"gen_ai.operation.name": name}, is_current=True) as span:
                span.note({"zeus.context.tokens": 1})
    return (time.process_time() - began) / steps


def masking_seconds() -> tuple[float, float]:
    """The CPU time of masking a text, and of ``str.replace`` alone."""
    from base64 import b64encode

    source = "".join(each.read_text() for each in sorted(PACKAGE.rglob("*.py")))[:MASKED]
    secrets = {f"KEY_{n}": b64encode(sha256(bytes([n])).digest()).decode() for n in range(SECRETS)}
    known = Redactor().adding({secret: name for name, secret in secrets.items()})
    known.text("KEY_1" * SECRETS)  # makes the forms of the secrets
    began = time.process_time()
    known.text(source)
    masked = time.process_time()
    for name, secret in secrets.items():
        source = source.replace(secret, name)
    return masked - began, time.process_time() - masked


@click.command()
@click.option("--calls", default=100, show_default=True)
@click.option("--runs", default=5, show_default=True)
def main(calls: int, runs: int) -> None:
    """Print the median of each time, and the overhead beside its aim."""
    hooked = [{"hooks": {"before_tool_call": [{"command": list(HOOK)}]}}]
    found: dict[str, list[float]] = {}
    steps: list[tuple[float, float]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            times = {
                "hook's process alone": bare_seconds(calls, folder, HOOK),
                "tool call": _call(calls, folder / "plain", LS, tools=["filesystem"]),
                "tool call with a hook": _call(
                    calls, folder / "hooked", LS, tools=["filesystem"], middlewares=hooked
                ),
                "command alone": bare_seconds(calls, folder, COMMAND),
                "run_command": _call(calls, folder / "bare", RUN, tools=[{"shell": {"contain": "none"}}]),
                "run_command in bubblewrap": _call(calls, folder / "contained", RUN, tools=["shell"]),
                "fallback": asyncio.run(fallback_seconds(calls, folder)),
            }
            (folder / "steps").mkdir()
            steps.append(asyncio.run(step_seconds(calls, folder / "steps")))
            tracing(on=False)
        alone = times["command alone"]
        times["hook's overhead"] = (
            times["tool call with a hook"] - times["tool call"] - times["hook's process alone"]
        )
        times["command's overhead"] = times["run_command"] - alone
        times["overhead in bubblewrap"] = times["run_command in bubblewrap"] - alone
        for case, each in times.items():
            found.setdefault(case, []).append(each * 1000)
    print(f"{runs} runs of {calls} calls, milliseconds\n")
    for case, measured in found.items():
        aim = f"  (aim {AIMS_MS[case]:g})" if case in AIMS_MS else ""
        print(f"{case:<26}{statistics.median(measured):>8.2f}{aim}")
    masking, replacing = map(statistics.median, zip(*(masking_seconds() for _ in range(runs)), strict=True))
    print(f"{'masking':<26}{masking * 1000:>8.2f}  {masking / replacing:.0f} times str.replace (aim 60)")
    off = statistics.median(each for each, _ in steps)
    more = statistics.median(on - off for off, on in steps)
    share = statistics.median(on / off - 1 for off, on in steps)
    idle = idle_spans_seconds(10_000)
    alone = sdk_seconds(10_000)
    print(f"{'CPU of a step':<26}{off * 1000:>8.2f}")
    print(f"{'its spans, no SDK':<26}{idle * 1000:>8.3f}  {idle / off:.1%} (aim {OFF_AIM:.0%})")
    print(f"{'its spans, SDK':<26}{more * 1000:>8.3f}  {share:.1%} (aim {ON_AIM:.0%})")
    print(f"{'  of it the SDK alone':<26}{alone * 1000:>8.3f}  {alone / off:.1%}")


def _call(calls: int, folder: Path, call: Any, **keys: Any) -> float:
    folder.mkdir()
    if call is RUN:
        for number in range(FILES):
            place = folder / f"folder{number % 20}"
            place.mkdir(exist_ok=True)
            (place / f"file{number}").touch()
    return asyncio.run(call_seconds(calls, folder, call, **keys))


if __name__ == "__main__":
    main()
