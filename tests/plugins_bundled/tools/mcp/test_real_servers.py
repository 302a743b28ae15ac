"""Published servers from npm and PyPI, five in one run; ``python -m tests.support.mcp_servers`` installs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.plugins_bundled.tools.mcp.test_stdio import results
from tests.support.agents import Answering, call, calling, events_of, script, write_agent
from tests.support.mcp_servers import NODE_SERVERS, PYTHON_SERVERS
from zeus_runtime import Agent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("mcp_real"),
    pytest.mark.skipif(
        not (NODE_SERVERS.exists() and (PYTHON_SERVERS / "mcp-server-time").exists() and shutil.which("git")),
        reason="needs the published servers: python -m tests.support.mcp_servers",
    ),
]


def git_init(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def node_server(name: str, *arguments: str) -> dict[str, object]:
    script = NODE_SERVERS / "@modelcontextprotocol" / name / "dist" / "index.js"
    return {"command": str(shutil.which("node")), "args": [str(script), *arguments]}


async def test_five_published_servers_work_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a line of the note\n")
    git_init(tmp_path)
    servers = {
        "everything": node_server("server-everything"),
        "files": node_server("server-filesystem", str(tmp_path)),
        "time": {"command": str(PYTHON_SERVERS / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(PYTHON_SERVERS / "mcp-server-git"), "args": ["--repository", str(tmp_path)]},
        "fetch": {"command": str(PYTHON_SERVERS / "mcp-server-fetch")},
    }
    entries = {name: {**entry, "start_timeout_seconds": 100} for name, entry in servers.items()}
    user = Answering(name="Ann")
    model = script(
        calling(
            call("everything__echo", "echo", message="hello"),
            call("everything__get-tiny-image", "image"),
            call("everything__get-structured-content", "data", location="New York"),
            call("everything__trigger-long-running-operation", "long", duration=0.1, steps=2),
            call("everything__trigger-elicitation-request", "ask"),
            call("mcp_read_resource", "resource", server="everything", uri="demo://resource/dynamic/text/1"),
            call("files__read_text_file", "file", path=str(tmp_path / "note.txt")),
            call("files__write_file", "write", path=str(tmp_path / "new.txt"), content="made"),
            call(
                "time__convert_time",
                "time",
                source_timezone="UTC",
                time="12:00",
                target_timezone="Asia/Tokyo",
            ),
            call("git__git_status", "git", repo_path=str(tmp_path)),
            call("fetch__fetch", "fetch", url="http://127.0.0.1:9/nothing"),
        ),
        "done",
    )
    config = write_agent(tmp_path, f"mcpServers: {json.dumps(entries)}", tools="[probe]")
    async with Agent.from_config(config, directory=tmp_path, model=model) as running:
        events = await events_of(running.stream("go", approvals=user))
        states = {each.name: each.state for each in await running.connections()}
        access = {tool.name: tool.access for tool in await running.tools()}
    found = results(events)
    assert states == dict.fromkeys(servers, "connected")
    assert found["echo"] == "Echo: hello"
    assert "[image image/png" in found["image"]
    assert '"temperature"' in found["data"]
    assert "Ann" in found["ask"], user.asked
    assert found["resource"].startswith("[resource demo://resource/dynamic/text/1]")
    assert found["file"] == "a line of the note\n"
    assert (tmp_path / "new.txt").read_text() == "made"
    assert "21:00:00+09:00" in found["time"]
    assert "No commits yet" in found["git"]
    assert "fetch__fetch" in access
    assert [event for event in events if event.type == "tool_progress" and event.call_id == "long"]
    assert (access["files__read_text_file"], access["files__write_file"]) == ("read", "write")
