"""Names of files: what can be one, and file systems that do not tell them apart, simulated by an unlisted file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zeus_runtime.disk_paths import are_one_folder, is_file_name, other_spelling


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").touch()
    if os.path.lexists(tmp_path / "A"):
        pytest.skip("this file system ignores case")
    return tmp_path


@pytest.mark.parametrize("paths", [("Proj", "PROJ"), ("Proj/in", "PROJ/in"), ("x/in", "X/IN")])
def test_two_listed_folders_are_two(
    folder: Path, unlisted: Callable[[str], None], paths: tuple[str, str]
) -> None:
    for each in paths:
        (folder / each).mkdir(parents=True)
    one, other = (str(folder / each) for each in paths)
    assert not are_one_folder(one, other)
    unlisted(paths[1].partition("/")[0])
    assert are_one_folder(one, other)
    # The listed name need not be the first one.
    assert are_one_folder(other, one)


def test_a_missing_folder_is_not_another_one(folder: Path) -> None:
    (folder / "Proj").mkdir()
    assert not are_one_folder(str(folder / "Proj"), str(folder / "PROJ"))
    assert not are_one_folder(str(folder / "PROJ"), str(folder / "Proj"))


def test_one_inode_is_one_file_however_it_is_listed(folder: Path) -> None:
    (folder / "A").hardlink_to(folder / "a")
    assert are_one_folder(str(folder / "a"), str(folder / "A"))


def test_a_file_system_that_tells_names_apart_has_no_other_spelling(folder: Path) -> None:
    names = ["7", "a", "\u00e9", "e\u0301", "\u00c9", "a.", "A"]
    for each in names:
        (folder / each).touch()
    for each in names:
        assert other_spelling(str(folder), [each]) is None
    assert other_spelling(str(folder), names) is None
    assert other_spelling(str(folder), []) is None


@pytest.mark.parametrize(
    ("names", "other"),
    [
        (["a"], "A"),
        (["7", "a"], "A"),
        (["é.pem"], "é.PEM"),  # only letters of ASCII are not told apart
        (["ключ"], "КЛЮЧ"),
        (["\u00e9"], "e\u0301"),
        (["e\u0301"], "\u00e9"),
        (["\u00df\u00e9"], "\u00df\u00c9"),  # ß has no single letter in the other case
        (["7"], "7."),
        (["7"], "7\u200d"),
    ],
)
def test_one_name_shows_how_the_file_system_treats_all(
    folder: Path, unlisted: Callable[[str], None], names: list[str], other: str
) -> None:
    for each in (*names, other):
        (folder / each).touch()
    assert other_spelling(str(folder), names) is None
    unlisted(other)
    assert other_spelling(str(folder), names) == other


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (".env", "ENV~1"),
        (".env.production", "ENV~2.PRO"),
        ("credentials", "CREDEN~1"),
        ("zeus.prod-eu.yaml", "ZEUSPR~4.YAM"),
        ("a b.c d", "AB~1.CD"),
    ],
)
def test_a_short_name_is_found_for_each_name_that_is_not_short(
    folder: Path, unlisted: Callable[[str], None], name: str, short: str
) -> None:
    for each in ("key.pem", name, short):
        (folder / each).touch()
    # A file system without short names may have a file of this name.
    assert other_spelling(str(folder), ["key.pem", name]) is None
    unlisted(short)
    assert other_spelling(str(folder), ["key.pem", name]) == short
    assert other_spelling(str(folder), ["key.pem"]) is None


def test_a_file_that_was_renamed_meanwhile_has_another_spelling(
    folder: Path, unlisted: Callable[[str], None]
) -> None:
    (folder / "A").touch()
    unlisted("a")
    assert other_spelling(str(folder), ["a"]) == "A"


@pytest.mark.parametrize(
    ("value", "is_one"),
    [("a", True), (" ", True), ("", False), ("a\0", False), (7, False), (None, False), (["a"], False)],
)
def test_what_can_name_a_file(value: object, *, is_one: bool) -> None:
    assert is_file_name(value) is is_one
