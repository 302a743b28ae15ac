"""``zeus auth`` and ``zeus tools list --connect``: from the command line, against servers on loopback ports."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support import forked, mcp_server
from tests.support.agents import write_agent
from tests.support.mcp_http import Authority, Served, serving
from tests.support.provider import Provider, Reply
from zeus_runtime.plugin.tool import LoginPage

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


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    import keyring
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    monkeypatch.setenv("HOME", str(project.folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[queue.Queue[str]]:
    """A browser that follows every redirect at once; gives what its pages say."""
    pages: queue.Queue[str] = queue.Queue()
    opened: list[threading.Thread] = []

    def follow(url: str) -> None:
        with httpx2.Client(follow_redirects=True, timeout=60) as client:
            pages.put(client.get(url).text)

    def open_url(url: str) -> None:
        opened.append(threading.Thread(target=follow, args=(url,)))
        opened[-1].start()

    monkeypatch.setattr("webbrowser.open", open_url)
    yield pages
    for each in opened:
        each.join()


def test_an_account_is_authorised_shown_used_and_taken_back(
    zeus: Zeus, project: Project, served: Served, browser: queue.Queue[str]
) -> None:
    write_agent(
        project.folder,
        f"mcpServers: {{far: {{url: '{served.url}', auth: oauth, start_timeout_seconds: 60}}}}",
    )
    assert "not authorised" in zeus("auth", "status").out
    login = zeus("auth", "login", "far")
    assert (login.exit_code, login.out) == (0, "far is authorised; it has 3 tools for this account\n"), (
        login.err
    )
    assert "open this address to authorise 'far':\n  http://127.0.0.1:" in login.err
    assert "Zeus has your answer" in browser.get(timeout=60)
    status = json.loads(zeus("auth", "status", "--json").out)
    assert [each["authorised"] for each in status] == [True]
    assert "scopes: notes" in status[0]["detail"]
    listed = zeus("tools", "list", "--connect")
    assert "far__add" in listed.out
    assert "connected" in listed.err
    assert zeus("auth", "logout", "far").out == "far is no longer authorised\n"
    assert "not authorised" in zeus("auth", "status").out


def test_a_listing_tells_of_a_rule_for_a_tool_that_the_server_does_not_have(
    zeus: Zeus, project: Project
) -> None:
    deny = "[{small__say: {path: 'secrets/**', text: a}}, small__sya]"
    write_agent(
        project.folder,
        f"mcpServers: {json.dumps({'small': SMALL})}\nmiddlewares: [{{approve: {{deny: {deny}}}}}]",
    )
    listed = zeus("tools", "list", "--connect")
    assert listed.exit_code == 0
    assert "small__say has no argument 'path'" in listed.err
    assert "'small__sya' is not a tool of this agent" in listed.err
    assert "has no argument" not in zeus("tools", "list").err


def test_a_terminal_shows_the_address_in_one_piece(project: Project, served: Served) -> None:
    write_agent(
        project.folder,
        f"mcpServers: {{far: {{url: '{served.url}', auth: oauth, start_timeout_seconds: 60}}}}",
    )
    environ = {"ZEUS_TRUST": "all", "HOME": str(project.folder / "home")}
    words = ["auth", "login", "far", "--no-browser"]
    with PseudoTerminal(words, project.folder, environ) as terminal:
        terminal.until("open this address to authorise 'far':\n  ")
        address = terminal.until("\n").strip()
    assert len(address) > 100
    assert {"code_challenge", "redirect_uri", "state"} <= parse_qs(urlsplit(address).query).keys()


@pytest.mark.parametrize(
    ("receivers", "is_vouched", "is_opened"),
    [((), False, True), (("b.example",), True, True), (("b.example",), False, False)],
)
def test_a_page_whose_answer_goes_to_an_unnamed_host_is_not_opened(
    zeus: Zeus,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    receivers: tuple[str, ...],
    is_vouched: bool,
    is_opened: bool,
) -> None:
    """A provider that knows the user may answer before the user has read who gets the answer."""
    opened = threading.Event()

    async def log_in(_self: object, _name: str, show: Callable[[LoginPage], None]) -> int:
        show(LoginPage("https://a.example/authorize", receivers, is_vouched))
        return 1

    monkeypatch.setattr("zeus_plugins.tools.mcp.toolset.McpToolset.log_in", log_in)
    monkeypatch.setattr("webbrowser.open", lambda _url: opened.set())
    write_agent(project.folder, "mcpServers: {far: {url: 'http://127.0.0.1:1/mcp', auth: oauth}}")
    told = zeus("auth", "login", "far").err
    assert opened.wait(60 if is_opened else 0.05) == is_opened
    assert ("the account goes to another host: b.example" in told) == bool(receivers)
    assert ("open the address yourself" in told) == (not is_opened)


def test_the_browser_is_no_file_of_a_workspace_outside_the_working_directory(
    zeus: Zeus, project: Project, served: Served, browser: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import webbrowser

    follow, searched = webbrowser.open, list[list[str]]()

    def open_url(url: str) -> None:
        searched.append(os.environ["PATH"].split(os.pathsep))
        follow(url)

    monkeypatch.setattr("webbrowser.open", open_url)
    root, route, below, elsewhere = (
        project.folder.parent / f"{project.folder.name}-{each}" for each in ("root", "route", "below", "else")
    )
    for each in (root, route, below, elsewhere):
        (each / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", os.pathsep.join(str(each / "bin") for each in (root, route, below, elsewhere)))
    monkeypatch.setenv("ZEUS_TRUST", "all")
    (project.folder / "below.yaml").write_text(
        f"version: 1\nname: below\nmodel: x\nworkspace: {{root: {below}}}\n"
    )
    (project.folder / "zeus.yaml").write_text(
        "version: 1\nname: above\nmodel: x\ntools: [subagents]\n"
        "agents: {below: {description: d, config: ./below.yaml}}\n"
        f"mcpServers: {{far: {{url: '{served.url}', auth: oauth, start_timeout_seconds: 60}}}}\n"
        f"workspace: {{root: {root}, routes: {{/r/: {route}}}}}\n"
    )
    login = zeus("auth", "login", "far")
    assert login.exit_code == 0, login.err
    assert "Zeus has your answer" in browser.get(timeout=60)
    assert searched == [[str(elsewhere / "bin")]]


def test_an_account_that_no_tool_has_is_a_mistake_with_a_remedy(zeus: Zeus, project: Project) -> None:
    write_agent(project.folder, "mcpServers: {far: {url: 'http://127.0.0.1:1/', auth: oauth}}")
    done = zeus("auth", "login", "fra")
    assert done.exit_code == 2
    assert "did you mean 'far'" in done.err
    assert "Traceback" not in done.err


def test_a_server_that_cannot_be_reached_fails_the_login_with_its_reason(
    zeus: Zeus, project: Project
) -> None:
    write_agent(project.folder, "mcpServers: {far: {url: 'http://127.0.0.1:1/', auth: oauth}}")
    done = zeus("auth", "login", "far", "--no-browser")
    assert done.exit_code == 1
    assert "the account of 'far' was not authorised: All connection attempts failed" in done.err
    assert "Traceback" not in done.err


def test_a_login_that_is_refused_says_so_without_a_traceback_or_escape_sequences(
    zeus: Zeus,
    project: Project,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        said = {"error": "access_denied", "error_description": "\x1b]0;title\x07\x1b[31mnot you"}
        answer = f"{query['redirect_uri'][0]}?{urlencode({**said, 'state': query['state'][0]})}"
        httpx2.get(answer)

    monkeypatch.setattr("webbrowser.open", refuse)
    write_agent(project.folder, f"mcpServers: {{far: {{url: '{served.url}', auth: oauth}}}}")
    logging.getLogger("mcp").setLevel(logging.NOTSET)
    done = zeus("auth", "login", "far")
    assert done.exit_code == 1
    assert (
        "the account of 'far' was not authorised: the server refused: \\x1b]0;title\\x07\\x1b[31mnot you"
        in done.err
    )
    assert "Traceback" not in done.err
    assert not [each for each in caplog.records if each.name.startswith("mcp")]


def test_a_browser_that_returns_only_when_it_is_left_is_answered_meanwhile(
    zeus: Zeus, project: Project, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do that run in the terminal."""
    pages: queue.Queue[str] = queue.Queue()

    def read(url: str) -> None:
        pages.put(httpx2.get(url, follow_redirects=True, timeout=60).text)

    monkeypatch.setattr("webbrowser.open", read)
    write_agent(project.folder, f"mcpServers: {{far: {{url: '{served.url}', auth: oauth}}}}")
    assert zeus("auth", "login", "far").out == "far is authorised; it has 3 tools for this account\n"
    assert "Zeus has your answer" in pages.get(timeout=60)


def test_a_server_that_speaks_something_else_fails_the_login_without_a_traceback(
    project: Project, tmp_path: Path
) -> None:
    with Provider(answer=lambda request: Reply("I am a model.")) as provider:
        url = f"{provider.openai}/chat"
        write_agent(project.folder, f"mcpServers: {{far: {{url: '{url}', auth: oauth}}}}")
        done = forked.run(
            [sys.executable, "-m", "zeus_runtime", "auth", "login", "far", "--no-browser"],
            cwd=project.folder,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert (
        "the account of 'far' was not authorised: Protected resource metadata request failed" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_tools_list_says_what_is_connected_and_what_it_costs(zeus: Zeus, project: Project) -> None:
    servers = {
        "small": SMALL,
        "gone": {"command": "no-such-command"},
        "off": {"command": "x", "disabled": True},
    }
    write_agent(project.folder, f"mcpServers: {json.dumps(servers)}")
    planned = zeus("tools", "list")
    assert "small__say" not in planned.out
    assert "not started" in planned.err
    assert not (project.folder / "seen.jsonl").exists()
    connected = zeus("tools", "list", "--connect")
    (say,) = [line.split() for line in connected.out.splitlines() if line.startswith("small__say ")]
    assert say[1:6] == ["mcp", "read", "callable", "callable", "callable"]
    assert int(say[6]) > 20
    assert "'no-such-command' was not found" in connected.err
    assert "disabled: true" in connected.err


def test_tools_list_says_why_a_connector_is_off_and_shows_no_servers_escape_sequences(
    zeus: Zeus, project: Project
) -> None:
    dying = "import sys; sys.stderr.write('\\x1b]0;title\\x07\\x1b[31mno licence\\n'); sys.exit(3)"
    servers = {
        "off": {"command": "x", "disabled": True},
        "dying": {"command": sys.executable, "args": ["-c", dying], "start_timeout_seconds": 60},
    }
    project.write(".mcp.json", json.dumps({"mcpServers": {"idle": {"command": "x", "disabled": True}}}))
    more = "connectors: {browser: {server: off}}\n"
    write_agent(
        project.folder,
        f"mcpServers: {json.dumps(servers)}\n{more}",
        tools="[{mcp: {files: [.mcp.json], max_restarts: 0}}]",
    )
    listed = zeus("tools", "list", "--connect")
    (browser,) = [line for line in listed.out.splitlines() if line.startswith("browser ")]
    assert browser.endswith("off is disabled: disabled: true")
    assert "it wrote: \\x1b]0;title\\x07\\x1b[31mno licence" in listed.out
    assert "it wrote: \\x1b]0;title\\x07\\x1b[31mno licence" in listed.err
    assert "\x1b" not in listed.out + listed.err
    (idle,) = [line.split() for line in listed.err.splitlines() if line.startswith("idle ")]
    assert idle[1:] == ["mcp", "disabled", "disabled:", "true"]


def test_tools_list_has_the_tool_that_loads_schemas_where_some_are_left_out(
    zeus: Zeus, project: Project
) -> None:
    for discoverable in (True, False):
        servers = {"small": {**SMALL, "discoverable": discoverable}}
        write_agent(project.folder, f"mcpServers: {json.dumps(servers)}")
        listed = zeus("tools", "list", "--connect", "--json").json
        loaders = [each for each in listed["tools"] if each["name"] == "load_tool_schema"]
        assert [each["component"] for each in loaders] == ["mcp"] * discoverable
        assert all(each["tokens"] > 20 for each in loaders)
