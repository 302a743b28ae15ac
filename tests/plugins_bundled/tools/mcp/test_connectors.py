"""Connectors: a server, and instructions that stand in section 9 only while it is connected."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.plugins_bundled.tools.mcp.test_stdio import results, server, states, until
from tests.support.agents import call, calling, play, script, write_agent
from tests.support.mcp_servers import NODE_SERVERS
from zeus_runtime import Agent, ConfigError

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


@pytest.mark.skipif(
    not (shutil.which("chromium") and (NODE_SERVERS / "@playwright/mcp/cli.js").exists()),
    reason="needs Debian's chromium and npm's @playwright/mcp",
)
async def test_a_real_browser_is_driven_on_a_local_page(tmp_path: Path) -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<title>Shop</title><button onclick=\"document.title='bought'\">Buy</button>"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    site = await asyncio.start_server(page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/"
    playwright = {
        "command": "node",
        "args": [
            str(NODE_SERVERS / "@playwright/mcp/cli.js"),
            *("--headless", "--no-sandbox", "--isolated", "--executable-path", str(shutil.which("chromium"))),
        ],
        "start_timeout_seconds": 60,
        "prefix": "",
    }
    model = script(
        calling(call("browser_navigate", "1", url=url)),
        calling(call("browser_evaluate", "2", function="() => document.querySelector('button').click()")),
        calling(call("browser_evaluate", "3", function="() => document.title")),
        "done",
    )
    config = write_agent(
        tmp_path, f"mcpServers: {json.dumps({'pw': playwright})}\nconnectors: {{browser: {{server: pw}}}}\n"
    )
    async with Agent.from_config(config, directory=tmp_path, model=model) as running, site:
        events = await play(running, "go")
    assert "# Browser" in model.requests[0].system
    assert "Shop" in results(events)["1"]
    assert "bought" in results(events)["3"]
