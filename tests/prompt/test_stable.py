"""Sections 1 to 6: which file, which variables, and what is said when something is wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config import ConfigError
from zeus_runtime.config.model import Mode, Prompt, TimeSection
from zeus_runtime.config.yaml.tree import Mark
from zeus_runtime.prompt import FILES, STABLE_SECTIONS, Section, check_prompt, prompt_files, stable_sections
from zeus_runtime.prompt.stable import CODES
from zeus_runtime.prompt.variables import names, substitute, uses
from zeus_runtime.tools import visible


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "prompts").mkdir(parents=True)
    for row in FILES.values():
        for name in row.values():
            (folder / "prompts" / name).write_text(f"{name} for {{{{agent_name}}}}\n")
    return folder


def sections(
    home: Path, prompt: Prompt | None = None, mode: Mode = "agent", **changes: Any
) -> dict[Section, str]:
    return stable_sections(
        prompt or Prompt(),
        **{
            "mode": mode,
            "agent_name": "Ada",
            "workspace": "/w",
            "tools": visible([], mode),
            "homes": [home],
            **changes,
        },
    )


def problems(home: Path, prompt: Prompt, **changes: Any) -> list[str]:
    return [str(problem) for problem in check_prompt(prompt, **{"homes": [home], **changes})]


# Files


@pytest.mark.parametrize(
    ("mode", "files"),
    [
        ("agent", "CORE.md SOUL.md TOOLS.md WORKFLOW.md MEMORY.md agent_mode.md"),
        ("ask", "CORE.md SOUL.md TOOLS.md WORKFLOW_SIMPLE.md MEMORY_SIMPLE.md ask_mode.md"),
        ("plan", "CORE.md SOUL.md TOOLS.md WORKFLOW_PLAN.md MEMORY_SIMPLE.md plan_mode.md"),
    ],
)
def test_each_mode_has_its_files(home: Path, mode: Any, files: str) -> None:
    found = prompt_files(mode, homes=[home], overrides={})
    assert [file.path.name for file in found.values()] == files.split()
    assert tuple(found) == STABLE_SECTIONS


def test_the_nearest_home_wins_by_file_name(home: Path, tmp_path: Path) -> None:
    near = tmp_path / "near"
    (near / "prompts").mkdir(parents=True)
    (near / "prompts/SOUL.md").write_text("wild")
    made = sections(home, homes=[near, home])
    assert made[Section.SOUL] == "wild"
    assert made[Section.CORE] == "CORE.md for Ada\n"


def test_a_file_the_config_names_wins_in_every_mode(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine in {{mode}}")
    for mode in get_args(Mode):
        made = sections(home, Prompt(files={"mode": str(tmp_path / "mine.md")}), mode=mode)
        assert made[Section.MODE] == f"mine in {mode}"


def test_an_empty_file_leaves_its_section_out(home: Path) -> None:
    (home / "prompts/SOUL.md").write_text("")
    assert sections(home)[Section.SOUL] == ""


def test_a_bom_and_windows_line_ends_do_not_reach_the_prompt(home: Path) -> None:
    (home / "prompts/SOUL.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert sections(home)[Section.SOUL] == "one\ntwo\n"


def test_a_missing_file_of_the_config_is_reported_at_its_place(home: Path) -> None:
    place = Mark("zeus.yaml", 4, 11)
    prompt = Prompt(files={"soul": "gone.md"})
    found = problems(
        home, prompt, position=lambda path: place if path == ("prompt", "files", "soul") else None
    )
    assert found == [
        "zeus.yaml:4:11: file-not-found: the prompt file gone.md does not exist\n"
        "  help: create it, or correct prompt.files"
    ]


def test_a_file_that_no_home_has_is_reported_with_where_was_looked(home: Path) -> None:
    (home / "prompts/WORKFLOW_PLAN.md").unlink()
    [found] = problems(home, Prompt())
    assert "no Home has the prompt file WORKFLOW_PLAN.md" in found
    assert f"looked in {home / 'prompts'}" in found


def test_every_unreadable_file_is_reported_at_once(home: Path) -> None:
    (home / "prompts/CORE.md").write_bytes(b"fine\ncaf\xe9\n")
    (home / "prompts/SOUL.md").unlink()
    (home / "prompts/SOUL.md").mkdir()
    (home / "prompts/TOOLS.md").unlink()
    os.mkfifo(home / "prompts/TOOLS.md")
    found = problems(home, Prompt())
    assert len(found) == 3
    assert "is not a regular file" in found[2]
    assert "not-utf8" in found[0]
    assert "not UTF-8 in line 2" in found[0]
    assert "unreadable-file" in found[1]


def test_a_section_without_a_file_cannot_be_given_one(home: Path) -> None:
    [found] = problems(home, Prompt(files={"time": "x.md"}))  # type: ignore[dict-item]
    assert "no section 'time' has a file" in found


# Variables


def test_variables_are_put_in_and_values_are_not_looked_into(home: Path) -> None:
    (home / "prompts/CORE.md").write_text(
        "{{ agent_name }} of {{team}} at {{workspace}} in {{mode}}: {{tools_description}}"
    )
    made = sections(home, Prompt(variables={"team": "{{agent_name}}"}))
    assert made[Section.CORE] == "Ada of {{agent_name}} at /w in agent: There are no tools you can call now."


def test_single_braces_and_escaped_braces_are_text(home: Path) -> None:
    (home / "prompts/CORE.md").write_text(r'{"a": {"b": 1}} {agent_name} \{{agent_name}} }}')
    assert sections(home)[Section.CORE] == '{"a": {"b": 1}} {agent_name} {{agent_name}} }}'


def test_an_unknown_variable_is_reported_at_its_place_with_a_suggestion(home: Path) -> None:
    (home / "prompts/CORE.md").write_text("# Core\n\nI am {{agnet_name}}.\n")
    assert problems(home, Prompt()) == [
        f"{home}/prompts/CORE.md:3:6: unknown-variable: {{{{agnet_name}}}} has no value; did you mean 'agent_name'?\n"
        "  3 | I am {{agnet_name}}.\n"
        "    |      ^^^^^^^^^^^^^^\n"
        "  help: add it to prompt.variables, or write \\{{ for literal braces; known: agent_name, mode, "
        "tools_description, workspace"
    ]


@pytest.mark.parametrize(
    "braces", ["{{#if x}}", "{{ a.b }}", "{{a|upper}}", "{{}}", "{{{agent_name}}}", "${{ x-y }}", "{{"]
)
def test_what_is_no_plain_name_is_reported_not_guessed(home: Path, braces: str) -> None:
    (home / "prompts/CORE.md").write_text(f"a\nb {braces} c")
    [found] = problems(home, Prompt())
    assert f"CORE.md:2:{4 if braces.startswith('$') else 3}: bad-braces" in found


def test_problems_of_files_of_other_modes_are_reported_too(home: Path) -> None:
    (home / "prompts/plan_mode.md").write_text("{{nope}}")
    with pytest.raises(ConfigError) as caught:
        sections(home, mode="agent")
    assert caught.value.exit_code == 3
    assert "plan_mode.md:1:1" in str(caught.value)


def test_every_problem_is_reported(home: Path) -> None:
    (home / "prompts/CORE.md").write_text("{{one}} {{two}}")
    (home / "prompts/SOUL.md").write_text("{{three}}")
    assert len(problems(home, Prompt(variables={"four": ""}))) == 4


def test_an_unused_variable_is_an_error_at_its_place(home: Path) -> None:
    (home / "prompts/CORE.md").write_text("{{team}}")
    place = Mark("zeus.yaml", 7, 3)
    found = problems(home, Prompt(variables={"teem": "x", "team": "y"}), position=lambda path: place)
    assert found == [
        "zeus.yaml:7:3: unused-variable: no prompt file of any mode uses {{teem}}; did you mean 'team'?\n"
        "  help: use it in a prompt file, or remove it"
    ]


def test_a_variable_used_in_one_mode_only_is_used(home: Path) -> None:
    (home / "prompts/ask_mode.md").write_text("{{team}}")
    assert problems(home, Prompt(variables={"team": "x"})) == []


def test_zeus_own_variables_cannot_be_set(home: Path) -> None:
    [found] = problems(home, Prompt(variables={"mode": "x"}))
    assert "reserved-variable: 'mode' is filled by Zeus" in found


def test_an_unknown_time_zone_is_reported_before_a_run(home: Path) -> None:
    [found] = problems(home, Prompt(time=TimeSection(timezone="Europe/Berlim")))
    assert "unknown-timezone: there is no time zone 'Europe/Berlim'; did you mean 'Europe/Berlin'?" in found


@given(st.text(max_size=40).filter(lambda text: "{{" not in text))
def test_text_without_double_braces_is_untouched(text: str) -> None:
    assert substitute(text, {}) == text
    assert not list(uses(text))


@given(st.text("ab{}\\ \n", max_size=30))
def test_a_text_without_problems_substitutes_and_the_places_are_right(text: str) -> None:
    found = list(uses(text))
    for use in found:
        assert text.split("\n")[use.line - 1][use.column - 1 :].startswith(use.written.split("\n")[0])
    if all(use.name for use in found):
        result = substitute(text, dict.fromkeys(names([text]), "V"))
        assert result.count("V") == len(found)


def test_sections_are_the_same_at_every_call(home: Path) -> None:
    assert sections(home) == sections(home)


def test_every_code_is_explained_in_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs/how-to/prompts.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", docs, re.M) == list(CODES)


def test_no_other_code_is_reported(home: Path) -> None:
    (home / "prompts/CORE.md").write_text("{{one}} {{ one. }}")
    (home / "prompts/SOUL.md").write_bytes(b"\xff\xfe")
    prompt = Prompt(
        files={"time": "x", "tools": "gone", "mode": str(home)},  # type: ignore[dict-item]
        variables={"mode": "", "extra": ""},
        time=TimeSection(timezone="Nowhere"),
    )
    broken = {problem.code for problem in check_prompt(prompt, homes=[home])}
    (home / "prompts/SOUL.md").write_text("")
    useless = {problem.code for problem in check_prompt(Prompt(variables=prompt.variables), homes=[home])}
    assert sorted(broken | useless) == list(CODES)
