"""Installed plugins are read from the distributions' folders exactly as importlib.metadata reads them."""

from __future__ import annotations

import sys
from importlib.metadata import distributions, entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.registry.installed import installed_plugins


def make_distribution(
    folder: Path,
    name: str,
    points: str,
    *,
    version: str = "1.0",
    kind: str = "dist-info",
    metadata: bool = True,
) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.{kind}"
    info.mkdir(parents=True)
    if metadata:
        file = "METADATA" if kind == "dist-info" else "PKG-INFO"
        (info / file).write_text(
            f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: not this\n"
        )
    (info / "entry_points.txt").write_text(points)


def found(*folders: Path) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (plugin.name, plugin.source, plugin.distribution, plugin.version)
        for plugin in installed_plugins([str(folder) for folder in folders])
    ]


def test_it_agrees_with_importlib_metadata_on_this_environment() -> None:
    theirs = [
        (point.name, point.value, point.dist.name, point.dist.version)
        for point in entry_points(group="zeus.plugins")
        if point.dist is not None
    ]
    ours = [
        (plugin.name, plugin.source, plugin.distribution, plugin.version) for plugin in installed_plugins()
    ]
    assert ours == sorted(theirs)
    assert ("filesystem", "zeus_plugins.catalogue:tools.filesystem", "zeus-runtime") in {
        entry[:3] for entry in ours
    }


def test_nothing_is_installed_in_the_folder_that_the_process_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plugins would be trusted; Python's prompt and notebooks look for modules wherever they were started."""
    make_distribution(tmp_path, "evil", "[zeus.plugins]\nevil = evil\n")
    monkeypatch.chdir(tmp_path)
    before = installed_plugins()
    assert [each[0] for each in found(tmp_path)] == ["evil"]
    for entry in ("", "."):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
        assert installed_plugins() == before
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "a.whl")])
    (tmp_path / "a.whl").write_bytes(b"")
    assert installed_plugins() == before


LINES = st.sampled_from(
    [
        "[zeus.plugins]",
        "[console_scripts]",
        "",
        "# note",
        "a = a.b",
        " b=b.c:d ",
        "c = c : d [x,y]",
        "d=e [z]",
    ]
)


@given(st.lists(LINES, max_size=8))
def test_it_agrees_with_importlib_metadata_on_any_file(lines: list[str]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        make_distribution(folder, "some-dist", "\n".join(["[first]", *lines]))
        theirs = entry_points_of(folder)
        assert found(folder) == sorted(theirs)


def entry_points_of(folder: Path) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (point.name, ":".join(filter(None, (point.module, point.attr))), "some-dist", "1.0")
        for distribution in distributions(path=[str(folder)])
        for point in distribution.entry_points.select(group="zeus.plugins")
    ]


def test_plugins_come_sorted_by_name_whatever_the_folders_order(tmp_path: Path) -> None:
    make_distribution(tmp_path, "b-dist", "[zeus.plugins]\nb = b\na2 = a2\n")
    make_distribution(tmp_path, "a-dist", "[zeus.plugins]\nz = z.y:attr\n", version="2.0", kind="egg-info")
    assert found(tmp_path) == [
        ("a2", "a2", "b-dist", "1.0"),
        ("b", "b", "b-dist", "1.0"),
        ("z", "z.y:attr", "a-dist", "2.0"),
    ]


def test_other_groups_comments_and_extras_are_not_plugins(tmp_path: Path) -> None:
    points = "[console_scripts]\nno = no\n\n[zeus.plugins]\n# c = c\n; d = d\n"
    points += " wiki = wiki.plugin [search]\n\n[zeus]\ne = e\n"
    make_distribution(tmp_path, "wiki-dist", points)
    assert found(tmp_path) == [("wiki", "wiki.plugin", "wiki-dist", "1.0")]


def test_a_distribution_that_is_there_twice_counts_where_it_is_found_first(tmp_path: Path) -> None:
    for folder, name, version in (("first", "Wiki.Dist", "2.0"), ("second", "wiki-dist", "1.0")):
        make_distribution(tmp_path / folder, name, "[zeus.plugins]\nwiki = wiki\n", version=version)
    assert found(tmp_path / "first", tmp_path / "second") == [("wiki", "wiki", "Wiki.Dist", "2.0")]


def test_folders_that_are_not_there_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "odd-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    assert found(tmp_path, tmp_path / "gone", tmp_path / "file") == []


def test_without_metadata_the_folders_name_says_name_and_version(tmp_path: Path) -> None:
    make_distribution(tmp_path, "wiki", "[zeus.plugins]\nwiki = wiki\n", metadata=False)
    assert found(tmp_path) == [("wiki", "wiki", "wiki", "1.0")]


def test_a_zipped_distribution_is_found_too(tmp_path: Path) -> None:
    archive = tmp_path / "wiki.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("wiki-1.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: wiki\nVersion: 1.0\n")
        file.writestr("wiki-1.0.dist-info/entry_points.txt", "[zeus.plugins]\nwiki = wiki.plugin\n")
    assert found(archive) == [("wiki", "wiki.plugin", "wiki", "1.0")]


def test_another_import_system_is_left_to_importlib(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PathDistribution

    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(_: object) -> list[PathDistribution]:
            class Metadata:
                def __init__(self, name: str) -> None:
                    self.name = name

                def joinpath(self, name: str) -> Metadata:
                    return Metadata(name)

                def read_text(self, encoding: str) -> str:
                    if self.name == "entry_points.txt":
                        return "[zeus.plugins]\nfrozen = frozen.plugin\n"
                    return "Metadata-Version: 2.4\nName: frozen-dist\nVersion: 3\n"

            return [PathDistribution(Metadata(""))]  # type: ignore[arg-type]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    plugins = {plugin.name: plugin for plugin in installed_plugins()}
    assert str(plugins["frozen"]) == "frozen (frozen-dist 3)"
    assert "filesystem" in plugins
