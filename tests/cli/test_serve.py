"""`zeus serve`: command lines that cannot be served."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.config.secrets.unloaded_configs import secrets_of_folder
from zeus_runtime.errors import UsageError
from zeus_runtime.plan.parts_with_subagents import agents_below
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.serving.http import hosting
from zeus_runtime.serving.http.hosting import ConfigReader, EditedConfig, HostedAgent
from zeus_runtime.tools import WorkspaceError, WorkspaceFiles


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--protocol", "opnai"], 4, "no plugin registers the protocol 'opnai'; did you mean 'openai'"),
        (["--protocol", "{openai: {ignore: 3}}"], 2, "--protocol openai.ignore"),
        (["--protocol", "{mcp: {path: mcp}}"], 2, "--protocol mcp.path"),
        (["--protocol", "[openai]"], 2, "names no protocol"),
        (["--protocol", "{openai: {}, mcp: {}}"], 2, "names no protocol"),
        (["--protocol", ""], 2, "names no protocol"),
        (["--protocol", "{openai"], 3, "--protocol:1:"),
        (["--protocol", "openai", "--protocol", "openai"], 2, "twice"),
        (["--protocol", "{mcp: {path: /health}}"], 2, "/health, which is the service's own"),
        (["--host", "0.0.0.0"], 2, "neither a valid key nor `oidc`"),
    ],
)
def test_a_wrong_command_line_is_told(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.agent()
    told = zeus("serve", *words)
    assert (told.exit_code, said in told.err) == (code, True), told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize("file", ["zeus.yaml", "zeus-serve.yaml"])
def test_a_database_that_cannot_be_opened_is_told_before_anything_is_served(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.agent()
    text = "" if file == "zeus-serve.yaml" else f"{(project.folder / file).read_text()}\n"
    project.write(file, f"{text}storage: {{url: 'sqlite:///folder.db'}}\n")
    (project.folder / "folder.db").mkdir()
    told = zeus("serve", "--port", "0")
    assert (told.exit_code, told.out) == (4, ""), told.err
    assert "error: the database 'sqlite:///folder.db' cannot be opened: it is a folder" in told.err
    assert "Traceback" not in told.err
    assert "http://" not in told.err


def test_a_short_token_is_refused(project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch) -> None:
    project.agent()
    monkeypatch.setenv("ZEUS_TRUST", "all")
    monkeypatch.setenv("ZEUS_TOKEN", "secret")
    told = zeus("serve")
    assert told.exit_code == 2
    assert "needs 20" in told.err


def test_a_given_token_is_not_printed_and_the_address_says_where_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent()
    token = "a-token-that-stays-the-same"
    environ = {**os.environ, "ZEUS_TRUST": "all", "ZEUS_TOKEN": token}
    command = [sys.executable, "-m", "zeus_runtime", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=project.folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        told = [process.stderr.readline().strip() for _ in range(2)]
        try:
            address = next(line for line in told if line.startswith("http://"))
            answer = httpx.get(f"{address}v1/agents", headers={"Authorization": f"Bearer {token}"})
        finally:
            process.terminate()
        rest = process.stderr.read()
    assert address.rpartition(":")[2].strip("/").isdigit(), told
    assert told[1] == "its token is the one in ZEUS_TOKEN: the page asks for it"
    assert answer.status_code == 200
    assert token not in "".join([*told, rest])


def test_no_tool_makes_a_config_in_a_folder_that_a_service_runs(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start would run it, with rights that its writer chose."""
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.write("agents/one.yaml", "version: 1\nmodel: gpt-4o\ntools: [filesystem]\n")
    (project.folder / "agents/folder.yaml").mkdir()  # a command of an agent made it
    seen: list[WorkspaceFiles] = []

    class Hosted(HostedAgent):
        def __init__(self, read: ConfigReader, *others: Any) -> None:
            seen.append(make_plan(read(())).context.workspace)
            raise UsageError("it was read")

    monkeypatch.setattr(hosting, "HostedAgent", Hosted)
    assert "it was read" in zeus("serve", "agents").err
    (files,) = seen
    for name in ("agents/two.yaml", "agents/ONE.prod.yaml", "agents/x/../two.YAML"):
        with pytest.raises(WorkspaceError):
            files.write(f"/{name}", b"version: 1\n")
    files.write("/agents/notes.md", b"")
    files.write("/two.yaml", b"")


@pytest.mark.parametrize("name", ["zeus-serve.yaml", "elsewhere/settings.yaml"])
@pytest.mark.parametrize(
    ("storage", "environment"),
    [
        ("postgresql://zeus:{}@db/zeus", None),
        ("${{SERVE_DATABASE:-postgresql://zeus:{}@db/zeus}}", None),
        ("${{SERVE_DATABASE:-postgresql://zeus:{}@db/zeus}}", "sqlite:///serve.db"),
        ("${{SERVE_DATABASE}}", "postgresql://zeus:{}@db/zeus"),
    ],
)
def test_the_agents_of_a_service_mask_the_secrets_of_its_settings(
    project: Project,
    zeus: Zeus,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    storage: str,
    environment: str | None,
) -> None:
    """The settings are closed to tools, but another file may repeat the password."""
    monkeypatch.setenv("ZEUS_TRUST", "all")
    password = "Pg-S3rv1ce-Passw0rd77"
    if environment is not None:
        monkeypatch.setenv("SERVE_DATABASE", environment.format(password))
    project.write("helper.yaml", "version: 1\nname: helper\nmodel: gpt-4o\n")
    project.write(
        "zeus.yaml",
        "version: 1\nmodel: gpt-4o\ntools: [filesystem, subagents]\n"
        "agents: {helper: {description: d, config: ./helper.yaml}}\n",
    )
    project.write(name, f"storage: {{url: '{storage.format(password)}'}}\n")
    seen: list[str] = []

    class Hosted(HostedAgent):
        def __init__(self, read: ConfigReader, *others: Any) -> None:
            whole = read(())
            edited = EditedConfig("version: 1\nmodel: gpt-4o\nname: edited\n", whole.trust)
            below = (each.working_for(whole) for each in agents_below(whole))
            agents = (whole, *below, read((), edited))
            seen.extend(each.secrets.text(f"It is {password}.") for each in agents)
            with pytest.raises(WorkspaceError, match="no tool may"):
                make_plan(whole).context.workspace.read(f"/{name}", max_bytes=1_000)
            raise UsageError("it was read")

    monkeypatch.setattr(hosting, "HostedAgent", Hosted)
    assert "it was read" in zeus("serve", "zeus.yaml", "--settings", name).err
    assert len(seen) == 3
    assert not [each for each in seen if password in each or "It is <secret:" not in each], seen


def test_a_run_beside_the_settings_of_a_service_masks_their_secrets(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run closes that file to its tools, so it has to know what is written there."""
    project.agent({"call": "echo", "args": {"text": "Pg-S3rv1ce-Passw0rd77"}}, "done")
    address = "${SERVE_DATABASE:-postgresql://zeus:Pg-S3rv1ce-Passw0rd77@db/zeus}"
    project.write("zeus-serve.yaml", f"storage: {{url: '{address}'}}\n")
    monkeypatch.setenv("ZEUS_TRUST", "all")
    told = zeus("run", "It is Pg-S3rv1ce-Passw0rd77.", "--output", "ndjson")
    assert told.exit_code == 0, told.err
    assert "<secret:zeus-serve.yaml/storage.url>" in told.out
    stored = b"".join(file.read_bytes() for file in (project.folder / ".zeus").rglob("*") if file.is_file())
    assert b"Pg-S3rv1ce-Passw0rd77" not in stored + told.out.encode() + told.err.encode()


def test_completion_masks_the_secrets_of_a_services_settings(project: Project) -> None:
    project.write("zeus-serve.yaml", "storage: {url: 'postgresql://zeus:Pg-S3rv1ce-Passw0rd77@db/zeus'}\n")
    assert "Pg-S3rv1ce-Passw0rd77" in secrets_of_folder(project.folder)
