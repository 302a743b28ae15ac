"""One engine on one session: ``python -m benchmarks.context_peers ENGINE SESSION WINDOW MODEL [FILE]`` prints JSON.

Both engines get the same recorded answers and results, the same window, cache rules and prices, and the recorded tools
beside their own. The provider counts for both alike: at GPT-5's prices by its vocabulary, at Claude's by the last one
that Anthropic published, which is not what Zeus plans with. Breakpoints: deepagents is charged as if it set them (after
its system prompt and after the last message), as it does for Anthropic's own class; Zeus sets its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.sessions import Played, chains, paused, recoverable, synthetic, trajectories
from zeus_runtime.context.replay.recordings import Recording
from zeus_runtime.context.tokens import Counter, counter_for
from zeus_runtime.context.tokens.choice import counter_with
from zeus_runtime.models.profiles import ModelProfile, lookup

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan

ENGINES = ("zeus", "economy", "deepagents")
EQUAL = 48_000
"""Tokens of messages at which the engines ``zeus-48k`` and ``deepagents-48k`` compact."""
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
    """A session by its name: a number of messages of the trajectories in ``file``, or a synthetic one's name.

    ``+pauses`` behind the name lets an hour pass before each message of the user.
    """
    if name.endswith("+pauses"):
        return paused(session_of(name.removesuffix("+pauses"), file))
    if name.isdigit():
        return next(chains(trajectories(file), [int(name)]))
    return next(each for each in synthetic() if each.name == name)


def provider_counter(profile: ModelProfile) -> Counter:
    """How the simulated provider counts."""
    if profile.provider != "anthropic":
        return counter_for(profile)
    import importlib.util

    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    tokenizer = Tokenizer.from_file(str(folder / "anthropic_tokenizer.json"))
    return counter_with(lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids), profile)


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


def zeus(
    session: Recording, window: int, model: str, preset: str = "default", trigger: int | None = None
) -> Played:
    """Zeus's planner and policies as the preset has them.

    Args:
        trigger: tokens of messages at which it summarizes, instead of by price.
    """
    from zeus_runtime.agent.backtest import replay
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.validated import check
    from zeus_runtime.trust.decision import recorded_trust

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_config(folder, session, window, model, preset)
        trust = recorded_trust({}, "all")

        def planned(*sets: str) -> Plan:
            return make_plan(check(config, env=None, sets=sets, directory=folder, environ={}, trust=trust))

        plan = planned()
        if trigger is not None:
            place = [each.name for each in plan.middlewares].index("summarization")
            at = f"middlewares.{place}.summarization"
            plan = planned(f"{at}.by_price=false", f"{at}.max_trigger_tokens={trigger}")
        work = folder / "work"
        work.mkdir()
        counter = provider_counter(plan.profile)
        played = asyncio.run(replay(plan, session, work, policy=f"zeus: {preset}", provider_counter=counter))
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


def deepagents(session: Recording, window: int, model: str, trigger: int | None = None) -> Played:
    """deepagents at its defaults for a model whose window it knows.

    Args:
        trigger: tokens at which it summarizes; it takes 0.85 of the window that the model's profile states.
    """
    from benchmarks.deep import Player
    from zeus_runtime.context.replay.provider_simulator import SimulatedProvider

    profile = replace(lookup(model), max_input_tokens=window)
    provider = SimulatedProvider(profile, provider_counter(profile), marked=True)
    stated = window if trigger is None else min(window, round(trigger / 0.85))
    return asyncio.run(Player(session, provider).play(stated))


def economy(session: Recording, window: int, model: str) -> Played:
    """Zeus's ``economy`` preset."""
    return zeus(session, window, model, "economy")


RUN: dict[str, Callable[[Recording, int, str], Played]] = {
    "zeus": zeus,
    "economy": economy,
    "zeus-preset": lambda session, window, model: zeus(session, window, model, "zeus"),
    "zeus-48k": lambda session, window, model: zeus(session, window, model, trigger=EQUAL),
    "deepagents": deepagents,
    "deepagents-48k": lambda session, window, model: deepagents(session, window, model, EQUAL),
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
