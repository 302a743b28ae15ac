"""A skill's files are read inside its folder and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.skills import OFFICE, write_skill
from zeus_runtime.errors import UsageError
from zeus_runtime.skills import read_skill_resource, skill_resources


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("classified")
    return write_skill(tmp_path / "skills", "pdf", files=OFFICE)


def test_the_files_are_listed_with_their_sizes(folder: Path) -> None:
    listed = {each.path: each.size_bytes for each in skill_resources(folder)}
    assert listed.keys() == OFFICE.keys()
    assert listed["assets/theme.bin"] == 3


def test_hidden_files_and_caches_are_not_listed(folder: Path) -> None:
    before = skill_resources(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/a.pyc").write_bytes(b"")
    (folder / ".DS_Store").write_bytes(b"")
    assert skill_resources(folder) == before


def test_a_nested_file_is_read(folder: Path) -> None:
    assert read_skill_resource(folder, "scripts/office/unpack.py") == b"print('unpack')\n"


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.txt",
        "scripts/../../../secret.txt",
        "/etc/passwd",
        "~/secret.txt",
        "..",
        "",
        ".",
        "scripts",
        "a\0b",
        "..\\..\\secret.txt",
        "C:/secret.txt",
        "link.txt",
        "linked/secret.txt",
        "circle",
        "scripts/office/unpack.py/x",
        "x" * 5_000,
    ],
)
def test_nothing_outside_is_read_by_whatever_way(folder: Path, path: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent.parent)
    (folder / "circle").symlink_to(folder / "circle")
    with pytest.raises(UsageError) as caught:
        read_skill_resource(folder, path)
    assert "classified" not in str(caught.value)


def test_links_that_lead_out_are_not_listed(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder.parent.parent / "secret.txt")
    (folder / "inside.txt").symlink_to(folder / "forms.md")
    names = {each.path for each in skill_resources(folder)}
    assert "inside.txt" in names
    assert "link.txt" not in names


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        read_skill_resource(folder, "pipe")


def test_a_wrong_name_gets_a_suggestion(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'references/format\.md'"):
        read_skill_resource(folder, "reference/format.md")
