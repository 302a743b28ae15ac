"""The YAML and the Python of docs/start/tutorial.md work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zeus_runtime import Agent
from zeus_runtime.plugin.tool import Tool

TEXT = (Path(__file__).parents[1] / "docs" / "start" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


CONFIGS = blocks("yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tutorial's folder, with its plugin file."""
    (tmp_path / "tide.py").write_text(blocks("python")[0], encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_every_config_is_valid(text: str, folder: Path) -> None:
    (folder / "zeus.yaml").write_text(text, encoding="utf-8")
    plan = Agent.from_config("zeus.yaml", directory=folder).plan
    assert [notice.message for notice in plan.notices] == []


def test_the_overlay_is_laid_over_the_first_config(folder: Path) -> None:
    (folder / "zeus.yaml").write_text(CONFIGS[0], encoding="utf-8")
    (folder / "zeus.prod.yaml").write_text(CONFIGS[-1], encoding="utf-8")
    config = Agent.from_config("zeus.yaml", directory=folder, env="prod").plan.config
    assert (config.name, config.limits.max_steps) == ("harbour", 50)


async def test_the_tool_answers(folder: Path) -> None:
    (text,) = [text for text in CONFIGS if "tide.py" in text]
    (folder / "zeus.yaml").write_text(text, encoding="utf-8")
    planned = Agent.from_config("zeus.yaml", directory=folder).plan.tools
    (tide,) = [each.tool for each in planned if each.tool.name == "high_water"]
    assert isinstance(tide, Tool)
    assert await tide.function(day="Friday") == "06:40"


def test_every_verb_of_the_tutorial_is_one() -> None:
    from zeus_runtime.cli.group import VERBS

    used = set(re.findall(r"^(?:cat \S+ \| )?zeus (\w+)", "\n".join(blocks("sh")), re.MULTILINE))
    assert {"init", "doctor", "run", "resume", "plan"} <= used
    assert used <= set(VERBS)
