"""``zeus validate``: every problem, in three formats."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.config import ConfigError, render
from zeus_runtime.config.messages.diagnostics import Diagnostic, listing

BROKEN = "version: 1\nmodel: gpt-5.2\nlimit:\n  max_steps: 3\nmode: chef\n"


def test_a_valid_config_is_ok(zeus: Zeus, project: Project) -> None:
    project.agent()
    result = zeus("validate")
    assert (result.exit_code, result.out, result.err) == (0, "zeus.yaml: ok\n", "")


def test_every_problem_of_every_file_is_reported(zeus: Zeus, project: Project) -> None:
    project.agent()
    project.write("broken.yaml", BROKEN)
    result = zeus("validate", "zeus.yaml", "broken.yaml")
    assert result.exit_code == 3
    assert "zeus.yaml: ok" in result.out
    assert "broken.yaml:3:1: unknown-key" in result.out
    assert "did you mean 'limits'?" in result.out
    assert "broken.yaml:5:7: wrong-value" in result.out


def test_no_line_of_a_files_name_begins_a_line_of_the_report(zeus: Zeus, project: Project) -> None:
    forged = "prod.yaml: ok\n::stop-commands::x"
    names = [f"{each}\n{forged}\n\u202e{each}.yaml" for each in ("good", "broken", "extending", "twice")]
    good = project.agent().read_text()
    for name, text in zip(
        names,
        (good, BROKEN, f"{good}extends: {json.dumps(f'no{chr(10)}{forged}')}\n", f"{good}name: other\n"),
        strict=True,
    ):
        project.write(name, text)
    overlay = ["--env", f"e\n{forged}", "--set", f"a\n{forged}=1"]
    for words in (names, [f"missing\n{forged}"], ["zeus.yaml", *overlay[:2]], ["zeus.yaml", *overlay[2:]]):
        shown = zeus("validate", *words).out.splitlines()
        assert shown
        assert not [line for line in shown if line.startswith(("prod.yaml", "::")) or "\u202e" in line]
    shown = zeus("validate", *names).out
    assert shown.startswith("good\\nprod.yaml: ok\\n::stop-commands::x\\n\\u202egood.yaml: ok\n")
    assert "note: first written at twice\\nprod.yaml" in shown
    assert (
        zeus("validate", names[1], "--format", "json").json["files"][0]["diagnostics"][0]["file"] == names[1]
    )


def test_json_has_positions(zeus: Zeus, project: Project) -> None:
    project.write("broken.yaml", BROKEN)
    result = zeus("validate", "broken.yaml", "--format", "json")
    assert result.exit_code == 3
    (file,) = result.json["files"]
    assert (result.json["ok"], file["name"], file["exit_code"]) == (False, "broken.yaml", 3)
    places = [(each["line"], each["column"], each["code"]) for each in file["diagnostics"]]
    assert (3, 1, "unknown-key") in places


def test_github_gets_workflow_commands_and_nothing_else(zeus: Zeus, project: Project) -> None:
    project.agent()
    project.write("broken.yaml", BROKEN)
    result = zeus("validate", "zeus.yaml", "broken.yaml", "--format", "github")
    assert result.exit_code == 3
    assert result.out.splitlines()
    assert all(line.startswith("::error file=broken.yaml,line=") for line in result.out.splitlines())


def test_warnings_are_errors_when_strict(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5-2\n")
    lenient = zeus("validate")
    assert lenient.exit_code == 0
    assert "gpt-5.2" in lenient.out
    strict = zeus("validate", "--strict")
    assert strict.exit_code == 3


def test_what_only_the_plan_sees_is_reported_too(zeus: Zeus, project: Project) -> None:
    project.agent(more="limits: {max_cost_usd: 1}\n")
    result = zeus("validate")
    assert result.exit_code == 3
    assert "unknown-price" in result.out


def test_a_missing_plugin_is_4(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\nplugins: {files: [gone.py]}\n")
    assert zeus("validate").exit_code == 4


def test_an_error_in_overrides_shows_its_line_without_secrets(zeus: Zeus, project: Project) -> None:
    project.write("sub.yaml", "version: 1\nmodel: gpt-5.2\n")
    project.write(
        "zeus.yaml",
        """\
version: 1
model: gpt-5.2
tools: [subagents]
agents:
  helper:
    description: helps
    config: sub.yaml
    overrides:
      limits: {max_step: 3}
      model: {litellm: {model: gpt-5.2, api_key: hunter2-secret, foo: 1}}
""",
    )
    result = zeus("validate")
    assert result.exit_code == 3
    assert "  9 |       limits: {max_step: 3}\n    |                ^^^^^^^^" in result.out
    assert " 10 |       model: {litellm: {model: gpt-5.2, api_key: **********, foo: 1}}" in result.out
    assert "hunter2" not in result.out + result.err


def test_overlays_and_overrides_are_validated(zeus: Zeus, project: Project) -> None:
    project.agent()
    project.write("zeus.prod.yaml", "limits: {max_steps: 0}\n")
    assert "zeus.prod.yaml:1:" in zeus("validate", "--env", "prod").out
    assert zeus("validate", "--set", "limits.max_steps=0").exit_code == 3
    assert zeus("validate", "--env", "prod", "--set", "limits.max_steps=1").exit_code == 0


def test_standard_input_is_read_once(zeus: Zeus, project: Project) -> None:
    assert zeus("validate", "-", stdin="version: 1\nmodel: gpt-5.2\n").out == "<stdin>: ok\n"
    result = zeus("validate", "-", "-", stdin="version: 1\nmodel: gpt-5.2\n")
    assert result.exit_code == 2
    assert "only once" in result.err


def test_no_config_at_all_says_what_to_do(zeus: Zeus, project: Project) -> None:
    result = zeus("validate")
    assert result.exit_code == 3
    assert "zeus init" in result.out


def test_a_harmful_order_is_shown_once_with_its_place_and_fails_when_strict(
    zeus: Zeus, project: Project
) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\nmiddlewares:\n  - summarization\n  - eviction\n")
    lenient = zeus("validate")
    assert lenient.exit_code == 0
    assert lenient.out.count("harmful-order") == 1
    assert lenient.out.startswith(
        "zeus.yaml:5:5: warning: harmful-order: summarization stands above eviction: "
    )
    assert zeus("validate", "--strict").exit_code == 3


def test_a_diagnostic_has_a_line_for_each_of_its_texts() -> None:
    forged = "one\n  help: two"
    shown = render([Diagnostic("invalid", forged, hint=forged, related=((forged, None),))])
    written = "one\\n  help: two"
    assert shown.splitlines() == [f"invalid: {written}", f"  note: {written}", f"  help: {written}"]
    error = ConfigError([Diagnostic("invalid", forged, hint=forged)])
    assert (error.message, error.remedy) == (written, written)
    assert listing(["a\nprod.yaml: ok", "b"]) == "a\\nprod.yaml: ok, b"


KEY = "a is missing\n  help: forged\n"


@pytest.mark.parametrize(
    "config",
    [
        {"mcpServers": {KEY: {"command": "x", "argss": []}}},
        {"mcpServers": {KEY: {"command": "x", "env": {"A": "${NOT_SET}"}}}},
        {"knowledge": {KEY: {"x": 1}}},
        {"agents": {KEY: {"modle": 1}}},
        {"model": {"provider": "openai", "name": KEY}},
    ],
)
@pytest.mark.parametrize("verb", ["validate", "doctor"])
def test_no_line_of_a_key_begins_a_line_of_the_report(
    zeus: Zeus, project: Project, config: dict[str, object], verb: str
) -> None:
    project.write("zeus.yaml", json.dumps({"version": 1, "model": "gpt-4o", **config}))
    answer = zeus(verb)
    shown = (answer.out + answer.err).splitlines()
    assert any("forged" in line for line in shown)
    assert not [line for line in shown if line.strip().startswith("help: forged")]
