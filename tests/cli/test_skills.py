"""``zeus skills``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Project, Zeus
from tests.support.skills import OFFICE, write_skill

YAML = "version: 1\nmodel: gpt-4o\nhomes: [home]\nmiddlewares: [skills: {%s}]\n"


def rows(out: str) -> dict[str, str]:
    return {line.split()[0]: line for line in out.splitlines()[1:]}


def write(project: Project, folder: Path, options: str = "") -> None:
    project.write("zeus.yaml", YAML % options)
    write_skill(folder / "home/skills", "tables", files=OFFICE)
    write_skill(folder / ".claude/skills", "theirs", extra="colour: red\n")


def test_skills_are_listed_with_their_status_and_what_is_wrong_with_them(
    zeus: Zeus, project: Project
) -> None:
    write(project, project.folder)
    result = zeus("skills", "list")
    listed = rows(result.out)
    assert "offered" in listed["tables"]
    assert "untrusted" in listed["theirs"]
    assert ".claude/skills/theirs/SKILL.md:4:1: warning: the key 'colour' is not read" in result.err
    assert "trust_project: true" in result.err


def test_trust_in_the_yaml_is_seen(zeus: Zeus, project: Project) -> None:
    write(project, project.folder, "trust_project: true")
    assert "offered" in rows(zeus("skills", "list").out)["theirs"]


def test_a_shadowed_skill_says_by_which(zeus: Zeus, project: Project) -> None:
    write(project, project.folder, "trust_project: true")
    write_skill(project.folder / ".claude/skills", "tables")
    found = zeus("skills", "list", "--json").json
    (shadowed,) = [each for each in found if each["status"] == "shadowed"]
    assert shadowed["shadowed_by"].endswith(".claude/skills/tables/SKILL.md")


def test_a_skill_is_shown_with_its_files_and_instructions(zeus: Zeus, project: Project) -> None:
    write(project, project.folder)
    result = zeus("skills", "show", "tables")
    assert "references/format.md (28 bytes)" in result.out
    assert "Read references/format.md first." in result.out


def test_a_name_that_is_none_is_told_with_a_suggestion(zeus: Zeus, project: Project) -> None:
    write(project, project.folder)
    result = zeus("skills", "show", "tabels")
    assert result.exit_code == 2
    assert "did you mean 'tables'" in result.err


def test_a_config_without_the_middleware_is_told_that_its_model_gets_none(
    zeus: Zeus, project: Project
) -> None:
    write(project, project.folder)
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nhomes: [home]\n")
    assert "its model gets none" in zeus("skills", "list").err
