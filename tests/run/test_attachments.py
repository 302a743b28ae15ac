"""What a message brings along: which paths a text names, and that what is kept is what was there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pictures import picture_with, png
from zeus_runtime.errors import UsageError
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import WorkspaceFiles
from zeus_runtime.run.attachments import gather, mentions
from zeus_runtime.tools.attachments import Reference


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at @src/a.py", ["src/a.py"]),
        ("@a.md, @b.md; and (@c.md).", ["a.md", "b.md", "c.md"]),
        ("see @\"my notes.md\" and @'other notes.md'!", ["my notes.md", "other notes.md"]),
        ("@a.md again @a.md", ["a.md"]),
        ("write to ann@example.org", []),
        (r"a literal \@a.md", []),
        ("the decorator `@a.md` and\n```\n@b.md\n```\n@c.md", ["c.md"]),
        ("@ alone, @, and @.", []),
        ("@/abs/path @./rel @src/", ["/abs/path", "./rel", "src/"]),
        ("看@中文.md吗 看 @中文.md", ["中文.md"]),
    ],
)
def test_paths_are_found_where_they_are_meant(text: str, paths: list[str]) -> None:
    assert mentions(text) == paths


@given(st.text(alphabet="@ab/. \"'`\\\n", max_size=80))
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(path and "\n" not in path for path in mentions(text))


@pytest.fixture
def workspace(tmp_path: Path) -> WorkspaceFiles:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a = 1\n")
    (root / "src/b.py").write_text("b = 2\n")
    (tmp_path / "secret.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    return WorkspaceFiles(root, {"/attached_files/": tmp_path / "kept"})


def read(workspace: WorkspaceFiles, reference: Reference) -> bytes:
    return workspace.read(reference.copy, max_bytes=1_000)


def test_what_is_kept_is_what_was_there(workspace: WorkspaceFiles) -> None:
    (found,) = gather("fix @src/a.py", [], workspace)
    assert (found.kind, found.handle, found.size_bytes) == ("resource", "/src/a.py", 6)
    workspace.write("/src/a.py", b"changed")
    assert read(workspace, found) == b"a = 1\n"
    assert Reference.from_json(found.as_json()) == found


def test_a_folder_is_its_list_and_a_pattern_its_files(workspace: WorkspaceFiles) -> None:
    folder, one, two = gather("@src/ and @src/*.py", [], workspace)
    assert folder.folder
    assert read(workspace, folder) == b"a.py\nb.py"
    assert [one.handle, two.handle] == ["/src/a.py", "/src/b.py"]
    (none,) = gather("@*.rs", [], workspace)
    assert "no file fits" in none.problem


@pytest.mark.parametrize(
    "path", ["../secret.txt", "link.txt", "/../secret.txt", "~/secret.txt", "src/none.py"]
)
def test_what_is_outside_or_not_there_is_told_and_not_read(workspace: WorkspaceFiles, path: str) -> None:
    (found,) = gather(f"read @{path}", [], workspace)
    assert found.problem
    assert not found.copy


def test_a_name_that_is_no_path_is_a_word(workspace: WorkspaceFiles) -> None:
    assert gather("ask @everybody", [], workspace) == []


def test_an_attachment_comes_from_anywhere(workspace: WorkspaceFiles, tmp_path: Path) -> None:
    (found,) = gather("see", [tmp_path / "secret.txt"], workspace)
    assert found.kind == "attachment"
    assert found.handle == found.copy
    assert read(workspace, found) == b"secret"


@pytest.mark.parametrize(
    ("name", "why"),
    [("none.txt", "no such file"), ("work", "a folder"), ("pipe", "not a regular file")],
)
def test_an_attachment_that_is_none_is_an_error_before_anything_runs(
    workspace: WorkspaceFiles, tmp_path: Path, name: str, why: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=f"cannot be attached: .*{why}"):
        gather("see", [tmp_path / name], workspace)


def test_an_attachment_whose_name_is_no_text_is_kept_under_one_that_is(
    tmp_path: Path, workspace: WorkspaceFiles
) -> None:
    odd = tmp_path / os.fsdecode(b"odd\xff.txt")
    odd.write_text("odd")
    (found,) = gather("", [odd], workspace)
    assert found.path == "odd\ufffd.txt"
    assert workspace.read(found.handle, max_bytes=10) == b"odd"


def test_the_name_of_a_copy_holds_no_secret(workspace: WorkspaceFiles, tmp_path: Path) -> None:
    key = "argo-Secret-4711"
    (tmp_path / f"work/a-{key}.txt").write_text("a\n")
    (tmp_path / f"b-{key}.txt").write_text("b\n")
    known = Redactor().adding({key: "SHIP_TOKEN"})
    found = gather(f"see @a-{key}.txt", [tmp_path / f"b-{key}.txt"], workspace, known)
    assert [read(workspace, each) for each in found] == [b"a\n", b"b\n"]
    kept = [path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert sorted(kept) == ["a-_secret_SHIP_TOKEN_.txt", "b-_secret_SHIP_TOKEN_.txt"]


def test_a_picture_with_a_secret_is_refused_and_not_damaged(
    workspace: WorkspaceFiles, tmp_path: Path
) -> None:
    key = "argo-Secret-4711"
    known = Redactor().adding({key: "SHIP_TOKEN"})
    (tmp_path / "work/in.png").write_bytes(picture_with(f"note {key}"))
    (tmp_path / "wide.png").write_bytes(png() + key.encode("utf-16-le"))
    (tmp_path / "plain.png").write_bytes(picture_with("note"))
    (mentioned,) = gather("see @in.png", [], workspace, known)
    assert mentioned.problem == "The file of the picture in.png contains a known secret, so it is not shown."
    with pytest.raises(UsageError, match=r"wide\.png contains a known secret"):
        gather("", [tmp_path / "wide.png"], workspace, known)
    (plain,) = gather("", [tmp_path / "plain.png"], workspace, known)
    assert plain.picture is not None
    assert plain.picture.path == plain.copy
    assert read(workspace, plain) == picture_with("note")
    assert len([path for path in (tmp_path / "kept").rglob("*") if path.is_file()]) == 1
