"""Twenty sessions of one agent at once, begun or resumed: the process that ``tests/run/test_killed_crowd.py`` kills.

``python -m tests.support.killing_crowd FOLDER URL`` prints one line per session that has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, call, calling, events_of, write_agent
from tests.support.asked_once import ask_once
from tests.support.databases import storage
from tests.support.killing import TOOLS
from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted
from zeus_runtime.plugin.model import ModelRequest

SESSIONS = 20
STEPS = 8


def answer(request: ModelRequest) -> AIMessage | str:
    who = request.messages[0].text.removeprefix("go ")
    step = sum(message.type == "ai" for message in request.messages)
    return "done" if step == STEPS else calling(call("effect", f"{step}", name=f"{who}.{step}"))


async def play(agent: Agent, number: int, session: str | None) -> None:
    run = agent.stream(f"go {number}") if session is None else agent.resume(session)
    ending = (await events_of(run))[-1]
    over = isinstance(ending, RunCompleted) or "nothing to resume" in getattr(ending, "message", "")
    print("done" if over else f"failed: {ending}", flush=True)


async def begun(agent: Agent) -> dict[int, str]:
    """The sessions that have their prompt, by its number."""
    found = {}
    for info in await agent.sessions():
        if messages := await agent.history(info.session):
            found[int(messages[0].text.removeprefix("go "))] = info.session
    return found


async def main(folder: Path, url: str) -> None:
    config = folder / "zeus.yaml"
    if not config.exists():
        write_agent(folder, storage(url), plugin=TOOLS)
    async with Agent.from_config(config, directory=folder, model=PositionModel(answer)) as agent:
        known = await begun(agent)
        await asyncio.gather(*(play(agent, number, known.get(number)) for number in range(SESSIONS)))


if __name__ == "__main__":
    ask_once()
    os.chdir(sys.argv[1])
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
