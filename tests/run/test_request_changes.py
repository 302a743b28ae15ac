"""The ledger holds what was sent: what a middleware changes in a planned request is shown as that middleware's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage

from tests.support.agents import TOOLS, PositionModel, call, calling, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.context.ledger import RequestChange, StepRecord
from zeus_runtime.models.interface import CachePoints, ModelRequest, ToolSchema
from zeus_runtime.models.profiles import ModelProfile
from zeus_runtime.plugin.counter import counter_with
from zeus_runtime.run.request_changes import RequestChanges
from zeus_runtime.store.compressed_columns import unpack

CHANGING = (
    TOOLS
    + """
from dataclasses import dataclass
from zeus_runtime.plugin.middleware import Middleware

class Adds(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request.override(system=request.system + "\\n\\nBe very polite to everybody."))

class Drops(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request.override(messages=list(request.messages)[1:]))

class Passes(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request.override(messages=list(request.messages)))

@hookimpl
def register_middlewares():
    return [Component(each.__name__.lower(), create=each) for each in (Adds, Drops, Passes)]
"""
)


def steps(folder: Path) -> list[StepRecord]:
    with sqlite3.connect(folder / ".zeus" / "zeus.db") as db:
        rows = db.execute("SELECT payload FROM context_step ORDER BY number").fetchall()
    return [StepRecord.from_json(unpack(row[0])) for row in rows]


async def played(folder: Path, middlewares: str) -> tuple[list[StepRecord], PositionModel]:
    config = write_agent(folder, f"middlewares: {middlewares}\n", plugin=CHANGING)
    model = script(calling(call("echo", "c1", text="a word " * 40)), "done")
    agent = Agent.from_config(config, directory=folder, environ={}, model=model)
    await play(agent, "Say something.")
    return steps(folder), model


async def test_each_change_is_its_middlewares_with_its_tokens(tmp_path: Path) -> None:
    (_, second), model = await played(tmp_path, "[passes, adds, drops]")
    adds, drops = second.changes
    assert (adds.middleware, adds.parts) == ("adds", ("system",))
    assert 4 <= adds.tokens <= 12
    assert (drops.middleware, drops.parts) == ("drops", ("messages",))
    assert drops.tokens < 0
    assert [each.type for each in model.requests[-1].messages] == ["ai", "tool"]
    assert second.sent_tokens == second.expected_tokens + adds.tokens + drops.tokens
    assert len(second.sent) == 64
    again, _ = await played(tmp_path / "again", "[adds, drops]")
    assert again[1].sent == second.sent, "the same was sent"


async def test_a_request_that_is_sent_as_planned_has_no_changes(tmp_path: Path) -> None:
    for found in (await played(tmp_path, "[passes, caching]"))[0]:
        assert (found.changes, found.sent, found.sent_tokens) == ((), "", found.expected_tokens)


def changes() -> tuple[RequestChanges, ModelRequest]:
    counter = counter_with(
        lambda text: float(len(text.split())), ModelProfile(name="gpt-4o", max_input_tokens=1_000)
    )
    planned = ModelRequest("You are kind.", [HumanMessage("hello there"), AIMessage("hi")])
    return RequestChanges(planned, counter), planned


def test_what_changes_no_text_is_not_noted() -> None:
    noted, planned = changes()
    noted.note("caching", planned, planned.override(cache_points=CachePoints(), stable_system_length=3))
    assert (noted.noted, noted.digest) == ((), "")


def test_a_policys_own_call_is_another_request() -> None:
    noted, planned = changes()
    noted.note("twice", planned, planned.override(system="", purpose="summary"))
    assert (noted.noted, noted.digest) == ((), "")


def test_of_several_calls_the_last_counts() -> None:
    noted, planned = changes()
    noted.note("again", planned, planned.override(system="You are very kind."))
    first = noted.digest
    noted.note("again", planned, planned.override(system="You are very very kind."))
    assert noted.noted == (RequestChange("again", ("system",), 2),)
    assert noted.digest != first
    noted.note("again", planned, planned)
    assert (noted.noted, noted.digest) == ((), "")


def test_tools_and_settings_are_counted() -> None:
    noted, planned = changes()
    tool = ToolSchema("ls", "List the files of a folder.", {"type": "object", "properties": {}})
    one = planned.override(tools=(tool,))
    noted.note("one", planned, one)
    two = one.override(settings={"tool_choice": "required"}, tools=())
    noted.note("two", one, two)
    given, taken = noted.noted
    assert given.tokens > 0
    assert taken.parts == ("tools", "settings")
    assert taken.tokens < 0
    assert noted.digest != ""


def test_an_entry_with_changes_comes_back_as_it_was() -> None:
    step = StepRecord(
        1,
        "r",
        1,
        0,
        changes=(RequestChange("a", ("system", "tools"), -5),),
        sent="ab",
        expected_tokens=9,
        estimate_tokens=20,
    )
    assert StepRecord.from_json(step.to_json()) == step
    assert step.sent_tokens == 4
