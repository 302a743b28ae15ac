"""Record configs/quickstart.jsonl anew: a scripted model's words, the real tools' results.

``python scripts/record_quickstart.py``, from the checkout.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from zeus_runtime import Agent
from zeus_runtime.testing import ScriptedModel

CHECKOUT = Path(__file__).parents[1]
CASSETTE = CHECKOUT / "configs" / "quickstart.jsonl"
FOLDER = "/zeus-quickstart"
PROMPT = "Show me what you can do"

ORDERS = """order,customer,item,amount,state
1001,Ada,keyboard,89.00,delivered
1002,Grace,monitor,249.00,late
1003,Linus,desk lamp,35.50,delivered
1004,Ada,webcam,64.00,late
1005,Barbara,chair,310.00,delivered
"""
REPORT = """# Orders that are late

(to be filled in)
"""
FILLED = """2 of 5 orders are late, worth 313.00 together:

- 1002, Grace, monitor, 249.00
- 1004, Ada, webcam, 64.00"""
PLAN = ("Write the orders to a file", "Find the late ones", "Report them, and check the report")
ANSWER = f"""I made two files in `{FOLDER[1:]}/`, with real tools:

- `orders.csv`: five orders to work on
- `report.md`: the two that are late, worth 313.00 together

My words came from a recording; the files, the search and the checks were real. What to try next:

- `zeus sessions show` for every step of this session
- `zeus context show --config quickstart` for what the model saw at the last one, part by part
- `zeus plan quickstart` for exactly what ran, and `zeus plan quickstart --prompt` for what the model was told
- `zeus init` for an agent of your own, with a real model"""


def todos(done: int) -> dict[str, Any]:
    """The call that writes the list with ``done`` tasks completed and the next one in progress."""
    states = (
        ["completed"] * done + ["in_progress"] * (done < len(PLAN)) + ["pending"] * (len(PLAN) - done - 1)
    )
    return tool("write_todos", todos=[{"content": c, "status": s} for c, s in zip(PLAN, states, strict=True)])


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call."""
    tool.count = getattr(tool, "count", 0) + 1  # type: ignore[attr-defined]
    return {"name": name, "args": arguments, "id": f"call_{tool.count}", "type": "tool_call"}  # type: ignore[attr-defined]


def step(text: str, *calls: dict[str, Any]) -> AIMessage:
    """An answer that calls tools."""
    return AIMessage(text, tool_calls=list(calls))  # type: ignore[arg-type]


def steps() -> list[AIMessage]:
    """The whole conversation of the model."""
    orders, report = f"{FOLDER}/orders.csv", f"{FOLDER}/report.md"
    return [
        step("I will make a small folder of orders, find the late ones and report them.", todos(0)),
        step(
            "First the files.",
            tool("write_file", path=orders, content=ORDERS),
            tool("write_file", path=report, content=REPORT),
        ),
        step("Now the late orders.", todos(1), tool("grep", pattern="late$", path=orders)),
        step(
            "Two. Into the report they go.",
            todos(2),
            tool("edit_file", path=report, old="(to be filled in)", new=FILLED),
        ),
        step("A look at the result.", tool("read_file", path=report), tool("ls", path=FOLDER)),
        step("It is as it should be.", todos(3)),
        AIMessage(ANSWER),
    ]


async def main() -> None:
    script = steps()
    with tempfile.TemporaryDirectory() as folder:
        config = CHECKOUT / "configs" / "quickstart.yaml"
        async with Agent.from_config(
            config, directory=folder, model=ScriptedModel(script, usage=None)
        ) as agent:
            recorded = Path(folder) / CASSETTE.name
            with agent.record(recorded):
                await agent.run(PROMPT)
            for message in await agent.history((await agent.sessions())[0].session):
                print(f"[{message.type}] {message.text}")
        shutil.move(recorded, CASSETTE)


if __name__ == "__main__":
    asyncio.run(main())
