"""`zeus serve` under load: many streams, many turns at once, cancelling; latency, CPU and memory of its process.

``python -m benchmarks.serve_load [--phases idle,fan,turns] [--idle 1000] [--busy 200] [--readers 500] [--turns 100]``

The service is a process of its own with a scripted model; the model's words are the moments at which they left it, and
the clients read them over sockets. CPU and memory are of the service's process alone, from ``/proc``; the clock also
measures the clients and whatever else the machine does, so the load average stands beside it.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import click
import httpx

from benchmarks.serve import TOKEN, Served, prompt, ready

_EVENT: Final = re.compile(rb"id: (\d+)\ndata: (\{[^\n]*\})\n\n")
_STAMP: Final = re.compile(rb"\d+\.\d{6}(?= )")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAUSE_SECONDS: Final = 0.1
"""Between a model's words: ten events a second."""
_WORDS: Final = 150


class Stream(asyncio.Protocol):
    """A client that reads a stream of events.

    Attributes:
        last: the last event's number.
        wrong: events whose number did not follow.
        seconds: from each word of the model to its arrival.
        begun: set at the first event.
        ended: set at the terminal event.
    """

    def __init__(self, path: str, *, after: int = 0) -> None:
        self.last = after
        self.wrong = self.events = 0
        self.seconds: list[float] = []
        self.begun, self.ended, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.arrived = 0.0
        self._rest = b""
        self._head = (
            f"GET {path}?after={after} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        )
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._head.encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self.answered.is_set():
            assert data.startswith(b"HTTP/1.1 200"), data[:200]
            self.answered.set()
        end = 0
        text = self._rest + data
        # The service writes whole events in one chunk, so no chunk's head stands within an event.
        for found in _EVENT.finditer(text):
            end = found.end()
            number, payload = int(found[1]), found[2]
            self.wrong += number != self.last + 1
            self.last = number
            self.events += 1
            if not self.begun.is_set():
                self.arrived = now
                self.begun.set()
            if b'"type": "text"' in payload:
                self.seconds += [now - float(each) for each in _STAMP.findall(payload)]
            elif b'"type": "complete"' in payload or b'"type": "error"' in payload:
                self.ended.set()
        self._rest = text[end:] if end else text[-65_536:]

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


async def opened(served: Served, paths: Sequence[str]) -> list[Stream]:
    """Streams of the paths, each answered."""
    loop = asyncio.get_running_loop()
    streams = []
    for path in paths:
        _, stream = await loop.create_connection(lambda path=path: Stream(path), "127.0.0.1", served.port)  # type: ignore[misc]
        streams.append(stream)
    for each in streams:
        await asyncio.wait_for(each.answered.wait(), 120)
    return streams


class Usage:
    """The CPU and the memory of a process since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu, self._at, self.mb = self._now(), time.monotonic(), self._mb()

    def _now(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _mb(self) -> float:
        text = Path(f"/proc/{self._pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    @property
    def cpu_seconds(self) -> float:
        return self._now() - self._cpu

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._at

    @property
    def more_mb(self) -> float:
        return self._mb() - self.mb


async def sessions(client: httpx.AsyncClient, count: int) -> list[str]:
    """New sessions."""
    return [(await client.post("/v1/sessions", json={})).json()["session"] for _ in range(count)]


async def begun(client: httpx.AsyncClient, session: str, asked: str) -> str:
    """The run of a turn that begins now."""
    answer = await client.post(f"/v1/sessions/{session}/runs", json={"prompt": asked})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run"])


def high(values: Sequence[float], share: float = 0.99) -> float:
    """The value that so large a share does not exceed."""
    return sorted(values)[min(len(values) - 1, round(len(values) * share))] if values else float("nan")


async def idle(served: Served, client: httpx.AsyncClient, count: int, busy: int) -> Mapping[str, float]:
    """Streams on which nothing happens, and then beside them turns of two steps with a word a second."""
    names = await sessions(client, count)
    before = Usage(served.pid)
    quiet = await opened(served, [f"/v1/sessions/{each}/events" for each in names])
    kb = before.more_mb * 1024 / count
    rest = Usage(served.pid)
    await asyncio.sleep(30)
    idle_cpu = rest.cpu_seconds / rest.seconds
    names = await sessions(client, busy)
    asked = prompt(steps=1, words=10, pause_seconds=1, stamp=True)
    work = Usage(served.pid)
    runs = await asyncio.gather(*(begun(client, each, asked) for each in names))
    streams = await opened(served, [f"/v1/runs/{each}/events" for each in runs])
    await asyncio.gather(*(asyncio.wait_for(each.ended.wait(), 300) for each in streams))
    events = sum(each.events for each in streams)
    told = [second for each in streams for second in each.seconds]
    lost = busy * 20 - len(told)
    for each in (*quiet, *streams):
        each.close()
    return {
        "idle streams": count,
        "KB per idle stream": kb,
        "CPU of the idle streams, % of a core": idle_cpu * 100,
        "busy turns beside them": busy,
        "events": events,
        "words lost or doubled": lost + sum(each.wrong for each in streams),
        "CPU per event with its turn, µs": work.cpu_seconds / events * 1e6,
        "word to client, ms, median": statistics.median(told) * 1000,
        "word to client, ms, p99": high(told) * 1000,
        "memory in all, MB": work.mb + work.more_mb,
    }


async def fan(served: Served, client: httpx.AsyncClient, readers: int, each_has: int) -> Mapping[str, float]:
    """Sessions with many readers each, ten events a second in every session; first with one reader each."""
    count = readers // each_has
    one_cpu, one = await _read_by(served, client, count, 1)
    cpu, streams = await _read_by(served, client, count, each_has)
    told = [second for each in streams for second in each.seconds]
    events, fewer = (sum(each.events for each in found) for found in (streams, one))
    return {
        "streams, ten events a second each": len(streams),
        "events": events,
        "words lost or doubled": len(streams) * _WORDS - len(told) + sum(each.wrong for each in streams),
        "CPU per event of a further reader, µs": (cpu - one_cpu) / (events - fewer) * 1e6,
        "the same with the turns that make them, µs": cpu / events * 1e6,
        "word to client, ms, median": statistics.median(told) * 1000,
        "word to client, ms, p99": high(told) * 1000,
    }


async def _read_by(
    served: Served, client: httpx.AsyncClient, count: int, each_has: int
) -> tuple[float, Sequence[Stream]]:
    """The service's CPU seconds and the clients, while so many sessions with so many readers each have a turn."""
    names = await sessions(client, count)
    streams = await opened(served, [f"/v1/sessions/{name}/events" for name in names for _ in range(each_has)])
    asked = prompt(steps=0, words=_WORDS, pause_seconds=_PAUSE_SECONDS, stamp=True)
    usage = Usage(served.pid)
    for name in names:
        await begun(client, name, asked)
        # The sessions' events do not all fall into the same moment.
        await asyncio.sleep(_PAUSE_SECONDS * 1.618)
    await asyncio.gather(*(asyncio.wait_for(each.ended.wait(), 300) for each in streams))
    cpu = usage.cpu_seconds
    for each in streams:
        each.close()
    return cpu, streams


@asynccontextmanager
async def occupied(served: Served, client: httpx.AsyncClient, turns: int) -> AsyncIterator[list[str]]:
    """So many turns that stream all the time; the runs."""
    asked = prompt(steps=0, words=100_000, pause_seconds=0.25)
    runs = [await begun(client, each, asked) for each in await sessions(client, turns)]
    yield runs
    for each in runs:
        await client.post(f"/v1/runs/{each}/cancel")


async def at_once(served: Served, client: httpx.AsyncClient, turns: int) -> Mapping[str, float]:
    """While so many turns run: how soon a further one's first event comes, and how soon a cancelled one ends."""
    firsts, cancels, plain = [], [], []
    usage = Usage(served.pid)
    asked = prompt(steps=0, words=100_000, pause_seconds=0.25)
    async with occupied(served, client, turns):
        for name in await sessions(client, 40):
            start = time.monotonic()
            await client.get("/health")
            plain.append(time.monotonic() - start)
            start = time.monotonic()
            run = await begun(client, name, asked)
            (stream,) = await opened(served, [f"/v1/runs/{run}/events"])
            await asyncio.wait_for(stream.begun.wait(), 60)
            firsts.append(stream.arrived - start)
            start = time.monotonic()
            await client.post(f"/v1/runs/{run}/cancel")
            await asyncio.wait_for(stream.ended.wait(), 60)
            cancels.append(time.monotonic() - start)
            stream.close()
        cpu = usage.cpu_seconds / usage.seconds
    return {
        "turns at once": turns,
        "the same client's GET /health, ms, median": statistics.median(plain) * 1000,
        "request to first event, ms, median": statistics.median(firsts) * 1000,
        "request to first event, ms, p95": high(firsts, 0.95) * 1000,
        "cancel to end, ms, median": statistics.median(cancels) * 1000,
        "cancel to end, ms, the longest": max(cancels) * 1000,
        "CPU, % of a core": cpu * 100,
    }


async def measure(phases: Sequence[str], numbers: Mapping[str, int]) -> None:
    for phase in phases:
        with tempfile.TemporaryDirectory() as name:
            served = Served(Path(name))
            served.start()
            try:
                async with served.client() as client:
                    await ready(client)
                    if phase == "idle":
                        found = await idle(served, client, numbers["idle"], numbers["busy"])
                    elif phase == "fan":
                        found = await fan(served, client, numbers["readers"], numbers["each"])
                    else:
                        found = await at_once(served, client, numbers["turns"])
            finally:
                served.kill()
        print(f"{phase}: load average", *(round(each, 1) for each in os.getloadavg()))
        for key, value in found.items():
            print(f"  {key:<44}{round(value, 1):>10}")


@click.command()
@click.option("--phases", default="turns,fan,idle", show_default=True)
@click.option("--idle", default=1000, show_default=True, help="Idle streams.")
@click.option("--busy", default=200, show_default=True, help="Turns beside the idle streams.")
@click.option("--readers", default=500, show_default=True, help="Streams with ten events a second.")
@click.option("--each", default=25, show_default=True, help="Streams of one session, in that phase.")
@click.option("--turns", default=100, show_default=True, help="Turns that run at once.")
def main(phases: str, **numbers: int) -> None:
    """Measure `zeus serve` with many streams and turns."""
    asyncio.run(measure(phases.split(","), numbers))


if __name__ == "__main__":
    main()
