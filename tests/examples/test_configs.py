"""The example configs: each is valid as it stands, alone and with its overlay, and is what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime import Agent
from zeus_runtime.plan.plan import Plan

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = sorted(path.parent.name for path in EXAMPLES.glob("*/zeus.yaml"))


def plan(name: str, folder: Path, **given: str) -> Plan:
    """An example's plan, in an empty working directory."""
    return Agent.from_config(EXAMPLES / name, directory=folder, **given).plan


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_is_valid_and_listed(name: str, tmp_path: Path) -> None:
    planned = plan(name, tmp_path)
    assert planned.config.name == name
    assert [notice.message for notice in planned.notices] == []
    assert f"({name}/zeus.yaml)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_the_reviewer_has_no_tool_that_writes(tmp_path: Path) -> None:
    reviewer = plan("reviewer", tmp_path)
    names = {tool.tool.name for tool in reviewer.tools}
    assert "read_file" in names
    assert not {"write_file", "edit_file"} & names
    assert reviewer.mode == "ask"
    assert reviewer.stable["workflow"].startswith("# How you review")


def test_the_researcher_searches_papers_and_the_web(tmp_path: Path) -> None:
    names = {tool.tool.name for tool in plan("researcher", tmp_path).tools}
    assert {"search_knowledge_base", "web_search", "web_fetch", "write_file"} <= names


def test_the_support_assistant_asks_last_and_remembers_the_customer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTOMER", "ann")
    support = plan("support", tmp_path)
    assert support.middlewares[-1].name == "approve"
    assert support.config.memory is not None
    assert support.config.memory.user == "ann"


def test_its_overlay_swaps_the_database_and_nothing_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_DATABASE_URL", "postgresql://zeus@db.example.com/zeus")
    local, production = plan("support", tmp_path), plan("support", tmp_path, env="prod")
    assert production.config.storage.url.startswith("postgresql://")
    assert production.checkpointer.name == "postgres"
    assert production.memory is not None
    assert production.memory.vector_store.name == "pgvector"
    assert production.config.limits.max_cost_usd == 0.25
    assert production.stable == local.stable
    assert [each.name for each in production.middlewares] == [each.name for each in local.middlewares]
