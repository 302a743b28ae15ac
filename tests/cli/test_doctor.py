"""``zeus doctor``: one line per check, exit 4 when something needed is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.checks import database, home_in_workspace, packages
from zeus_runtime.plan.validated import check
from zeus_runtime.trust.decision import Trust

EVERYTHING = Trust(frozenset({"all"}), None)


def findings(zeus: Zeus, *words: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in zeus("doctor", "--json", *words).json:
        found.setdefault(each["subject"], []).append(each)
    return found


def test_a_sound_installation_is_ok_without_a_config(zeus: Zeus, project: Project) -> None:
    result = zeus("doctor")
    assert result.exit_code == 0, result.out
    subjects = {line[6:].partition(":")[0] for line in result.out.splitlines() if line[:4].strip()}
    assert {"python", "packages", "plugins", "homes", "config", "keys", "database", "terminal"} <= subjects
    assert "fail" not in result.out
    assert list(project.folder.iterdir()) == [], "the doctor leaves nothing behind"


def test_keys_are_named_and_never_shown(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(zeus)["keys"][0]["status"] == "warn"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    result = zeus("doctor")
    assert "OPENAI_API_KEY" in result.out
    assert "sk-very-secret-value" not in result.out


def test_a_config_is_checked_with_its_model_and_database(zeus: Zeus, project: Project) -> None:
    project.agent()
    found = findings(zeus)
    assert found["config"][0]["detail"] == "zeus.yaml"
    assert found["model"][0]["status"] == "ok"
    assert "not made yet" in found["database"][0]["detail"]
    assert "journal wal" in found["database"][0]["detail"]
    zeus("run", "zeus.yaml", "go")
    assert "not made yet" not in findings(zeus)["database"][0]["detail"]


def test_a_home_folder_in_the_workspace_is_told_if_a_server_or_hook_may_execute_what_commands_make(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = project.agent().read_text()
    home, elsewhere = project.folder / "sub/home", tmp_path / "elsewhere"
    for each in (home, elsewhere):
        each.mkdir(parents=True)

    def told(tools: str, *, env: Path | None = None, hook: bool = False) -> list[str]:
        values = "" if env is None else f", env: {{HOME: '{env}'}}"
        rest = f"mcpServers: {{s: {{command: bash, args: [-lc, x]{values}}}, far: {{url: 'http://localhost/'}}}}\n"
        if hook:
            rest += "middlewares: [{hooks: {before_tool_call: [{command: [bash, -lc, x]}]}}]\n"
        project.write("zeus.yaml", config.replace("tools: [voices]", f"tools: {tools}") + rest)
        return look()

    def look() -> list[str]:
        checked = check("zeus.yaml", directory=project.folder, environ=os.environ, trust=EVERYTHING)
        return [each.detail.rpartition("sandbox: ")[2] for each in home_in_workspace(checked)]

    assert told("[shell]") == []
    monkeypatch.setenv("HOME", str(home))
    assert told("[filesystem, sandbox]") == []
    for tools in ("[shell]", "[{sandbox: {workspace: write}}]"):
        assert told(tools) == ["MCP server 's'"]
    assert told("[shell]", env=elsewhere) == []
    assert "command" in told("[shell]", env=elsewhere, hook=True)[0]
    monkeypatch.setenv("HOME", str(elsewhere))
    assert told("[shell]", env=home, hook=True) == ["MCP server 's'"]
    project.write("zeus.yaml", config.replace("tools: [voices]", "tools: [shell]"))
    monkeypatch.setenv("HOME", str(home))
    assert look() == []
    told("[shell]")
    assert findings(zeus)["home"][0]["status"] == "warn"


def test_a_folder_of_the_python_path_in_the_workspace_is_told(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project.agent()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:")
    assert "PYTHONPATH" not in findings(zeus)
    (tmp_path / "link").symlink_to(project.folder / "src")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{tmp_path}/link")
    found = findings(zeus)["PYTHONPATH"][0]
    assert (found["status"], f"({tmp_path}/link)" in found["detail"]) == ("warn", True)


def test_a_workspace_with_short_names_is_told(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent()
    (project.folder / "credentials").mkdir()
    (project.folder / "CREDEN~1").mkdir()
    assert "workspace" not in findings(zeus)
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda at=".": [each for each in listed(at) if each != "CREDEN~1"])
    found = findings(zeus)["workspace"][0]
    assert (found["status"], "such as CREDEN~1:" in found["detail"]) == ("warn", True)


def test_a_journal_beside_the_database_is_told_and_not_played_back(zeus: Zeus, project: Project) -> None:
    project.agent()
    zeus("run", "zeus.yaml", "go")
    journal = project.folder / ".zeus/zeus.db-journal"
    journal.write_bytes(b"x")
    found = findings(zeus)["database"][0]
    assert (found["status"], str(journal) in found["remedy"]) == ("fail", True)
    result = zeus("run", "zeus.yaml", "go")
    assert (result.exit_code, "rollback journal" in result.err) == (4, True)


def test_a_broken_config_is_a_failure_with_its_exit_code(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodle: x\n")
    result = zeus("doctor")
    assert result.exit_code == 3
    assert "zeus.yaml:2:1" in result.out


def test_a_model_that_cannot_be_called_is_missing(zeus: Zeus, project: Project) -> None:
    project.agent()
    plugin = (project.folder / "scripted.py").read_text()
    check = "    async def check(self):\n        raise ModelError('no key', kind='auth', remedy='Set PROBE_API_KEY')\n"
    (project.folder / "scripted.py").write_text(
        plugin.replace("    async def stream", check + "\n    async def stream")
    )
    result = zeus("doctor")
    assert result.exit_code == 4
    assert "fail  model: no key\n      Set PROBE_API_KEY" in result.out


def test_a_model_whose_check_is_broken_does_not_end_the_other_checks(zeus: Zeus, project: Project) -> None:
    project.agent()
    plugin = (project.folder / "scripted.py").read_text()
    check = "    async def check(self):\n        raise KeyError('oops')\n"
    (project.folder / "scripted.py").write_text(
        plugin.replace("    async def stream", check + "\n    async def stream")
    )
    result = zeus("doctor")
    assert result.exit_code == 4
    assert re.search(r"fail  model: \S+ cannot be checked: KeyError: 'oops'", result.out)
    assert re.search(r"^ok    database: ", result.out, re.MULTILINE), result.out
    assert "Traceback" not in result.err


def test_a_missing_key_is_named_with_its_variable(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: openai/gpt-5.2\n")
    absent = zeus("doctor")
    assert absent.exit_code == 4
    assert "OPENAI_API_KEY" in absent.out
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    present = zeus("doctor")
    assert present.exit_code == 0, present.out
    assert "sk-very-secret-value" not in present.out


def test_a_home_that_is_not_there_is_missing(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_HOME", str(project.folder / "gone"))
    found = zeus("doctor")
    assert found.exit_code == 4
    assert "ZEUS_HOME names a Home that is not a folder" in found.out


def test_a_package_that_is_not_there_is_named_with_its_remedy() -> None:
    (finding,) = packages("no-such-distribution-anywhere")
    assert (finding.status, finding.exit_code) == ("fail", 4)


def test_a_database_that_is_none_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "zeus.db").write_text("this is not a database, and long enough to be looked at as one" * 20)
    (finding,) = database("sqlite:///zeus.db", tmp_path, EVERYTHING)
    assert finding.status == "fail"
    (finding,) = database("nonsense://", tmp_path, EVERYTHING)
    assert finding.exit_code == 4
    (finding,) = database("postgresql://someone:hunter22@127.0.0.1:1/none", tmp_path, EVERYTHING)
    assert finding.exit_code == 4
    assert "hunter22" not in finding.detail + finding.remedy


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_a_folder_that_cannot_be_written_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refused)
    (finding,) = database("sqlite:///.zeus/zeus.db", tmp_path, EVERYTHING)
    assert finding.exit_code == 4
    assert "Permission denied" in finding.detail


def test_doctor_and_run_refuse_a_model_without_a_provider_with_the_same_words(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-one")
    project.write("zeus.yaml", "version: 1\nmodel: gpt5\n")
    for words in (["doctor"], ["run", "zeus.yaml", "hi"]):
        result = zeus(*words)
        assert result.exit_code != 0
        told = result.out + result.err
        assert "names no provider that litellm knows" in told
        assert "such as openai/gpt-5.2;" in told
        assert "openai/gpt5" not in told
        assert "Traceback" not in told


def with_sandbox(project: Project, tool: str) -> None:
    config = project.agent("A")
    config.write_text(config.read_text().replace("tools: [voices]", f"tools: [voices, {tool}]"))


@pytest.mark.parametrize("delegated", [True, False])
def test_the_doctor_says_whether_the_kernel_limits_a_sandbox(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, *, delegated: bool
) -> None:
    with_sandbox(project, "sandbox")
    monkeypatch.setattr("zeus_plugins.sandboxes.bubblewrap.backend.Bubblewrap.check", lambda self: None)
    monkeypatch.setattr(
        "zeus_plugins.sandboxes.bubblewrap.backend.delegated_group", lambda: Path("/x") if delegated else None
    )
    told = [each for each in zeus("doctor", "--json").json if each["subject"] == "sandbox"]
    assert [each["status"] for each in told] == ["ok" if delegated else "warn"]
    if not delegated:
        assert "socket buffers are not limited by the kernel" in told[0]["detail"]
        assert "systemd-run --user --scope" in told[0]["remedy"]


def test_the_doctor_says_that_a_sandbox_cannot_be_made(zeus: Zeus, project: Project) -> None:
    with_sandbox(project, "{sandbox: {backend: {bubblewrap: {command: no-such-bwrap}}}}")
    told = zeus("doctor", "--json")
    (found,) = [each for each in told.json if each["subject"] == "sandbox"]
    assert (told.exit_code, found["status"]) == (4, "fail")
    assert "no-such-bwrap is not installed" in found["detail"]


def test_each_model_of_a_chain_is_checked(zeus: Zeus, project: Project) -> None:
    chain = "[{scripted: {answers: [Hello.]}}, openai/gpt-4o]"
    project.write("zeus.yaml", project.agent().read_text().replace("model: ", f"model: {{chain: {chain}}} #"))
    assert [each["status"] for each in findings(zeus)["model"]] == ["ok", "fail"]


def test_key_files_that_commands_read_out_of_git_are_told(zeus: Zeus, project: Project) -> None:
    def note(tools: str, rest: str = "") -> list[dict[str, Any]]:
        config = project.agent().read_text().replace("tools: [voices]", f"tools: {tools}")
        project.write("zeus.yaml", config + rest)
        found = findings(zeus)
        assert found["config"][0]["status"] == "ok"
        return found.get("git", [])

    names = [
        ".env.a",
        ".env.b",
        ".env.c",
        ".env.example",
        ".env.production",
        ".mcp.json",
        "sub/.env.d/key",
        "x.py",
    ]
    for name in (*names, ".env.new"):
        project.write(name, "KEY=1\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    subprocess.run(["git", "add", "--", *names], cwd=project.folder, check=True)
    trap = project.write("trap.sh", "#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(trap)], cwd=project.folder, check=True)
    (found,) = note("[shell]")
    assert found["status"] == "warn"
    assert found["detail"].endswith("of .env.a, .env.b, .env.c, .env.production, .mcp.json and 1 more")
    assert '".env*": deny' in found["remedy"]
    assert note("[sandbox]") == [found]
    assert note("[filesystem]") == []
    assert note("[shell]", 'workspace: {access: {".env*": deny}}\n') == []
    asks = "middlewares: [{approve: {ask: [{'*': {path: 'secrets/**'}}]}}]\n"
    assert note("[filesystem, shell]", asks) == []
    assert not (project.folder / "sprung").exists()
