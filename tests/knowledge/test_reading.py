"""Files that a parser reads are read ahead, several at once, and are taken in their turn all the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.knowledge import Counting, knowledge, write
from zeus_runtime import MissingError
from zeus_runtime.knowledge import reading
from zeus_runtime.plugin.embedding import EmbeddingUnavailableError
from zeus_runtime.tools import worker_process as apart

LARGE = "<p>" + "Pylos lies three days from Ithaca. " * 5_000 + "</p>"
"""So that two of them are not read in one visit."""
URL = "sqlite:///kb.db"


@pytest.fixture(autouse=True)
def _three_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "processors", lambda: 3)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that read."""
    processes: list[subprocess.Popen[bytes]] = []
    start = apart._started

    def counted() -> subprocess.Popen[bytes]:
        processes.append(start())
        return processes[-1]

    monkeypatch.setattr(apart, "_started", counted)
    return processes


def pages(folder: Path, count: int) -> None:
    for number in range(count):
        write(folder, f"page {number:02}.html", f"<h1>Page {number}</h1>{LARGE}")


async def test_large_pages_are_parsed_by_several_processes_and_written_in_order(
    tmp_path: Path, started: list[Any]
) -> None:
    pages(tmp_path / "docs", 6)
    write(tmp_path / "docs", "page 02a.md", "# Between them\n\nRead when its turn comes.")
    async with knowledge(URL, tmp_path, embedder=(model := Counting())) as service:
        done = await service.add("book", [tmp_path / "docs"])
        assert (done.added, done.failed) == (7, [])
    headings = list(dict.fromkeys(text.split("\n")[0] for text in model.texts))
    assert headings == ["Page 0", "Page 1", "Page 2", "Between them", "Page 3", "Page 4", "Page 5"]
    assert 2 <= len(started) <= 3
    assert all(process.poll() is not None for process in started)


async def test_small_pages_need_one_process_and_plain_text_none(tmp_path: Path, started: list[Any]) -> None:
    write(tmp_path / "docs", "a.md", "# A\n\nPlain.")
    async with knowledge(URL, tmp_path) as service:
        await service.add("book", [tmp_path / "docs"])
        assert not started
        for number in range(20):
            write(tmp_path / "docs", f"{number}.html", f"<p>Page {number}</p>")
        assert (await service.add("book", [])).added == 20
        assert len(started) == 1
        assert (await service.add("book", [])).unchanged == 21
        assert len(started) == 1  # what says what it said is not parsed


async def test_one_that_cannot_be_parsed_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = reading.convert_file

    def hurried(name: str, data: bytes, *, apart: Any, seconds: float) -> Any:
        return convert(name, data, apart=apart, seconds=1 if data.startswith(b"<!") else seconds)

    monkeypatch.setattr(reading, "convert_file", hurried)
    pages(tmp_path / "docs", 4)
    write(tmp_path / "docs", "page 01a.html", "<!" * 1_000_000)
    write(tmp_path / "docs", "page 02a.md", b"\0")
    async with knowledge(URL, tmp_path) as service:
        done = await service.add("book", [tmp_path / "docs"])
    assert done.failed == [
        ("docs/page 01a.html", "it takes longer than 1 seconds"),
        ("docs/page 02a.md", "it is not text"),
    ]
    assert done.added == 4


async def test_what_reads_ahead_ends_with_the_ingest(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    class Gone(Counting):
        async def embed(self, texts: Any, *, purpose: Any) -> Any:
            raise EmbeddingUnavailableError("the model is gone")

    write(tmp_path / "docs", "0.md", "\n\n".join(f"# {number}\n\nText." for number in range(300)))
    pages(tmp_path / "docs", 3)
    write(tmp_path / "docs", "page 0.html", "<!" * 1_000_000)
    async with knowledge(URL, tmp_path, embedder=Gone()) as service:
        with pytest.raises(EmbeddingUnavailableError):
            await service.add("book", [tmp_path / "docs"])
        assert all(process.poll() is not None for process in started)


async def test_an_extra_that_is_missing_is_said_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs", "0.md", "\n\n".join(f"# {number}\n\n{'Text. ' * 60}" for number in range(300)))
    pages(tmp_path / "docs", 3)
    monkeypatch.setattr("zeus_runtime.knowledge.convert.find_spec", lambda _name: None)
    async with knowledge(URL, tmp_path) as service:
        with pytest.raises(MissingError, match="HTML files need bs4"):
            await service.add("book", [tmp_path / "docs"])
        (book,) = await service.bases()
        assert book.documents == 1  # what came before stays
