"""Record configs/demo.jsonl anew: a scripted model's words, the real tools' results.

``python scripts/record_demo.py``, from the checkout.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from langchain_core.messages import AIMessage
from record_quickstart import step, tool
from record_quickstart import steps as quickstart

from zeus_runtime import Agent, Decision, RunStarted
from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, Usage
from zeus_runtime.serving.http.demo import CONFIG, SESSIONS
from zeus_runtime.testing import ScriptedModel

CHECKOUT = Path(__file__).parents[1]
CASSETTE = CHECKOUT / "configs" / "demo.jsonl"
FILE = "/zeus-quickstart/stock.csv"
ITEMS = ("keyboard", "monitor", "desk lamp", "webcam", "chair", "headset", "dock", "cable", "mouse", "stand")
STOCK = "item,colour,stock,sold per week\n" + "".join(
    f"{item},{colour},{(7 * place + 3 * shade) % 60 + 4},{(5 * place + shade) % 9 + 1}\n"
    for place, item in enumerate(ITEMS)
    for shade, colour in enumerate(("black", "white", "grey", "oak", "red", "blue", "green"))
)
SUMMARY = """The user wants reports of half a page at most; this is in the memory. `/zeus-quickstart/stock.csv` has
the stock of ten items in seven colours. Chairs and webcams run out first, within two weeks. The user asked for an
order, item by item, and for a comparison with last year; both were answered. Next: the fastest supplier."""


def per_item(sentence: str) -> str:
    """A long answer, with a paragraph for each item."""
    return "\n\n".join(f"**{item.capitalize()}**: {sentence.format(item=item)}" for item in ITEMS)


ORDER = per_item(
    "order {item}s in two lots. The first covers four weeks and leaves today, because the supplier needs nine days. "
    "The second follows once the first has arrived, and is smaller by what was sold until then."
)
LAST_YEAR = per_item(
    "last spring we ordered {item}s once, for three months. A third of them were still here in August, and two colours "
    "were missing for five weeks. Two lots would have cost the same and needed half the shelf."
)
MAIL = "Dear Northwind team,\n\nplease send 40 chairs and 25 webcams this week.\n\nWith kind regards\n"

MADE = """I made two files in `zeus-quickstart/`, with real tools:

- `orders.csv`: five orders to work on
- `report.md`: the two that are late, worth 313.00 together

My words came from a recording; the files, the search and the checks were real. The tabs above show what the model saw
at each step, and where the time went. `zeus init` makes an agent of your own, with a real model."""

ANSWERS = {
    "Show me what you can do": [*quickstart()[:-1], AIMessage(MADE)],
    "Remember that reports for me are half a page at most.": [
        step(
            "I will remember it.",
            tool(
                "memory_save",
                content="The user wants reports of half a page at most.",
                memory_type="preference",
                asked=True,
            ),
        ),
        AIMessage("Noted: half a page at most. `zeus memory list` would show it."),
    ],
    "Write a list of our stock into the quickstart folder.": [
        step("I will write the list.", tool("write_file", path=FILE, content=STOCK)),
        AIMessage("The list is written: ten items in seven colours."),
    ],
    "Read the whole list. What runs out first?": [
        step("I will read it.", tool("read_file", path=FILE)),
        AIMessage(
            "**Chairs and webcams**, within two weeks.\n\nThe list was long, so it left the context at once: the model "
            "sees a preview and a path. The context view shows it."
        ),
    ],
    "How would you order, item by item?": [AIMessage(ORDER)],
    "How would that have gone last year?": [AIMessage(LAST_YEAR)],
    "Let the scout find the fastest supplier.": [
        step(
            "The scout will look.",
            tool("task", description="Fastest supplier", prompt="Which supplier is fastest?", agent="scout"),
        ),
        AIMessage("Northwind delivers fastest: within nine days."),
    ],
    "Which supplier is fastest?": [AIMessage("Northwind: nine days.")],
    "Write the order to the supplier.": [
        step(
            "This leaves the quickstart folder, so you decide.",
            tool("write_file", path="/outbox/order.md", content=MAIL),
        ),
        AIMessage("You have decided about the call above; its result says what happened."),
    ],
}


class Answering:
    """The scripted model of the prompt that a request is about."""

    name = "scripted"

    def __init__(self) -> None:
        self._models = {prompt: ScriptedModel(script) for prompt, script in ANSWERS.items()}
        self._sent = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        prompt = next(str(each.content) for each in reversed(request.messages) if each.type == "human")
        model = self._models[prompt] if request.purpose == "turn" else ScriptedModel([SUMMARY])
        async for piece in model.stream(request):
            yield self._counted(request, piece) if isinstance(piece, ModelResponse) else piece

    def _counted(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        """The response with the usage that a provider might report: about four characters are a token."""
        sent = (len(request.system) + sum(len(str(each.content)) for each in request.messages)) // 4
        kept, self._sent = min(self._sent, sent), sent
        said = response.message
        told = (len(str(said.content)) + len(str(said.tool_calls))) // 4
        return replace(response, usage=Usage(sent, told, cache_read_tokens=kept))


async def main() -> None:
    config = CHECKOUT / "configs" / f"{CONFIG}.yaml"
    with tempfile.TemporaryDirectory() as folder:
        async with Agent.from_config(config, directory=folder, model=Answering()) as agent:
            recorded = Path(folder) / CASSETTE.name
            with agent.record(recorded):
                for prompts in SESSIONS.values():
                    session: str | None = None
                    for prompt in prompts:
                        async for event in agent.stream(prompt, session=session):
                            session = event.session if isinstance(event, RunStarted) else session
                    assert session is not None
                    if waiting := await agent.pending_approvals(session):
                        await agent.decide(session, {each.id: Decision("approve") for each in waiting})
                        async for _event in agent.resume(session):
                            pass
                    for message in await agent.history(session):
                        print(f"[{message.type}] {message.text[:200]}")
        shutil.move(recorded, CASSETTE)


if __name__ == "__main__":
    asyncio.run(main())
