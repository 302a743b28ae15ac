"""Skills are found in the project and every Home; the nearest of a name wins, and nothing untrusted is offered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.skills import OFFICE, PUBLIC, write_skill
from zeus_runtime.skills import Skills, find_skills, has_skills, skill_roots


def found(folder: Path, *homes: Path, trust: bool = True) -> Skills:
    roots = skill_roots(directory=folder, workspace=folder, homes=homes)
    return find_skills(roots, trust_project=trust)[0]


def by_status(skills: Skills) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for each in skills.all:
        groups.setdefault(each.status, []).append(each.name)
    return groups


@pytest.mark.parametrize("place", [".agents/skills", ".zeus/skills", ".claude/skills"])
def test_the_projects_three_folders_are_looked_into(tmp_path: Path, place: str) -> None:
    write_skill(tmp_path / place, "tables")
    assert [each.name for each in found(tmp_path).offered] == ["tables"]


def test_skills_of_every_home_are_found_and_the_nearest_wins(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    write_skill(near / "skills", "tables", "near")
    write_skill(far / "skills", "tables", "far")
    write_skill(far / "skills", "charts", "far")
    skills = found(tmp_path / "project", near, far)
    assert {each.name: each.description for each in skills.offered} == {"tables": "near", "charts": "far"}
    (shadowed,) = [each for each in skills.all if each.status == "shadowed"]
    assert shadowed.by == near / "skills/tables/SKILL.md"


def test_what_the_project_brings_is_not_offered_unless_it_is_trusted(tmp_path: Path) -> None:
    write_skill(tmp_path / ".claude/skills", "tables")
    assert by_status(found(tmp_path, trust=False)) == {"untrusted": ["tables"]}
    roots = skill_roots(directory=tmp_path, workspace=tmp_path, homes=())
    assert not has_skills(roots, trust_project=False)
    assert has_skills(roots, trust_project=True)


def test_an_untrusted_skill_takes_no_name_from_a_trusted_one(tmp_path: Path) -> None:
    write_skill(tmp_path / ".agents/skills", "tables", "of the project")
    home = tmp_path / "home"
    write_skill(home / "skills", "tables", "mine")
    assert [each.description for each in found(tmp_path, home, trust=False).offered] == ["mine"]
    assert [each.description for each in found(tmp_path, home, trust=True).offered] == ["of the project"]


def test_the_projects_own_home_is_the_projects(tmp_path: Path) -> None:
    write_skill(tmp_path / ".zeus/skills", "tables")
    assert by_status(found(tmp_path, tmp_path / ".zeus", trust=False)) == {"untrusted": ["tables"]}


def test_the_layout_of_the_public_skills_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in PUBLIC:
        write_skill(home / "skills", name, extra="license: Proprietary. LICENSE.txt has it\n", files=OFFICE)
    skills = found(tmp_path, home)
    assert [each.name for each in skills.all] == PUBLIC
    assert len(skills.offered) == 17
    assert not any(each.warnings for each in skills.all)


def test_skills_in_folders_of_a_kind_are_found_and_templates_inside_a_skill_are_not(tmp_path: Path) -> None:
    write_skill(tmp_path / "home/skills/document-skills", "pdf", files=OFFICE)
    assert [each.name for each in found(tmp_path, tmp_path / "home").all] == ["pdf"]


def test_the_front_matter_names_a_skill_and_a_name_that_is_not_the_folders_is_warned_of(
    tmp_path: Path,
) -> None:
    folder = write_skill(tmp_path / "home/skills", "tables")
    folder.rename(folder.with_name("folder"))
    (skill,) = found(tmp_path, tmp_path / "home").all
    assert skill.name == "tables"
    assert "'folder'" in skill.warnings[0].message


def test_a_skill_with_nothing_to_say_what_it_is_for_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "home/skills/empty").mkdir(parents=True)
    (tmp_path / "home/skills/empty/SKILL.md").write_text("")
    assert by_status(found(tmp_path, tmp_path / "home")) == {"unusable": ["empty"]}


def test_a_file_that_links_out_of_its_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("---\nname: x\ndescription: the secret\n---\n")
    (tmp_path / "home/skills/x").mkdir(parents=True)
    (tmp_path / "home/skills/x/SKILL.md").symlink_to(tmp_path / "secret")
    (skill,) = found(tmp_path, tmp_path / "home").all
    assert (skill.status, skill.description) == ("unusable", "")


@pytest.mark.timeout(20)
def test_a_pipe_in_a_files_place_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "home/skills/x").mkdir(parents=True)
    os.mkfifo(tmp_path / "home/skills/x/SKILL.md")
    assert by_status(found(tmp_path, tmp_path / "home")) == {"unusable": ["x"]}


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write_skill(tmp_path / "home/skills", "tables")
    (tmp_path / "home/skills/again").symlink_to(tmp_path / "home/skills")
    assert found(tmp_path, tmp_path / "home").by_name.keys() == {"tables"}


def test_a_link_to_itself_or_to_nothing_hides_nothing_beside_it(tmp_path: Path) -> None:
    write_skill(tmp_path / "home/skills", "tables")
    (tmp_path / "home/skills/itself").symlink_to("itself")
    (tmp_path / "home/skills/nothing").symlink_to("nowhere")
    assert found(tmp_path, tmp_path / "home").by_name.keys() == {"tables"}


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "home/skills", "tables")
    write_skill(tmp_path / "home/skills", "charts")
    roots = skill_roots(directory=tmp_path, workspace=tmp_path, homes=[tmp_path / "home"])
    first, known = find_skills(roots, trust_project=False)
    write_skill(tmp_path / "home/skills", "tables", "something else altogether")
    second, _ = find_skills(roots, trust_project=False, known=known)
    assert second.by_name["charts"] is first.by_name["charts"]
    assert second.by_name["tables"].description == "something else altogether"
    assert folder.is_dir()
