"""What a config's hooks need before they run: the user's permission, for the script as it is."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project, Zeus

CHECK = "open('ran', 'a').write('x')\n"
HOOKS = """
middlewares:
  - hooks:
      after_tool_call:
        - {command: [python3, tools/log.py], on_failure: continue}
      before_tool_call:
        - match: {tool: "sa*", path: "src/**"}
          command: [python3, "check.py", "a b", "\\e[2J"]
          timeout_seconds: 5
        - {command: ["true"]}
"""


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEUS_TRUST")


@pytest.fixture
def hooked(project: Project) -> Project:
    """A project with hooks, whose model calls a tool of the workspace."""
    project.write("check.py", CHECK)
    project.write("tools/log.py", CHECK)
    calls = [
        {"call": "write_file", "args": {"path": path, "content": "x"}} for path in ("/notes.txt", "/check.py")
    ]
    project.agent(*calls, "done", more=HOOKS.replace("sa*", "write_*").replace(', path: "src/**"', ""))
    config = project.folder / "zeus.yaml"
    config.write_text(config.read_text().replace("tools: [voices]", "tools: [voices, filesystem]"))
    return project


def allow(zeus: Zeus, monkeypatch: pytest.MonkeyPatch) -> str:
    """Allow all parts of the config as they are now; what the user is shown."""
    shown = zeus("trust", "--print")
    monkeypatch.setenv("ZEUS_TRUST", shown.out.strip())
    return shown.err


def ran(project: Project) -> int:
    file = project.folder / "ran"
    return len(file.read_text()) if file.exists() else 0


def test_nothing_starts_before_it_is_allowed(hooked: Project, zeus: Zeus) -> None:
    hooked.write(
        "bare.yaml", f"version: 1\nmodel: gpt-4o\ntools: [filesystem]\n{HOOKS.replace('sa*', 'write_*')}"
    )
    assert zeus("validate", "bare.yaml").exit_code == 0
    assert zeus("plan", "bare.yaml").exit_code == 0
    refused = zeus("run", "bare.yaml", "hi")
    assert refused.exit_code == 4
    assert "bare.yaml:8:12: command 'middlewares.0.hooks.after_tool_call.0.command', command" in refused.err
    assert "are not trusted" in refused.err
    assert ran(hooked) == 0


def test_a_changed_script_asks_again_and_no_tool_changes_it(
    hooked: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = allow(zeus, monkeypatch)
    assert "command 'middlewares.0.hooks.before_tool_call.0.command'" in shown
    assert "check.py: sha256" in shown
    result = zeus("run", "zeus.yaml", "hi", "-o", "ndjson")
    assert result.exit_code == 0, result.err
    assert ran(hooked) == 4, "before and after both calls"
    results = [each["content"] for each in result.lines if each["type"] == "tool_call_result"]
    assert "decides about this agent" in results[1]
    assert (hooked.folder / "check.py").read_text() == CHECK

    hooked.write("check.py", CHECK + "# changed\n")
    refused = zeus("run", "zeus.yaml", "hi")
    assert (refused.exit_code, ran(hooked)) == (4, 4)
    assert "command 'middlewares.0.hooks.before_tool_call.0.command' is not trusted" in refused.err
    assert zeus("plan").exit_code == 0


def test_a_script_that_changes_during_the_run_is_not_started(
    hooked: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends, and can be resumed once the user has looked at it."""
    hooked.write("tools/log.py", "open('check.py', 'a').write('# changed')\n")
    allow(zeus, monkeypatch)
    ended = zeus("run", "zeus.yaml", "hi")
    assert (ended.exit_code, ran(hooked)) == (4, 1)
    assert "command 'middlewares.0.hooks.before_tool_call.0.command' is not trusted" in ended.err
    hooked.write("tools/log.py", "")
    allow(zeus, monkeypatch)
    resumed = zeus("run", "zeus.yaml", "--continue")
    assert (resumed.exit_code, ran(hooked)) == (0, 2), resumed.err


def test_a_plan_shows_the_hooks_in_the_order_in_which_they_run(
    hooked: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(zeus, monkeypatch)
    text = zeus("plan")
    assert text.exit_code == 0, text.err
    lines = [line.strip() for line in text.out.splitlines()]
    first = lines.index("1. hooks")
    assert lines[first + 1 : first + 4] == [
        "before_tool_call: write_*: python3 check.py 'a b' '\\x1b[2J' (at most 5 s; a failure denies)",
        "before_tool_call: *: true (at most 10 s; a failure denies)",
        "after_tool_call: *: python3 tools/log.py (at most 10 s; a failure continues)",
    ]
    (each,) = zeus("plan", "--format", "json").json["middlewares"]
    assert each["options"]["before_tool_call"][1]["command"] == ["true"]
