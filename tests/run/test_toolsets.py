"""Toolsets: tools of a plugin that are there only while something outside is open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agents import call, calling, play, script, write_agent
from zeus_runtime import Agent, ConfigError, MissingError
from zeus_runtime.events import Event, Notice
from zeus_runtime.run.connections import OpenToolsets

LAMP = '''
from dataclasses import dataclass
from pathlib import Path

from zeus_runtime import MissingError
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Connection, Toolset, tool


@tool(access="read")
async def look() -> str:
    """Look at the lamp."""
    return "it is on"


@tool(access="read")
async def dim() -> str:
    """Dim the lamp."""
    return "dimmed"


class Lamp(Toolset):
    def __init__(self, folder):
        self.folder = folder
        self.given = ()

    async def open(self, tell, count):
        if (self.folder / "broken").exists():
            raise MissingError("the lamp has no bulb", remedy="Put one in.")
        self.note("opened")
        tell("lamp", "The lamp was dusty.")
        self.given = (look,)

    async def aclose(self):
        self.note("closed")

    async def resume(self):
        self.given = (look, dim)

    def may_have(self, name):
        return name in ("look", "dim")

    def tools(self):
        return self.given

    def sections(self):
        return {"connector": "There is a lamp."} if self.given else {}

    def status(self):
        return (Connection("lamp", "desktop", "connected" if self.given else "closed", tools=len(self.given)),)

    def note(self, what):
        with (self.folder / "log.txt").open("a") as file:
            file.write(what + "\\n")


@hookimpl
def register_tools():
    return [Component("lamp", create=lambda options, context: Lamp(context.directory))]
'''


TWO_LAMPS = LAMP.replace(
    'Component("lamp", create=lambda options, context: Lamp(context.directory))',
    "Component(name, create=lambda options, context, name=name: Bulb(context.directory / name))"
    ' for name in ("first", "second")',
).replace(
    "@hookimpl\n",
    "class Bulb(Lamp):\n"
    "    async def open(self, tell, count):\n"
    "        if (self.folder / 'broken').exists():\n"
    "            raise MissingError('no bulb', remedy='Put one in.')\n"
    "        self.note('opened')\n\n\n"
    "@hookimpl\n",
)
"""Two lamps, each in a folder of its own; they give no tools."""


def agent(folder: Path, model: Any, tools: str = "[lamp]", yaml: str = "", *, plugin: str = LAMP) -> Agent:
    return Agent.from_config(
        write_agent(folder, yaml, plugin=plugin, tools=tools), directory=folder, model=model
    )


def log(folder: Path) -> list[str]:
    file = folder / "log.txt"
    return file.read_text().split() if file.exists() else []


def told(events: Sequence[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Notice) and event.code != "usage_unknown"]


async def test_a_toolset_is_opened_by_the_first_run_and_shared_by_all(tmp_path: Path) -> None:
    model = script(calling(call("look", "1")), "done")
    async with agent(tmp_path, model) as running:
        assert log(tmp_path) == []
        await running.sessions()
        assert log(tmp_path) == [], "looking at sessions opens nothing"
        first, second = await asyncio.gather(play(running, "a"), play(running, "b"))
        assert log(tmp_path) == ["opened"]
    assert log(tmp_path) == ["opened", "closed"]
    assert [first[-1].type, second[-1].type] == ["complete", "complete"]
    assert told(first) + told(second) == ["The lamp was dusty."], (
        "what is told before a run begins is told once"
    )


async def test_its_tools_and_section_are_in_the_request(tmp_path: Path) -> None:
    model = script("done")
    async with agent(tmp_path, model) as running:
        await play(running, "a")
    (request,) = model.requests
    assert [tool.name for tool in request.tools] == ["look"]
    assert "### look" in request.system
    assert request.system.rstrip().endswith("There is a lamp.")
    assert request.system.index("There is a lamp.") > request.stable_system_length


async def test_a_further_run_finds_what_could_be_opened_since(tmp_path: Path) -> None:
    model = script("done", "again")
    async with agent(tmp_path, model) as running:
        events = await play(running, "a")
        await play(running, "b", events[-1].session)  # type: ignore[union-attr]
    assert [[tool.name for tool in request.tools] for request in model.requests] == [
        ["look"],
        ["look", "dim"],
    ]


async def test_a_toolset_that_lacks_something_of_ours_says_so_and_can_be_opened_later(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    async with agent(tmp_path, script("done")) as running:
        with pytest.raises(MissingError, match="the lamp has no bulb"):
            await play(running, "a")
        (tmp_path / "broken").unlink()
        assert (await play(running, "a"))[-1].type == "complete"


async def test_a_toolset_beside_one_that_cannot_be_opened_is_closed_before_the_next_try(
    tmp_path: Path,
) -> None:
    folder, broken = tmp_path / "first", tmp_path / "second"
    folder.mkdir()
    broken.mkdir()
    (broken / "broken").touch()
    async with agent(tmp_path, script("done", "again"), "[first, second]", plugin=TWO_LAMPS) as running:
        failed = await asyncio.gather(play(running, "a"), play(running, "b"), return_exceptions=True)
        assert [type(each) for each in failed] == [MissingError, MissingError]
        assert log(folder) == ["opened", "closed"], "both runs waited for one opening"
        (broken / "broken").unlink()
        assert (await play(running, "a"))[-1].type == "complete"
        assert log(folder) == ["opened", "closed", "opened"]
    assert log(folder) == ["opened", "closed"] * 2


class Stub:
    """A toolset that notes what is done to it; each step waits for its event, ``open`` also if it is cancelled once."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken
        self.opens, self.closes = asyncio.Event(), asyncio.Event()
        self.noted: list[str] = []

    async def open(self, tell: Any, count: Any) -> None:
        if self.is_broken:
            raise MissingError("no bulb", remedy="Put one in.")
        with suppress(asyncio.CancelledError):
            await self.opens.wait()
        await self.opens.wait()
        self.noted.append("opened")

    async def resume(self) -> None: ...

    async def aclose(self) -> None:
        await self.closes.wait()
        self.noted.append("closed")


def stubs_of(*stubs: Stub) -> OpenToolsets:
    opens = [SimpleNamespace(name=str(at), create=lambda _, it=it: it) for at, it in enumerate(stubs)]
    plan: Any = SimpleNamespace(opens=opens, context=None, token_counter=SimpleNamespace(text=len))
    return OpenToolsets(plan)


async def others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_still_opens_beside_one_that_cannot_be_opened_is_closed_when_it_is_open() -> None:
    slow, broken = Stub(), Stub(is_broken=True)
    for each in (slow, broken):
        each.closes.set()
    toolsets = stubs_of(slow, broken)
    opening = asyncio.create_task(toolsets.opened())
    await others_run()
    assert (slow.noted, opening.done()) == ([], False)
    slow.opens.set()
    with pytest.raises(MissingError):
        await opening
    assert slow.noted == ["opened", "closed"]


async def test_an_agent_that_closes_while_a_failed_opening_is_undone_closes_each_toolset_once() -> None:
    slow, broken = Stub(), Stub(is_broken=True)
    slow.opens.set()
    toolsets = stubs_of(slow, broken)
    opening = asyncio.create_task(toolsets.opened())
    await others_run()
    closing = asyncio.create_task(toolsets.aclose())
    await others_run()
    assert (slow.noted, broken.noted, opening.done()) == (["opened"], [], False)
    assert not closing.done(), "what the opening has opened is still open"
    # The next run begins another opening before the first is undone, and waits for its second toolset.
    broken.is_broken = False
    again = asyncio.create_task(toolsets.opened())
    await others_run()
    for each in (slow, broken):
        each.closes.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await closing
    assert (slow.noted, broken.noted) == (["opened", "opened", "closed"], ["closed"])
    broken.opens.set()
    assert await again == await toolsets.opened()
    assert (slow.noted.count("opened"), broken.noted.count("opened")) == (2, 1), "nothing is opened once more"
    await toolsets.aclose()


async def test_an_agent_that_closes_while_toolsets_open_closes_each_after_it_has_opened() -> None:
    slow, other = Stub(), Stub()
    for each in (slow, other):
        each.closes.set()
    toolsets = stubs_of(slow, other)
    opening = asyncio.create_task(toolsets.opened())
    await others_run()
    closing = asyncio.create_task(toolsets.aclose())
    await others_run()
    assert (slow.noted, closing.done()) == ([], False)
    for each in (slow, other):
        each.opens.set()
    await closing
    assert slow.noted == other.noted == ["opened", "closed"]
    with pytest.raises(asyncio.CancelledError):
        await opening


async def test_a_toolset_that_cannot_be_closed_keeps_no_other_from_it() -> None:
    class Stuck(Stub):
        async def aclose(self) -> None:
            raise MissingError("the lamp is gone")

    stuck, lamp = Stuck(), Stub()
    for each in (stuck, lamp):
        each.opens.set()
    toolsets = stubs_of(stuck, lamp)
    await toolsets.opened()
    closing = asyncio.create_task(toolsets.aclose())
    await others_run()
    lamp.closes.set()
    with pytest.raises(MissingError, match="the lamp is gone"):
        await closing
    assert lamp.noted == ["opened", "closed"]


def test_the_same_toolset_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'lamp' is listed twice"):
        agent(tmp_path, script(), "[lamp, lamp]")


def test_options_may_name_its_tools_and_no_others(tmp_path: Path) -> None:
    agent(tmp_path, script(), yaml="middlewares: [{eviction: {exclude: [dim]}}]")
    with pytest.raises(ConfigError, match="'din' is not a tool of this agent"):
        agent(tmp_path, script(), yaml="middlewares: [{eviction: {exclude: [din]}}]")
