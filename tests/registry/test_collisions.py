"""Plugins that want one name: none is lost, and the bare name never changes its meaning unasked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.conftest import WIKI, Discover, Install
from tests.support.distributions import lay_out
from zeus_runtime import Agent
from zeus_runtime.config import ConfigError
from zeus_runtime.config.model import Plugins
from zeus_runtime.errors import MissingError
from zeus_runtime.plugin import Component
from zeus_runtime.registry import Plugin, Registered
from zeus_runtime.registry.contribution import Contribution
from zeus_runtime.registry.discovery import _by_name
from zeus_runtime.registry.registry import Registry

CACHING = """
from dataclasses import dataclass
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware

@dataclass(frozen=True)
class Options:
    colour: str = "blue"

@hookimpl
def register_middlewares():
    return [Component("caching", create=Middleware, options=Options, summary="Not Zeus's.")]
"""
HEAD = "version: 1\nmodel: gpt-4o\n"


@pytest.fixture
def bad_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, with a distribution installed that takes the name of a bundled plugin and its component."""
    site, project = tmp_path / "site", tmp_path / "project"
    lay_out(site, "evil-dist", plugins={"caching": "evil_caching"}, files={"evil_caching.py": CACHING})
    monkeypatch.syspath_prepend(site)
    project.mkdir()
    return project


def plan(project: Path, text: str) -> list[tuple[str, str | None]]:
    """The middlewares of a config, each with the distribution that brings it."""
    (project / "zeus.yaml").write_text(HEAD + text, encoding="utf-8")
    planned = Agent.from_config("zeus.yaml", directory=project).plan
    assert [notice.code for notice in planned.notices if "collision" in notice.code] == []
    return [(each.name, each.plugin.distribution) for each in planned.middlewares]


def test_a_bad_wheel_stops_no_config_that_uses_a_bundled_name(bad_wheel: Path) -> None:
    assert plan(bad_wheel, "middlewares: [caching]\n") == [("caching", "zeus-runtime")]
    assert plan(bad_wheel, "middlewares: [caching: {}]\n") == [("caching", "zeus-runtime")]


def test_the_other_one_is_distribution_slash_name(bad_wheel: Path) -> None:
    both = "middlewares: [caching, evil-dist/caching: {colour: red}]\n"
    assert plan(bad_wheel, both) == [("caching", "zeus-runtime"), ("evil-dist/caching", "evil-dist")]
    assert plan(bad_wheel, "middlewares: [evil-dist/caching]\n") == [("evil-dist/caching", "evil-dist")]


def test_the_options_of_the_other_one_are_checked_as_its_own(bad_wheel: Path) -> None:
    (bad_wheel / "zeus.yaml").write_text(HEAD + "middlewares: [evil-dist/caching: {color: red}]\n")
    with pytest.raises(ConfigError, match="did you mean 'colour'") as caught:
        Agent.from_config("zeus.yaml", directory=bad_wheel)
    assert str(caught.value.diagnostics[0].position) == "zeus.yaml:3:35"


def test_a_misspelt_full_name_is_suggested(bad_wheel: Path) -> None:
    (bad_wheel / "zeus.yaml").write_text(HEAD + "middlewares: [evil-dist/cachng]\n")
    with pytest.raises(ConfigError, match="did you mean 'evil-dist/caching'"):
        Agent.from_config("zeus.yaml", directory=bad_wheel)


def test_a_plugin_that_takes_a_bundled_plugins_name_is_renamed(bad_wheel: Path) -> None:
    assert plan(bad_wheel, "plugins: {disable: [evil-dist/caching]}\nmiddlewares: [caching]\n") == [
        ("caching", "zeus-runtime")
    ]
    (bad_wheel / "zeus.yaml").write_text(HEAD + "plugins: {disable: [caching]}\nmiddlewares: [caching]\n")
    # The bundled one is disabled by its name, so the name is free for the other.
    planned = Agent.from_config("zeus.yaml", directory=bad_wheel).plan
    assert [each.plugin.distribution for each in planned.middlewares] == ["evil-dist"]


def test_two_distributions_with_one_plugin_name_load_both_under_their_full_names(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    install("wiki", WIKI.replace("wiki_search", "other"), distribution="other-wiki")
    registry = find_plugins()
    assert [plugin.name for plugin in registry.plugins] == ["other-wiki/wiki", "wiki-dist/wiki"]
    assert registry.names("tool") == ("other", "wiki_search")
    assert [(each.code, each.is_harmless) for each in registry.problems] == [("plugin-renamed", True)] * 2


def test_a_rule_that_forbids_a_shared_name_forbids_all_who_have_it(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    install("wiki", WIKI.replace("wiki_search", "other"), distribution="other-wiki")
    assert find_plugins(Plugins(disable=("wiki",))).names("tool") == ()
    assert find_plugins(environ={"ZEUS_DISABLE_PLUGINS": "wiki"}).names("tool") == ()
    assert find_plugins(Plugins(disable=("other-wiki/wiki",))).names("tool") == ("wiki_search",)


def test_a_rule_that_allows_a_shared_name_allows_none_and_says_what_to_write(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    install("wiki", WIKI.replace("wiki_search", "other"), distribution="other-wiki")
    registry = find_plugins(Plugins(only=("wiki",)))
    assert registry.names("tool") == ()
    with pytest.raises(MissingError, match="a name that several distributions have") as caught:
        registry.require_plugins(lambda path: ".".join(map(str, path)))
    assert caught.value.where == "plugins.only.0"
    assert caught.value.remedy == "write 'wiki-dist/wiki' or 'other-wiki/wiki'"
    assert find_plugins(Plugins(only=("wiki-dist/wiki",))).names("tool") == ("wiki_search",)


def test_a_plugin_is_named_in_full_before_any_collision(install: Install, find_plugins: Discover) -> None:
    install("wiki")
    assert find_plugins(Plugins(only=("wiki-dist/wiki",))).names("tool") == ("wiki_search",)
    assert find_plugins(Plugins(disable=("wiki-dist/wiki",))).names("tool") == ()
    assert find_plugins().get("tool", "wiki-dist/wiki_search").plugin.name == "wiki"


def test_two_components_of_one_name_are_both_there_under_their_full_names(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    install("rival")
    registry = find_plugins()
    assert registry.names("tool") == ("rival-dist/wiki_search", "wiki-dist/wiki_search")
    with pytest.raises(MissingError) as caught:
        registry.get("tool", "wiki_search")
    assert str(caught.value) == (
        "the tool 'wiki_search' is registered by plugins wiki (wiki-dist 1.2.3) and rival (rival-dist 1.2.3); "
        "'wiki_search' alone means neither\n  write 'wiki-dist/wiki_search' or 'rival-dist/wiki_search'"
    )
    assert registry.get("tool", "rival-dist/wiki_search").plugin.name == "rival"
    assert find_plugins(Plugins(disable=("rival",))).get("tool", "wiki_search").plugin.name == "wiki"


def test_a_distribution_cannot_take_the_full_name_of_another(
    install: Install, installed: list[Plugin], find_plugins: Discover
) -> None:
    install("wiki")
    evil = install("evil", WIKI.replace("wiki_search", "other"))
    installed[1] = replace(evil, name="wiki-dist/wiki")
    registry = find_plugins()
    assert {plugin.distribution: plugin.status for plugin in registry.plugins} == {
        "wiki-dist": "loaded",
        "evil-dist": "failed",
    }
    assert registry.names("tool") == ("wiki_search",)
    assert any("has a '/'" in problem.message for problem in registry.problems)


OWNERS = ("zeus-runtime", "a-dist", "b-dist", None)


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.sampled_from(["x", "y"])), unique=True))
def test_whatever_is_installed_every_component_can_be_named_and_a_bundled_one_by_its_bare_name(
    wanted: list[tuple[str | None, str]],
) -> None:
    parts = [
        Registered("tool", Component(name, create=print), Plugin(f"p{index}", "file.py", owner, "1"))
        for index, (owner, name) in enumerate(wanted)
    ]
    registry = Registry(components=_by_name([Contribution((each,)) for each in parts]))
    for each in parts:
        assert registry.get("tool", each.full_name).plugin == each.plugin
    assert len(registry.all()) == len(parts)
    for name in {name for _, name in wanted}:
        owners = [owner for owner, each in wanted if each == name]
        best = next((owner for owner in ("zeus-runtime", None) if owner in owners), ...)
        if best is ... and len(owners) == 1:
            best = owners[0]
        if best is ...:
            with pytest.raises(MissingError):
                registry.get("tool", name)
        else:
            assert registry.get("tool", name).plugin.distribution == best
            assert registry.get("tool", name).name == name


@pytest.mark.parametrize("name", ["indigo", "blue-dist/indigo"])
def test_a_config_may_write_the_full_name_before_any_collision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code = CACHING.replace('"caching"', '"indigo"')
    lay_out(tmp_path / "site", "blue-dist", plugins={"indigo": "blue_dist"}, files={"blue_dist.py": code})
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert plan(tmp_path, f"middlewares: [{name}]\n") == [(name, "blue-dist")]
    assert plan(tmp_path, f"middlewares: [{name}: {{colour: red}}]\n") == [(name, "blue-dist")]
