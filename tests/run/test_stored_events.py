"""The stored events of a run: numbered without gaps, told once, whatever kills the process in between."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, call, calling, events_of, script, write_agent
from tests.support.dying import Died, Power
from zeus_runtime import Agent
from zeus_runtime.errors import RunError
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, TextDelta, ToolCallDelta
from zeus_runtime.store import event_log
from zeus_runtime.store.event_log import StoredEvent

SUB_AGENT = """
agents:
  helper: {description: helps}
"""


class Wordy(PositionModel):
    """A scripted model whose texts stream word by word, with time between the words for the events to be stored."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        message = self._answer(request)
        assert isinstance(message, AIMessage)
        for word in str(message.content).split():
            yield TextDelta(word + " ")
            await asyncio.sleep(0.002)
        for index, each in enumerate(message.tool_calls):
            yield ToolCallDelta(index, each["id"], each["name"], json.dumps(each["args"]))
            await asyncio.sleep(0.002)
        yield ModelResponse(message.model_copy(update={"content": f"{message.content} "}))


class Reader:
    """A client that reads stored events: it checks their numbers, and keeps what they tell."""

    def __init__(self) -> None:
        self.last = 0
        self.events: list[tuple[int, dict[str, Any]]] = []

    def read(self, rows: Sequence[StoredEvent]) -> None:
        for row in rows:
            assert row.seq == self.last + 1, "a gap or a doubling"
            self.last = row.seq
            told = json.loads(row.payload)
            inner = told["event"] if told["type"] == "subagent" else told
            if inner["type"] == "reset":
                assert inner["after"] < row.seq
                self.events = [
                    (seq, each)
                    for seq, each in self.events
                    if seq <= inner["after"] or each["session"] != told["session"] or "text" not in each
                ]
            else:
                self.events.append((row.seq, {**inner, "session": told["session"]}))

    def texts(self) -> str:
        return "".join(each["text"] for _, each in self.events if each["type"] == "text")

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for _, each in self.events if each["type"] == kind]


def answer(request: ModelRequest) -> AIMessage:
    texts = [str(message.content) for message in request.messages if message.type == "human"]
    step = sum(message.type == "ai" for message in request.messages)
    if texts[-1] == "help":
        if step == 0:
            return calling(call("record", "h-a", text="helped"), text="I help.")
        return AIMessage("Helped well.")
    if step == 0:
        task = call("task", "0-t", agent="helper", description="d", prompt="help")
        return calling(call("record", "0-a", text="0-a"), task, text="First both.")
    if step == 1:
        return calling(call("record", "1-a", text="1-a"), text="Then one.")
    return AIMessage("All is done.")


EXPECTED = ["All is done.", "First both.", "Helped well.", "I help.", "Then one."]


def agent(folder: Path) -> Agent:
    return Agent.from_config(folder / "zeus.yaml", directory=folder, model=Wordy(answer))


async def live(folder: Path, *, prompt: str | None) -> None:
    """One process: a new run, or what is left of it."""
    living = agent(folder)
    living.keep_events(lambda *_: None)
    try:
        session = await living.latest_session()
        if session is None or not await living.history(session):
            await events_of(living.stream(prompt or "go", session=session))
        else:
            await events_of(living.resume(session))
    except Died:
        pass
    finally:
        await living.aclose()


async def told(folder: Path) -> Reader:
    reader = Reader()
    async with agent(folder) as living:
        session = await living.latest_session()
        if session is not None:
            while rows := await living.stored_events(session, reader.last, at_most=7):
                reader.read(rows)
    return reader


def assert_whole(reader: Reader) -> None:
    texts = sorted(text.strip() + "." for text in reader.texts().split(".") if text.strip())
    assert texts == EXPECTED, [each for _, each in reader.events]
    results = [each["call_id"] for each in reader.of("tool_call_result")]
    assert sorted(results) == ["0-a", "0-t", "1-a", "h-a"]
    endings = [each["session"] for each in reader.of("complete")]
    assert len(endings) == len(set(endings)) == 2
    assert reader.events[-1][1]["type"] == "complete"


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> Power:
    monkeypatch.setattr(event_log, "GATHER_SECONDS", 0)
    monkeypatch.setattr(event_log, "SOON_SECONDS", 0)
    return Power(monkeypatch)


async def test_a_reader_has_no_gap_and_no_doubling_wherever_the_process_died(
    tmp_path: Path, power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "whole"
    write_agent(folder, SUB_AGENT, tools="[probe, subagents]")
    monkeypatch.chdir(folder)
    power.restore()
    await live(folder, prompt="go")
    whole = power.used
    assert_whole(await told(folder))
    assert whole > 40
    for lasts in range(whole % 6, whole, 6):
        folder = tmp_path / str(lasts)
        write_agent(folder, SUB_AGENT, tools="[probe, subagents]")
        monkeypatch.chdir(folder)
        power.restore(lasts)
        await live(folder, prompt="go")
        power.restore()
        before = await told(folder)
        await live(folder, prompt="go")
        after = await told(folder)
        assert after.last >= before.last
        assert_whole(after)


async def test_an_event_after_a_pause_does_not_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path, tools="[probe]")
    monkeypatch.setattr(event_log, "GATHER_SECONDS", 3600)

    class Silent(PositionModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            await asyncio.Event().wait()
            yield ModelResponse(AIMessage(""))

    model = Silent(lambda _request: "")
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as living:
        living.keep_events(lambda *_: None)
        events = living.stream("go")
        async with asyncio.timeout(20):
            assert (await anext(events)).type == "run_started"


async def test_pieces_are_joined_and_the_reader_of_the_stream_gets_each_event_when_it_is_stored(
    tmp_path: Path,
) -> None:
    write_agent(tmp_path, tools="[probe]")
    rows: list[StoredEvent] = []

    def stored(_session: str, new: Sequence[StoredEvent]) -> None:
        assert new, "readers are woken by events only"
        rows.extend(new)

    model = Wordy(lambda _request: AIMessage("one two three four five six seven"))
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as living:
        living.keep_events(stored)
        events = []
        async for event in living.stream("go"):
            events.append(event)
            assert event.to_wire() in [json.loads(row.payload) for row in rows]
        session = events[-1].to_wire()["session"]
        assert await living.stored_events(session) == rows
        assert (
            next(json.loads(row.payload) for row in await living.stored_events(session, 2))
            == events[2].to_wire()
        )
    texts = [event.to_wire()["text"] for event in events if event.type == "text"]
    assert "".join(texts) == "one two three four five six seven "
    assert len(texts) < 7
    assert [row.seq for row in rows] == list(range(1, len(events) + 1))
    (run,) = {row.run for row in rows}
    assert run == events[0].to_wire()["run"]


async def test_a_session_with_stored_events_keeps_them_in_every_process(tmp_path: Path) -> None:
    write_agent(tmp_path, tools="[probe]")

    def living() -> Agent:
        return Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=script("a", "b", "c"))

    async with living() as first:
        before = (await events_of(first.stream("go")))[-1].to_wire()["session"]
        assert await first.stored_events(before) == []
        first.keep_events(lambda *_: None)
        session = (await events_of(first.stream("go")))[-1].to_wire()["session"]
        count = len(await first.stored_events(session))
    async with living() as second:
        events = await events_of(second.stream("again", session=session))
        assert [row.seq for row in await second.stored_events(session)][-1] == count + len(events)
        await events_of(second.stream("again", session=before))
        assert await second.stored_events(before) == []
        await second.archive(session)
        await second.restore(session)
        assert len(await second.stored_events(session)) == count + len(events)


async def test_events_reach_their_reader_even_if_the_database_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_agent(tmp_path, tools="[probe]")
    rows: list[StoredEvent] = []
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=script("done")) as living:
        living.keep_events(lambda _session, new: rows.extend(new))
        monkeypatch.setattr(event_log, "put_all", failing)
        events = await events_of(living.stream("go"))
    assert isinstance(events[-1], RunFailed)
    assert rows == []
    assert not any(isinstance(event, RunCompleted) for event in events)
    assert "events of session_" in caplog.text


async def test_an_unexpected_failure_of_a_store_is_raised_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store in the background fails first, and the event loop told of it as of one that nobody heard of."""

    def broken(*_: object) -> None:
        raise ValueError("a mistake of ours")

    def answer(_: ModelRequest) -> AIMessage:
        monkeypatch.setattr(event_log, "put_all", broken)
        return AIMessage(content=" ".join(["word"] * 20))

    write_agent(tmp_path, tools="[probe]")
    for pause in ("SOON_SECONDS", "GATHER_SECONDS"):
        monkeypatch.setattr(event_log, pause, 0)
    model = Wordy(answer)
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as living:
        living.keep_events(lambda *_: None)
        with pytest.raises(ValueError, match="of ours"):
            await events_of(living.stream("go"))
    gc.collect()
    assert "never retrieved" not in caplog.text


def failing(*_: object) -> None:
    raise RunError("the disk is full")


async def test_a_cancelled_run_stores_all_it_told(tmp_path: Path) -> None:
    write_agent(tmp_path, tools="[probe]")
    rows: list[StoredEvent] = []
    calls = iter(range(1000))

    def endless(_request: ModelRequest) -> AIMessage:
        return calling(call("record", f"c{(n := next(calls))}", text=f"line{n}"), text="On I go.")

    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=Wordy(endless)) as living:
        living.keep_events(lambda _session, new: rows.extend(new))
        events = []
        async for event in living.stream("go"):
            events.append(event)
            if event.type == "tool_call_result" and len(events) > 40:
                living.cancel(event.to_wire()["session"])
        session = events[-1].to_wire()["session"]
        stored = await living.stored_events(session)
        results = [m for m in await living.history(session) if m.type == "tool"]
    assert isinstance(events[-1], RunFailed)
    assert events[-1].code == "cancelled"
    assert stored == rows
    assert [json.loads(row.payload) for row in rows] == [event.to_wire() for event in events]
    assert sum(event.type == "tool_call_result" for event in events) == len(results)
