"""``zeus init``: one file, valid, never over another."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.init import DEFAULT_MODEL, MODEL_BY_KEY, proposed_model, written
from zeus_runtime.models.profiles import lookup


@pytest.fixture
def presets(project: Project) -> Project:
    project.write(".zeus/configs/default.yaml", "version: 1\nmodel: gpt-4o\nlimits: {max_steps: 5}\n")
    project.write(".zeus/configs/bare.yaml", "version: 1\nlimits: {max_steps: 6}\n")
    return project


def files(project: Project) -> list[str]:
    found = (path.relative_to(project.folder) for path in project.folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if not str(path).startswith(".zeus/configs"))


def test_the_defaults_make_a_valid_config_and_no_other_file(zeus: Zeus, presets: Project) -> None:
    result = zeus("init", "--yes")
    assert result.exit_code == 0, result.err
    assert result.out == ""
    assert files(presets) == ["zeus.yaml"]
    text = (presets.folder / "zeus.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    assert "extends: default\nname: project\n" in text
    assert zeus("validate").exit_code == 0
    assert "limits.max_steps = 5" in zeus("plan", "--explain", "limits.max_steps").out


def test_the_options_are_taken(zeus: Zeus, presets: Project) -> None:
    words = ["--name", "My agent: 1", "--model", "ollama/qwen3:8b", "--preset", "bare"]
    assert zeus("init", "sub/agent.yaml", *words).exit_code == 0
    plan = zeus("plan", "sub/agent.yaml", "--format", "json").json
    assert plan["agent"] == "My agent: 1"
    assert plan["model"]["options"]["model"] == "ollama/qwen3:8b"
    assert ".zeus/configs/bare.yaml" in plan_sources(plan, "limits.max_steps")


def plan_sources(plan: dict[str, list[dict[str, list[dict[str, str]]]]], path: str) -> list[str]:
    (value,) = [each for each in plan["values"] if str(each["path"]) == path]
    return [mark["source"] for mark in value["written"]]


def test_a_preset_without_a_model_gets_one_that_a_key_is_there_for(
    zeus: Zeus, presets: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-very-secret-value")
    assert zeus("init", "--preset", "bare").exit_code == 0
    text = (presets.folder / "zeus.yaml").read_text()
    assert f"model: {MODEL_BY_KEY['MISTRAL_API_KEY']}" in text
    assert "sk-very" not in text


def test_without_questions_the_default_preset_gets_the_model_of_the_key_that_is_there(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in MODEL_BY_KEY:
        monkeypatch.delenv(key, raising=False)
    assert zeus("init", "--yes").exit_code == 0
    assert "\nmodel: " not in (project.folder / "zeus.yaml").read_text()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-value")
    assert zeus("init", "--yes", "--force").exit_code == 0
    assert f"\nmodel: {MODEL_BY_KEY['ANTHROPIC_API_KEY']}\n" in (project.folder / "zeus.yaml").read_text()
    monkeypatch.setenv("ZEUS_MODEL", "ollama/qwen3:8b")
    assert zeus("init", "--yes", "--force").exit_code == 0
    assert "\nmodel: " not in (project.folder / "zeus.yaml").read_text()


def test_nothing_is_overwritten_unasked(zeus: Zeus, presets: Project) -> None:
    presets.write("zeus.yaml", "mine: true\n")
    refused = zeus("init", "--yes")
    assert refused.exit_code == 2
    assert "--force" in refused.err
    assert (presets.folder / "zeus.yaml").read_text() == "mine: true\n"
    assert zeus("init", "--yes", "--force").exit_code == 0
    assert zeus("validate").exit_code == 0


def test_what_would_not_be_valid_is_not_written(zeus: Zeus, presets: Project) -> None:
    result = zeus("init", "--preset", "baer", "--model", "gpt-5.2")
    assert result.exit_code == 3
    assert "did you mean 'bare'?" in result.err
    assert files(presets) == []


def test_with_nobody_to_ask_it_says_what_to_give(zeus: Zeus, presets: Project) -> None:
    result = zeus("init")
    assert result.exit_code == 2
    assert "--yes" in result.err
    assert files(presets) == []


@pytest.mark.parametrize("name", ["null", "a: b", "3", "# not", "${HOME}", "naïve", '"', "- x", "yes"])
def test_any_name_survives_the_yaml(zeus: Zeus, presets: Project, name: str) -> None:
    presets.write("zeus.yaml", written(name=name, model="gpt-5.2", preset="default"))
    assert zeus("plan", "--format", "json").json["agent"] == name


@pytest.mark.parametrize("model", [*MODEL_BY_KEY.values(), DEFAULT_MODEL])
def test_the_proposed_models_are_known(model: str) -> None:
    assert lookup(model).known


def test_the_first_key_decides() -> None:
    assert proposed_model({}) == DEFAULT_MODEL
    assert proposed_model({"OPENAI_API_KEY": ""}) == DEFAULT_MODEL
    assert proposed_model({"GEMINI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}).startswith("anthropic/")


@pytest.mark.parametrize("preset", ["default", "zeus", "economy", "quickstart"])
def test_each_commented_line_is_right_as_it_stands(zeus: Zeus, project: Project, preset: str) -> None:
    assert zeus("init", "--yes", "--preset", preset).exit_code == 0
    text = (project.folder / "zeus.yaml").read_text()
    commented = re.findall(r"^# ([a-z_]+: [^\n]+)$", text, re.MULTILINE)
    keys = [line.partition(":")[0] for line in commented]
    wanted = {
        "default": ["model", "instructions", "approvals", "memory"],
        "zeus": ["model", "instructions", "approvals"],
        "economy": ["model", "instructions", "approvals", "memory"],
        "quickstart": ["model", "instructions"],
    }
    assert keys == wanted[preset]
    before = zeus("plan", "--format", "json").json
    for line in commented:
        project.write("zeus.yaml", text.replace(f"# {line}\n", f"{line}\n"))
        shown = zeus("plan", "--format", "json")
        assert shown.exit_code == 0, shown.err
        # The commented model is what the preset has already.
        assert shown.json["digest"] != before["digest"] or line.startswith("model: ")


def test_what_init_writes_asks_before_it_writes(zeus: Zeus, project: Project) -> None:
    assert zeus("init", "--yes").exit_code == 0
    middlewares = zeus("plan", "--format", "json").json["middlewares"]
    (asks,) = [each["options"]["mode"] for each in middlewares if each["name"] == "approve"]
    assert asks == "allowlist"


def test_without_a_terminal_the_error_says_what_to_pass(zeus: Zeus, presets: Project) -> None:
    result = zeus("init")
    assert result.exit_code == 2
    assert "not a terminal, so no questions can be asked: pass --yes, --model or --preset" in result.err


def test_a_model_that_is_not_known_is_written_with_a_warning(zeus: Zeus, presets: Project) -> None:
    result = zeus("init", "--model", "gpt5")
    assert result.exit_code == 0
    assert (
        "zeus.yaml:7:8: warning: unknown-model: no model 'gpt5' is known; did you mean 'gpt-5'?" in result.err
    )
    assert "next: zeus plan, or zeus run 'What can you do?'" in result.err
    assert "unknown-model" not in zeus("init", "other.yaml", "--model", "gpt-5").err
