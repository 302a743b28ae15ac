"""The files that an edited text spells, whatever its keys and shapes, and nothing that it only mentions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeus_runtime.plan.named_files import NamedFile
from zeus_runtime.plan.spelled_files import Spelled, spelled_files
from zeus_runtime.plan.validated import Checked, check

_HOOK = "{before_run: [{command: [python3, -I, tools/check.py]}]}"
_WORK = ("src/app.py", "docs/guide.md", "main.py", "memory.py", "README", "README.md", "tools/other.py")
_FILES = ("tools/check.py", "tools/task.md", "package/__main__.py", "shared/prompts/SOUL.md", "TASK", *_WORK)


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    for each in _FILES:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("")
    (tmp_path / ".env").write_text("FOLDER=tools\nOTHER=docs/guide.md\n")
    return _edited(tmp_path, "")


def _edited(folder: Path, *lines: str) -> Checked:
    (folder / "zeus.yaml").write_text("\n".join(("version: 1", "name: one", "model: gpt-4o", *lines)))
    return check(None, directory=folder, environ={})


def _spelled(checked: Checked, text: str) -> Spelled:
    config = checked.directory / "zeus.yaml"
    config.write_text(f"version: 1\nname: one\nmodel: gpt-4o\n{text}", errors="surrogateescape")
    return spelled_files(checked)


def _there(checked: Checked, text: str) -> set[str]:
    found = [each.file for each in _spelled(checked, text).files if each.role != "absent"]
    return {str(each.relative_to(checked.directory)) for each in found}


@pytest.mark.parametrize(
    "text",
    [
        f"middleware: [{{hooks: {_HOOK}}}]",
        f"middlewares: [{{hook: {_HOOK}}}]",
        f"middlewares: [{{hooks: {_HOOK.replace('command', 'commands')}}}]",
        f"middlewares: {{hooks: {_HOOK}}}",
        "middlewares: [{hooks: {before_run: [{command: 'python3 -I ${FOLDER}/check.py'}]}}]",
        "middlewares: [{hooks: {before_run: {command: [sh, -c, 'python3 ${FOLDER}/check.py']}}}]",
        "mcpServer: {s: {command: python3, cwd: tools, args: [check.py]}}",
        "mcpServers: {s: {command: python3, args: tools/check.py}}",
        "mcpServers: [{name: s, command: python3, args: [--load=tools/check.py]}]",
        "plugins: {file: [./tools/check.py]}",
        "plugins: [tools/check.py]\nplugins: []",
        "plugins: []\nplugins: [tools/check.py]",
        "plugins: {files: [tools/check.py]}\nmetadata: &m {a: *m}",
        "plugins: {files: [tools/check.py]}\nmetadata: [",
        "plugins: {files: [tools/check.py]}\ndescription: '\udcff'",
        "extend: base.yaml",
        "agents: {h: {description: h, confg: agent}}",
        "agents: {h: {description: h, override: {plugins: {files: [tools/check.py]}}}}",
        "mcps: {files: [servers.json]}",
    ],
)
def test_a_file_is_found_whatever_the_key_or_the_shape_that_names_it(checked: Checked, text: str) -> None:
    (checked.directory / "agent").mkdir()
    for file, folder in (("base.yaml", "."), ("agent/zeus.yaml", "..")):
        (checked.directory / file).write_text(f"version: 1\nplugin: {{files: [{folder}/tools/check.py]}}\n")
    server = {"command": "python3", "args": ["tools/check.py"]}
    (checked.directory / "servers.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    found = {each.replace("agent/../", "") for each in _there(checked, text)}
    # The folder `tools` by a `cd` in a list, and a further config beside what it names.
    assert found - {"tools", "base.yaml", "agent/zeus.yaml", "servers.json"} == {"tools/check.py"}


def test_words_of_lists_are_folders_and_modules_where_the_schema_does_not_fit(checked: Checked) -> None:
    assert _there(checked, "middleware: [{hooks: {before_run: [{command: [python3, -m, package]}]}}]") == {
        "package"
    }
    assert _there(checked, "middleware: [{hooks: {before_run: [{command: [python3, -m, main]}]}}]") == {
        "main.py"
    }
    assert _there(checked, "home: [shared]") == {"shared"}
    assert _there(checked, "home: ./shared") == {"shared"}
    assert _there(checked, "homes: ./shared") == {"shared"}
    work = [checked.directory / "shared/prompts"]
    found = spelled_files(checked, work).files
    assert [each for each in found if each.role != "absent"] == [], (
        "no folder in which, or below which, another agent works"
    )
    (checked.directory / "src/TASK.py").write_text("")
    assert _there(checked, "instruction: {file: TASK}\nx: src") == {"TASK"}
    assert _there(checked, "tools: [src, docs, main]\nlimits: {max_stepps: 9}") == set()


@pytest.mark.parametrize(
    "text",
    [
        "instructions: |\n  See the main app in src, tools and docs; then check memory.\n",
        "instruction: |\n  See the main app in src, tools and docs; then check memory.\n",
        "instruction: See the main app in src/, tools/ and ./docs. Then check the memory.",
        "workspce: {root: .}\nx: [., ./, ..]",
        "workspce: {root: src}",
        "workspace: {access: {'src/**': write, 'docs/*': deny}}",
        "memory: {vector_store: main}\ntools: [filesystem]\n",
        "agents: {h: {description: src, overrides: {tools: [memory], homes: []}}}",
        "metadata: [",
    ],
)
def test_what_a_text_only_mentions_stays_open(checked: Checked, text: str) -> None:
    assert _there(checked, text) <= {"zeus.yaml"}


@pytest.mark.parametrize("place", ["./shared", "../project/shared", "{}/shared", "~/shared", "./shared/"])
def test_a_folder_in_a_text_that_is_no_yaml_counts_if_it_is_spelled_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    project = tmp_path / "project"
    monkeypatch.setenv("HOME", str(project))
    for each in ("shared/configs/a.yaml", "shared/prompts/SOUL.md", "texts/rev.md", "texts/free.md"):
        (project / each).parent.mkdir(parents=True, exist_ok=True)
        (project / each).write_text("version: 1\ninstructions: {file: ../../texts/rev.md}\n")
    checked = _edited(project, "")
    text = f"homes: [{place.format(project)}]\nmetadata: ["
    found = {each.file.resolve() for each in _spelled(checked, text).files if each.role != "absent"}
    assert project / "shared" in found
    (preset,) = _spelled(checked, text).layers[1:]
    assert preset.file.name == "a.yaml", "what a Home has is read on"
    found = spelled_files(checked, [project / "shared/prompts"]).files
    assert project / "shared" not in {each.file.resolve() for each in found}, "nor where another agent works"
    prose = f"# Work in {place.format(project)} today.\nhomes: [shared]\nx: [./, /]\nmetadata: ["
    assert {each.file.resolve() for each in _spelled(checked, prose).files} & {
        project,
        project / "shared",
    } == set()


def test_prose_closes_a_file_by_its_path_alone(checked: Checked) -> None:
    (checked.directory / "package.json").write_text('{"version": "1", "main": "main.py"}')
    prose = "instruction: See src/app.py, package.json, and the README."
    assert _there(checked, prose) == {"src/app.py", "package.json", "README"}


def test_a_file_of_servers_counts_with_a_misspelt_key_too(checked: Checked) -> None:
    """Nothing but the name in `mcp.files` tells it from any other JSON."""
    server = {"command": "python3", "args": ["tools/check.py"]}
    (checked.directory / "servers.json").write_text(json.dumps({"mcpServer": {"s": server}}))
    line = "tools: [{mcp: {files: [servers.json]}}]"
    assert "tools/check.py" in _there(checked, f"description: See servers.json.\n{line}")
    assert "tools/check.py" in _there(checked, f"agents: {{h: {{description: h, overrides: {{{line}}}}}}}")
    assert _there(checked, "description: See servers.json.") == {"servers.json"}
    (checked.directory / "other.yaml").write_text(f"version: 1\n{line}\n")
    for prose in ("See servers.json, other.yaml.", "See other.yaml, servers.json."):
        assert "tools/check.py" in _there(checked, f"description: {prose}")


@pytest.mark.parametrize(
    "line",
    [
        "instructions: {file: my tools/a check.py}",
        "  - my tools/a check.py # Ours.",
        '\tx: [python3, "${MY} tools/a check.py"]',
        "x: ${MY} tools/a check.py  ",
        "x: [${NONE}, my tools/a check.py]",
    ],
)
def test_a_path_with_blanks_and_variables_is_found_in_a_text_that_is_no_yaml(
    checked: Checked, line: str
) -> None:
    (checked.directory / "my tools").mkdir()
    (checked.directory / "my tools/a check.py").write_text("")
    (checked.directory / ".env").write_text("MY=my\n")
    edited = _edited(checked.directory, "")
    assert _there(edited, f"{line}\nmetadata: [") == {"my tools/a check.py"}
    prose = "description: It reads my tools/a check.py each day.\nmetadata: ["
    assert _there(edited, prose) <= {"my tools/a check.py"}


def test_a_path_with_a_variable_is_found_in_servers_that_are_no_json(checked: Checked) -> None:
    (checked.directory / ".mcp.json").write_text('{"mcpServers": {"s": {"args": ["${FOLDER}/check.py"],,}}}')
    assert "tools/check.py" in _there(checked, "tools: [{mcp: {files: [.mcp.json]}}]")


def test_a_path_from_the_home_folder_is_found(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checked.directory))
    assert _there(checked, "instructions: {file: ~/tools/task.md}\nmetadata: [") == {"tools/task.md"}


def test_a_missing_file_is_found_and_one_that_may_hold_keys(checked: Checked) -> None:
    folder = checked.directory / "tools"
    absent = NamedFile(folder / "new.md", "absent")
    assert absent in _spelled(checked, "instruction: {file: tools/new.md}").files
    assert absent in _spelled(checked, "mcpServer: {s: {cwd: tools, args: [new.md]}}").files
    assert absent in _spelled(checked, "instructions: {file: tools/new.md}\nmetadata: [").files
    starred = _spelled(checked, "instructions: {file: tools/*.md}\nmetadata: [").files
    assert starred == (NamedFile(folder / "[*].md", "absent"),), "no pattern"
    module = NamedFile(checked.directory / "server.py", "absent")
    assert module in _spelled(checked, "middleware: [{hooks: [{command: [python3, -m, server]}]}]").files
    key = NamedFile(folder / "task.md", "sent", holds_keys=True)
    assert key in _spelled(checked, "extras: {vertex_credentials: tools/task.md}").files
    assert key not in _spelled(checked, "middleware: [tools/task.md]").files


def test_a_text_that_was_loaded_spells_nothing(checked: Checked) -> None:
    loaded = _edited(checked.directory, "instructions: {file: tools/task.md}")
    assert spelled_files(loaded) == ((), ())
