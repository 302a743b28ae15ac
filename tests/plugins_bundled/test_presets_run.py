"""What the presets do unconfigured: they ask before writing, have a general sub-agent, and see their folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Answering, PositionModel, call, calling, events_of, script
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ApprovalRequested, Event, RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest

DEFAULT = Path(__file__).parents[2] / "configs" / "default.yaml"
ASKING = ("default", "zeus", "economy", "deepagents", "coder")
WRITE = calling(call("write_file", "call_1", path="/a.txt", content="new"))
READ = calling(call("ls", "call_1", path="/"))


def agent(folder: Path, yaml: str, model: Any = None) -> Agent:
    (folder / "zeus.yaml").write_text(f"version: 1\n{yaml}")
    return Agent.from_config(directory=folder, environ={}, model=model)


async def run(folder: Path, yaml: str, model: Any, user: Answering | None = None) -> list[Event]:
    async with agent(folder, yaml, model) as made:
        return await events_of(made.stream("go", approvals=user))


@pytest.mark.parametrize("preset", ASKING)
async def test_a_preset_asks_before_it_writes_and_not_before_it_reads(tmp_path: Path, preset: str) -> None:
    yaml = f"extends: {preset}\n"
    read = await run(tmp_path, yaml, script(READ, "Done."))
    assert isinstance(read[-1], RunCompleted)
    written = await run(tmp_path, yaml, script(WRITE, "Done."))
    ending = written[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.exit_code) == ("approval_needed", 7)
    assert "approvals: run_everything" in str(ending.to_wire())
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("preset", ASKING)
async def test_one_line_lets_a_preset_write_unasked(tmp_path: Path, preset: str) -> None:
    yaml = f"extends: {preset}\napprovals: run_everything\n"
    events = await run(tmp_path, yaml, script(WRITE, "Done."))
    assert isinstance(events[-1], RunCompleted)
    assert (tmp_path / "a.txt").read_text() == "new"
    assert not any(isinstance(event, ApprovalRequested) for event in events)


def test_approvals_without_anything_that_asks_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"zeus.yaml:3:12: approvals-unused"):
        _ = agent(tmp_path, "model: gpt-4o\napprovals: ask\n").plan


def test_a_sub_agent_may_share_the_key_and_ask_nobody_by_its_own_words(tmp_path: Path) -> None:
    overrides = "{tools: [{filesystem: {read_only: true}}], middlewares: []}"
    yaml = f"extends: default\napprovals: ask\nagents: {{a: {{description: A., overrides: {overrides}}}}}\n"
    assert agent(tmp_path, yaml).plan.agents["a"].plan.middlewares == ()


def commented(text: str) -> Sequence[str]:
    """The commented lines of a config that are keys at its top."""
    return re.findall(r"^# ([a-z_]+: [^\n]*)$", text, re.MULTILINE)


@pytest.mark.parametrize("line", commented(DEFAULT.read_text()))
def test_each_commented_line_of_the_default_preset_works_as_it_stands(tmp_path: Path, line: str) -> None:
    text = DEFAULT.read_text()
    (tmp_path / "zeus.yaml").write_text(text.replace(f"\n# {line}\n", f"\n{line}\n"))
    before = Agent.from_config("default", directory=tmp_path, environ={}).plan
    after = Agent.from_config(directory=tmp_path, environ={}).plan
    assert after.digest != before.digest


def test_the_commented_lines_are_those_a_new_user_needs() -> None:
    keys = {line.partition(":")[0] for line in commented(DEFAULT.read_text())}
    assert keys == {"instructions", "approvals", "memory"}


def test_the_commented_memory_line_brings_the_tools_and_the_sections(tmp_path: Path) -> None:
    assert not any("memory" in each.tool.name for each in agent(tmp_path, "extends: default\n").plan.tools)
    plan = agent(tmp_path, "extends: default\nmemory: {user: local}\n").plan
    names = {each.tool.name for each in plan.tools}
    assert {"memory_save", "memory_search", "memory_delete", "memory_stats"} <= names
    assert plan.memory is not None
    assert plan.memory.embeddings.name == "static"


# The general sub-agent


def task(prompt: str) -> dict[str, Any]:
    return call("task", "call_1", description="work", prompt=prompt, agent="general")


def cast(*errand: Any) -> PositionModel:
    """A parent that gives one piece of work, and the agent that does it by ``errand``."""

    def answer(request: ModelRequest) -> Any:
        (said,) = [each.content for each in request.messages if each.type == "human"]
        place = sum(each.type == "ai" for each in request.messages)
        return (calling(task("do it")), "Told.")[place] if said == "go" else errand[place]

    return PositionModel(answer)


async def test_the_general_agent_is_there_and_works_with_the_parents_tools_and_none_of_its_own(
    tmp_path: Path,
) -> None:
    model = cast(READ, "Looked.")
    events = await run(tmp_path, "extends: default\n", model)
    assert isinstance(events[-1], RunCompleted)
    tools = [[tool.name for tool in request.tools] for request in model.requests]
    assert ["task" in names for names in tools] == [True, False, False, True]
    assert set(tools[0]) - set(tools[1]) == {"task"}
    assert [each.content for each in model.requests[1].messages] == ["do it"]


async def test_what_the_general_agent_writes_is_asked_of_the_parents_user(tmp_path: Path) -> None:
    user = Answering()
    events = await run(tmp_path, "extends: default\n", cast(WRITE, "Written."), user)
    assert isinstance(events[-1], RunCompleted)
    assert [each.tool for each in user.asked] == ["write_file"]
    assert (tmp_path / "a.txt").read_text() == "new"
    waiting = await run(tmp_path, "extends: default\n", cast(WRITE, "Written."))
    assert isinstance(waiting[-1], RunFailed)
    assert waiting[-1].code == "approval_needed"


def test_agents_of_the_config_stand_beside_the_general_one_or_in_its_place(tmp_path: Path) -> None:
    beside = agent(tmp_path, "extends: default\nagents: {reviewer: {description: Reviews.}}\n").plan
    assert list(beside.agents) == ["general", "reviewer"]
    own = agent(tmp_path, "extends: default\nagents: {general: {description: Mine.}}\n").plan
    assert own.agents["general"].spec.description == "Mine."


def test_without_depth_or_without_the_tool_there_is_no_general_agent(tmp_path: Path) -> None:
    for yaml in ("limits: {max_subagent_depth: 0}\n", "tools: [filesystem]\n"):
        plan = agent(tmp_path, f"extends: default\n{yaml}").plan
        assert plan.agents == {}
        assert "task" not in {each.tool.name for each in plan.tools}


def test_agents_nested_to_the_limit_do_without_a_general_one(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text("version: 1\nextends: default\n")
    inner = "agents: {inner: {description: I., config: ./inner.yaml}}\n"
    plan = agent(tmp_path, f"extends: default\nlimits: {{max_subagent_depth: 1}}\n{inner}").plan
    assert list(plan.agents) == ["general", "inner"]
    assert plan.agents["inner"].plan.agents == {}
    deeper = agent(tmp_path, f"extends: default\n{inner}").plan
    assert list(deeper.agents["inner"].plan.agents) == ["general"]


def test_the_schema_of_the_general_agents_tool_is_small(tmp_path: Path) -> None:
    plan = agent(tmp_path, "extends: default\n").plan
    (tool,) = [each.tool for each in plan.tools if each.tool.name == "task"]
    sent = tool.description + json.dumps(tool.parameters)
    assert plan.token_counter.text(sent) <= 260


# Where things stand


@pytest.mark.parametrize("preset", ["default", "zeus"])
async def test_the_folder_is_shown_after_the_stable_prefix(tmp_path: Path, preset: str) -> None:
    (tmp_path / "notes").mkdir()
    model = script("Done.")
    await run(tmp_path, f"extends: {preset}\n", model)
    (request,) = model.requests
    stable, rest = (
        request.system[: request.stable_system_length],
        request.system[request.stable_system_length :],
    )
    assert "# The workspace" not in stable
    assert "# The workspace\nFiles under /:\n  notes/" in rest


@pytest.mark.parametrize("preset", ASKING)
def test_nothing_that_wraps_tool_calls_stands_below_the_one_that_asks(tmp_path: Path, preset: str) -> None:
    plan = agent(tmp_path, f"extends: {preset}\n").plan
    assert plan.middlewares[-1].name == "approve"
