"""The same config reaches the run on every path: with it, a setting that one path observes counts on all."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Final

import pytest

from tests.acceptance.paths import PATHS, Scenario, played
from zeus_runtime.config import Config

PROBE: Final = """
from dataclasses import asdict, fields

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware


class Kept(Middleware):
    def __init__(self, options, context):
        self.context = context

    async def edits(self, view, budget):
        config = self.context.config
        if "parent" not in repr(config.model):
            kept = {each.name: repr(getattr(config, each.name)) for each in fields(config)}
            kept["profile"] = repr(self.context.profile)
            (self.context.directory / "config.json").write_text(json.dumps(kept))
        return ()


@hookimpl
def register_middlewares():
    return [Component("kept", create=Kept)]
"""
"""A plugin whose middleware writes down the config that its run has."""

WIDE: Final = {
    "name": "hermes",
    "description": "Carries messages.",
    "mode": "ask",
    "instructions": "Only Go.",
    "project_instructions": {"files": ["RULES.md"], "max_tokens": 300},
    "prompt": {"variables": {"team": "Argo"}, "tools_description": "brief", "time": {"precision": "minute"}},
    "tools": ["todos", {"filesystem": {"max_read_lines": 7}}],
    "middlewares": ["kept", {"approve": {"mode": "ask"}}, {"truncation": {}}],
    "approvals": "allowlist",
    "workspace": {"root": "sub", "access": {"/a.txt": "deny"}},
    "archive": {"max_megabytes": 9},
    "memory": {"user": "ann"},
    "limits": {"max_steps": 7, "timeout_seconds": 99.0, "repeated_calls": 5, "max_parallel_tools": 2},
    "secrets": {"to_model": "allow"},
    "retry": {"attempts": 2, "initial_seconds": 0.1},
    "profiles": {"models": {"watched": {"max_input_tokens": 50000}}},
    "metadata": {"ticket": 7},
}
"""A value of its own for every key that may differ from agent to agent."""

FIXED: Final = {
    "version": "it has one value",
    "model": "the paths play with models of their own",
    "plugins": "the plugin of this test is a file",
    "agents": "a sub-agent that shares a config has none",
    "storage": "the outermost agent's; store_settings.py observes it",
    "retention": "the outermost agent's",
    "checkpointer": "the outermost agent's",
    "mcp_servers": "tests/mcp starts servers on every path",
    "output": "a sub-agent that shares a config has none; output_settings.py observes it",
    "connectors": "they are servers of mcp_servers",
    "knowledge": "a sub-agent without the tool that searches has none",
    "counter": "its one component needs a tokenizer's file; model_settings.py observes it",
    "models": "the paths play with models of their own; role_settings.py observes it",
    "reasoning": "the paths play with models that do not reason; model_settings.py observes it",
    "homes": "read while the config is loaded, before there is a path",
}
"""The other keys, and why a play of this test does not set them."""


def config_of(path: str) -> dict[str, str]:
    """The config that a run on ``path`` had, each key as its ``repr``."""
    scenario = Scenario(
        json.dumps(
            {"plugins": {"files": ["probe.py", "kept.py"]}, "prompt": {"variables": {"team": "Troy"}}}
        ),
        files=(
            ("kept.py", "import json\n" + PROBE),
            ("sub/RULES.md", "Be brief.\n"),
            (".zeus/prompts/CORE.md", "I am {{team}}."),
        ),
    )
    seen = played(path, scenario, json.dumps(WIDE))
    assert "config.json" in seen.files, seen.requests
    found: dict[str, str] = json.loads(seen.files["config.json"])
    return found


def test_every_key_is_set_or_named() -> None:
    assert sorted([*WIDE, *FIXED]) == sorted(each.name for each in fields(Config))


@pytest.mark.parametrize("path", [pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in PATHS])
def test_a_path_changes_nothing_of_the_config(path: str) -> None:
    plain = config_of("Python")
    kept = config_of(path)
    assert {key: kept[key] for key in (*WIDE, "profile")} == {key: plain[key] for key in (*WIDE, "profile")}
    default = Config(version=1, model="m")  # type: ignore[arg-type]
    assert [key for key in WIDE if kept[key] == repr(getattr(default, key))] == []
