"""An approval is bound to each setting that decides what its call does, and to no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from tests.acceptance.schema_leaves import schema_leaves
from zeus_runtime.plan.plan import Plan, make_plan
from zeus_runtime.plan.reach import PARTS_OF
from zeus_runtime.plan.validated import check
from zeus_runtime.tools.tool import Category

ELSEWHERE: Final[Mapping[str, str]] = {
    "tools": "options are in PlannedComponent.setting",
    "agents": "the agents' plans are in the setting of a tool that starts them",
    "mcpServers": "the setting of a server's tool has the server",
    "connectors": "they become servers",
    "workspace.root": "PendingApproval.workspace",
    "workspace.routes": "PendingApproval.workspace",
    "workspace.per": "PendingApproval.workspace",
    "plugins": "the component's plugin is in PlannedComponent.setting; trust asks about its file",
    "extends": "what it gives is under the other keys",
}
"""Keys that an approval is bound to in another way."""

BOUND: Final[Mapping[str, tuple[Any, str]]] = {
    "workspace.access": ({"prod/**": "write"}, "files"),
    "workspace.hard_links": (["node_modules"], "files"),
    "memory.user": ("bob", "memory"),
    "memory.project": ("beta", "memory"),
    "memory.role": ("viewer", "memory"),
    "memory.backend": ("notes", "memory"),
    "memory.embeddings": ({"other": {}}, "memory"),
    "memory.vector_store": ({"chroma": {"path": "v"}}, "memory"),
    "memory.thresholds.max_length": (900, "memory"),
    "knowledge": (["manual"], "knowledge"),
}
"""Keys to another value and the part; a key with a last part that is not here is like its neighbours."""

FREE: Final[Mapping[str, Any]] = {
    "model": "gpt-5-mini",
    "models": {"summary": "gpt-5-mini"},
    "reasoning": {"effort": "low"},
    "name": "other",
    "description": "another",
    "instructions": "Be brief.",
    "output": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "project_instructions": {"files": ["OTHER.md"]},
    "prompt": {"time": {"precision": "date"}},
    "mode": "plan",
    "middlewares": [{"approve": {"mode": "allowlist", "deny": [{"*": {"path": "a/**"}}]}}],
    "approvals": "ask",
    "workspace.quota": {"bytes": 9_000_000},
    "storage": {"url": "sqlite:///other.db"},
    "archive": {"max_age_days": 3},
    "retention": {"max_sessions": 9},
    "memory.extract": "end_of_session",
    "memory.consolidate_after": 4,
    "checkpointer": "other",
    "counter": "other",
    "limits": {"max_steps": 5, "max_cost_usd": 2},
    "secrets": {"to_model": "allow"},
    "retry": {"attempts": 1},
    "profiles": {"strict": True},
    "homes": ["home"],
    "metadata": {"a": 1},
    "version": 1,
}
"""Keys that decide nothing about an approved call, set to something else."""

PLUGIN: Final = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool
def own(text: str) -> str:
    '''Do something.'''


@hookimpl
def register_tools():
    return [Component("own", lambda options, context: [own])]


@hookimpl
def register_embeddings():
    return [Component("other", lambda options, context: None)]


@hookimpl
def register_checkpointers():
    return [Component("other", lambda options, context: None)]


@hookimpl
def register_counters():
    return [Component("other", lambda options, context: None)]


@hookimpl
def register_memories():
    return [Component("notes", lambda options, context: None)]
"""

GIVEN: Final[Mapping[str, Any]] = {
    "version": 1,
    "model": "gpt-5.2",
    "plugins": {"files": ["plug.py"]},
    "tools": ["filesystem", {"shell": {"contain": "none"}}, "memory", "knowledge", "web", "todos", "own"],
    "workspace": {"access": {"prod/**": "read"}},
    "memory": {"user": "ann", "project": "alpha"},
    "knowledge": ["faq"],
}

USERS: Final[Mapping[str, set[str]]] = {
    "files": {"write_file", "run_command", "search_knowledge_base", "own"},
    "memory": {"memory_save", "search_knowledge_base", "own"},
    "knowledge": {"search_knowledge_base", "own"},
}
"""Of some tools, those that use a part."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plug.py").write_text(PLUGIN)
    (tmp_path / "home").mkdir()
    return tmp_path


def settings(folder: Path, **changes: Any) -> dict[str, str]:
    """The setting of each tool, by its name."""
    config = json.loads(json.dumps(GIVEN))
    for key, value in changes.items():
        *above, last = key.split(".")
        at = config
        for step in above:
            at = at.setdefault(step, {})
        at[last] = value
    (folder / "zeus.yaml").write_text(json.dumps(config))
    plan: Plan = make_plan(check("zeus.yaml", directory=folder, environ={"OPENAI_API_KEY": "k"}))
    return {each.tool.name: each.tool.setting for each in plan.tools}


def test_every_key_of_a_config_is_bound_or_free() -> None:
    known = {*ELSEWHERE, *BOUND, *FREE, "memory.thresholds"}
    leaves = {key for key in schema_leaves() if ":" not in key}
    for leaf in leaves:
        steps = leaf.split(".")
        assert any(".".join(steps[: end + 1]) in known for end in range(len(steps))), leaf
    assert not {key for key in known if not any(f"{leaf}.".startswith(f"{key}.") for leaf in leaves)}


@pytest.mark.parametrize(
    ("changes", "users"),
    [
        *(pytest.param({key: value}, USERS[part], id=key) for key, (value, part) in BOUND.items()),
        pytest.param(FREE, set(), id="all that decide nothing"),
    ],
)
def test_a_setting_that_decides_what_a_call_does_changes_the_tools_that_use_it(
    changes: Mapping[str, Any], users: set[str], folder: Path
) -> None:
    before, after = settings(folder), settings(folder, **changes)
    others = {"memory_save", "web_fetch", "write_todos"}
    looked_at = USERS["files"] | others if users else after.keys()
    assert {"write_file", "run_command", "memory_save", "own"} <= after.keys()
    assert {name for name in looked_at if before[name] != after[name]} == users


def test_what_a_tool_protects_changes_also_the_other_tools_that_open_files(folder: Path) -> None:
    tools = [{"filesystem": {"protected": ["a.txt"]}}, *GIVEN["tools"][1:]]
    assert settings(folder)["run_command"] != settings(folder, tools=tools)["run_command"]


def test_the_rules_of_an_agent_count_for_the_agents_below_it(folder: Path) -> None:
    (folder / "sub.yaml").write_text("version: 1\nmodel: gpt-5.2\ntools: [filesystem, todos]\n")
    agents = {"helper": {"description": "helps", "config": "sub.yaml"}}
    keys = {"agents": agents, "tools": ["subagents"], "memory": None, "knowledge": []}

    def task(right: str) -> str:
        return settings(folder, **keys, workspace={"access": {"a/**": right}})["task"]

    assert task("read") == task("read") != task("write")


def test_a_task_is_bound_to_the_servers_of_its_agent_that_a_file_names(folder: Path) -> None:
    (folder / "sub.yaml").write_text("version: 1\nmodel: gpt-5.2\ntools: [{mcp: {files: [servers.json]}}]\n")
    agents = {"helper": {"description": "helps", "config": "sub.yaml"}}

    def task(*places: str) -> str:
        servers = {place[0]: {"command": "db", "args": [place]} for place in places}
        (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        keys = {"agents": agents, "tools": ["subagents"], "memory": None, "knowledge": []}
        return settings(folder, **keys)["task"]

    assert len({task("db staging"), task("db prod"), task("db staging", "hr")}) == 3
    assert task("db staging", "hr") == task("hr", "db staging")


def test_rules_say_the_same_in_any_order_and_without_rules_nothing_is_said(folder: Path) -> None:
    rules = {"a/**": "read", "b/**": "write"}
    one = settings(folder, **{"workspace.access": rules})
    assert one == settings(folder, **{"workspace.access": dict(reversed(rules.items()))})
    bare = settings(folder, workspace={}, memory=None, knowledge=[], tools=["own"])
    assert "files" not in bare["own"]
    assert "memory" not in bare["own"]


def test_every_category_says_what_its_tools_use() -> None:
    assert PARTS_OF.keys() == set(get_args(Category)) - {"custom"}
