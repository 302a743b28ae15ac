"""``zeus models``, ``tools``, ``plugins``, ``sessions`` and ``schema``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus
from tests.support.distributions import lay_out
from zeus_runtime.tools.modes import MODE_TABLE

CALL = {"call": "echo", "args": {"text": "ahoy"}}


def test_models_are_listed_by_provider_and_words(zeus: Zeus, project: Project) -> None:
    result = zeus("models", "list", "--provider", "anthropic", "--search", "SONNET 4")
    names = [line.split()[0] for line in result.out.splitlines()[1:]]
    assert names
    assert all("sonnet" in name for name in names)
    listed = zeus("models", "list", "--provider", "anthropic", "--search", "sonnet 4", "--json").json
    assert [each["name"] for each in listed] == names
    assert {each["provider"] for each in listed} == {"anthropic"}


def test_no_fitting_model_is_said(zeus: Zeus, project: Project) -> None:
    result = zeus("models", "list", "--search", "no such thing at all")
    assert (result.exit_code, result.out) == (1, "")
    assert "no model fits" in result.err


def test_a_model_is_shown_with_the_source_of_each_value(zeus: Zeus, project: Project) -> None:
    result = zeus("models", "show", "gpt-5.2")
    lines = {line.split("  ")[0]: line for line in result.out.splitlines()}
    assert "272,000 tokens" in lines["input limit"]
    assert "(litellm: gpt-5.2)" in lines["input limit"]
    assert "o200k_base" in lines["tokenizer"]
    assert "$1.75 per million tokens" in lines["input price"]


def test_the_users_own_values_win_and_say_so(zeus: Zeus, project: Project) -> None:
    project.write(
        "zeus.yaml",
        "version: 1\nmodel: gpt-5.2\nprofiles: {models: {gpt-5.2: {max_input_tokens: 1000}}}\n",
    )
    result = zeus("models", "show", "gpt-5.2", "--config", "zeus.yaml")
    assert "1,000 tokens" in result.out
    assert "(profiles.models: gpt-5.2)" in result.out


def test_an_unknown_model_is_not_passed_off_as_known(zeus: Zeus, project: Project) -> None:
    result = zeus("models", "show", "gpt-5-2")
    assert result.exit_code == 0
    assert "64,000 tokens" in result.out
    assert "fallback" in result.out
    assert "gpt-5.2" in result.err


def test_tools_are_listed_mode_by_mode(zeus: Zeus, project: Project) -> None:
    project.agent()
    header, echo, shout = zeus("tools", "list").out.partition("\n\n")[0].splitlines()
    assert header.split()[:6] == ["TOOL", "CATEGORY", "ACCESS", "AGENT", "ASK", "PLAN"]
    assert echo.split()[:6] == ["echo", "custom", "read", "callable", "callable", "callable"]
    assert shout.split()[:6] == ["shout", "custom", "write", "callable", "placeholder", "hidden"]
    assert "scripted (file " in shout
    first = zeus("tools", "list", "--json").json["tools"][0]
    assert first["parameters"]["properties"]["text"]["type"] == "string"
    assert first["size_characters"] > len(first["name"]) + len(first["description"])


def test_every_category_is_listed_with_why_it_is_on_or_off(zeus: Zeus, project: Project) -> None:
    project.agent()
    lines = zeus("tools", "list").out.partition("\n\n")[2].splitlines()
    assert lines[0].split() == ["CATEGORY", "COMPONENT", "ON", "TOOLS", "TOKENS", "PLUGIN", "WHY"]
    said = {tuple(line.split()[:3]): " ".join(line.split()) for line in lines[1:]}
    assert said["custom", "voices", "on"].endswith("scripted listed under tools")
    assert "1 read, 1 write" in said["custom", "voices", "on"]
    assert said["web", "web", "off"].endswith("add `- web` to tools")
    assert len({category for category, *_ in said}) == len(MODE_TABLE)


def test_plugins_are_listed_with_what_they_bring(zeus: Zeus, project: Project) -> None:
    project.agent()
    listed = {each["name"]: each for each in zeus("plugins", "list", "--json").json["plugins"]}
    assert listed["replay"]["components"][0]["kind"] == "model"
    assert listed["replay"]["distribution"] == "zeus-runtime"
    assert "scripted" not in listed
    lines = zeus("plugins", "list", "--config", "zeus.yaml").out.splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.startswith("scripted")]
    assert [line.split()[:2] for line in lines[place + 1 : place + 3]] == [
        ["model", "scripted"],
        ["tool", "voices"],
    ]
    assert re.search(r"^  middleware caching +\S+ \S+", "\n".join(lines), re.MULTILINE), (
        "its summary is beside it"
    )


@pytest.fixture
def corsair(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed distribution with a Home and a component of a bundled name."""
    site = tmp_path_factory.mktemp("site")
    code = """
        from pathlib import Path
        from zeus_runtime.plugin import Component, hookimpl

        @hookimpl
        def register_homes():
            return [Path(__file__).parent / "home"]

        @hookimpl
        def register_tools():
            return [Component("todos", create=print, summary="Buries treasure.")]
        """
    files = {
        "corsair/__init__.py": code,
        "corsair/home/prompts/SOUL.md": "Arr.",
        "corsair/home/configs/boarding.yaml": "version: 1\n",
        "corsair/home/configs/profiles.yaml": "models: {}\n",
        "corsair/home/skills/haggle/SKILL.md": "---\nname: haggle\n---\n",
    }
    lay_out(site, "zeus-corsair", plugins={"corsair": "corsair"}, files=files)
    monkeypatch.delitem(sys.modules, "corsair", raising=False)
    monkeypatch.syspath_prepend(site)
    return site


def test_a_plugins_homes_are_listed_with_what_they_hold(zeus: Zeus, project: Project, corsair: Path) -> None:
    listed = {each["name"]: each for each in zeus("plugins", "list", "--json").json["plugins"]}
    assert listed["corsair"]["homes"] == [
        {
            "path": str(corsair / "corsair/home"),
            "presets": ["boarding"],
            "profiles": True,
            "prompts": ["SOUL.md"],
            "skills": ["haggle"],
            "plugins": [],
        }
    ]
    assert listed["todos"]["homes"] == []
    text = zeus("plugins").out
    held = f"presets: boarding; prompts: SOUL.md; skills: haggle; model profiles ({corsair / 'corsair/home'})"
    assert re.search(rf"^  home plugin:corsair +{re.escape(held)}$", text, re.MULTILINE)


def test_a_component_that_shares_its_name_is_listed_by_the_name_that_means_it(
    zeus: Zeus, project: Project, corsair: Path
) -> None:
    listed = {each["name"]: each for each in zeus("plugins", "list", "--json").json["plugins"]}
    (own,) = listed["corsair"]["components"]
    assert own == {"kind": "tool", "name": "zeus-corsair/todos", "summary": "Buries treasure."}
    assert listed["todos"]["components"][0]["name"] == "todos"
    result = zeus("plugins")
    assert "  tool zeus-corsair/todos" in result.out
    assert "for the other one write 'zeus-corsair/todos'" in result.err
    assert result.exit_code == 0


def test_blocked_and_broken_plugins_are_shown_as_such(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_DISABLE_PLUGINS", "todos")
    project.write("bad.py", "import no_such_module_anywhere\n")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\nplugins: {files: [bad.py]}\n")
    result = zeus("plugins", "list", "--config", "zeus.yaml")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.out.splitlines()}
    assert "blocked" in lines["todos"]
    assert "ZEUS_DISABLE_PLUGINS lists it" in lines["todos"]
    assert "failed" in lines["bad"]
    assert "no_such_module_anywhere" in result.err


def test_an_env_file_keeps_no_plugin_from_loading(zeus: Zeus, project: Project) -> None:
    """A cloned project's file would silence a plugin that the user has installed to watch all runs."""
    project.write(".env", "ZEUS_DISABLE_PLUGINS=todos\nZEUS_LOAD_PLUGINS=litellm\n")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\ntools: [todos]\n")
    assert "blocked" not in zeus("plugins", "list", "--config", "zeus.yaml").out
    assert zeus("validate").exit_code == 0


def test_sessions_are_listed_shown_and_deleted(zeus: Zeus, project: Project) -> None:
    project.agent(CALL, "done", "other")
    first = zeus("run", "zeus.yaml", "greet me", "-o", "json").json["session"]
    second = zeus("run", "zeus.yaml", "once more", "-o", "json").json["session"]

    lines = zeus("sessions", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [second, first]
    assert "greet me" in lines[2]
    shown = zeus("sessions", "show", first).out
    assert shown.index("greet me") < shown.index('→ echo(text="ahoy")') < shown.index("echo: ahoy")
    assert shown.rstrip().endswith("done")
    messages = zeus("sessions", "show", first, "--json").json["messages"]
    assert len(messages) == 4

    refused = zeus("sessions", "delete", first)
    assert refused.exit_code == 2
    assert "--yes" in refused.err
    assert zeus("sessions", "delete", first, "session_ffffffffffff", "--yes").exit_code == 2
    assert len(zeus("sessions", "list", "--json").json) == 2, "nothing is deleted when one is not there"
    assert zeus("sessions", "delete", first, "--yes").exit_code == 0
    assert [each["session"] for each in zeus("sessions", "list", "--json").json] == [second]
    assert zeus("sessions", "show", first).exit_code == 2


def test_sessions_are_those_of_the_agent_unless_all_are_asked_for(zeus: Zeus, project: Project) -> None:
    project.agent("done")
    zeus("run", "zeus.yaml", "mine")
    zeus("run", "zeus.yaml", "theirs", "--set", "name=other")
    assert [each["title"] for each in zeus("sessions", "list", "--json").json] == ["mine"]
    assert len(zeus("sessions", "list", "--all", "--json").json) == 2


def test_the_last_used_session_is_shown_by_default(zeus: Zeus, project: Project) -> None:
    project.agent("done")
    assert zeus("sessions", "show").exit_code == 2
    zeus("run", "zeus.yaml", "first")
    zeus("run", "zeus.yaml", "second")
    assert "second" in zeus("sessions", "show").out


def test_sessions_of_a_preset_are_found_without_a_config_here(zeus: Zeus, project: Project) -> None:
    project.agent("done")
    (project.folder / "zeus.yaml").rename(project.folder / "preset.yaml")
    zeus("run", "preset.yaml", "from a preset")
    assert [each["title"] for each in zeus("sessions", "list", "--json").json] == ["from a preset"]
    assert "from a preset" in zeus("sessions", "show").out


def test_looking_for_sessions_makes_no_database(zeus: Zeus, project: Project) -> None:
    project.agent()
    result = zeus("sessions", "list")
    assert (result.exit_code, result.out) == (0, "")
    assert "no session yet" in result.err
    assert zeus("sessions", "show", "session_000000000000").exit_code == 2
    assert not (project.folder / ".zeus").exists()


def test_the_schema_knows_the_installed_components(zeus: Zeus, project: Project) -> None:
    schema = zeus("schema").json
    assert "litellm" in json.dumps(schema["$defs"]["ref.model"])
    assert zeus("schema", "-o", "sub/zeus.schema.json").exit_code == 0
    assert json.loads((project.folder / "sub" / "zeus.schema.json").read_text()) == schema
    assert zeus("schema", "-o", "x", "--check").exit_code == 2


def test_the_committed_schema_is_up_to_date(zeus: Zeus, project: Project) -> None:
    result = zeus("schema", "--check")
    assert result.exit_code == 0, result.err


def test_a_stale_committed_schema_is_noticed_and_rewritten(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.write("schemas/zeus.schema.json", "{}\n")
    monkeypatch.setattr("zeus_runtime.registry.schema.schema_file", lambda: file)
    stale = zeus("schema", "--check")
    assert stale.exit_code == 1
    assert "not up to date" in stale.err
    assert zeus("schema", "--write").exit_code == 0
    assert zeus("schema", "--check").exit_code == 0


def test_a_schema_that_cannot_be_written_is_a_usage_error(zeus: Zeus, project: Project) -> None:
    project.write("file", "")
    result = zeus("schema", "-o", "file/zeus.schema.json")
    assert result.exit_code == 2
    assert "cannot be written" in result.err


def test_a_folder_where_only_a_preset_ran_shows_its_last_session(zeus: Zeus, project: Project) -> None:
    assert zeus("run", "quickstart", "Show me what you can do").exit_code == 0
    assert (project.folder / "zeus-quickstart" / "report.md").exists()
    assert "quickstart" in zeus("sessions", "list").out
    assert "Show me what you can do" in zeus("sessions", "show").out
    assert "write_file" in zeus("context", "show").out
