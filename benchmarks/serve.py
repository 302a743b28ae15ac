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
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

TOKEN: Final = "benchmark"
STEPS: Final = 6
WORDS: Final = 12
_PLUGIN: Final = '''
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
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

@hookimpl
def register_tools():
    return [Component("notes", create=lambda options, context: [note])]
'''
_CONFIG: Final = (
    "version: 1\nname: served\nmodel: gpt-4o\ntools: [notes]\nplugins: {files: [notes.py]}\n"
    "limits: {repeated_calls: null}\n"
)


def words(step: int) -> list[str]:
    """The text of a step, word by word."""
    return [f"w{step}.{number} " for number in range(WORDS)]


async def serve(folder: Path, port: int) -> None:
    """Run the service with a scripted model, until the process is killed."""
    import uvicorn
    from langchain_core.messages import AIMessage

    from zeus_runtime.plan.validated import check
    from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, TextDelta
    from zeus_runtime.serving.http.app import app_of
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.hub import Hub
    from zeus_runtime.serving.http.principals import LocalToken
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.trust.decision import recorded_trust

    class Scripted:
        name = "scripted"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            last = max(n for n, message in enumerate(request.messages) if message.type == "human")
            step = sum(message.type == "ai" for message in list(request.messages)[last:])
            for word in words(step):
                yield TextDelta(word)
                await asyncio.sleep(0.01)
            call = {"name": "note", "args": {"text": f"{last}-{step}"}, "id": f"c{step}", "type": "tool_call"}
            yield ModelResponse(AIMessage("".join(words(step)), tool_calls=[call] if step < STEPS else []))

    def read(sets: Sequence[str], _edited: Any = None) -> Any:
        trust = recorded_trust({}, "all")
        return check(folder / "zeus.yaml", sets=sets, directory=folder, environ={}, trust=trust)

    hub = Hub()
    hosted = HostedAgent(read, hub.stored, Scripted())
    app = app_of(Service(Hosting([hosted]), LocalToken(TOKEN), hub))
    await uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False)).serve()


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
    """The service's process, and a client's view of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self._words = [sys.executable, "-m", "benchmarks.serve", f"--serve={folder}", f"--port={port}"]
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._words)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


async def turn(
    served: Served, reader: Reader, client: Any, session: str, dice: random.Random, *, kill: bool
) -> bool:
    """One turn, interrupted once at a random moment; whether what was read is the whole of it."""
    import httpx

    reader.texts.clear()
    reader.results = reader.ends = 0
    began = time.perf_counter()
    run = (await client.post(f"/v1/sessions/{session}/runs", json={"prompt": "go"})).json()["run"]
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


async def ready(client: Any) -> None:
    """Wait until the service answers."""
    import httpx

    while True:
        with contextlib.suppress(httpx.TransportError):
            if (await client.get("/health")).status_code == 200:
                return
        await asyncio.sleep(0.05)


async def measure(kills: int, drops: int) -> dict[str, Any]:
    """Play the turns, and count what a client lost or got twice."""
    import socket

    import httpx

    dice = random.Random(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notes.py").write_text(_PLUGIN)
        (folder / "zeus.yaml").write_text(_CONFIG)
        served, reader = Served(folder, port), Reader()
        served.start()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=30) as client:
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
@click.option("--serve", "folder", hidden=True, type=click.Path(path_type=Path))
@click.option("--port", hidden=True, type=int)
def main(kills: int, drops: int, folder: Path | None, port: int | None) -> None:
    """Count what a client of `zeus serve` loses or gets twice."""
    if folder is not None and port is not None:
        os.chdir(folder)
        asyncio.run(serve(folder, port))
        return
    for name, value in asyncio.run(measure(kills, drops)).items():
        print(f"{name:<26}{value:>8.1f}" if isinstance(value, float) else f"{name:<26}{value:>8}")


if __name__ == "__main__":
    main()
