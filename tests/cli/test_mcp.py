"""``zeus mcp``: an agent as an MCP server, served on standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.support import forked
from tests.support.agents import write_agent
from zeus_runtime.cli.group import READER_GONE
from zeus_runtime.cli.mcp import _end


async def test_the_command_serves_on_standard_input_and_output(tmp_path: Path) -> None:
    zeus = Path(sys.executable).parent / "zeus"
    server = StdioServerParameters(command=str(zeus), args=["mcp", "quickstart"], cwd=tmp_path)
    with (tmp_path / "stderr.txt").open("w") as errors:
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(server, errlog=errors), mode="legacy") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["run"]
            answer = await client.call_tool("run", {"prompt": "Show me what you can do"})
    assert not answer.is_error, answer
    assert os.listdir(tmp_path)  # noqa: PTH208
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``zeus mcp``, and a client that has said who it is."""
    write_agent(tmp_path)
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    process = forked.Forked(
        [sys.executable, "-m", "zeus_runtime", "mcp", "zeus.yaml"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        say(process, {"id": 0, "method": "initialize", "params": params})
        assert '"serverInfo"' in process.stdout.readline()
        yield process
        process.kill()


def say(process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def test_a_client_that_ends_before_it_has_its_answers_is_no_bug(served: subprocess.Popen[str]) -> None:
    assert served.stdin is not None
    assert served.stdout is not None
    assert served.stderr is not None
    served.stdout.close()
    with suppress(BrokenPipeError):
        for number in range(1, 50):
            say(served, {"id": number, "method": "ping"})
        served.stdin.close()
    assert served.wait(60) in (0, READER_GONE)
    assert served.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_though_its_client_is_silent(served: subprocess.Popen[str], number: int) -> None:
    assert served.stderr is not None
    served.send_signal(number)
    assert served.wait(60) == 130
    assert served.stderr.read() == ""


async def test_a_signal_ends_it_though_something_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def aclose(self) -> None:
            raise RuntimeError("the disk is gone")

    def ended(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("os._exit", ended)
    with pytest.raises(SystemExit, match="130"):
        await _end(Broken())  # type: ignore[arg-type]
    assert "the disk is gone" in caplog.text
