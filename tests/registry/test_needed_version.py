"""A plugin that was made for another Zeus is told apart before it is imported."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

import zeus_runtime
from tests.registry.conftest import WIKI
from tests.support.distributions import lay_out
from zeus_runtime.registry import Registry, discover
from zeus_runtime.registry.discovery import _is_within
from zeus_runtime.registry.installed import _by_importlib, installed_plugins


def registry(site: Path, requirement: str) -> Registry:
    """What is found where a distribution requires so of Zeus."""
    lay_out(
        site,
        "zeus-futurist",
        plugins={"futurist": "zeus_futurist"},
        files={"zeus_futurist.py": WIKI},
        metadata=f"Requires-Dist: httpx\nRequires-Dist: {requirement}\n",
    )
    return discover(environ={}, installed=installed_plugins([str(site)]))


@pytest.mark.parametrize(
    "requirement", ["zeus-runtime>=9", "Zeus_Runtime (>=9,<10)", "zeus-runtime[mcp] == 9.*"]
)
def test_a_plugin_for_another_zeus_is_not_imported_and_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirement: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = registry(tmp_path, requirement)
    (problem,) = found.problems
    assert problem.code == "plugin-version"
    assert "plugin futurist (zeus-futurist 1.0) needs zeus-runtime" in problem.message
    assert "9" in problem.message
    assert found.plugins[0].status == "failed"
    assert "zeus_futurist" not in sys.modules


@pytest.mark.parametrize(
    "requirement",
    ["zeus-runtime", "zeus-runtime>=0.1", "zeus-runtime<9", "zeus-runtime>=9; extra == 'next'", "?"],
)
def test_a_plugin_for_this_zeus_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirement: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = registry(tmp_path, requirement)
    monkeypatch.delitem(sys.modules, "zeus_futurist")
    assert found.names("tool") == ("wiki_search",)


def test_both_ways_of_reading_distributions_agree(tmp_path: Path) -> None:
    registry(tmp_path, "zeus-runtime>=9")
    assert tuple(_by_importlib([str(tmp_path)])) == installed_plugins([str(tmp_path)])
    assert installed_plugins([str(tmp_path)])[0].needs == ">=9"


NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(NUMBERS, NUMBERS)
def test_a_least_version_is_compared_as_packaging_compares_it(version: str, least: str) -> None:
    assert _is_within(version, f">={least}") == SpecifierSet(f">={least}").contains(version, prereleases=True)


def test_the_version_is_the_one_of_the_distribution() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["project"]["version"] == zeus_runtime.__version__
