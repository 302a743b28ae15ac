"""A name that finds a file although its folder does not list it is no file for tools, as Windows's short names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zeus_runtime.tools.paths import NoSuchFileError, WorkspaceError
from zeus_runtime.tools.second_names import is_unlisted, passes_unlisted
from zeus_runtime.tools.workspace import WorkspaceFiles


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    (tmp_path / "CREDEN~1").mkdir()
    (tmp_path / "CREDEN~1" / "k").write_text("old")
    (tmp_path / "a:b").write_text("old")
    (tmp_path / "link").symlink_to("CREDEN~1/k")
    return WorkspaceFiles(tmp_path)


@pytest.mark.parametrize(
    ("hidden", "path"), [("CREDEN~1", "/CREDEN~1/k"), ("CREDEN~1", "/link"), ("a:b", "/a:b")]
)
def test_a_name_that_its_folder_does_not_list_is_no_file_for_tools(
    files: WorkspaceFiles, unlisted: Callable[[str], None], hidden: str, path: str
) -> None:
    assert files.read(path, max_bytes=9) == b"old"
    unlisted(hidden)
    with pytest.raises(NoSuchFileError):
        files.read(path, max_bytes=9)
    with pytest.raises(WorkspaceError, match="a second name of another file"):
        files.write(path, b"new")
    assert (files.root / path.strip("/")).read_text() == "old"


def test_nothing_is_made_or_listed_in_a_folder_by_a_name_that_is_not_listed(
    files: WorkspaceFiles, unlisted: Callable[[str], None]
) -> None:
    unlisted("CREDEN~1")
    with pytest.raises(WorkspaceError, match="a second name"):
        files.write("/CREDEN~1/new/x", b"new")
    assert not (files.root / "CREDEN~1" / "new").exists()
    with pytest.raises(NoSuchFileError):
        files.entries("/CREDEN~1")


def test_a_name_in_another_case_is_that_of_the_listed_file_alone(
    tmp_path: Path, unlisted: Callable[[str], None]
) -> None:
    (tmp_path / "a~1").touch()
    if (tmp_path / "A~1").exists():
        pytest.skip("this file system ignores case")
    (tmp_path / "A~1").hardlink_to(tmp_path / "a~1")
    unlisted("A~1")
    assert not is_unlisted(str(tmp_path), "A~1")
    # The short name of another file than the one that is listed.
    (tmp_path / "A~1").unlink()
    (tmp_path / "A~1").touch()
    assert is_unlisted(str(tmp_path), "A~1")


def test_a_name_in_a_folder_that_cannot_be_listed_is_not_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a~1").touch()

    def refuse(_at: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    assert is_unlisted(str(tmp_path), "a~1")
    # A plain name, and one that is not there, need no list.
    assert not is_unlisted(str(tmp_path.parent), tmp_path.name)
    assert not is_unlisted(str(tmp_path), "b~1")


def test_a_path_passes_the_names_of_its_folders_and_links(
    files: WorkspaceFiles, unlisted: Callable[[str], None]
) -> None:
    paths = [f"{files.root}/{each}" for each in ("CREDEN~1/k", "CREDEN~1/new", "link", "a:b", "a", "no~1")]
    assert not any(map(passes_unlisted, paths))
    unlisted("CREDEN~1")
    assert list(map(passes_unlisted, paths)) == [True, True, True, False, False, False]
