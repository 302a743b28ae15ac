"""A repository can bring links at the names that Zeus writes: what is outside of the project stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.test_tune import talk
from zeus_runtime.store.database import make_state_folder
from zeus_runtime.tools.own_folders import LinkedFolderError, beside

RUN: Final = ("run", "zeus.yaml", "hi")
RECORD: Final = (*RUN, "--record", ".zeus/kept.jsonl")
TAPE: Final = (*RUN, "--record", "tape.jsonl")
LIST: Final = ("sessions", "list")
DOCTOR: Final = ("doctor", "zeus.yaml")
KEYS: Final = ("keys", "list")
INIT: Final = ("init", "--yes", "--force")
CASES: Final = ("eval", "cases.yaml", "--record")
TALKS: Final = ("--trajectories", "talks.jsonl", "--workers", "1", "--trials", "1")
TUNE: Final = ("context", "tune", *TALKS, "--config", "tune.yaml")

WRITTEN: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "data": [RUN, DOCTOR, LIST],
    "data/kept.db": [RUN, DOCTOR, LIST],
    "data/kept.db-wal": [RUN],
    "data/kept.db-shm": [RUN],
    "data/kept.db-journal": [RUN],
    ".zeus": [RUN, RECORD, KEYS, TUNE],
    ".zeus/.gitignore": [KEYS],
    ".zeus/kept.jsonl": [RECORD],
    ".zeus/large_tool_results": [RUN],
    ".zeus/serve.db": [KEYS],
    ".zeus/serve.db-wal": [KEYS],
    ".zeus/serve.db-shm": [KEYS],
    ".zeus/serve.db-journal": [KEYS],
    ".zeus/tune.jsonl": [TUNE],
    "cases.cassettes": [CASES],
    "cases.cassettes/a.jsonl": [CASES],
    "cases.cassettes/a.jsonl.part": [CASES],
    "tape.jsonl": [TAPE],
    "zeus.yaml": [INIT],
}
"""The names in a project that the program or the config chooses, and the commands that write there; also a name of the
user's choice whose file holds the model's words.

``zeus.tuned.yaml`` is in the tests of ``zeus context tune``, since it takes a search.
"""


@pytest.fixture
def clone(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that needs no permission, and writes all that it can."""
    monkeypatch.delenv("ZEUS_TRUST")
    project.write(
        "zeus.yaml",
        """\
        version: 1
        extends: quickstart
        storage: {url: 'sqlite:///data/kept.db'}
        middlewares: [{eviction: {max_tokens: 20}}, recall]
        """,
    )
    project.write(
        "tune.yaml",
        """\
        version: 1
        model: gpt-5
        storage: {url: 'sqlite://'}
        middlewares: [{eviction: {max_tokens: 6000}}, recall]
        """,
    )
    case = {"name": "a", "prompt": "hi", "expect": [{"max_steps": 9}]}
    project.write("cases.yaml", json.dumps({"version": 1, "agent": "zeus.yaml", "cases": [case]}))
    project.write("talks.jsonl", "\n".join(talk(number, 3, 80) for number in range(2)))
    return project


def as_it_is(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """The names, times and contents of a folder; its time tells of files that were made and removed."""
    return {
        str(each): (each.stat().st_mtime_ns, each.read_bytes() if each.is_file() else None)
        for each in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("leads_to", ["text", "folder", "nothing"])
@pytest.mark.parametrize("name", WRITTEN)
def test_no_command_writes_through_a_link_of_the_repository(
    clone: Project, zeus: Zeus, tmp_path: Path, name: str, leads_to: str
) -> None:
    outside, place = tmp_path / "outside", clone.folder / name
    (outside / "folder").mkdir(parents=True)
    (outside / "text").write_text("mine")
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(outside / leads_to)
    before = as_it_is(outside)
    for words in WRITTEN[name]:
        done = zeus(*words)
        assert "Traceback" not in done.err
        assert as_it_is(outside) == before, words
        if ".db-" in name:
            assert f"{name} is a link" in done.err


def test_a_link_in_the_place_of_a_cassette_is_named(clone: Project, zeus: Zeus) -> None:
    (clone.folder / "tape.jsonl").symlink_to("other.jsonl")
    done = zeus(*TAPE)
    assert "tape.jsonl cannot be written: it is a link" in done.err
    assert done.exit_code == 3
    assert not (clone.folder / "other.jsonl").exists()


def test_every_name_that_a_command_writes_by_itself_is_tried(clone: Project, zeus: Zeus) -> None:
    def names() -> set[str]:
        return {str(each.relative_to(clone.folder)) for each in clone.folder.rglob("*")}

    before = names()
    for words in dict.fromkeys(words for each in WRITTEN.values() for words in each):
        # No candidate is cheaper after one trial.
        assert zeus(*words).exit_code == (1 if words == TUNE else 0), words
    # A link at a folder's name is tried, so that no name is left to try below it; the tools write the last one.
    below = (".zeus/large_tool_results/", "cases.cassettes/", "zeus-quickstart")
    assert {each for each in names() - before if not each.startswith(below)} <= set(WRITTEN)


def test_a_link_within_the_project_is_the_project_s_own(project: Project, zeus: Zeus) -> None:
    (project.folder / "zeus.yaml").symlink_to("agents.yaml")
    assert zeus(*INIT).exit_code == 0
    assert (project.folder / "agents.yaml").is_file()


@pytest.mark.parametrize("name", ["kept.db", "kept.db-wal", "kept.db-chroma"])
def test_a_link_beside_a_database_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkedFolderError, match=f"{name} is a link"):
        beside(tmp_path / "kept.db", name.removeprefix("kept.db"))


def test_the_folder_of_zeus_is_not_made_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".zeus").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkedFolderError):
        make_state_folder(tmp_path / ".zeus")
    assert not list((tmp_path / "elsewhere").iterdir())
