"""Where a command can write a file, what is said where it cannot, and that a file is never there in part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.whole_file import write_private, write_whole
from zeus_runtime.errors import UsageError
from zeus_runtime.tools.own_folders import LinkedFolderError

Write: TypeAlias = Callable[[Path, str, str], None]
both = pytest.mark.parametrize("write", [write_private, write_whole])


@both
def test_who_reads_the_former_file_meanwhile_reads_it_whole(tmp_path: Path, write: Write) -> None:
    """So what is under the name is whole too, whenever the command is killed."""
    place = tmp_path / "out.xml"
    place.write_text("before")
    (tmp_path / "link").symlink_to(place)
    with place.open() as former:
        write(tmp_path / "link", "text\r\n", "link")
        assert former.read() == "before"
    assert place.read_bytes() == b"text\r\n"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("mode", [0o640, None])
def test_a_file_keeps_its_rights_and_a_new_one_has_the_usual_ones(tmp_path: Path, mode: int | None) -> None:
    place = tmp_path / "out.xml"
    (tmp_path / "usual").touch()
    if mode is not None:
        place.touch()
        place.chmod(mode)
    write_whole(place, "text", "out.xml")
    usual = (tmp_path / "usual").stat().st_mode & 0o777
    assert place.stat().st_mode & 0o777 == (usual if mode is None else mode)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.xml", "usual"]


@pytest.mark.parametrize("name", ["out.jsonl", "n" * 255])
def test_whatever_may_be_a_file_s_name_is_written_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("before")
    write_private(tmp_path / name, "text\n", name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "text\n"
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "says"), [(0o664, "its mode was 664 and is 600"), (0o600, ""), (None, "")])
def test_who_takes_rights_from_a_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int | None, says: str
) -> None:
    place = tmp_path / "talk.md"
    if mode is not None:
        place.touch()
        place.chmod(mode)
    write_private(place, "text\n", "talk.md")
    told = capsys.readouterr().err
    assert (says in told, bool(told)) == (True, bool(says))
    assert place.stat().st_mode & 0o777 == 0o600


@both
@pytest.mark.parametrize("name", [".", "loop", "n" * 256, "file/below", "nowhere/out.jsonl"])
def test_a_place_where_no_file_can_be_is_a_mistake_of_who_named_it(
    tmp_path: Path, name: str, write: Write
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("before")
    with pytest.raises(UsageError, match="cannot be written: "):
        write(tmp_path / name, "text\n", name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "loop"]


@both
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_not_the_user_s_mistake(write: Write) -> None:
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), "text\n", "/dev/full")


@both
@pytest.mark.parametrize("linked", [".zeus", ".zeus/below", ".zeus/below/out"])
def test_a_link_of_a_repository_s_in_zeus_s_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, linked: str
) -> None:
    mine = tmp_path / "mine"
    for folder in (mine, mine / "below"):
        folder.mkdir()
        (folder / "out").write_text("mine")
    link = tmp_path / "project" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to({".zeus": mine, ".zeus/below": mine / "below"}.get(linked, mine / "out"))
    monkeypatch.chdir(tmp_path / "project")
    for place in (Path(".zeus/below/out"), Path.cwd() / ".zeus/below/out"):
        with pytest.raises(LinkedFolderError, match="is a link"):
            write(place, "text", "out")
    assert (mine / "out").read_text() == (mine / "below/out").read_text() == "mine"


@both
@pytest.mark.parametrize(
    "named", ["link", "linked/out", "new", "a/../link", "../project/link", "{project}/link"]
)
def test_a_link_below_the_working_directory_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, named: str
) -> None:
    """An agent that may not write the target could make the link, and so could a repository."""
    project, beside = tmp_path / "project", tmp_path / "beside"
    for folder in (project / "a", project / "prompts", beside):
        folder.mkdir(parents=True)
        (folder / "out").write_text("mine")
    (project / "link").symlink_to("prompts/out")
    (project / "new").symlink_to("zeus.local.yaml")
    (project / "linked").symlink_to(beside)
    monkeypatch.chdir(project)
    with pytest.raises(UsageError, match="is a link to") as caught:
        write(Path(named.format(project=project)), "text", "out")
    assert "name the target" in str(caught.value.remedy)
    write(project / "prompts/out", "text", "out")
    assert (beside / "out").read_text() == "mine"
    assert not (project / "zeus.local.yaml").exists()


@pytest.mark.parametrize("linked", [".zeus", ".zeus/out.yaml"])
@pytest.mark.parametrize(
    "words",
    [
        ["schema", "-o", ".zeus/out.yaml"],
        ["schema", "--eval", "-o", ".zeus/out.yaml"],
        ["init", "--yes", "--force", ".zeus/out.yaml"],
        ["init", "--yes", ".zeus/out.yaml"],
        ["memory", "export", ".zeus/out.yaml"],
        ["sessions", "export", "-o", ".zeus/out.yaml"],
    ],
    ids=" ".join,
)
def test_no_command_writes_through_a_link_in_zeus_s_folder(
    zeus: Zeus,
    project: Project,
    tmp_path: Path,
    linked: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.agent(more="memory: {user: local}\nstorage: {url: 'sqlite:///kept.db'}\n")
    assert zeus("run", "zeus.yaml", "hi").exit_code == 0
    mine = tmp_path / "mine"
    mine.mkdir()
    link = project.folder / linked
    shutil.rmtree(project.folder / ".zeus", ignore_errors=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mine if linked == ".zeus" else mine / "out.yaml")
    done = zeus(*words)
    assert (done.exit_code, list(mine.iterdir())) == (4, []), done.err
    assert f"{linked} is a link" in done.err
