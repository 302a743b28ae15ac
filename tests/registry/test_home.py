"""Homes are searched from the nearest to the bundled one."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.registry import bundled_folders, bundled_home, find, find_all, search_path


def make(home: Path, *files: str) -> Path:
    for file in files:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(home.name)
    home.mkdir(parents=True, exist_ok=True)
    return home


def test_the_order_is_project_yaml_variable_user_bundled(tmp_path: Path) -> None:
    project = make(tmp_path / "project")
    expected = [
        make(project / ".zeus"),
        make(project / "first"),
        make(tmp_path / "wiki"),
        make(tmp_path / "second"),
        make(tmp_path / "added"),
        make(tmp_path / "config" / "zeus"),
        bundled_home(),
    ]
    found = search_path(
        directory=project,
        environ={"ZEUS_HOME": "../added", "XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)},
        homes=["first", "plugin:wiki", str(tmp_path / "second")],
        homes_of=lambda plugin, place: [tmp_path / plugin],
    )
    assert [home.resolve() for home in found] == [home.resolve() for home in expected]


def test_the_users_home_is_in_dot_config_without_xdg(tmp_path: Path) -> None:
    user = make(tmp_path / ".config" / "zeus")
    for xdg in ({}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "relative/is/ignored"}):
        assert user in search_path(directory=tmp_path, environ={"HOME": str(tmp_path), **xdg})


def test_homes_that_may_be_absent_are_left_out_and_none_is_searched_twice(tmp_path: Path) -> None:
    home = make(tmp_path / "home")
    found = search_path(directory=tmp_path, environ={"ZEUS_HOME": "home"}, homes=[str(home)])
    assert found == (home, bundled_home())


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this user may not enter: root may enter every one, so the system's answer is imitated."""
    folder, stat = make(tmp_path / "root", ".config/zeus/configs/a.yaml"), os.stat

    def no_stat(path: Any, **more: Any) -> os.stat_result:
        if not isinstance(path, int) and os.fspath(path).startswith(f"{folder}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", no_stat)
    return folder


def test_the_users_home_is_absent_where_this_user_may_not_enter_home(tmp_path: Path, closed: Path) -> None:
    assert search_path(directory=tmp_path, environ={"HOME": str(closed)}) == (bundled_home(),)


def test_a_named_home_that_this_user_may_not_enter_is_an_error(tmp_path: Path, closed: Path) -> None:
    with pytest.raises(MissingError, match=r"not a folder: .*root/x") as raised:
        search_path(directory=tmp_path, environ={}, homes=["root/x"])
    assert "enter" in str(raised.value.remedy)


@pytest.mark.parametrize("where", ["yaml", "variable"])
def test_a_home_that_is_named_but_not_there_is_an_error(tmp_path: Path, where: str) -> None:
    environ = {"ZEUS_HOME": "gone"} if where == "variable" else {}
    homes = ["gone"] if where == "yaml" else []
    with pytest.raises(MissingError, match="gone"):
        search_path(directory=tmp_path, environ=environ, homes=homes)


def test_the_nearest_file_wins_and_the_hidden_ones_can_be_listed(tmp_path: Path) -> None:
    near = make(tmp_path / "near", "prompts/CORE.md")
    far = make(tmp_path / "far", "prompts/CORE.md", "prompts/SOUL.md", "skills/pdf/SKILL.md")
    homes = (near, far)
    assert find(homes, "prompts", "CORE.md") == near / "prompts" / "CORE.md"
    assert find(homes, "prompts", "SOUL.md") == far / "prompts" / "SOUL.md"
    assert find(homes, "skills", "pdf/SKILL.md") == far / "skills" / "pdf" / "SKILL.md"
    assert find(homes, "prompts", "GONE.md") is None
    assert list(find_all(homes, "prompts", "CORE.md")) == [near / "prompts/CORE.md", far / "prompts/CORE.md"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "a//b",
        "a/./b",
        "..\\secret",
        "C:secret",
        "a\0b",
    ],
)
def test_a_name_that_leaves_the_home_is_refused(tmp_path: Path, name: str) -> None:
    make(tmp_path / "home", "secret", "prompts/x")
    with pytest.raises(UsageError):
        find([tmp_path / "home"], "prompts", name)


@given(st.text(alphabet="ab./\\:\0", max_size=12))
def test_whatever_the_name_what_is_found_lies_in_the_folder(name: str) -> None:
    home = Path(__file__).parent.parent
    try:
        found = find([home], "plugins", name)
    except UsageError:
        return
    assert found is None or found.resolve().is_relative_to(home / "plugins")


def test_the_folders_that_are_trusted_hold_presets_and_prompts_alone() -> None:
    package = Path(bundled_folders.__code__.co_filename)
    assert not [each for each in bundled_folders() if package.is_relative_to(each)]
    assert {each.name for each in bundled_folders() if each.is_dir()} == {"configs", "prompts"}


def test_the_bundled_home_has_configs_prompts_and_schemas() -> None:
    assert (bundled_home() / "configs" / "profiles.yaml").is_file()
