"""What a run over HTTP costs: CPU and memory of a one-word answer, and CPU per streamed step, on each wire.

``python -m benchmarks.streamed [--steps 300] [--runs 3] [--runtimes native,litellm,deepagents]``

``native-anthropic`` and ``litellm-anthropic`` speak Anthropic's messages instead of OpenAI's chat completions.

The provider is on the loopback, in this process; each run is another process. ``deepagents`` calls it with
``ChatOpenAI`` (needs ``langchain-openai``), at its defaults, with a SQLite checkpointer.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peers import ANSWER_TEXT, TOOL_RESULT
from tests.support.provider import Call, Provider, Received, Reply

_PIECE: Final = 4
"""Characters in a piece: 53 pieces of text in each answer."""

_PEER: Final = '''
import asyncio, sys
async def main(url, folder):
    import aiosqlite
    from deepagents import create_deep_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    @tool
    async def lookup(key: str) -> str:
        """Look a part up."""
        return RESULT

    async with aiosqlite.connect(folder + "/checkpoints.db") as connection:
        model = ChatOpenAI(model="gpt-4o", base_url=url, api_key="sk-x", stream_usage=True)
        agent = create_deep_agent(model=model, tools=[lookup], checkpointer=AsyncSqliteSaver(connection))
        config = {"configurable": {"thread_id": "bench"}, "recursion_limit": 100_000}
        prompt = {"messages": [{"role": "user", "content": "Go through the file."}]}
        async for _ in agent.astream(prompt, config, stream_mode="messages", durability="sync"):
            pass
asyncio.run(main(*sys.argv[1:]))
'''

_PLUGIN: Final = f'''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def lookup(key: str) -> str:
    """Look a part up.

    Args:
        key: which.
    """
    return {TOOL_RESULT!r}

@hookimpl
def register_tools():
    return [Component("lookup", create=lambda options, context: [lookup])]
'''


class Script:
    """Answers with one tool call so many times, then with a word; summaries of the conversation too."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, request: Received) -> Reply:
        if not request.body.get("tools"):
            return Reply("## Intent\nGo through the file.\n", piece=_PIECE)
        self._left -= 1
        if self._left < 0:
            return Reply("done", piece=_PIECE)
        call = Call("lookup", json.dumps({"key": f"part-{self._left}"}), f"call_{self._left}")
        return Reply(ANSWER_TEXT, calls=[call], piece=_PIECE)


def measure(runtime: str, steps: int, folder: Path) -> tuple[float, float]:
    """CPU seconds and megabytes of one run."""
    with Provider(answer=Script(steps)) as provider:
        wire, _, protocol = runtime.partition("-")
        command = _command(wire, provider.anthropic if protocol else provider.openai, folder)
        environ = {**os.environ, "ZEUS_TRUST": "all"}
        with (folder / "errors.txt").open("wb") as errors:
            done = subprocess.Popen(
                command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=errors
            )
        # This child's own figures: ``getrusage`` has the most memory of any child so far.
        _, status, used = os.wait4(done.pid, 0)
        done.returncode = os.waitstatus_to_exitcode(status)
    if done.returncode != 0:
        raise click.ClickException(f"{runtime} failed:\n{(folder / 'errors.txt').read_text()[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _command(runtime: str, url: str, folder: Path) -> list[str]:
    if runtime == "deepagents":
        (folder / "peer.py").write_text(f"RESULT = {TOOL_RESULT!r}\n{_PEER}")
        return [sys.executable, "peer.py", url, str(folder)]
    model = "openai/gpt-4o" if url.endswith("/v1") else "anthropic/claude-sonnet-4-5"
    options = {"model": model, "api_base": url, "api_key": "sk-x", "wire": runtime}
    config: dict[str, Any] = {
        "version": 1,
        "extends": "default",
        "model": {"litellm": options},
        "tools": ["lookup"],
        "plugins": {"files": ["lookup.py"]},
        "limits": {"max_steps": 100_000, "timeout_seconds": None},
    }
    (folder / "lookup.py").write_text(_PLUGIN)
    (folder / "zeus.yaml").write_text(json.dumps(config))
    return [sys.executable, "-m", "zeus_runtime", "run", "zeus.yaml", "Go through the file.", "-o", "json"]


@click.command()
@click.option("--steps", default=300, show_default=True, help="Streamed answers with a tool call.")
@click.option("--runs", default=3, show_default=True, help="Runs of each runtime; medians are printed.")
@click.option("--runtimes", default="native,litellm", show_default=True)
def main(steps: int, runs: int, runtimes: str) -> None:
    """Run the runtimes in turn and print medians."""
    names = runtimes.split(",")
    short: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    long: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                short[name].append(measure(name, 0, Path(folder)))
            with tempfile.TemporaryDirectory() as folder:
                long[name].append(measure(name, steps, Path(folder))[0])
    print(f"{'runtime':<20}{'one word, s':>12}{'MB':>8}{'ms per step':>14}")
    for name in names:
        seconds = statistics.median(cpu for cpu, _ in short[name])
        megabytes = statistics.median(memory for _, memory in short[name])
        step = (statistics.median(long[name]) - seconds) / steps * 1000
        print(f"{name:<20}{seconds:>12.2f}{megabytes:>8.0f}{step:>14.1f}")


if __name__ == "__main__":
    main()
