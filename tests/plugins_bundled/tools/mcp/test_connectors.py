"""Connectors: a server, and instructions that stand in section 9 only while it is connected."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.plugins_bundled.tools.mcp.test_stdio import results, server, states, until
from tests.support.agents import call, calling, play, script, write_agent
from tests.support.mcp_servers import CHROMIUM, NODE_SERVERS
from zeus_runtime import Agent, ConfigError
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.validated import examine_config
from zeus_runtime.trust.parts import Part

DRIVEN = {"screen": server()}


def agent(folder: Path, model: object, yaml: str, tools: str = "[]", **more: object) -> Agent:
    every = f"[{{mcp: {{max_restarts: 0}}}}, probe, {tools.strip('[]')}]"
    config = write_agent(folder, f"mcpServers: {json.dumps(DRIVEN)}\n{yaml}", tools=every)
    return Agent.from_config(config, directory=folder, model=model, **more)  # type: ignore[arg-type]


async def test_the_instructions_stand_in_the_prompt_while_the_connector_is_connected(tmp_path: Path) -> None:
    model = script(calling(call("screen__die", "1")), "done", "again")
    async with agent(tmp_path, model, "connectors: {desktop: {server: screen}}") as running:
        session = (await play(running, "go"))[-1].session  # type: ignore[union-attr]
        await until(lambda: states(running), lambda found: found[0] == "failed")
        await play(running, "more", session)
        (connection,) = await running.connections()
    first, _, second = model.requests
    assert "# Desktop" in first.system
    assert "# Desktop" not in second.system
    assert connection.category == "desktop"
    assert {tool.name for tool in first.tools} - {tool.name for tool in second.tools} >= {"screen__say"}


async def test_the_instructions_are_the_users_own_file(tmp_path: Path) -> None:
    (tmp_path / "screen.md").write_text("Only look.\n")
    model = script("done")
    async with agent(
        tmp_path, model, "connectors: {desktop: {server: screen, prompt: screen.md}}"
    ) as running:
        await play(running, "go")
    assert "Only look." in model.requests[0].system
    assert "# Desktop" not in model.requests[0].system


def test_instructions_that_cannot_be_read_are_shown_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    said = {
        "none.md": "does not exist",
        "folder.md": "is not a file",
        "pipe.md": "is not a file",
        "latin.md": "is not UTF-8",
    }
    for name, problem in said.items():
        config = write_agent(tmp_path, f"connectors:\n  browser:\n    prompt: {name}\n")
        with pytest.raises(ConfigError, match=rf"zeus\.yaml:8:13: .*{name} {problem}"):
            Agent.from_config(config, directory=tmp_path, model=script())


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_only_agent_mode_has_connectors(tmp_path: Path, mode: str) -> None:
    calls = [
        call("screen__say", "1", text="a"),
        call("mcp_list_resources", "2"),
        call("mcp_read_resource", "3", server="screen", uri="small://note"),
    ]
    model = script(calling(*calls), "done")
    async with agent(
        tmp_path, model, f"connectors: {{desktop: {{server: screen}}}}\nmode: {mode}"
    ) as running:
        told = results(await play(running, "go"))
    assert "# Desktop" not in model.requests[0].system
    assert not any(tool.name.startswith("screen__") for tool in model.requests[0].tools)
    assert f"cannot be called in {mode} mode" in told["1"]
    assert (told["2"], told["3"]) == (
        f"In {mode} mode no server with resources is available.",
        f"The server 'screen' is not available in {mode} mode.",
    )


async def test_an_agent_that_only_reads_is_not_told_of_the_connector_of_the_one_it_works_for(
    tmp_path: Path,
) -> None:
    model = script(calling(call("task", "1", description="a", prompt="Look.", agent="reader")), "done")
    reader = "agents: {reader: {description: Reads., overrides: {mode: ask}}}\n"
    async with agent(
        tmp_path, model, f"connectors: {{desktop: {{server: screen}}}}\n{reader}", tools="[subagents]"
    ) as running:
        await play(running, "go")
    parent, child = model.requests[:2]
    assert "# Desktop" in parent.system
    assert "# Desktop" not in child.system


def test_a_connector_names_a_server_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'scren' is none of mcpServers"):
        agent(tmp_path, script("done"), "connectors: {desktop: {server: scren}}")
    with pytest.raises(ConfigError, match="no server is known that drives a desktop"):
        agent(tmp_path, script("done"), "connectors: {desktop: {}}")


NPX = f"""#!{sys.executable}
import json, os, sys

def send(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)

for line in sys.stdin:
    told = json.loads(line)
    method, name = told.get("method"), told.get("id")
    if method == "initialize":
        version = told["params"]["protocolVersion"]
        info = {{"name": "npx", "version": "1"}}
        send(id=name, result={{"protocolVersion": version, "capabilities": {{"tools": {{}}}}, "serverInfo": info}})
    elif method == "notifications/initialized":
        send(id="roots", method="roots/list")
    elif method == "tools/list":
        send(id=name, result={{"tools": []}})
    elif name == "roots":
        with open(os.environ["HOME"] + "/told.new", "w") as file:
            json.dump([os.getcwd(), oct(os.stat(".").st_mode), sys.argv[1:], told["result"]["roots"]], file)
        os.replace(file.name, os.environ["HOME"] + "/told")
    elif name is not None:
        send(id=name, error={{"code": -32601, "message": "no such method"}})
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder beside the project, and a folder for programs in it that comes first in ``PATH``."""
    found = tmp_path / "home"
    (found / "bin").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(found))
    monkeypatch.setenv("PATH", f"{found / 'bin'}:{os.environ['PATH']}")
    return found


def npx(home: Path, text: str) -> None:
    (home / "bin/npx").write_text(text)
    (home / "bin/npx").chmod(0o755)


@pytest.mark.parametrize("is_there", [False, True])
async def test_the_browser_starts_in_a_private_folder_of_its_own_and_works_in_the_project(
    home: Path, *, is_there: bool
) -> None:
    """In the project, its `.npmrc` and `node_modules` would say what `npx` starts."""
    npx(home, NPX)
    own, project = home / ".local/share/zeus-browser", home.parent / "project"
    if is_there:
        own.mkdir(parents=True)
        own.chmod(0o777)
    config = write_agent(project, "connectors: {browser: {}}\n")
    async with Agent.from_config(config, directory=project, model=script("done")) as running:
        await play(running, "go")
        told = home / "told"
        await until(lambda: asyncio.to_thread(told.exists), bool)
    cwd, mode, arguments, roots = json.loads(told.read_text())
    assert (Path(cwd), mode) == (own, "0o40700")
    assert arguments[:2] == ["-y", "@playwright/mcp@latest"]
    assert [each["uri"] for each in roots] == [project.as_uri()]


def _part(project: Path, yaml: str) -> Part:
    found = examine_config(
        write_agent(project, yaml), directory=project, environ={"HOME": "/in a project's .env"}
    )
    (part,) = (each for each in all_parts(found) if each.name == "browser")
    return part


def test_the_question_about_the_browser_names_the_folder_below_each_home_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder = home.parent / "project", ".local/share/zeus-browser"
    part = _part(project, "connectors: {browser: {}}\n")
    assert ("cwd", f"~/{folder}") in part.lines
    assert not part.reads_on
    monkeypatch.setenv("HOME", str(home.parent / "of a container"))
    assert _part(project, "connectors: {browser: {}}\n").digest == part.digest
    npx = 'command: npx, args: [-y, "@playwright/mcp@latest", --headless, --isolated], start_timeout_seconds: 30'
    for place in (f"./~/{folder}", f"{home}/{folder}", "/srv"):
        other = _part(project, f"mcpServers: {{browser: {{{npx}, cwd: '{place}'}}}}\n")
        assert other.digest != part.digest
        assert ("cwd", f"~/{folder}") not in other.lines
    same = _part(project, f"mcpServers: {{browser: {{{npx}, cwd: ~/{folder}}}}}\n")
    assert (same.digest, same.lines) == (part.digest, part.lines)
    # In the project, its files decide what starts.
    monkeypatch.setenv("HOME", str(project))
    assert _part(project, "connectors: {browser: {}}\n").digest != part.digest
    monkeypatch.setattr(Path, "expanduser", Mock(side_effect=RuntimeError))
    other = _part(project, f"mcpServers: {{browser: {{{npx}, cwd: './~/{folder}'}}}}\n")
    assert other.digest != part.digest, "a folder of the project, where no home folder is known"


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.skipif(
    not (CHROMIUM and (NODE_SERVERS / "@playwright/mcp/cli.js").exists()),
    reason="needs Chromium and npm's @playwright/mcp",
)
async def test_a_real_browser_is_driven_on_a_local_page(home: Path, *, is_named: bool) -> None:
    """The files that it saves are in the project."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<title>Shop</title><button onclick=\"document.title='bought'\">Buy</button>"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    site = await asyncio.start_server(page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/"
    cli = NODE_SERVERS / "@playwright/mcp/cli.js"
    npx(home, f"#!/bin/sh\nexec node {cli} --headless --no-sandbox --isolated --executable-path {CHROMIUM}\n")
    named = {"pw": {"command": "npx", "start_timeout_seconds": 60, "prefix": "browser"}}
    begin = "browser__browser"
    model = script(
        calling(call(f"{begin}_navigate", "1", url=url)),
        calling(call(f"{begin}_evaluate", "2", function="() => document.querySelector('button').click()")),
        calling(call(f"{begin}_evaluate", "3", function="() => document.title")),
        calling(call(f"{begin}_take_screenshot", "4", filename="shot.png", scale="css")),
        "done",
    )
    servers, browser = (named, {"server": "pw"}) if is_named else ({}, {})
    project = home.parent / "project"
    config = write_agent(
        project, f"mcpServers: {json.dumps(servers)}\nconnectors: {{browser: {json.dumps(browser)}}}\n"
    )
    async with Agent.from_config(config, directory=project, model=model) as running, site:
        events = await play(running, "go")
    assert "# Browser" in model.requests[0].system
    assert "Shop" in results(events)["1"]
    assert "bought" in results(events)["3"]
    assert (project / "shot.png").is_file(), results(events)["4"]
