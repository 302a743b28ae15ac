"""The tool `task` as the model sees it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.agents import write_agent
from tests.support.golden import assert_golden
from zeus_runtime import Agent

GOLDEN = Path(__file__).parent / "golden"
AGENTS = """
agents:
  researcher: {description: Finds out and answers with sources.}
  reviewer: {description: Reads this conversation and says what is wrong., context: fork}
  helper: {description: Knows what was said last., context: slice}
"""


def test_the_tool_is_the_golden_one(tmp_path: Path) -> None:
    plan = Agent.from_config(write_agent(tmp_path, AGENTS, tools="[subagents]"), directory=tmp_path).plan
    (planned,) = plan.tools
    shown = {
        "name": planned.tool.name,
        "description": planned.tool.description,
        "parameters": planned.tool.parameters,
        "category": planned.tool.category,
        "access": planned.tool.access,
    }
    assert_golden(GOLDEN / "subagents.json", json.dumps(shown, indent=2, ensure_ascii=False) + "\n")


def test_without_agents_there_is_no_tool(tmp_path: Path) -> None:
    assert Agent.from_config(write_agent(tmp_path, tools="[subagents]"), directory=tmp_path).plan.tools == ()


def test_every_mode_has_it(tmp_path: Path) -> None:
    config = write_agent(tmp_path, AGENTS, tools="[subagents]")
    for mode in ("agent", "ask", "plan"):
        (planned,) = Agent.from_config(config, directory=tmp_path, mode=mode).plan.tools  # type: ignore[arg-type]
        assert planned.showing == "callable"
