"""What turns each category of tools on, flipped both ways: what the model is given, and what `zeus tools list` says."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.test_auth import browser, no_keyring, served
from tests.support import mcp_server
from zeus_runtime.tools.modes import MODE_TABLE

__all__ = ["browser", "no_keyring", "served"]

WATCHING = '''
"""A model that notes which tools it is given, and a tool of its own."""
import json
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse
from zeus_runtime.plugin.tool import tool


class Watching:
    name = "watching"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        Path("given.json").write_text(json.dumps([each.name for each in request.tools]))
        yield ModelResponse(AIMessage("done"))


@tool(access="write")
async def ring() -> str:
    """Ring the bell."""
    return "rung"


@hookimpl
def register_models():
    return [Component("watching", create=lambda options, context: Watching())]


@hookimpl
def register_tools():
    return [Component("bell", create=lambda options, context: [ring])]
'''
SMALL = {
    "command": sys.executable,
    "args": [str(Path(mcp_server.__file__))],
    "start_timeout_seconds": 60,
    "access": {"say": "read"},
}
GONE = {"command": "no-such-command"}
SKILL = "---\nname: naming\ndescription: How things are named here.\n---\nUse nouns.\n"
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Off:
    """A config without the condition, and what the listing says of it.

    Args:
        config: its keys.
        why: part of what the listing says.
        environ: variables for this one.
    """

    config: Config
    why: str
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """What turns a category on.

    Args:
        category: the row of the mode table.
        component: what gives it.
        tool: a tool of it.
        on: the keys of a config that has it.
        off: configs that have it not.
        needs: a program that it cannot be tested without.
    """

    category: str
    component: str
    tool: str
    on: Config
    off: Sequence[Off]
    needs: str | None = None


def servers(**more: Any) -> Config:
    return {"mcpServers": {"small": {**SMALL, **more}}}


CONDITIONS = [
    Condition(
        "builtin",
        "subagents",
        "task",
        {"tools": ["subagents"], "agents": {"helper": {"description": "Helps."}}},
        [Off({}, "add `- subagents` to tools; it needs agents under `agents:`")],
    ),
    Condition(
        "builtin", "recall", "recall", {"middlewares": ["recall"]}, [Off({}, "add `- recall` to middlewares")]
    ),
    Condition(
        "filesystem",
        "filesystem",
        "read_file",
        {"tools": ["filesystem"]},
        [Off({}, "add `- filesystem` to tools")],
    ),
    Condition("todos", "todos", "write_todos", {"tools": ["todos"]}, [Off({}, "add `- todos` to tools")]),
    Condition(
        "memory",
        "memory",
        "memory_save",
        {"tools": ["memory"], "memory": {"embeddings": "static"}},
        [
            Off({}, "it needs the key `memory:`"),
            Off({"memory": {"embeddings": "static"}}, "add `- memory` to tools"),
            Off(
                {"tools": ["memory"], "memory": {"embeddings": "static"}, "mode": "ask"}, "ask mode hides it"
            ),
        ],
    ),
    Condition(
        "rag",
        "knowledge",
        "search_knowledge_base",
        {"tools": ["knowledge"], "knowledge": ["opening"]},
        [Off({}, "add `- knowledge` to tools; it needs bases under `knowledge:`")],
    ),
    Condition(
        "sandbox",
        "sandbox",
        "execute_code",
        {"tools": ["sandbox"]},
        [
            Off({}, "add `- sandbox` to tools"),
            Off({"tools": ["sandbox"], "mode": "plan"}, "plan mode hides it"),
            Off({"tools": ["sandbox"]}, "bubblewrap", {"PATH": "/nowhere"}),
        ],
        needs="bwrap",
    ),
    Condition(
        "shell",
        "shell",
        "run_command",
        {"tools": ["shell"]},
        [
            Off({}, "add `- shell` to tools"),
            Off({"tools": ["shell"], "mode": "plan"}, "plan mode hides it"),
            Off({"tools": ["shell"]}, "bubblewrap", {"PATH": "/nowhere"}),
        ],
        needs="bwrap",
    ),
    Condition("web", "web", "web_fetch", {"tools": ["web"]}, [Off({}, "add `- web` to tools")]),
    Condition(
        "skills",
        "skills",
        "load_skill",
        {"middlewares": [{"skills": {"trust_project": True}}]},
        [
            Off({}, "add `- skills` to middlewares"),
            Off({"middlewares": ["skills"]}, "it needs a folder of skills, trusted if it is the project's"),
        ],
    ),
    Condition(
        "mcp",
        "mcp",
        "small__say",
        servers(),
        [
            Off({}, "it needs a server under `mcpServers`"),
            Off(servers(disabled=True), "small is disabled"),
            Off({"mcpServers": {"small": GONE}}, "small is failed: "),
        ],
    ),
    Condition(
        "browser",
        "mcp",
        "small__say",
        {**servers(), "connectors": {"browser": {"server": "small"}}},
        [
            Off(servers(), "it needs `browser` under `connectors`"),
            Off(
                {**servers(), "connectors": {"browser": {"server": "small"}}, "mode": "ask"},
                "ask mode hides it",
            ),
            Off(
                {"mcpServers": {"small": GONE}, "connectors": {"browser": {"server": "small"}}},
                "small is failed: ",
            ),
        ],
    ),
    Condition(
        "desktop",
        "mcp",
        "small__say",
        {**servers(), "connectors": {"desktop": {"server": "small"}}},
        [
            Off(servers(), "it needs `desktop` under `connectors`"),
            Off(
                {**servers(), "connectors": {"desktop": {"server": "small"}}, "mode": "plan"},
                "plan mode hides it",
            ),
        ],
    ),
    Condition(
        "custom",
        "bell",
        "ring",
        {"tools": ["bell"], "plugins": {"files": ["watching.py"]}},
        [
            Off(
                {"tools": ["bell"], "plugins": {"files": ["watching.py"]}, "mode": "plan"},
                "plan mode hides it",
            )
        ],
    ),
]
EVERY = {each.category for each in CONDITIONS} | {"oauth"}


@pytest.fixture
def folder(project: Project) -> Path:
    project.write("watching.py", WATCHING)
    project.write(".agents/skills/naming/SKILL.md", SKILL)
    project.write("opening.md", "# Library\n\nThe library opens at nine.\n")
    return project.folder


@dataclass(frozen=True)
class Seen:
    """What a config gives the model, and what the listing says."""

    given: Sequence[str]
    stocks: Sequence[Mapping[str, Any]]

    def stock(self, category: str, component: str) -> Mapping[str, Any]:
        (found,) = [
            each for each in self.stocks if (each["category"], each["component"]) == (category, component)
        ]
        return found


@pytest.fixture(scope="module")
def seen_before() -> dict[str, Seen]:
    """What was seen of a config: ``{}`` is what most conditions are compared with."""
    return {}


def seen(zeus: Zeus, folder: Path, config: Config) -> Seen:
    whole = {"version": 1, "model": {"watching": {}}, "plugins": {"files": ["watching.py"]}, **config}
    (folder / "zeus.yaml").write_text(json.dumps(whole))
    if config.get("knowledge"):
        assert zeus("kb", "add", "opening", "opening.md").exit_code == 0
    ran = zeus("run", "zeus.yaml", "go")
    assert ran.exit_code == 0, ran.err
    listed = zeus("tools", "list", "--connect", "--json")
    assert listed.exit_code == 0, listed.err
    category_of = {each["name"]: each["category"] for each in listed.json["tools"]}
    stocks = listed.json["categories"]
    assert all(category_of[name] == each["category"] for each in stocks for name in each["tools"])
    assert {each["category"] for each in stocks} >= set(MODE_TABLE) - {"custom"}, "each has a line, on or off"
    return Seen(json.loads((folder / "given.json").read_text()), stocks)


def test_every_category_of_the_mode_table_has_its_condition_here() -> None:
    assert {*MODE_TABLE} == EVERY


@pytest.mark.xdist_group("conditions")
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda each: f"{each.category}-{each.component}")
def test_a_category_is_on_by_its_condition_and_off_without_it(
    zeus: Zeus,
    folder: Path,
    condition: Condition,
    seen_before: dict[str, Seen],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def once(config: Config, environ: Mapping[str, str]) -> Seen:
        key = json.dumps([config, dict(environ)])
        if key not in seen_before:
            seen_before[key] = seen(zeus, folder, config)
        return seen_before[key]

    if condition.needs and shutil.which(condition.needs) is None:
        pytest.skip(f"needs {condition.needs}")
    on = once(condition.on, {})
    stock = on.stock(condition.category, condition.component)
    assert condition.tool in on.given
    assert stock["enabled"] is True
    assert condition.tool in stock["tools"]
    assert sum(stock["access"].values()) == len(stock["tools"])
    assert stock["tokens"] > 0
    assert stock["plugin"]["name"]
    for off in condition.off:
        with monkeypatch.context() as patched:
            for name, value in off.environ.items():
                patched.setenv(name, value)
            without = once(off.config, off.environ)
        stock = without.stock(condition.category, condition.component)
        assert condition.tool not in without.given or condition.category in ("browser", "desktop"), off.config
        assert stock["enabled"] is False, off.config
        assert off.why in stock["why"]
        assert not stock["tokens"], "what the model is not given costs nothing"


def test_an_account_turns_its_servers_tools_on(
    zeus: Zeus, folder: Path, served: Any, browser: list[str]
) -> None:
    far = {"mcpServers": {"far": {"url": served.url, "auth": "oauth", "start_timeout_seconds": 60}}}
    none = seen(zeus, folder, {}).stock("oauth", "mcp")
    assert (none["enabled"], "it needs a server under `mcpServers` that uses OAuth" in none["why"]) == (
        False,
        True,
    )
    without = seen(zeus, folder, far)
    stock = without.stock("oauth", "mcp")
    assert "far__add" not in without.given
    assert (stock["enabled"], "zeus auth login far" in stock["why"]) == (False, True)
    offline = zeus("tools", "list", "--json").json["categories"]
    (stock,) = [each for each in offline if each["category"] == "oauth"]
    assert (stock["enabled"], stock["why"]) == (False, "far is not authorised: run `zeus auth login far`")

    assert zeus("auth", "login", "far").exit_code == 0
    with_account = seen(zeus, folder, far)
    assert "far__add" in with_account.given
    assert with_account.stock("oauth", "mcp")["enabled"] is True

    assert zeus("auth", "logout", "far").exit_code == 0
    revoked = seen(zeus, folder, far)
    assert "far__add" not in revoked.given
    assert "zeus auth login far" in revoked.stock("oauth", "mcp")["why"]
