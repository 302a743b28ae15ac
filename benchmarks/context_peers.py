"""One engine on one session: ``python -m benchmarks.context_peers ENGINE SESSION WINDOW MODEL [FILE]`` prints JSON.

Both engines get the same recorded answers and results, the same window, the same counter, cache rules and prices, and
the recorded tools beside their own. Breakpoints: deepagents is charged as if it set them (after its system prompt and
after the last message), as it does for Anthropic's own class; Zeus sets its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.sessions import Played, chains, recoverable, synthetic, trajectories
from zeus_runtime.context.replay.recordings import Recording
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.models.profiles import lookup

ENGINES = ("zeus", "economy", "deepagents")
_TOOLS = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Tool

NAMES = {names!r}

async def nothing(**arguments):
    return ""

def create(options, context):
    return [
        Tool(name, "A tool of the recording.", {parameters!r}, nothing, access="read")
        for name in NAMES
    ]

@hookimpl
def register_tools():
    return [Component("recorded", create=create)]
"""


def session_of(name: str, file: Path | None = None) -> Recording:
    """A session by its name: a number of messages of the trajectories in ``file``, or a synthetic one's name."""
    if name.isdigit():
        return next(chains(trajectories(file), [int(name)]))
    return next(each for each in synthetic() if each.name == name)


def write_config(folder: Path, session: Recording, window: int, model: str, preset: str) -> Path:
    """Zeus as a preset has it, with the recorded tools, the model and the window."""
    names = sorted(
        {call["name"] for message in session.messages for call in getattr(message, "tool_calls", ())}
    )
    own = {
        "ls",
        "read_file",
        "write_file",
        "edit_file",
        "glob",
        "grep",
        "write_todos",
        "read_todos",
        "recall",
    }
    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    (folder / "recorded.py").write_text(
        _TOOLS.format(names=[name for name in names if name not in own], parameters=parameters)
    )
    config = folder / "zeus.yaml"
    config.write_text(
        f"version: 1\nextends: {preset}\nmodel: {model}\ntools: [filesystem, todos, recorded]\n"
        f"plugins: {{files: [recorded.py]}}\n"
        f"profiles: {{models: {{{model}: {{max_input_tokens: {window}}}}}}}\n"
    )
    return config


def zeus(session: Recording, window: int, model: str, preset: str = "default") -> Played:
    """Zeus's planner and policies as the preset has them."""
    from zeus_runtime.agent.backtest import replay
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.validated import check
    from zeus_runtime.trust.decision import recorded_trust

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_config(folder, session, window, model, preset)
        trust = recorded_trust({}, "all")
        plan = make_plan(check(config, env=None, sets=(), directory=folder, environ={}, trust=trust))
        work = folder / "work"
        work.mkdir()
        played = asyncio.run(replay(plan, session, work, policy=f"zeus: {preset}"))
        archive = "\n".join(_archived(work))
    reached = max((call.answer for call in played.calls), default=0)
    found, removed = recoverable(session, reached, played.provider, archive)
    return Played(played.outcome, played.cpu_seconds, found, removed)


def _archived(work: Path) -> Iterator[str]:
    from zeus_runtime.context.archive import read_archive

    for file in sorted(work.rglob("*")):
        parts = file.parts
        if not file.is_file() or not {"conversation_history", "large_tool_results"} & {*parts}:
            continue
        data = file.read_bytes()
        if "conversation_history" in parts:
            for each in read_archive(data)[0]:
                yield str(each.message.content)
                for call in getattr(each.message, "tool_calls", ()):
                    yield from (value for value in call["args"].values() if isinstance(value, str))
        elif file.name.endswith(".arguments.json"):
            yield from (value for value in json.loads(data).values() if isinstance(value, str))
        else:
            yield data.decode()


def deepagents(session: Recording, window: int, model: str) -> Played:
    """deepagents at its defaults for a model whose window it knows."""
    from benchmarks.deep import Player
    from zeus_runtime.context.replay.provider_simulator import SimulatedProvider

    profile = replace(lookup(model), max_input_tokens=window)
    provider = SimulatedProvider(profile, counter_for(profile), marked=True)
    return asyncio.run(Player(session, provider).play(window))


def economy(session: Recording, window: int, model: str) -> Played:
    """Zeus's ``economy`` preset."""
    return zeus(session, window, model, "economy")


RUN: dict[str, Callable[[Recording, int, str], Played]] = {
    "zeus": zeus,
    "economy": economy,
    "deepagents": deepagents,
}


def report(played: Played) -> dict[str, Any]:
    """What the table needs."""
    steps = max(1, len(played.cpu_seconds))
    return {
        **asdict(played.outcome),
        "ms_per_step": 1000 * sum(played.cpu_seconds) / steps,
        "growth": played.growth,
        "recoverable": played.recoverable,
        "removed": played.removed,
    }


def main() -> None:
    engine, session, window, model = sys.argv[1:5]
    file = Path(sys.argv[5]) if len(sys.argv) > 5 else None
    counter_for(lookup(model)).text("The tokenizer's table is read before the first step, not in it.")
    print(json.dumps(report(RUN[engine](session_of(session, file), int(window), model))))


if __name__ == "__main__":
    main()
