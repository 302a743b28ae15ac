"""Names, entries of other clients, and what is refused before anything is started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.tools.mcp.names import log_name, tool_name

from tests.support.agents import script, write_agent
from zeus_runtime import Agent, ConfigError, MissingError
from zeus_runtime.plugin.tool import McpServer
from zeus_runtime.trust.parts import Remote, remote_part


def servers(folder: Path, yaml: str, environ: dict[str, str] | None = None) -> Any:
    config = write_agent(folder, yaml, tools="[{mcp: {files: [.mcp.json]}}, probe]")
    agent = Agent.from_config(config, directory=folder, model=script(), environ=environ or {})
    return agent.plan.opens[0].create(agent.plan.context).servers


@given(st.text(max_size=80), st.text(min_size=1, max_size=120))
def test_every_name_is_one_that_providers_allow(server: str, tool: str) -> None:
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool_name(McpServer().prefix_for(server), tool))


@given(st.text(min_size=1, max_size=90), st.text(min_size=1, max_size=90))
def test_two_tools_of_a_server_never_get_one_name(left: str, right: str) -> None:
    assert (tool_name("files", left) == tool_name("files", right)) == (left == right)


def test_a_plain_name_stays_readable() -> None:
    assert tool_name("files", "read_file") == "files__read_file"
    assert tool_name("", "read_file") == "read_file"
    assert tool_name("files", "x" * 80).startswith("files__xxx")


def test_an_entry_of_another_client_is_taken_as_it_is(tmp_path: Path) -> None:
    entries = {
        "fs": {
            "command": "npx",
            "args": ["-y", "x"],
            "env": {"A": "b"},
            "disabled": False,
            "autoApprove": [],
        },
        "gemini": {"httpUrl": "https://example.com/mcp", "includeTools": ["a"], "trust": False},
        "windsurf": {"serverUrl": "https://example.com/sse", "type": "sse", "disabledTools": ["b"]},
        "vscode": {"type": "http", "url": "https://example.com/mcp", "headers": {"X": "${TOKEN:-none}"}},
        "off": {"command": "x", "disabled": True},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"filed": entries["fs"]}}))
    found = {server.name: server for server in servers(tmp_path, f"mcpServers: {json.dumps(entries)}")}
    assert list(found) == ["fs", "gemini", "windsurf", "vscode", "filed"]
    assert found["gemini"].spec.address == "https://example.com/mcp"
    assert found["vscode"].spec.headers == {"X": "none"}


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("github.com/modelcontextprotocol/servers/tree/main/src/time", "time"),
        ("microsoft/playwright-mcp", "playwright-mcp"),
        ("@21st-dev/magic", "magic"),
        ("Büro Tools", "B_ro_Tools"),
        (
            "a server with a name that is very much longer than others",
            "a_server_with_a_name_that_is_ve_5a53228a",
        ),
    ],
)
def test_a_name_may_be_what_other_clients_write(tmp_path: Path, name: str, prefix: str) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    (found,) = servers(tmp_path, f"mcpServers: {json.dumps({name: {'command': 'x'}})}\n")
    assert (found.name, found.prefix) == (name, prefix)


@pytest.mark.parametrize(
    ("yaml", "places"),
    [
        ("{a: {command: x, prefix: p}, b: {command: y, prefix: p}}", ["b.prefix"]),
        ("{a: {command: x, prefix: b}, b: {command: y}}", ["b"]),
        ("{a: {command: x, prefix: p}, b: {command: y}, c: {command: z, prefix: p}}", ["c.prefix"]),
        ("{ann/files: {command: x}, bob/files: {command: y}}", ["bob/files"]),
        ("{a: {command: x, prefix: p}, b: {command: y, prefix: p, disabled: true}}", []),
        ("{a: {command: x, prefix: ''}, b: {command: y, prefix: ''}}", []),
        ("{a: {command: x, prefix: p}, b: {command: y}}", []),
        ("{a: {command: x, prefix: ''}, b: {command: y, prefix: a}}", []),
    ],
)
def test_two_servers_with_one_prefix_are_a_warning(tmp_path: Path, yaml: str, places: list[str]) -> None:
    agents = "agents: {one: {description: x, overrides: {mode: ask}}}"
    config = write_agent(tmp_path, f"mcpServers: {yaml}\n{agents}\n", tools="[mcp, probe, subagents]")
    warnings = Agent.from_config(config, directory=tmp_path, model=script(), environ={}).plan.warnings
    found = [each for each in warnings if each.code == "mcp-prefix"]
    assert [".".join(map(str, each.path[1:])) for each in found] == places
    for each in found:
        assert (each.severity, each.hint) == ("warning", "give the servers different prefixes")
        assert each.position is not None


def test_names_without_a_letter_that_providers_allow_stay_apart() -> None:
    assert McpServer().prefix_for("时间") != McpServer().prefix_for("天气")
    assert log_name("时间") != log_name("天气")
    assert (log_name("my files"), log_name("a.b")) == ("my_files.log", "a.b.log")
    assert "/" not in log_name("a/../b")


def test_accounts_come_after_the_other_servers(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    found = servers(tmp_path, "mcpServers: {mail: {preset: gmail}, fs: {command: x}}")
    assert [(server.name, server.category) for server in found] == [("fs", "mcp"), ("mail", "oauth")]
    assert found[1].spec.address == "https://gmailmcp.googleapis.com/mcp/v1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ".mcp.json:1:2: it is not readable JSON"),
        ("[]", "no object mcpServers"),
        ('{"mcpServers": {"a": {"comand": "x"}}}', "mcpServers.a: unknown key 'comand'"),
        ('{"mcpServers": {"a": {"args": "x"}}}', "mcpServers.a: args: expected a list"),
        ('{"mcpServers": {"a": {}}}', "has neither command nor url"),
        ('{"mcpServers": {"a": {"command": "${UNSET}"}}}', "the variable UNSET is not set"),
        ('{"mcpServers": {"fs": {"command": "x"}}}', "has a server 'fs', which the YAML"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "the key 'a' is there twice"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        servers(tmp_path, "mcpServers: {fs: {command: x}}")
    assert ".mcp.json" in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_file_that_windows_wrote_is_read(tmp_path: Path) -> None:
    text = '\ufeff{"mcpServers":\r\n {"filed": {"command": "x"}}}\r\n'
    (tmp_path / ".mcp.json").write_bytes(text.encode())
    assert [each.name for each in servers(tmp_path, "mcpServers: {fs: {command: x}}")] == ["fs", "filed"]


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"zeus\.yaml:\d+:\d+: .*\.mcp\.json does not exist"):
        servers(tmp_path, "mcpServers: {fs: {command: x}}")


def test_a_pipe_is_no_file_of_servers_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")
    with pytest.raises(ConfigError, match=r"\.mcp\.json is not a file"):
        servers(tmp_path, "mcpServers: {fs: {command: x}}")


def test_the_projects_file_is_not_read_unless_the_yaml_names_it(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    config = write_agent(tmp_path)
    agent = Agent.from_config(config, directory=tmp_path, model=script())
    assert not agent.plan.opens


@pytest.mark.parametrize(
    ("entry", "issuer"),
    [
        ("{preset: github, oauth: {client_id: x, client_secret: y}}", "https://github.com/login/oauth"),
        ("{preset: gmail}", "https://accounts.google.com"),
        ("{preset: gmail, oauth: {issuer: 'https://corp.example/a'}}", "https://corp.example/a"),
        ("{url: 'http://a.b', auth: oauth, oauth: {issuer: 'http://[::1]:80/a/'}}", "http://[::1]:80/a/"),
        ("{url: 'http://a.b', auth: oauth}", None),
    ],
)
def test_the_issuer_of_an_account_is_among_what_is_allowed(
    tmp_path: Path, entry: str, issuer: str | None
) -> None:
    config = write_agent(tmp_path, f"mcpServers: {{a: {entry}}}")
    server = Agent.from_config(config, directory=tmp_path, model=script()).plan.config.mcp_servers["a"]
    part = remote_part(Remote("a", server.address or "", server.headers, server.sent))
    assert [line for line in part.lines if "issuer" in line[1]] == (
        [] if issuer is None else [("oauth", f"issuer: {issuer}")]
    )
    other = {**server.sent, "oauth": {**server.sent.get("oauth", {}), "issuer": "https://other.example"}}
    assert remote_part(Remote("a", server.address or "", server.headers, other)).digest != part.digest


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{command: x, url: 'http://a.b'}", "has both command and url"),
        ("{command: x, headers: {a: b}}", "headers means nothing to a server that Zeus starts"),
        ("{url: 'http://a.b', args: [x]}", "args means nothing to a remote server"),
        ("{url: 'ftp://a.b'}", "url"),
        ("{url: 'https://ann:pa/ss@a.b'}", "the password in url has a / ? or # that ends the host"),
        ("{serverUrl: 'https://ann:pa#ss@a.b'}", "serverUrl has a /"),
        ("{httpUrl: 'https://ann:pa?ss@a.b'}", "httpUrl has a /"),
        ("{command: x, alwaysAllow: [a]}", "alwaysAllow is not honoured"),
        ("{command: x, timeout: 60}", "timeout is seconds to some clients and milliseconds to others"),
        ("{command: x, comand: y}", "did you mean 'command'?"),
        (
            "{url: 'https://a.b', auth: oauth, oauth: {client_id: x, client_secret: y}}",
            "client_secret needs issuer, the only server that may get it write `issuer: https://...` beside it",
        ),
        *(
            (f"{{url: 'https://a.b', auth: oauth, oauth: {{issuer: '{each}'}}}}", "issuer")
            for each in (
                "http://a.b",
                "https://a@b.c",
                "https://a.b?c",
                "http://localhost.a.b",
                "a.b",
                "https:///a",
            )
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(tmp_path: Path, entry: str, message: str) -> None:
    config = write_agent(tmp_path, f"mcpServers:\n  a: {entry}\n")
    with pytest.raises(ConfigError) as caught:
        Agent.from_config(config, directory=tmp_path, model=script())
    (problem,) = caught.value.diagnostics
    assert message in f"{problem.message} {problem.hint}"
    assert problem.position is not None
    assert problem.position.line in (6, 7)


def test_planning_with_servers_imports_nothing_heavy(tmp_path: Path) -> None:
    config = write_agent(
        tmp_path, "mcpServers: {a: {command: x}, b: {preset: github}}\nconnectors: {browser: {}}"
    )
    code = (
        "import sys; from zeus_runtime.cli import main; code = main(['plan', sys.argv[1]]);"
        "print(sorted(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(config)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    heavy = (
        "asyncio",
        "anyio",
        "mcp",
        "httpx2",
        "pydantic",
        "cryptography",
        "keyring",
        "zeus_plugins.tools.mcp.connection",
    )
    assert [name for name in heavy if f"'{name}'" in done.stderr] == []
    assert "browser  browser" in done.stdout


def test_the_component_listed_twice_is_refused(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "mcpServers: {a: {command: x}}", tools="[mcp, {mcp: {}}]")
    with pytest.raises(ConfigError, match="'mcp' is listed twice"):
        Agent.from_config(config, directory=tmp_path, model=script())


def test_without_the_plugin_the_servers_are_no_silent_loss(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "mcpServers: {a: {command: x}}")
    with pytest.raises(MissingError, match="mcp"):
        Agent.from_config(config, directory=tmp_path, model=script(), environ={"ZEUS_DISABLE_PLUGINS": "mcp"})
