"""`zeus serve` under kills and lost connections: whether a client loses an event or gets one twice.

``python -m benchmarks.serve [--kills 30] [--drops 30]``

A client reads the events of turns and continues after the last one that it has, while the service is killed (SIGKILL)
and started again, or the connection is dropped. Each turn has steps with words that stream, and a tool call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import httpx

TOKEN: Final = "the-token-of-the-benchmark"
STEPS: Final = 6
WORDS: Final = 12
_PLUGIN: Final = '''
import asyncio, json, time
from pathlib import Path
from langchain_core.messages import AIMessage
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse, TextDelta
from zeus_runtime.plugin.tool import tool

@tool(access="write")
async def note(text: str) -> str:
    """Write a line.

    Args:
        text: the line.
    """
    with Path(__file__).with_name("notes.txt").open("a") as file:
        file.write(text + "\\n")
    return f"noted {text}"

class Scripted:
    name = "scripted"

    async def stream(self, request):
        last = max(n for n, message in enumerate(request.messages) if message.type == "human")
        asked = json.loads(request.messages[last].text)
        step = sum(message.type == "ai" for message in request.messages[last:])
        said = []
        for number in range(asked["words"]):
            stamp = f"{time.monotonic():.6f} is the time of this word, more or less. "
            said.append(stamp if asked["stamp"] else f"w{step}.{number} ")
            yield TextDelta(said[-1])
            await asyncio.sleep(asked["pause_seconds"])
        text = f"{id(asked)}-{last}-{step}" if asked["stamp"] else f"{last}-{step}"
        call = {"name": "note", "args": {"text": text}, "id": f"c{step}", "type": "tool_call"}
        yield ModelResponse(AIMessage("".join(said), tool_calls=[call] if step < asked["steps"] else []))

@hookimpl
def register_models():
    return [Component("scripted", create=lambda options, context: Scripted())]

@hookimpl
def register_tools():
    return [Component("notes", create=lambda options, context: [note])]
'''
_CONFIG: Final = (
    "version: 1\nname: served\nmodel: {scripted: {}}\ntools: [notes]\nplugins: {files: [served.py]}\n"
    "limits: {repeated_calls: null}\nproject_instructions: false\n"
)


def prompt(
    *, steps: int = STEPS, words: int = WORDS, pause_seconds: float = 0.01, stamp: bool = False
) -> str:
    """What the scripted model does: steps with a tool call, words in each, pauses between them.

    Args:
        stamp: whether each word tells the moment at which it left the model, in monotonic seconds. Words follow it,
            because the end of a text is held back as long as it may be the beginning of a secret.
    """
    return json.dumps({"steps": steps, "words": words, "pause_seconds": pause_seconds, "stamp": stamp})


def words(step: int) -> list[str]:
    """The text of a step, word by word."""
    return [f"w{step}.{number} " for number in range(WORDS)]


@dataclass
class Reader:
    """What a client has read.

    Attributes:
        last: the last event's number.
        gaps: events whose number did not follow the last one.
        texts: the text of the turn, by event number.
        results: the results of tool calls.
        ends: terminal events.
    """

    last: int = 0
    gaps: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    results: int = 0
    ends: int = 0
    first_ms: list[float] = field(default_factory=list)

    def take(self, seq: int, event: dict[str, Any]) -> None:
        self.gaps += seq != self.last + 1
        self.last = seq
        if event["type"] == "text":
            self.texts[seq] = event["text"]
        elif event["type"] == "reset":
            self.texts = {each: text for each, text in self.texts.items() if each <= event["after"]}
        elif event["type"] == "tool_call_result":
            self.results += 1
        elif event["type"] in ("complete", "error"):
            self.ends += 1


class Served:
    """`zeus serve` in a process of its own, with a scripted model.

    Args:
        folder: gets its config and its databases.
        more: further lines of the config.
    """

    def __init__(self, folder: Path, more: str = "") -> None:
        (folder / "served.py").write_text(_PLUGIN)
        (folder / "zeus.yaml").write_text(_CONFIG + more)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        environ = {**os.environ, "ZEUS_TOKEN": TOKEN, "ZEUS_TRUST": "all"}
        command = [sys.executable, "-m", "zeus_runtime", "serve", "zeus.yaml", "--port", str(self.port)]
        with (self._folder / "log.txt").open("a") as log:
            self.process = subprocess.Popen(command, cwd=self._folder, env=environ, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def client(self) -> httpx.AsyncClient:
        """A client with the token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60)


async def turn(
    served: Served,
    reader: Reader,
    client: httpx.AsyncClient,
    session: str,
    dice: random.Random,
    *,
    kill: bool,
) -> bool:
    """One turn, interrupted once at a random moment; whether what was read is the whole of it."""
    reader.texts.clear()
    reader.results = reader.ends = 0
    began = time.perf_counter()
    run = (await client.post(f"/v1/sessions/{session}/runs", json={"prompt": prompt()})).json()["run"]
    waits: float | None = dice.uniform(0.02, STEPS * WORDS * 0.012)
    first = reader.last
    while not reader.ends:
        with contextlib.suppress(httpx.TransportError, TimeoutError):
            async with asyncio.timeout(waits):
                path = f"/v1/runs/{run}/events?after={reader.last}"
                async with client.stream("GET", path) as answer:
                    seq = 0
                    async for line in answer.aiter_lines():
                        if line.startswith("id: "):
                            seq = int(line[4:])
                        elif line.startswith("data: "):
                            if reader.last == first and waits is not None:
                                reader.first_ms.append((time.perf_counter() - began) * 1000)
                            reader.take(seq, json.loads(line[6:]))
        if waits is not None and kill and not reader.ends:
            served.kill()
            served.start()
            await ready(client)
        waits = None
    told = "".join(reader.texts[each] for each in sorted(reader.texts))
    return (
        told == "".join(word for step in range(STEPS + 1) for word in words(step)) and reader.results == STEPS
    )


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until the service answers."""
    while True:
        with contextlib.suppress(httpx.TransportError):
            if (await client.get("/health")).status_code == 200:
                return
        await asyncio.sleep(0.05)


async def measure(kills: int, drops: int) -> dict[str, Any]:
    """Play the turns, and count what a client lost or got twice."""
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served, reader = Served(folder), Reader()
        served.start()
        try:
            async with served.client() as client:
                await ready(client)
                session = (await client.post("/v1/sessions", json={})).json()["session"]
                whole = 0
                for number in range(kills + drops):
                    whole += await turn(served, reader, client, session, dice, kill=number < kills)
        finally:
            served.kill()
        notes = (folder / "notes.txt").read_text().split()
    return {
        "turns": kills + drops,
        "whole turns": whole,
        "gaps or doublings": reader.gaps,
        "tool calls run twice": len(notes) - len(set(notes)),
        "first event, ms (median)": sorted(reader.first_ms)[len(reader.first_ms) // 2],
    }


@click.command()
@click.option("--kills", default=30, show_default=True, help="Turns in which the service is killed.")
@click.option("--drops", default=30, show_default=True, help="Turns in which the connection is dropped.")
def main(kills: int, drops: int) -> None:
    """Count what a client of `zeus serve` loses or gets twice."""
    for name, value in asyncio.run(measure(kills, drops)).items():
        print(f"{name:<26}{value:>8.1f}" if isinstance(value, float) else f"{name:<26}{value:>8}")
    print("load average", *(round(each, 1) for each in os.getloadavg()))


if __name__ == "__main__":
    main()
