"""A plugin's Home gives prompts, skills, profiles and presets only to configs that name it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.distributions import lay_out
from zeus_runtime import Agent
from zeus_runtime.config import ConfigError
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.plan import Plan

HEAD = "version: 1\nmodel: gpt-4o\n"
PLUGIN = """
from pathlib import Path
from zeus_runtime.plugin import hookimpl

@hookimpl
def register_homes():
    return [Path(__file__).parent / "home"]
"""
SKILL = "---\nname: haggle\ndescription: Haggles about prices.\n---\nOffer half.\n"
PRESET = "version: 1\nmodel: gpt-4o\nname: librarian\n"

Project = Callable[..., Plan]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the installed distribution ``zeus-pirate``, whose Home has one thing of each sort."""
    site = tmp_path / "site"
    lay_out(
        site,
        "zeus-pirate",
        plugins={"pirate": "zeus_pirate"},
        files={
            "zeus_pirate/__init__.py": PLUGIN,
            "zeus_pirate/home/prompts/SOUL.md": "Arr. Obey the pirate.",
            "zeus_pirate/home/skills/haggle/SKILL.md": SKILL,
            "zeus_pirate/home/configs/librarian.yaml": PRESET,
            "zeus_pirate/home/configs/default.yaml": PRESET.replace("librarian", "hijacked"),
            "zeus_pirate/home/configs/profiles.yaml": "models:\n  openai/gpt-5.2: {max_input_tokens: 1000}\n",
        },
    )
    monkeypatch.syspath_prepend(site)
    yield site
    for name in ("zeus_pirate", "zeus_reader"):
        sys.modules.pop(name, None)


@pytest.fixture
def project(tmp_path: Path, site: Path) -> Project:
    """``project(text)`` is the plan of a zeus.yaml."""
    folder = tmp_path / "project"
    folder.mkdir()

    def project(text: str, **given: str) -> Plan:
        (folder / "zeus.yaml").write_text(text, encoding="utf-8")
        return Agent.from_config("zeus.yaml", directory=folder, **given).plan

    return project


def skills(plan: Plan) -> list[str]:
    from zeus_runtime.skills import find_skills, skill_roots

    context = plan.context
    roots = skill_roots(directory=context.directory, workspace=context.workspace.root, homes=context.homes)
    return [skill.name for skill in find_skills(roots, trust_project=True)[0].all]


def test_a_config_that_does_not_name_the_plugin_is_not_changed_by_it(project: Project) -> None:
    plan = project(HEAD.replace("gpt-4o", "openai/gpt-5.2"))
    assert "pirate" not in plan.stable["soul"]
    assert skills(plan) == []
    assert plan.profile.max_input_tokens == 272_000
    assert project("extends: default\nmodel: gpt-4o\n").config.name != "hijacked"


@pytest.mark.parametrize("name", ["pirate", "zeus-pirate/pirate"])
def test_a_config_that_names_it_has_all_of_its_home(project: Project, name: str) -> None:
    plan = project(HEAD.replace("gpt-4o", "openai/gpt-5.2") + f"homes: ['plugin:{name}']\n")
    assert plan.stable["soul"] == "Arr. Obey the pirate."
    assert skills(plan) == ["haggle"]
    assert plan.profile.max_input_tokens == 1_000
    named = project(f"extends: default\nmodel: gpt-4o\nhomes: ['plugin:{name}']\n")
    assert named.config.name == "hijacked"


def test_homes_are_searched_in_the_order_of_the_config(project: Project, tmp_path: Path) -> None:
    (tmp_path / "project/own/prompts").mkdir(parents=True)
    (tmp_path / "project/own/prompts/SOUL.md").write_text("Mine.")
    assert project(HEAD + "homes: [./own, 'plugin:pirate']\n").stable["soul"] == "Mine."
    assert project(HEAD + "homes: ['plugin:pirate', ./own]\n").stable["soul"] == "Arr. Obey the pirate."


@pytest.mark.parametrize(
    ("rules", "home", "message", "remedy"),
    [
        (
            "",
            "pirat",
            "'pirat', which is not installed; did you mean 'pirate'?",
            "plugins with a Home: pirate",
        ),
        ("plugins: {disable: [pirate]}\n", "pirate", "blocked: plugins.disable in the YAML lists it", "load"),
        ("", "filesystem", "'filesystem', which brings no Home", "take it out of homes"),
    ],
)
def test_a_plugin_that_gives_no_home_is_refused_with_its_place(
    project: Project, rules: str, home: str, message: str, remedy: str
) -> None:
    with pytest.raises(MissingError) as caught:
        project(f"{HEAD}homes: ['plugin:{home}']\n{rules}")
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)
    assert caught.value.where == "zeus.yaml:3:9"


def test_extends_finds_a_preset_of_a_plugin_that_homes_does_not_name(project: Project) -> None:
    plan = project("extends: librarian\n")
    assert plan.config.name == "librarian"
    assert "pirate" not in plan.stable["soul"]


def test_a_preset_of_an_installed_plugin_needs_no_permission(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    assert project("extends: librarian\n").config.name == "librarian"


def test_a_preset_of_zeus_is_meant_before_a_plugins_which_can_be_named(project: Project) -> None:
    assert project("extends: 'plugin:pirate/default'\n").config.name == "hijacked"
    assert project("extends: 'plugin:zeus-pirate/pirate/default'\n").config.name == "hijacked"
    with pytest.raises(ConfigError, match=r"did you mean 'plugin:pirate/default'"):
        project("extends: 'plugin:pirate/defalt'\n")


def test_a_misspelt_preset_of_a_plugin_is_suggested(project: Project) -> None:
    with pytest.raises(ConfigError, match="did you mean 'librarian'") as caught:
        project("extends: libarian\n")
    assert str(caught.value.diagnostics[0].position) == "zeus.yaml:1:10"


def test_a_preset_that_two_plugins_have_is_refused_with_both_names(project: Project, site: Path) -> None:
    files = {
        "zeus_reader/__init__.py": PLUGIN,
        "zeus_reader/home/configs/librarian.yaml": PRESET + "mode: ask\n",
    }
    lay_out(site, "zeus-reader", plugins={"reader": "zeus_reader"}, files=files)
    with pytest.raises(ConfigError, match="is in the Homes of several plugins") as caught:
        project("extends: librarian\n")
    (problem,) = caught.value.diagnostics
    assert problem.hint == "write plugin:pirate/librarian or plugin:reader/librarian"
    assert str(problem.position) == "zeus.yaml:1:10"
    assert project("extends: 'plugin:reader/librarian'\n").config.mode == "ask"
    assert project("extends: 'plugin:pirate/librarian'\n").config.mode == "agent"


@pytest.mark.parametrize(
    "rules",
    [
        "plugins: {disable: [pirate]}",
        "plugins: {only: [litellm, sqlite]}",
        "plugins: {disable: ['${BLOCKED}']}",
        "x: 1 # in the overlay",
        "x: 1 # in a setting",
    ],
)
def test_a_blocked_plugins_presets_are_not_found_and_it_is_not_imported(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    monkeypatch.setenv("BLOCKED", "pirate")
    (tmp_path / "zeus.yaml").write_text(f"extends: librarian\n{rules}\n")
    (tmp_path / "zeus.prod.yaml").write_text("plugins: {disable: [pirate]}\n")
    given = (
        {"env": "prod"}
        if "overlay" in rules
        else {"sets": ["plugins.disable=[pirate]"]}
        if "sett" in rules
        else {}
    )
    with pytest.raises(ConfigError, match="there is no preset 'librarian'"):
        Agent.from_config("zeus.yaml", directory=tmp_path, **given)  # type: ignore[arg-type]
    assert "zeus_pirate" not in sys.modules


BLOCK, FREE = "plugins: {disable: [pirate]}\n", "plugins: {disable: []}\n"


@pytest.mark.parametrize(
    ("extends", "a", "b"),
    [
        ("[a.yaml, b.yaml]", f"{FREE}extends: librarian\n", BLOCK),
        ("[a.yaml, b.yaml]", BLOCK, "extends: librarian\n"),
        ("[a.yaml, b.yaml, librarian]", FREE, BLOCK),
        ("[a.yaml, b.yaml, c.yaml]", BLOCK, "mode: ask\n"),
        ("[librarian, a.yaml, b.yaml]", FREE, BLOCK),
    ],
)
def test_a_plugin_that_the_strongest_file_blocks_is_not_imported_for_a_weaker_one(
    tmp_path: Path, site: Path, extends: str, a: str, b: str
) -> None:
    for name, text in {"zeus": f"extends: {extends}\n", "a": a, "b": b, "c": "extends: librarian\n"}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError, match="there is no preset 'librarian'"):
        Agent.from_config("zeus.yaml", directory=tmp_path)
    assert "zeus_pirate" not in sys.modules


@pytest.mark.parametrize("extends", ["[a.yaml, b.yaml, librarian]", "[librarian, a.yaml, b.yaml]"])
def test_a_plugin_that_the_strongest_file_allows_again_is_asked(
    project: Project, tmp_path: Path, extends: str
) -> None:
    for name, text in {"a": BLOCK, "b": FREE}.items():
        (tmp_path / "project" / f"{name}.yaml").write_text(text)
    assert project(f"extends: {extends}\n").config.name == "librarian"


def test_no_plugin_is_imported_for_a_preset_that_a_nearer_home_has(tmp_path: Path, site: Path) -> None:
    from zeus_runtime.config import load
    from zeus_runtime.registry import bundled_home

    def homes(rules: object) -> list[object]:
        raise AssertionError("the plugins' Homes were asked")

    (tmp_path / "zeus.yaml").write_text("extends: default\n")
    load(directory=tmp_path, environ={}, homes=[bundled_home()], plugin_homes=homes)  # type: ignore[arg-type]


def test_a_preset_of_a_plugin_is_a_config_by_its_name_and_works_in_the_working_directory(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "project/.env").write_text("HERE=from-the-project\n")
    for name in ("librarian", "plugin:pirate/librarian"):
        agent = Agent.from_config(name, directory=tmp_path / "project")
        assert agent.plan.config.name == "librarian"
        assert agent.plan.context.environ["HERE"] == "from-the-project"


def test_a_sub_agents_config_may_be_a_plugins_preset(project: Project) -> None:
    agents = "agents:\n  reader: {description: reads, config: librarian}\n"
    plan = project(HEAD + "tools: [subagents]\n" + agents)
    assert plan.agents["reader"].plan.config.name == "librarian"
