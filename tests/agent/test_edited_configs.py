"""What an edited config names is closed to each run that begins later, in a process that read the config before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from tests.support.agents import PositionModel, call, calling
from tests.support.serving import service_of
from zeus_runtime import Agent
from zeus_runtime.plan import edited_configs
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.registry import home

HEAD: Final = "version: 1\nname: tester\nmodel: gpt-4o\ntools: [filesystem, subagents]\n"
HELPER: Final = "agents: {helper: {description: Helps., config: sub/helper.yaml}}\n"
BELOW: Final = "version: 1\nname: helper\nmodel: gpt-4o\ntools: [filesystem]\n"
PROMPT: Final = "instructions: {file: prompts/review.md}\n"
ALONE: Final = (
    "version: 1\nname: tester\nmodel: gpt-4o\ntools: [filesystem, {mcp: {files: [servers.json]}}]\n"
)
"""Without a sub-agent, whose look finds the same files."""
SERVERS: Final = """{"mcpServers": {
  "n": {"command": "npx", "args": ["-y", "x@1", "--token-file", "./keys/tok"]},
  "s": {"command": "python3", "args": ["-I", "tools/server.py"]}
}}"""
OF_SERVERS: Final = ("tools/server.py", ".npmrc", "node_modules/x.js", "keys/tok")
FILES: Final = {
    "zeus.yaml": HEAD + HELPER,
    "zeus.prod.yaml": "version: 1\n",
    "sub/helper.yaml": BELOW,
    "prompts/review.md": "Good.\n",
    "src/app.py": "",
}
EDITS: Final[Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]]] = {
    "the config": ({"zeus.yaml": HEAD + HELPER + PROMPT}, ("prompts/review.md",)),
    "a missing file": ({"zeus.yaml": HEAD + "extends: conf/base.yaml\n"}, ("conf/base.yaml",)),
    "a sub-agent's config": (
        {"sub/helper.yaml": BELOW + "extends: ../conf/base.yaml\n"},
        ("conf/base.yaml", "sub/helper.yaml"),
    ),
    "an overlay": ({"zeus.prod.yaml": PROMPT}, ("prompts/review.md",)),
    "a new overlay": ({"zeus.test.yaml": PROMPT}, ("prompts/review.md",)),
    # A run makes the project's Home, for its database.
    "a preset of a Home that was not there": (
        {".zeus/configs/ops.yaml": "version: 1\n" + PROMPT.replace("prompts/", "../../prompts/")},
        ("prompts/review.md",),
    ),
    "a .env": (
        {"zeus.yaml": HEAD + "instructions: {file: '${TASK}'}\n", ".env": "TASK=prompts/review.md\n"},
        ("prompts/review.md",),
    ),
    "a misspelt key": ({"zeus.yaml": HEAD + PROMPT.replace("ions", "ion")}, ("prompts/review.md",)),
    "no YAML": ({"zeus.yaml": HEAD + PROMPT + "metadata: ["}, ("prompts/review.md",)),
    "a package runner": (
        {"zeus.yaml": HEAD + "mcpServers: {s: {command: npx, args: [x]}}\n"},
        (".npmrc", "node_modules/x.js"),
    ),
    "a package runner at a misspelt key": (
        {"zeus.yaml": HEAD + "mcpServer: {s: {command: npx, args: [x]}}\n"},
        (".npmrc", "node_modules/x.js"),
    ),
    "a sub-agent's misspelt key": (
        {
            "zeus.yaml": HEAD
            + HELPER.replace("helper.yaml}", "helper.yaml, overides: {x: prompts/review.md}}")
        },
        ("prompts/review.md",),
    ),
}


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def agent_of(
    folder: Path, files: Mapping[str, str] = FILES, environ: Mapping[str, str] = MappingProxyType({})
) -> Agent:
    """An agent that writes to each of its prompt's words."""

    def answer(request: ModelRequest) -> str | object:
        if request.messages[-1].type != "human":
            return "Done."
        paths = str(request.messages[-1].content).split()
        return calling(
            *(
                call("write_file", f"c{at}", path=f"/{each}", content="Evil.\n")
                for at, each in enumerate(paths)
            )
        )

    put(folder, files)
    (folder / "conf").mkdir(exist_ok=True)
    return Agent.from_config(directory=folder, environ=environ, model=PositionModel(answer))  # type: ignore[arg-type]


def written(folder: Path, *names: str) -> list[str]:
    return [each for each in names if (folder / each).exists() and (folder / each).read_text() == "Evil.\n"]


@pytest.mark.parametrize("edit", EDITS)
async def test_a_run_changes_nothing_that_the_config_names_since_an_edit(tmp_path: Path, edit: str) -> None:
    files, closed = EDITS[edit]
    async with agent_of(tmp_path) as agent:
        session = (await agent.run("src/app.py")).session
        put(tmp_path, files)
        await agent.run(" ".join((*closed, *files)), session=session)
        assert written(tmp_path, *closed, *files) == []
        await agent.run(" ".join(closed))
        assert written(tmp_path, *closed) == [], "also later, in another session"


HOMES: Final = {"HOME": ".config/zeus", "XDG_CONFIG_HOME": "zeus", "ZEUS_HOME": ""}


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("variable", HOMES)
@pytest.mark.parametrize("other", [None, *HOMES])
async def test_what_the_next_run_finds_by_the_variables_of_the_process_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, other: str | None, *, is_new: bool
) -> None:
    """A program that gave its agent variables of its own left open what the presets of its user name.

    So did presets of the same names, in a Home that these variables name.
    """
    project, user, home = tmp_path / "project", tmp_path / "user", HOMES[variable]
    environ = {} if other is None else {other: str(tmp_path / "team")}
    if other is not None:
        same = dict.fromkeys(("base.yaml", "helper.yaml"), "version: 1\n")
        put(tmp_path / "team" / HOMES[other] / "configs", same)
    user.mkdir()
    project.mkdir()
    monkeypatch.setenv(variable, str(user))
    monkeypatch.setenv("TASKS", str(project / "tasks"))
    presets = {
        "base.yaml": f"version: 1\nprompt: {{files: {{x: {project}/prompts/review.md}}}}\n",
        "helper.yaml": HEAD + "mcpServers: {s: {command: python3, args: [srv.py]}}\n",
        "dev.yaml": HEAD
        + "extends: base\ninstructions: {file: '${TASKS}/dev.md'}\n"
        + "agents: {a: {description: d, config: helper, overrides: {mcpServers: {s: {cwd: TOOLS}}}}}\n".replace(
            "TOOLS", f"{project}/tools"
        ),
    }
    add = partial(put, user / home / "configs", presets)
    closed = ("prompts/review.md", "tasks/dev.md", "tools/srv.py")
    if not is_new:
        add()
    async with agent_of(project, environ=environ) as agent:
        if is_new:
            add()
        await agent.run(" ".join((*closed, "notes.md")))
    assert written(project, *closed, "notes.md") == ["notes.md"]


SERVER: Final = {"base.yaml": "version: 1\nmcpServers: {s: {command: python3, args: [srv.py]}}\n"}


@pytest.mark.parametrize("own", ["HOME", "XDG_CONFIG_HOME"])
async def test_what_a_login_finds_in_its_own_home_and_in_that_of_zeus_home_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """This process has another own Home than the login, and the same ``ZEUS_HOME``."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setattr(home, "home_folders", lambda _: [tmp_path / "login"])
    monkeypatch.setenv(own, str(tmp_path / "other"))
    monkeypatch.setenv("ZEUS_HOME", str(tmp_path / "team"))
    dev = HEAD + f"extends: middle\nmcpServers: {{s: {{cwd: {project}/tools}}}}\n"
    presets = {"dev.yaml": dev, "middle.yaml": "version: 1\nextends: base\n"}
    put(tmp_path / "login/.config/zeus/configs", presets)
    put(tmp_path / "team/configs", SERVER)
    async with agent_of(project, environ=dict(os.environ)) as agent:
        await agent.run("tools/srv.py notes.md")
    assert written(project, "tools/srv.py", "notes.md") == ["notes.md"]


async def test_what_a_start_without_zeus_home_finds_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Home of ``ZEUS_HOME`` has another preset of the same name."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("ZEUS_HOME", str(tmp_path / "team"))
    dev = HEAD + f"extends: base\nmcpServers: {{s: {{cwd: {project}/tools}}}}\n"
    put(tmp_path / "own/zeus/configs", {"dev.yaml": dev, **SERVER})
    put(tmp_path / "team/configs", dict.fromkeys(SERVER, "version: 1\n"))
    async with agent_of(project, environ=dict(os.environ)) as agent:
        await agent.run("tools/srv.py notes.md")
    assert written(project, "tools/srv.py", "notes.md") == ["notes.md"]


NO_SERVERS: Final = '{"mcpServers": {}}'
OVERLAY: Final = "tools: [{mcp: {files: [others.json]}}]\n"
PREPARED: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, str], tuple[str, ...]]]] = {
    "its own servers": ({}, {"servers.json": SERVERS}, OF_SERVERS),
    "an overlay's servers": (
        {"zeus.prod.yaml": OVERLAY, "others.json": NO_SERVERS},
        {"others.json": SERVERS},
        OF_SERVERS,
    ),
    "an overlay's new servers": ({"zeus.prod.yaml": OVERLAY}, {"others.json": SERVERS}, OF_SERVERS),
    "an overlay's new base": (
        {"zeus.prod.yaml": "extends: conf/base.yaml\n"},
        {"conf/base.yaml": PROMPT.replace("prompts", "../prompts")},
        ("prompts/review.md",),
    ),
    "a base of a base that an overlay misspells": (
        {
            "zeus.prod.yaml": "extend: conf/mid.yaml\n",
            "conf/mid.yaml": "extend: ./base.yaml\n",
            "conf/base.yaml": "",
        },
        {"conf/base.yaml": PROMPT.replace("prompts", "../prompts")},
        ("prompts/review.md",),
    ),
    "a new base in an overlay that is no YAML": (
        {"zeus.prod.yaml": "extends: conf/base.yaml\nmetadata: ["},
        {"conf/base.yaml": PROMPT.replace("prompts", "../prompts")},
        ("prompts/review.md",),
    ),
    "a preset of an overlay's Home": (
        {"zeus.prod.yaml": "homes: [./team]\n", "team/configs/a.yaml": "version: 1\n"},
        {"team/configs/b.yaml": PROMPT.replace("prompts", "../../prompts")},
        ("prompts/review.md",),
    ),
    "the settings of a service": (
        {"zeus-serve.yaml": "access_log: json\n"},
        {"zeus-serve.yaml": "extends: ./conf/base.yaml\ntls: {certificate: ./c, key: ./keys/tok}\n"},
        ("conf/base.yaml", "keys/tok"),
    ),
}


@pytest.mark.parametrize("edit", PREPARED)
async def test_a_text_that_another_text_names_is_looked_at_too(tmp_path: Path, edit: str) -> None:
    before, edited, closed = PREPARED[edit]
    own = {"zeus.yaml": ALONE, "servers.json": NO_SERVERS, "tools/server.py": "", "prompts/review.md": ""}
    async with agent_of(tmp_path, {**own, **before}) as agent:
        await agent.run("conf/first.txt")
        await agent.run("conf/first.txt")  # not seen with the database, which the first run made
        put(tmp_path, edited)
        await agent.run(" ".join((*closed, *edited)))
    assert written(tmp_path, *closed, *edited) == []


async def test_a_text_that_an_edited_text_names_is_looked_at_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_beside, searched = edited_configs.closed_beside, []
    monkeypatch.setattr(
        edited_configs, "closed_beside", lambda *given: (searched.append(1), closed_beside(*given))[1]
    )
    texts = {"zeus.yaml": ALONE, "servers.json": NO_SERVERS, "tools/server.py": "", "zeus.prod.yaml": ""}
    async with agent_of(tmp_path, texts) as agent:
        await agent.run("conf/first.txt")
        put(tmp_path, {"zeus.prod.yaml": OVERLAY})
        await agent.run("conf/first.txt")
        put(tmp_path, {"others.json": SERVERS})
        await agent.run(" ".join(OF_SERVERS))
        await agent.run("conf/first.txt")
        assert searched == [1, 1], "once for each edit"
        put(tmp_path, {"zeus.prod.yaml": "", "others.json": NO_SERVERS})
        await agent.run(" ".join(OF_SERVERS))
        await agent.run("conf/first.txt")
    assert written(tmp_path, *OF_SERVERS) == []
    assert searched == [1, 1, 1], "also for a text that no other text names now"


async def test_what_a_valid_text_only_mentions_stays_open(tmp_path: Path) -> None:
    async with agent_of(tmp_path) as agent:
        (tmp_path / ".env").write_text("STEPS=9\n")
        prose = "instructions: Work on src/app.py.\nlimits: {max_steps: '${STEPS}', timeout_seconds: 60}\n"
        put(tmp_path, {"zeus.yaml": HEAD + HELPER + prose})
        await agent.run("src/app.py prompts/review.md")
    assert written(tmp_path, "src/app.py", "prompts/review.md") == ["src/app.py", "prompts/review.md"]


async def test_nothing_is_searched_unless_a_config_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_beside, searched = edited_configs.closed_beside, []
    monkeypatch.setattr(
        edited_configs, "closed_beside", lambda *given: (searched.append(1), closed_beside(*given))[1]
    )
    async with agent_of(tmp_path) as agent:
        await agent.run("new.txt src/app.py")
        await agent.run("newer.txt")
        assert searched == [], "new files beside the config are no edit"
        put(tmp_path, {"zeus.yaml": HEAD + PROMPT})
        await agent.run("new.txt")
        await agent.run("new.txt")
    assert searched == [1]


async def test_a_service_alone_closes_what_the_configs_of_its_agents_name(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    (hosted,) = service_of(tmp_path, PositionModel(lambda _: "Done.")).hosting
    assert hosted.of(None)._runner._edited is None
    await hosted.aclose()
