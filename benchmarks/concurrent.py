"""Many sessions at once in one process: CPU per step, how late the event loop is, and the write-ahead log.

``python -m benchmarks.concurrent [--peer] [--sessions 100] [--steps 20] [--answer-seconds 0.5] [--runs 3]``

Each answer reports its usage, as a provider's does. With ``--peer``, each run of Zeus is followed by one of deepagents
at its defaults, with the same answers, the same tool and its SQLite checkpointer: the ratio of both carries over to
another machine, the milliseconds do not.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peers import ANSWER_TEXT, TOOL_RESULT

_TICK_SECONDS: Final = 0.005
_OUTPUT_TOKENS: Final = 60


def _input_tokens(said: int) -> int:
    """The input tokens that a provider would report about after ``said`` answers."""
    return 2_000 + 250 * said


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


async def _measured(
    log: Path, sessions: int, steps: int, one: Callable[[int], Awaitable[object]]
) -> dict[str, Any]:
    """Run all sessions at once, after one that imports and makes tables, which is not measured."""
    await one(sessions)
    # As `zeus` and a service do: modules are never garbage, and there is much that is not.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    ticker = _Ticker(log)
    ticking = asyncio.create_task(ticker.run())
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one(index) for index in range(sessions)))
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


async def deepagents(folder: Path, sessions: int, steps: int, answer_seconds: float) -> dict[str, Any]:
    """Run deepagents' sessions side by side, with one agent, one tool and one SQLite file for all of them."""
    import aiosqlite
    from deepagents import create_deep_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from pydantic import Field

    number, result = itertools.count(), itertools.count()

    class Scripted(BaseChatModel):
        # The model's profile, as a real one of the peer has it.
        profile: Any = Field(default_factory=lambda: {"max_input_tokens": 128_000})

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            raise NotImplementedError

        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            said = sum(message.type == "ai" for message in messages)
            await asyncio.sleep(answer_seconds)
            tokens = {"input_tokens": _input_tokens(said), "output_tokens": _OUTPUT_TOKENS}
            usage: Any = tokens | {"total_tokens": sum(tokens.values())}
            message = AIMessage("done", usage_metadata=usage)
            if said < steps:
                call = {"name": "lookup", "args": {"key": f"part-{said}"}, "id": f"call_{said}"}
                message = AIMessage(
                    f"{ANSWER_TEXT} {next(number)}", tool_calls=[call | {"type": "tool_call"}]
                )
            return ChatResult(generations=[ChatGeneration(message=message)])

    @tool
    async def lookup(key: str) -> str:
        """Look a part up."""
        return f"{TOOL_RESULT}{next(result)}"

    async with aiosqlite.connect(folder / "checkpoints.db") as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        await connection.execute("PRAGMA synchronous=NORMAL")
        agent = create_deep_agent(model=Scripted(), tools=[lookup], checkpointer=AsyncSqliteSaver(connection))

        async def one(index: int) -> None:
            config: Any = {"configurable": {"thread_id": f"bench-{index}"}, "recursion_limit": 20 * steps}
            said = await agent.ainvoke(
                {"messages": [{"role": "user", "content": "Go through the file."}]}, config, durability="sync"
            )
            if said["messages"][-1].content != "done":
                raise click.ClickException("deepagents did not finish its turn")

        return await _measured(folder / "checkpoints.db-wal", sessions, steps, one)


async def zeus(folder: Path, sessions: int, steps: int, answer_seconds: float) -> dict[str, Any]:
    """Run one agent's sessions side by side; the model answers after a pause, with one tool call in each answer."""
    from langchain_core.messages import AIMessage

    from zeus_runtime import Agent
    from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, Usage

    number = itertools.count()

    class Scripted:
        name = "scripted"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            said = sum(message.type == "ai" for message in request.messages)
            await asyncio.sleep(answer_seconds)
            usage = Usage(_input_tokens(said), _OUTPUT_TOKENS)
            if said >= steps:
                yield ModelResponse(AIMessage("done"), usage)
                return
            call = {
                "name": "lookup",
                "args": {"key": f"part-{said}"},
                "id": f"call_{said}",
                "type": "tool_call",
            }
            # No text is the same twice, as in real sessions: otherwise counting its tokens once would be enough.
            yield ModelResponse(AIMessage(f"{ANSWER_TEXT} {next(number)}", tool_calls=[call]), usage)

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
    async with Agent.from_config(config, directory=folder, model=Scripted(), trust="all") as agent:
        return await _measured(
            folder / "zeus.db-wal", sessions, steps, lambda index: agent.run("Go through the file.")
        )


_RUNTIMES: Final = {"zeus": zeus, "deepagents": deepagents}


@click.command()
@click.option("--sessions", default=100, show_default=True, help="Sessions at once.")
@click.option("--steps", default=20, show_default=True, help="Model calls with a tool call, in each session.")
@click.option("--answer-seconds", default=0.5, show_default=True, help="How long the model takes to answer.")
@click.option(
    "--runs", default=3, show_default=True, help="Runs, each in a new process; the medians are printed."
)
@click.option("--peer", is_flag=True, help="deepagents beside Zeus, in turns, and the ratio of both.")
@click.option(
    "--in-process", hidden=True, nargs=2, type=(click.Choice(list(_RUNTIMES)), click.Path(path_type=Path))
)
def main(
    sessions: int,
    steps: int,
    answer_seconds: float,
    runs: int,
    peer: bool,
    in_process: tuple[str, Path] | None,
) -> None:
    """Measure one agent with many sessions at once."""
    if in_process is not None:
        name, place = in_process
        print(json.dumps(asyncio.run(_RUNTIMES[name](place, sessions, steps, answer_seconds))))
        return
    names = list(_RUNTIMES) if peer else ["zeus"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                words = [f"--sessions={sessions}", f"--steps={steps}", f"--answer-seconds={answer_seconds}"]
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.concurrent",
                    *words,
                    "--in-process",
                    name,
                    folder,
                ]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise click.ClickException(done.stderr[-2000:])
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    print(" " * 12 + "".join(f"{name:>12}" for name in names))
    for row in found["zeus"][0]:
        print(f"{row:<12}" + "".join(f"{_median(found[name], row):>12.2f}" for name in names))
    if peer:
        ratio = _median(found["zeus"], "ms_per_step") / _median(found["deepagents"], "ms_per_step")
        print(f"{'ratio':<12}{ratio:>12.2f}")


def _median(found: list[dict[str, Any]], row: str) -> float:
    return float(statistics.median(each[row] for each in found))


if __name__ == "__main__":
    main()
