"""Archived originals go by age and size, oldest first, and only where Zeus made the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.context.retention import Kept, collect, expired
from zeus_runtime.tools import own_folders
from zeus_runtime.tools.own_folders import LinkedFolderError, claim, marker, owned, remove_tree

DAY = 86_400
files = st.lists(
    st.builds(
        Kept,
        st.from_regex(r"[a-z]{1,8}", fullmatch=True).map(Path),
        st.integers(0, 10**7),
        st.integers(0, 100),
    ),
    unique_by=lambda file: file.path,
)


@given(files, st.integers(0, 30) | st.none())
def test_what_stays_fits_the_size_and_is_the_newest(kept: list[Kept], megabytes: int | None) -> None:
    gone = expired(kept, 100, max_age_days=None, max_megabytes=megabytes)
    stays = [file for file in kept if file not in gone]
    assert len(stays) >= min(len(kept), 1)
    if megabytes is None:
        assert not gone
    else:
        assert len(stays) == 1 or sum(file.size_bytes for file in stays) <= megabytes * 10**6 or not stays


@given(files, st.integers(0, 30))
def test_what_is_older_than_the_age_goes_but_the_newest(kept: list[Kept], days: int) -> None:
    aged = [Kept(file.path, file.size_bytes, file.changed_seconds * DAY) for file in kept]
    gone = expired(aged, 100 * DAY, max_age_days=days, max_megabytes=None)
    newest = min(aged, key=lambda file: (-file.changed_seconds, file.path), default=None)
    for file in aged:
        assert (file in gone) == (file is not newest and file.changed_seconds < (100 - days) * DAY)


def written(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for age, name in enumerate(names):
        (folder / name).write_bytes(b"x" * 1_000_000)
        os.utime(folder / name, (age * DAY, age * DAY))


def test_old_files_go_from_a_folder_of_zeus(tmp_path: Path) -> None:
    folder = tmp_path / ".zeus" / "large_tool_results"
    written(folder, "oldest", "older", "new", "newest")
    assert collect([folder, tmp_path / "missing"], 4 * DAY, max_age_days=2.5, max_megabytes=None) == 2
    assert {path.name for path in folder.iterdir()} == {"new", "newest"}
    assert collect([folder], 4 * DAY, max_age_days=None, max_megabytes=1) == 1


def test_a_folder_of_the_user_is_never_touched(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    written(folder, "letter", "will")
    claim(folder)
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 0
    assert {path.name for path in folder.iterdir()} == {"letter", "will"}


def test_a_folder_that_zeus_makes_is_marked_and_collected(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    (tmp_path / "here").symlink_to(".")
    claim(tmp_path / "here" / "kept")
    written(folder, "a", "b")
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 1
    assert {path.name for path in folder.iterdir()} == {"b"}
    assert {path.name for path in tmp_path.iterdir()} == {"here", "kept", marker(folder).name}


@pytest.mark.parametrize(
    "forged", ["empty", "copied", "moved", "replaced", "no text", "a pipe", "another user's"]
)
def test_no_file_of_the_workspace_makes_a_folder_zeus_own(
    forged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool wrote `.mine.zeus-archive`, and Zeus then deleted the user's files."""
    folder, other = tmp_path / "mine", tmp_path / "kept"
    claim(other)
    written(folder, "letter", "will")
    if forged == "empty":
        marker(folder).touch()
    elif forged == "copied":
        marker(folder).write_bytes(marker(other).read_bytes())
    elif forged == "moved":
        other = other.parent / "gone"
        claim(other)
        marker(other).rename(marker(folder))
    elif forged == "replaced":
        folder = tmp_path / "new"
        claim(folder)
        written(folder, "letter", "will")
        marker(folder).write_bytes(marker(other).read_bytes())
    elif forged == "no text":
        marker(folder).write_bytes(b"\xff")
    elif forged == "a pipe":
        os.mkfifo(marker(folder))
    else:
        claim(tmp_path / "new")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        folder = tmp_path / "new"
        written(folder, "letter", "will")
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 0
    assert not remove_tree(folder)
    assert {path.name for path in folder.iterdir()} == {"letter", "will"}


@pytest.mark.skipif(os.name != "posix", reason="the system tells no modes")
def test_a_record_that_came_with_a_checkout_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "here" / "kept"
    claim(folder)
    folder.mkdir()
    assert owned(folder)
    (place,) = (tmp_path / "state/zeus/folders").iterdir()
    place.chmod(0o755)
    assert not owned(folder)
    claim(folder)
    assert owned(folder)


def test_marks_are_not_recorded_where_others_may_reach_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_folders, "is_private", lambda path: False)
    claim(tmp_path / "kept")
    assert not marker(tmp_path / "kept").exists()


def test_a_mark_of_former_times_does_not_hinder_a_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    marker(folder).write_text("forged, or of another machine")
    claim(folder)
    written(folder, "a", "b")
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 1


def test_a_folder_that_was_removed_is_not_zeus_own_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    claim(folder)
    mark = marker(folder).read_bytes()
    written(folder, "a")
    assert remove_tree(folder)
    assert list(tmp_path.iterdir()) == []
    written(folder, "letter", "will")
    marker(folder).write_bytes(mark)
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 0


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": "/dev/null"}, {"HOME": "home"}])
def test_where_no_mark_can_be_recorded_nothing_is_removed(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USERPROFILE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "kept"
    claim(folder)
    written(folder, "a", "b")
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 0
    assert "XDG_STATE_HOME" in caplog.text
    assert os.listdir() == ["kept"]  # noqa: PTH208


def test_links_and_folders_stay(tmp_path: Path) -> None:
    folder = tmp_path / ".zeus" / "large_tool_results"
    written(folder, "newest")
    (folder / "inner").mkdir()
    (folder / "link").symlink_to(tmp_path)
    assert collect([folder], 10**9, max_age_days=0, max_megabytes=0) == 0


@pytest.mark.parametrize("link", [".zeus", ".zeus/large_tool_results", "kept"])
def test_what_a_link_leads_to_is_not_collected(link: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    written(home / "large_tool_results", "letter", "will")
    project = tmp_path / "project"
    (project / link).parent.mkdir(parents=True)
    claim(project / "kept")
    (project / link).symlink_to(home if link == ".zeus" else home / "large_tool_results")
    folder = project / (link if link == "kept" else ".zeus/large_tool_results")
    with pytest.raises(LinkedFolderError):
        collect([folder], 10**9, max_age_days=0, max_megabytes=0)
    assert {path.name for path in (home / "large_tool_results").iterdir()} == {"letter", "will"}


@pytest.mark.parametrize("folder", [".zeus", ".zeus/prompts", "a/../.zeus", "large_tool_results"])
def test_of_zeus_own_folder_only_the_archive_is_collected(folder: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    written(tmp_path / folder, "zeus.db", "other.db")
    claim(tmp_path / folder)
    assert collect([tmp_path / folder], 10**9, max_age_days=0, max_megabytes=0) == 0
