"""``zeus auth`` and ``zeus tools list --connect``: from the command line, against servers on loopback ports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support import mcp_server
from tests.support.agents import write_agent
from tests.support.mcp_http import Authority, Served, serving

ZEUS = str(Path(sys.executable).parent / "zeus")
SMALL = {"command": sys.executable, "args": [str(Path(mcp_server.__file__))], "start_timeout_seconds": 60}


@pytest.fixture
def served() -> Iterator[Served]:
    """A server with OAuth, in an event loop of its own beside the commands."""
    import asyncio

    ready, stop, found = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def main() -> None:
        async with serving(Authority()) as running:
            found.append(running)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder / "home"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }


def zeus(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ZEUS, *words], cwd=folder, capture_output=True, text=True, env=environment(folder), check=False
    )


def test_an_account_is_authorised_shown_used_and_taken_back(tmp_path: Path, served: Served) -> None:
    write_agent(
        tmp_path, f"mcpServers: {{far: {{url: '{served.url}', auth: oauth, start_timeout_seconds: 60}}}}"
    )
    assert "not authorised" in zeus(tmp_path, "auth", "status").stdout
    login = subprocess.Popen(
        [ZEUS, "auth", "login", "far", "--no-browser"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    assert login.stderr is not None
    url = next(line.strip() for line in login.stderr if "/authorize?" in line)
    with httpx2.Client(follow_redirects=True) as browser:
        assert "Zeus is authorised" in browser.get(url).text
    out, errors = login.communicate()
    assert (login.returncode, out) == (0, "far is authorised; it has 3 tools for this account\n"), errors
    status = json.loads(zeus(tmp_path, "auth", "status", "--json").stdout)
    assert [each["authorised"] for each in status] == [True]
    assert "scopes: notes" in status[0]["detail"]
    listed = zeus(tmp_path, "tools", "list", "--connect")
    assert "far__add" in listed.stdout
    assert "connected" in listed.stderr
    assert zeus(tmp_path, "auth", "logout", "far").stdout == "far is no longer authorised\n"
    assert "not authorised" in zeus(tmp_path, "auth", "status").stdout


def test_an_account_that_no_tool_has_is_a_mistake_with_a_remedy(tmp_path: Path) -> None:
    write_agent(tmp_path, "mcpServers: {far: {url: 'http://127.0.0.1:1/', auth: oauth}}")
    done = zeus(tmp_path, "auth", "login", "fra")
    assert done.returncode == 2
    assert "did you mean 'far'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_cannot_be_reached_fails_the_login_with_its_reason(tmp_path: Path) -> None:
    write_agent(tmp_path, "mcpServers: {far: {url: 'http://127.0.0.1:1/', auth: oauth}}")
    done = zeus(tmp_path, "auth", "login", "far", "--no-browser")
    assert done.returncode == 1
    assert "the account of 'far' was not authorised: All connection attempts failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_tools_list_says_what_is_connected_and_what_it_costs(tmp_path: Path) -> None:
    servers = {
        "small": SMALL,
        "gone": {"command": "no-such-command"},
        "off": {"command": "x", "disabled": True},
    }
    write_agent(tmp_path, f"mcpServers: {json.dumps(servers)}")
    planned = zeus(tmp_path, "tools", "list")
    assert "small__say" not in planned.stdout
    assert "not started" in planned.stderr
    assert not (tmp_path / "seen.jsonl").exists()
    connected = zeus(tmp_path, "tools", "list", "--connect")
    (say,) = [line.split() for line in connected.stdout.splitlines() if line.startswith("small__say ")]
    assert say[1:6] == ["mcp", "read", "callable", "callable", "callable"]
    assert int(say[6]) > 20
    assert "'no-such-command' is not there" in connected.stderr
    assert "disabled: true" in connected.stderr
