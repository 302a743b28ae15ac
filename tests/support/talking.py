"""A served agent that answers by the user's last prompt: with a client's tool, an approval, or no end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from langchain_core.messages import AIMessage

from tests.support.agents import call, calling, write_agent
from tests.support.databases import storage
from tests.support.serving import service_of, serving
from zeus_runtime.config.ref import Ref
from zeus_runtime.plugin.model import (
    ModelPiece,
    ModelRequest,
    ModelResponse,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from zeus_runtime.registry import discover
from zeus_runtime.serving.http.protocols import protocols_of
from zeus_runtime.serving.http.service import Service
from zeus_runtime.store.database import Database


def said(request: ModelRequest) -> str:
    """The user's last prompt."""
    return str(next(each for each in reversed(request.messages) if each.type == "human").content)


def answer(request: ModelRequest) -> AIMessage:
    """By the words of the last prompt, and by the result of the call that it led to."""
    prompt, last = said(request), request.messages[-1]
    if last.type == "tool":
        return AIMessage(f"It said: {last.content}")
    if "weather" in prompt:
        return calling(call("get_weather", f"w{len(request.messages)}", city="Pylos"), text="I will look.")
    if "record" in prompt:
        return calling(call("record", f"r{len(request.messages)}", text="draft"))
    people = sum(each.type == "human" for each in request.messages)
    return AIMessage(f"Answer {people} to: {prompt}")


class Talking:
    """Streams ``answer`` word by word; a prompt with `hang` never ends, one with `fail` fails.

    Attributes:
        requests: those that it got.
        began: set at the first request.
        ended: set when a call that hangs is cancelled.
    """

    name = "gpt-4o"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        self.began.set()
        message = answer(request)
        if "fail" in said(request):
            raise RuntimeError("the model is on fire")
        if "hang" in said(request) and request.messages[-1].type == "human":
            yield TextDelta("Thinking hard")  # the last word waits for more
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        for word in str(message.content).split(" "):
            yield TextDelta(word if word == str(message.content).split(" ")[0] else f" {word}")
        for index, each in enumerate(message.tool_calls):
            yield ToolCallDelta(index, each["id"], each["name"], "")
        yield ModelResponse(message, Usage(input_tokens=100, output_tokens=10, cache_read_tokens=40))


@asynccontextmanager
async def talking(
    folder: Path,
    *protocols: Ref,
    url: str | None = None,
    model: Any = None,
    more: str = "",
    tools: str = "[probe]",
    allow: str = "[echo]",
    database: Database | None = None,
) -> AsyncIterator[tuple[httpx.AsyncClient, Service, Any]]:
    """A client of a service with these protocols, the service and its model.

    Args:
        database: the service's own, of keys and audit log.
    """
    model = model or Talking()
    asking = f"middlewares: [{{approve: {{allow: {allow}}}}}]\n"
    write_agent(folder, (storage(url) if url else "") + asking + more, tools=tools)
    service = replace(service_of(folder, model), database=database)
    served = protocols_of(discover(environ={}), protocols, service)
    async with serving(service, protocols=served) as client:
        yield client, service, model


WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CHAT_TOOLS: Sequence[Any] = [{"type": "function", "function": WEATHER}]
RESPONSE_TOOLS: Sequence[Any] = [{"type": "function", **WEATHER}]
