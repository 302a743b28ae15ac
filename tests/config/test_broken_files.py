"""Broken configs, each with the exact text a user reads. ``ZEUS_GOLDEN=1`` rewrites the texts."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.config import ConfigError, check, load, render
from zeus_runtime.config.messages.diagnostics import CODES

BROKEN = Path(__file__).parent / "broken"
CASES = sorted(path.stem for path in BROKEN.glob("*.yaml") if not path.stem.endswith(("-two", ".prod")))
SECRETS = (
    "sk-very-secret-0001",
    "12345678901",
    "literal-secret-2",
    "sk-unclosed-secret",
    "sk-on-the-command",
    "half-a",
)
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "diagnostics.md"


def failure(name: str, folder: Path, schema: dict[str, Any]) -> ConfigError:
    """The error of one broken file, loaded as its ``#:`` lines say, in a copy of the folder."""
    shutil.copytree(BROKEN, folder, dirs_exist_ok=True)
    header = re.findall(
        r"^#: (\w+) (.*)$", (BROKEN / f"{name}.yaml").read_bytes().decode("utf-8", "replace"), re.M
    )
    wanted = {key: [value for other, value in header if other == key] for key, _ in header}
    if dotenv := wanted.get("dotenv"):
        (folder / ".env").write_text("\n".join(dotenv))
    with pytest.raises(ConfigError) as raised:
        check(
            load(
                f"{name}.yaml",
                env=wanted.get("env", [None])[0],
                sets=wanted.get("set", []),
                environ=dict(line.split("=", 1) for line in wanted.get("environ", [])),
                homes=[folder / "home"],
                directory=folder,
            ),
            schema,
            known_model=lambda model: (
                None if model == "gpt-5.2" else ["gpt-5.2"] if model == "gpt-5-2" else []
            ),
        )
    return raised.value


@pytest.mark.parametrize("name", CASES)
def test_a_broken_file_is_explained_exactly(name: str, tmp_path: Path, schema: dict[str, Any]) -> None:
    error = failure(name, tmp_path, schema)
    text = str(error) + "\n"
    golden = BROKEN / f"{name}.txt"
    if os.environ.get("ZEUS_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert error.exit_code == 3


@pytest.mark.parametrize(
    "name", [name for name in CASES if "secret" in name or "dotenv" in name or name == "settings"]
)
def test_no_format_of_an_explanation_shows_a_secret(
    name: str, tmp_path: Path, schema: dict[str, Any]
) -> None:
    error = failure(name, tmp_path, schema)
    shown = [str(error), repr(error), repr(error.diagnostics), *error.args]
    shown += [render(error.diagnostics, output) for output in ("text", "json", "github")]
    assert not [secret for secret in SECRETS for text in shown if secret in text]


def test_every_code_has_a_broken_file_and_a_place_in_the_docs(tmp_path: Path, schema: dict[str, Any]) -> None:
    seen = {
        diagnostic.code for name in CASES for diagnostic in failure(name, tmp_path / name, schema).diagnostics
    }
    elsewhere = {"unreadable-file", "invalid", "preset-hides-file", "preset-of-project"}
    assert seen | elsewhere == set(CODES)
    documented = re.findall(r"^## `([\w-]+)`$", DOCS.read_text(), re.M)
    assert documented == sorted(CODES)


def test_problems_are_sorted_by_position(tmp_path: Path, schema: dict[str, Any]) -> None:
    marks = [problem.position for problem in failure("component-options", tmp_path, schema).diagnostics]
    lines = [(mark.line, mark.column) for mark in marks if mark]
    assert lines == sorted(lines)
    assert len(set(lines)) == len(lines) >= 6


def test_the_json_format_has_place_code_and_hint(tmp_path: Path, schema: dict[str, Any]) -> None:
    error = failure("misplaced-key", tmp_path, schema)
    (problem,) = json.loads(render(error.diagnostics, "json"))["diagnostics"]
    assert problem == {
        "code": "unknown-key",
        "severity": "error",
        "message": "'max_steps' is not a key of a config",
        "hint": "did you mean limits.max_steps?",
        "path": ["max_steps"],
        "file": "misplaced-key.yaml",
        "line": 3,
        "column": 1,
        "related": [],
    }


def test_the_github_format_is_one_escaped_command_per_problem(tmp_path: Path, schema: dict[str, Any]) -> None:
    error = failure("overlay", tmp_path, schema)
    assert render(error.diagnostics, "github").splitlines() == [
        "::error file=overlay.prod.yaml,line=2,col=14,title=wrong-type::expected a whole number, got the text 'many'"
        "%0Aoverlay.prod.yaml:2 overrides overlay.yaml:4 overrides home/configs/base.yaml:4",
        "::error file=overlay.prod.yaml,line=3,col=7,title=wrong-type::expected text, got a list"
        "%0Aoverlay.prod.yaml:3 overrides overlay.yaml:5",
    ]


def examples() -> list[tuple[str, str | None, str]]:
    """The documented codes with their YAML, if it is one file, and the text they show."""
    sections = re.split(r"^## `([\w-]+)`$", DOCS.read_text(), flags=re.M)[1:]
    found = []
    for code, body in zip(sections[::2], sections[1::2], strict=True):
        blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", body, re.M | re.S))
        assert "Remedy: " in body, code
        if "text" in blocks:
            found.append((code, blocks.get("yaml"), blocks["text"]))
    return found


@pytest.mark.parametrize(("code", "yaml", "text"), examples())
def test_a_documented_example_says_what_the_docs_say(
    code: str, yaml: str | None, text: str, tmp_path: Path, schema: dict[str, Any]
) -> None:
    assert f"{code}: " in text
    if yaml is None:
        assert any(text in golden.read_text() for golden in BROKEN.glob("*.txt"))
        return
    (tmp_path / "zeus.yaml").write_text(yaml)
    with pytest.raises(ConfigError) as raised:
        check(load(directory=tmp_path, environ={}), schema)
    assert str(raised.value) + "\n" == text
