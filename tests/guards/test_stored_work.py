"""A folder of a user's work, made by an earlier Zeus, is read, continued and resumed as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.stored_work import ARCHIVE, GOLDEN, goes_on, looks, unpacked, zeus

pytestmark = pytest.mark.xdist_group("stored_work")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = unpacked(tmp_path_factory.mktemp("stored"))
    return looks(folder) | goes_on(folder)


@pytest.mark.parametrize("file", sorted(each.name for each in GOLDEN.iterdir()))
def test_stored_work_says_what_it_said(said: dict[str, str], file: str) -> None:
    assert said[file] == (GOLDEN / file).read_text()


def test_every_command_has_its_file(said: dict[str, str]) -> None:
    assert sorted(said) == sorted(each.name for each in GOLDEN.iterdir())
    assert ARCHIVE.stat().st_size > 10_000


def test_the_cassette_plays(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    (folder / ".zeus/zeus.db").unlink()
    (folder / "work/long.txt").unlink()
    config = folder / "zeus.yaml"
    config.write_text(config.read_text().replace(", max_cost_usd: 2.0", ""))  # A cassette has no price.
    model = "model={replay: {cassette: first.jsonl}}"
    played = zeus(folder, "", "run", "zeus.yaml", "Read the notes and write a report.", "--set", model)
    assert "The first part is done." in played
