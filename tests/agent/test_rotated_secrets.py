"""A session goes on in another process, where a placeholder of its messages stands for another value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent

OLD, NEW, OTHER = "Ko4ftwerk9xTq2mPv7L1", "Kn4ftwerk9xTq2mPv7L2", "Kx4ftwerk9xTq2mPv7L3"
FIRST = {"PRIMARY_API_KEY": OLD, "SECONDARY_API_KEY": NEW, "THIRD_API_KEY": OTHER, "SHORT_TOKEN": "postgres"}
SWAPPED = FIRST | {"PRIMARY_API_KEY": NEW, "SECONDARY_API_KEY": OLD}
BEFORE = f"primary={OLD}\nsecondary={NEW}\nthird={OTHER}\nregion=eu\n"
WHOLE = call(
    "write_file",
    "w",
    path="/app.ini",
    content="primary=<secret:PRIMARY_API_KEY>\nsecondary=<secret:SECONDARY_API_KEY>\n"
    "third=<secret:THIRD_API_KEY>\nregion=us\n",
)
READ = call("read_file", "r", path="/app.ini")


def process(
    folder: Path, environ: Mapping[str, str], *answers: Any, yaml: str = "workspace: {root: work}\n"
) -> tuple[Agent, Any]:
    """The agent of a new process."""
    model = script(*answers)
    config = write_agent(folder, yaml, tools="[filesystem]")
    agent = Agent.from_config(config, directory=folder, model=model, environ=environ, trust="all")
    return agent, model


def told(model: Any) -> str:
    """The newest result of a tool."""
    return str([each for each in model.requests[-1].messages if each.type == "tool"][-1].content)


def file_of(folder: Path) -> Path:
    (folder / "work").mkdir(exist_ok=True)
    (folder / "work/app.ini").write_text(BEFORE)
    return folder / "work/app.ini"


@pytest.mark.parametrize("moved", ["", "fork", "archive"])
async def test_a_file_is_not_written_with_placeholders_that_changed_places(
    tmp_path: Path, moved: str
) -> None:
    file = file_of(tmp_path)
    agent, _ = process(tmp_path, FIRST, calling(READ), "seen")
    async with agent:
        session = (await agent.run("look")).session
        if moved == "fork":
            session = await agent.fork(session, step=2)
        if moved == "archive":
            await agent.archive(session)
            await agent.restore(session)
    edit = call("edit_file", "e", path="/app.ini", old="=<secret:PRIMARY_API_KEY>\nthird", new="")
    edit["args"]["new"] = edit["args"]["old"].replace("third", "last")
    more = call("edit_file", "m", path="/app.ini", old="region=eu", new="x=<secret:PRIMARY_API_KEY>")
    third = call("edit_file", "t", path="/app.ini", old="region=eu", new="x=<secret:THIRD_API_KEY>")
    read, done = [calling(READ)], "done"
    steps = [calling(WHOLE), *read, calling(edit), calling(more), calling(third), done]
    # The fork is asked its second step again.
    agent, model = process(tmp_path, SWAPPED, *[None] * (1 if moved == "fork" else 2), *steps)
    async with agent:
        await agent.run("region us", session=session)
        results = [str(each.content) for each in model.requests[-1].messages if each.type == "tool"]
        texts = str(await agent.history(session))
    assert "<secret:PRIMARY_API_KEY> stood for another value earlier in this conversation" in results[1]
    assert "primary=<secret:SECONDARY_API_KEY>" in results[2]
    # An edit leaves the placeholders that it shows, and adds only those that mean what they meant.
    assert results[3].startswith("Edited")
    assert "stood for another value" in results[4]
    assert results[5].startswith("Edited")
    assert file.read_text() == BEFORE.replace("third", "last").replace("region=eu", f"x={OTHER}")
    assert OLD not in texts


async def test_a_placeholder_that_changed_places_is_not_written_either_where_the_model_may_see_secrets(
    tmp_path: Path,
) -> None:
    file = file_of(tmp_path)
    agent, _ = process(tmp_path, FIRST, calling(READ), "seen")
    async with agent:
        session = (await agent.run("look")).session
    allowed = "workspace: {root: work}\nsecrets: {to_model: allow}\n"
    agent, model = process(tmp_path, SWAPPED, None, None, calling(WHOLE), "done", yaml=allowed)
    async with agent:
        await agent.run("region us", session=session)
    assert "stood for another value" in told(model)
    assert file.read_text() == BEFORE


async def test_a_name_that_changed_once_stays_changed_in_its_session_only(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    agent, _ = process(tmp_path, FIRST, calling(READ), "seen")
    async with agent:
        session = (await agent.run("look")).session
    agent, _ = process(tmp_path, SWAPPED, None, None, "hm")
    async with agent:
        await agent.run("and now", session=session)
    agent, model = process(tmp_path, FIRST, None, None, None, calling(WHOLE), "done")
    async with agent:
        await agent.run("region us", session=session)
    assert "stood for another value" in told(model)
    agent, model = process(tmp_path, FIRST, calling(READ), calling(WHOLE), "done")
    async with agent:
        await agent.run("region us")
    assert told(model).startswith("Replaced")
    assert file.read_text() == BEFORE.replace("eu", "us")


async def test_a_session_keeps_no_value_and_nothing_to_test_a_guess_with(tmp_path: Path) -> None:
    file_of(tmp_path)
    agent, _ = process(tmp_path, FIRST, "hi", "hm")
    async with agent:
        session = (await agent.run("look")).session
        other = (await agent.run("look")).session
        log = (await agent._runner.connections()).log
        kept, others = [
            json.loads((await log.texts(await log.find(each), ["placeholders"]))["placeholders"])
            for each in (session, other)
        ]
    assert set(kept) == {"salt", "names"}
    assert set(FIRST) - set(kept["names"]) == {"SHORT_TOKEN"}
    assert all(len(each) == 4 for each in kept["names"].values())
    assert kept["salt"] != others["salt"]
    assert kept["names"] != others["names"]
