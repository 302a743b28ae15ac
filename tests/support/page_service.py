"""A service in a process of its own, for the page's tests: ``python -m tests.support.page_service FOLDER PORT``.

Its model answers by the prompt, slowly enough to look at. A test kills it and starts it again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from langchain_core.messages import AIMessage

from tests.support.agents import call, calling, write_agent
from tests.support.serving import TOKEN, service_of
from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, TextDelta, ToolCallDelta
from zeus_runtime.serving.http.app import app_of

YAML = """
description: Answers from a script.
tools: [probe, filesystem, todos, subagents]
agents:
  scout: {description: Looks things up., tools: [probe]}
middlewares:
  - eviction: {max_tokens: 400}
  - summarization: {trigger: {tokens: 1500}, keep: {messages: 2}, cheaper_first: [], by_price: false}
  - recall
  - approve: {allow: [task, echo]}
profiles: {models: {gpt-4o: {max_input_tokens: 6000, max_output_tokens: 1000}}}
"""

CODE = "```python\ndef area(width: float, height: float) -> float:\n    return width * height\n```"
LONG = "\n\n".join(
    f"## Part {number}\n\nA paragraph with **bold** words, `code` and a [link](https://example.org/{number}). "
    f"{'It goes on. ' * 12}\n\n- one\n- two\n\n{CODE}"
    for number in range(1, 13)
)
TABLE = "| order | late by |\n|---|---|\n| 1042 | 3 days |\n| 1077 | 1 day |"


def answer(request: ModelRequest) -> AIMessage:
    """The answer to a conversation, by the user's last prompt and by what was answered since."""
    texts = [str(each.content) for each in request.messages]
    if not request.tools:  # a policy asks for a summary
        return AIMessage("The user's orders were discussed; 1042 and 1077 are late.")
    place = max(
        index
        for index, each in enumerate(request.messages)
        if each.type == "human" and "from_runtime" not in each.additional_kwargs
    )
    prompt, since = texts[place], request.messages[place + 1 :]
    done = sum(each.type == "tool" for each in since)
    if "write" in prompt and not done:
        return calling(
            call("write_file", f"w{len(texts)}", path="/plan.md", content="# Plan\n\n1. Ship order 1042.\n2. Call the customer.\n"),
            text="I will write the plan.",
        )
    if "edit" in prompt and not done:
        return calling(call("edit_file", f"e{len(texts)}", path="/plan.md", old_string="Ship", new_string="Ship today:"))
    if "tools" in prompt and done < 3:
        steps = [
            call("write_todos", f"t{len(texts)}", todos=[
                {"content": "Find the late orders", "status": "completed"},
                {"content": "Ask why they are late", "status": "in_progress"},
                {"content": "Write to the customers", "status": "pending"},
            ]),
            call("echo", f"x{len(texts)}", text="order 1042 waits for a part. " * 60),
            call("task", f"s{len(texts)}", description="Look up order 1077.", agent="scout"),
        ]
        return calling(steps[done])
    if "Look up" in prompt:
        return calling(call("echo", "l1", text="order 1077")) if not done else AIMessage("Order 1077 is one day late.")
    if "record" in prompt and not done:
        return calling(call("record", f"r{len(texts)}", text="draft"))
    if "long" in prompt:
        return AIMessage(LONG)
    if done:
        return AIMessage("It is done.")
    return AIMessage(f"Two orders are **late**:\n\n{TABLE}\n\nYou asked: *{prompt[:60]}*")


class SlowModel:
    """Streams ``answer`` in pieces."""

    name = "gpt-4o"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        message = answer(request)
        text = str(message.content)
        for start in range(0, len(text), 20):
            yield TextDelta(text[start : start + 20])
            await asyncio.sleep(self._seconds)
        for index, each in enumerate(message.tool_calls):
            yield ToolCallDelta(index, each["id"], each["name"], "")
        yield ModelResponse(message)


def main(folder: Path, port: int, seconds: float) -> None:
    if not (folder / "zeus.yaml").exists():
        write_agent(folder, YAML.replace("tools: [probe, filesystem, todos, subagents]\n", ""), tools="[probe, filesystem, todos, subagents]")
    service = service_of(folder, SlowModel(seconds))
    print(f"http://127.0.0.1:{port}/?token={TOKEN}", flush=True)
    uvicorn.run(app_of(service), host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.01)
