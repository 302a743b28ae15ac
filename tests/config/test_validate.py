"""From a Document to a Config: what is converted, resolved, reported; and what it costs to start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.config import ConfigError, check, load
from zeus_runtime.config.schema.composed import render
from zeus_runtime.config.schema.validate import read_early
from zeus_runtime.config.yaml.tree import Mark

WHOLE = "version: 1\nmodel: m\n"


def test_a_text_from_a_variable_becomes_what_the_schema_wants(checked) -> None:  # type: ignore[no-untyped-def]
    document = checked(
        WHOLE
        + "name: ${NUMBER}\nlimits: {max_steps: '${NUMBER}', timeout_seconds: '${NONE}', max_cost_usd: '${FLOAT}'}\n"
        "profiles: {strict: '${YES}'}\nmetadata: {any: '${NUMBER}'}\n",
        environ={"NUMBER": "12", "NONE": "null", "FLOAT": " 1.5 ", "YES": "true"},
    )
    assert document.value["name"] == "12"
    assert document.value["metadata"] == {"any": "12"}
    config = document.config()
    assert (config.limits.max_steps, config.limits.timeout_seconds, config.limits.max_cost_usd) == (
        12,
        None,
        1.5,
    )
    assert config.profiles.strict is True


def test_a_text_that_was_written_is_never_converted(checked) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match="remove the quotes"):
        checked(WHOLE + "limits: {max_steps: '12'}\n")


def test_paths_start_from_the_file_they_are_written_in(checked, write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write(
        "base/base.yaml", WHOLE + "prompt: {files: {core: ./core.md, soul: /abs/soul.md}}\nhomes: [../home]\n"
    )
    write("zeus.prod.yaml", "prompt: {files: {memory: m.md}}\nmodel: {replay: {cassette: run.jsonl}}\n")
    document = checked(
        "extends: base/base.yaml\n", env="prod", sets=["prompt.files.tools=t.md"], directory=tmp_path
    )
    config = document.config()
    assert config.prompt.files == {
        "core": str(tmp_path / "base/core.md"),
        "soul": "/abs/soul.md",
        "memory": str(tmp_path / "m.md"),
        "tools": str(tmp_path / "t.md"),
    }
    assert config.model.options == {"cassette": str(tmp_path / "run.jsonl")}
    assert [str(Path(home).resolve()) for home in config.homes] == [str(tmp_path / "home")]


def test_plugins_and_homes_can_be_read_before_components_are_known(loaded, tmp_path) -> None:  # type: ignore[no-untyped-def]
    document = loaded(
        "plugins: {disable: [a], files: [./p.py]}\n"
        "homes: ['${HOME_DIR}/zeus']\nmodel: 5\nlimits: {max_steps: '${UNSET}'}\n",
        environ={"HOME_DIR": "/h"},
    )
    early = read_early(document)
    assert early.plugins.disable == ("a",)
    assert early.plugins.files == (str(tmp_path / "p.py"),)
    assert early.homes == ("/h/zeus",)
    assert read_early(loaded(WHOLE)).plugins.only is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("plugins: {disabled: [a]}\n", "unknown-key"),
        ("plugins: a\n", "wrong-type"),
        ("homes: here\n", "wrong-type"),
        ("homes: ['${UNSET}']\n", "unset-variable"),
    ],
)
def test_what_is_read_early_is_validated_early(text: str, code: str, loaded) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        read_early(loaded(WHOLE + text))
    assert [problem.code for problem in raised.value.diagnostics] == [code]


def test_an_unset_variable_hides_no_other_problem_and_adds_none(checked) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        checked(WHOLE + "limits: {max_steps: '${UNSET}', colour: red}\nnmae: x\n")
    assert [problem.code for problem in raised.value.diagnostics] == [
        "unset-variable",
        "unknown-key",
        "unknown-key",
    ]


def test_an_unset_variable_hides_no_missing_key(checked) -> None:  # type: ignore[no-untyped-def]
    server = "mcpServers: {docs: {command: '${UNSET}'}}\nagents: {helper: {config: '${UNSET}'}}\n"
    with pytest.raises(ConfigError) as raised:
        checked(f"name: ${{UNSET}}\n{server}")
    found = [(problem.code, problem.message) for problem in raised.value.diagnostics]
    assert [code for code, _ in found].count("unset-variable") == 3
    missing = [message for code, message in found if code == "missing-key"]
    assert missing[:2] == ["the key 'version' is missing", "the key 'model' is missing"]
    assert "description" in " ".join(missing[2:])
    assert len(found) == 3 + len(missing)


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("timeout_seconds", "1,5", "write 1.5"),
        ("timeout_seconds", "-0,25", "write -0.25"),
        ("timeout_seconds", "1,500", "write 1500"),
        ("timeout_seconds", "1_000", "write 1000"),
        ("timeout_seconds", "'1.5'", "remove the quotes"),
        ("max_steps", "1,000,000", "write 1000000"),
        ("max_steps", "1,5", None),
        ("max_steps", "1,5,2", None),
        ("timeout_seconds", "1,000,5", None),
    ],
)
def test_the_hint_for_a_number_keeps_its_value(checked, key: str, value: str, hint: str | None) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        checked(f"{WHOLE}limits:\n  {key}: {value}\n")
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.hint) == ("wrong-type", hint)


def test_a_document_that_was_not_checked_gives_no_config_with_holes(loaded) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match="unset-variable"):
        loaded(WHOLE + "name: ${UNSET}\n").config()
    with pytest.raises(ConfigError, match=r"limits\.max_steps|expected int"):
        loaded(WHOLE + "limits: {max_steps: x}\n").config()


def test_the_users_own_keys_do_not_reach_the_config(checked) -> None:  # type: ignore[no-untyped-def]
    assert checked(WHOLE + "x-own: 1\nmetadata: {a: 1}\n").config().metadata == {"a": 1}


def known(name: str) -> list[str] | None:
    return None if name in ("m", "gpt-5.2") else ["gpt-5.2"]


def test_an_unknown_model_is_a_warning_and_strictly_an_error(checked) -> None:  # type: ignore[no-untyped-def]
    text = "version: 1\nmodel: gpt-5-2\n"
    (notice,) = checked(text, known_model=known).notices
    assert (notice.code, notice.severity, notice.position) == (
        "unknown-model",
        "warning",
        Mark("zeus.yaml", 2, 8),
    )
    assert "did you mean 'gpt-5.2'?" in notice.message
    with pytest.raises(ConfigError, match="unknown-model"):
        checked(text + "profiles: {strict: true}\n", known_model=known)


def test_a_model_the_user_describes_is_known(checked) -> None:  # type: ignore[no-untyped-def]
    text = "version: 1\nmodel: {litellm: {model: mine}}\n"
    text += "profiles: {strict: true, models: {mine: {max_input_tokens: 9}}}\n"
    assert checked(text, known_model=known).notices == ()


def test_a_replayed_model_is_no_model_name(checked) -> None:  # type: ignore[no-untyped-def]
    assert checked("version: 1\nmodel: {replay: {cassette: c}}\n", known_model=known).notices == ()


def test_other_layers_can_point_at_a_place(checked) -> None:  # type: ignore[no-untyped-def]
    document = checked(WHOLE + "prompt:\n  files: {core: gone.md}\n")
    problem = document.diagnostic(
        ("prompt", "files", "core"), "missing-file", "there is no file gone.md", hint="write it"
    )
    assert str(problem) == (
        "zeus.yaml:4:17: missing-file: there is no file gone.md\n"
        "  4 |   files: {core: gone.md}\n"
        "    |                 ^^^^^^^\n"
        "  help: write it"
    )
    absent = document.diagnostic(("limits", "max_steps"), "x", "y")
    assert absent.position == Mark("zeus.yaml", 1, 1)


def test_a_value_explains_itself(checked) -> None:  # type: ignore[no-untyped-def]
    document = checked(WHOLE + "limits: {max_steps: '${N}'}\n", environ={"N": "7"})
    assert document.explain("limits.max_steps").splitlines() == [
        "limits.max_steps = 7",
        "  set at zeus.yaml:3:21",
        "  filled in from the environment",
        "  Model calls in one run.",
    ]
    assert document.explain("retry.attempts").splitlines()[:2] == [
        "retry.attempts = 3",
        "  the default; not written in zeus.yaml",
    ]
    with pytest.raises(ConfigError, match="did you mean 'attempts'"):
        document.explain("retry.attemps")
    with pytest.raises(ConfigError, match="did you mean 'limits'"):
        document.explain("limit.max_steps")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("version: 1\nmodle: m\n", "model"),  # `mode` is as near, and nothing needs it
        ("version: 1\nmodel: m\nmodle: n\n", "mode"),
        ("version: 1\nmode: ask\nmodel: m\nmodle: n\n", "model"),
        ("version: 1\nlimits: {}\nmodel: m\nlimit: {}\n", "limits"),
    ],
)
def test_a_key_that_is_none_is_taken_for_one_that_is_missing_before_one_that_is_there(
    checked,  # type: ignore[no-untyped-def]
    text: str,
    meant: str,
) -> None:
    with pytest.raises(ConfigError) as raised:
        checked(text)
    said = next(each.message for each in raised.value.diagnostics if each.code == "unknown-key")
    assert said.endswith(f" is not a key of a config; did you mean {meant!r}?")


def test_checking_is_repeatable(checked, schema) -> None:  # type: ignore[no-untyped-def]
    once = checked(
        WHOLE + "prompt: {files: {core: ./c.md}}\nlimits: {max_steps: '${N}'}\n", environ={"N": "7"}
    )
    assert check(once, schema).value == once.value


PROGRAM = """
import json, sys
from pathlib import Path
from zeus_runtime.config import load, check
from zeus_runtime.config.schema.validate import read_early
document = load("zeus.yaml", directory=Path("."), environ={"KEY": "sk-12345678"}, sets=["limits.max_steps=3"])
read_early(document)
document = check(document, json.loads(Path("schema.json").read_text()))
document.config()
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {
    "pydantic",
    "asyncio",
    "rich",
    "jsonschema",
    "attrs",
    "langchain_core",
    "litellm",
    "sqlalchemy",
    "difflib",
    "click",
}


def test_loading_and_validating_a_sound_config_imports_nothing_heavy(schema: Any, write, tmp_path) -> None:  # type: ignore[no-untyped-def]
    write("schema.json", render(schema))
    write(
        "zeus.yaml", WHOLE + "tools: [filesystem, todos: ]\nmiddlewares: [history]\nmetadata: {a: '${KEY}'}\n"
    )
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": str(root), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(json.loads(done.stdout))
    assert "zeus_runtime.config.schema.validate" in modules
    assert not modules & HEAVY


def test_a_config_of_the_process_is_found_by_default(write, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    write("zeus.yaml", WHOLE + "name: ${ZEUS_TEST_NAME}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZEUS_TEST_NAME", "here")
    assert load().value["name"] == "here"


def test_a_list_of_models_is_refused_with_the_key_that_takes_it(checked) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as raised:
        checked("version: 1\nmodel: [gpt-5.2, gpt-4o]\n")
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.hint) == ("wrong-type", "write `model: {chain: […]}`")
