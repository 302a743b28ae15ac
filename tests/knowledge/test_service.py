"""Knowledge bases on both databases: filled once, brought up to date by what changed, searched, and whose they are."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.support.knowledge import ANN, Counting, ParsedHere, bookmarked, docx, knowledge, pdf, write
from zeus_runtime.config import Ref
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import UsageError
from zeus_runtime.knowledge import reading
from zeus_runtime.knowledge.convert import Converted, Page
from zeus_runtime.knowledge.embedding_models import UnavailableModelError
from zeus_runtime.knowledge.index import fused
from zeus_runtime.knowledge.ingest import BATCH
from zeus_runtime.knowledge.records import BaseInfo
from zeus_runtime.knowledge.service import Cutting, FileRules, KnowledgeService
from zeus_runtime.memory.embedding_choice import as_stored, store_choice
from zeus_runtime.memory.items import Caller
from zeus_runtime.store import schema
from zeus_runtime.store.database import Database
from zeus_runtime.store.row_security import act_for

PORTS = "# Ports\n\nPylos lies three days from Ithaca.\n\n## Bread\n\n{}\n"
OWNER = Caller("ann", "argo", "owner")
EDITOR = Caller("ben", "argo", "editor")
VIEWER = Caller("cyd", "argo", "viewer")


@pytest.fixture(autouse=True)
def _parsed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that parse have tests of their own (``test_reading``, ``test_convert``)."""
    monkeypatch.setattr(reading, "Apart", ParsedHere)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    write(
        folder,
        "ports.md",
        "# Ports\n\nPylos lies three days from Ithaca.\n\n## Bread\n\nBread is sold in the morning.\n",
    )
    write(folder, "deep/crew.txt", "Eurylochus ties the captain to the mast.\n")
    write(folder, "log.pdf", pdf("The sirens sing on page one.", "The whirlpool opens on page two."))
    write(folder, "plan.docx", docx())
    write(folder, "picture.png", b"\x89PNG\0")
    write(folder, ".hidden.md", "hidden")
    return folder


def old(folder: Path) -> None:
    """Files that were changed long ago."""
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


async def test_every_hit_says_the_ranks_that_its_score_is_made_of(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [docs])
        hits = (await service.search("bread in the morning", names=["handbook"], top_k=4)).hits
        fewer = (await service.search("bread in the morning", names=["handbook"], top_k=2)).hits
    assert len(hits) == 4
    assert [hit.content for hit in fewer] == [hit.content for hit in hits[:2]]
    by_vector = sorted(hit.vector_rank for hit in hits if hit.vector_rank is not None)
    assert by_vector[0] == 1
    assert min(hit.word_rank for hit in hits if hit.word_rank is not None) == 1
    for hit in hits:
        vector = 0.0 if hit.vector_rank is None else 0.6 / (60 + hit.vector_rank)
        words = 0.0 if hit.word_rank is None else 0.4 / (60 + hit.word_rank)
        assert hit.score == pytest.approx(vector + words)


@pytest.mark.parametrize("word_rank", [2, 4, 18, 38, 62])
@pytest.mark.parametrize(("by_vector", "by_words"), [(1, 2), (2, 1)])
def test_of_equal_scores_the_one_that_the_vectors_gave_is_first(
    word_rank: int, by_vector: int, by_words: int
) -> None:
    # 0.6 / (60 + 30 + 1.5 * rank) is 0.4 / (60 + rank).
    vector_rank = 30 + word_rank * 3 // 2
    near = [*range(1_000, 1_000 + vector_rank - 1), by_vector]
    said = [*range(2_000, 2_000 + word_rank - 1), by_words]
    keys = [key for key, _ in fused(near, said)]
    assert keys.index(by_words) == keys.index(by_vector) + 1


async def test_what_was_added_is_found_with_its_source_and_place(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path) as service:
        done = await service.add("handbook", [docs])
        assert (done.added, done.failed) == (4, [])
        (first, *_) = (await service.search("bread in the morning", names=["handbook"])).hits
        assert first.citation == "handbook/docs/ports.md · Ports > Bread · line 7"
        assert (first.vector_rank, first.word_rank) == (1, 1)
        (second, *_) = (await service.search("whirlpool", names=["handbook"])).hits
        assert second.citation == "handbook/docs/log.pdf · page 2, line 1"


async def test_a_passage_of_a_pdf_is_cited_with_its_bookmarks_and_its_page(tmp_path: Path) -> None:
    write(
        tmp_path / "docs",
        "log.pdf",
        bookmarked("The start.", "We sail.", "They sing.", "The whirlpool opens."),
    )
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("handbook", [tmp_path / "docs"])
        (hit, *_) = (await service.search("whirlpool", names=["handbook"])).hits
        assert hit.citation == "handbook/docs/log.pdf · Voyage > Sirens · page 4, line 1"
        (hit, *_) = (await service.search("sirens", names=["handbook"])).hits
        assert hit.heading == "Voyage > Sirens"


async def test_a_secret_in_a_bookmark_is_neither_stored_nor_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A PDF's streams may be compressed, so its bytes do not show the secret.
    converted = Converted("text", (Page("They sing.", 1, "Voyage > hunter2hunter2"),))
    monkeypatch.setattr(reading, "convert_file", lambda *_args, **_kwargs: converted)
    write(tmp_path / "docs", "log.pdf", pdf("They sing."))
    model, secrets = Counting(), Redactor({"hunter2hunter2": "PASSWORD"})
    async with knowledge("sqlite:///kb.db", tmp_path, embedder=model, secrets=secrets) as service:
        await service.add("handbook", [tmp_path / "docs"])
    assert model.texts == ["Voyage > <secret:PASSWORD>\nThey sing."]


async def test_names_of_files_are_found_and_count_more_than_a_mention(tmp_path: Path) -> None:
    filler = "The crew rows through the night and rests at noon near the shore."
    write(tmp_path / "docs", "hr/leave_policy-2024.md", f"Fifteen days each year. {filler}")
    write(tmp_path / "docs", "a.md", f"A leave policy exists somewhere else. {filler}")
    write(tmp_path / "docs", "员工手册.txt", f"每年有十五天。{filler}")
    write(tmp_path / "docs", "z.md", filler)

    async def first_by_words(service: KnowledgeService, query: str) -> str:
        hits = (await service.search(query, names=["handbook"], top_k=20)).hits
        return next(hit.source for hit in hits if hit.word_rank == 1)

    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("handbook", [tmp_path / "docs"])
        assert await first_by_words(service, "leave policy") == "docs/hr/leave_policy-2024.md"
        assert await first_by_words(service, "leave_policy-2024.md") == "docs/hr/leave_policy-2024.md"
        assert await first_by_words(service, "手册") == "docs/员工手册.txt"
        assert await first_by_words(service, "leave somewhere else exists") == "docs/a.md"


async def test_a_heading_counts_more_than_a_mention(tmp_path: Path) -> None:
    filler = "The crew rows through the night and rests at noon near the shore."
    write(
        tmp_path / "docs",
        "a.md",
        f"# Rowing\n\nSirens are named here. {filler}\n\n# Sirens\n\n{filler} Again.",
    )
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("handbook", [tmp_path / "docs"])
        hits = (await service.search("sirens", names=["handbook"])).hits
        assert [hit.heading for hit in sorted(hits, key=lambda each: each.word_rank or 99)] == [
            "Sirens",
            "Rowing",
        ]


async def test_a_file_in_another_encoding_is_found(tmp_path: Path) -> None:
    text = "员工每年有十五天年假。请假须提前三天向主管申请。"
    write(tmp_path / "docs", "a.txt", text.encode("gbk"))
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        done = await service.add("handbook", [tmp_path / "docs"])
        assert done.failed == []
        (hit, *_) = (await service.search("年假", names=["handbook"])).hits
    assert hit.content == text


async def test_files_of_the_same_size_and_time_are_not_even_read(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    old(docs)
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        await service.add("handbook", [docs])
        asked = len(model.texts)
        write(docs, "ports.md", (docs / "ports.md").read_text().upper())
        old(docs)
        again = await service.add("handbook", [docs])
        assert (again.unchanged, again.added, again.changed, again.embedded) == (4, 0, 0, 0)
        assert len(model.texts) == asked


async def test_a_file_that_was_only_touched_is_not_embedded_again(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    old(docs)
    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [docs])
        os.utime(docs / "ports.md", (1_100_000_000, 1_100_000_000))
        again = await service.add("handbook", [docs])
        assert (again.unchanged, again.embedded) == (4, 0)


async def test_a_change_replaces_and_asks_only_for_what_is_new(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        await service.add("handbook", [docs])
        asked = len(model.texts)
        write(
            docs,
            "ports.md",
            PORTS.format("Bread is given away."),
        )
        again = await service.add("handbook", [])
        assert (again.changed, again.embedded) == (1, 1)
        assert model.texts[asked:] == ["Ports > Bread\nBread is given away."]
        found = [hit.content for hit in (await service.search("bread morning", names=["handbook"])).hits]
        assert "Bread is given away." in found
        assert "Bread is sold in the morning." not in found


async def test_what_came_from_a_folder_that_cannot_be_looked_into_now_stays(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(docs, "closed/treaty.md", "# Treaty\n\nThe islands are leased until autumn.\n")
    scan = os.scandir

    def refused(path: str) -> Any:  # no right is missing to the root of a machine that tests run on
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    async with knowledge(f"sqlite:///{tmp_path}/kb.db", tmp_path) as service:
        before = await service.add("handbook", [docs])
        monkeypatch.setattr(os, "scandir", refused)
        again = await service.add("handbook", [docs])
        monkeypatch.undo()
        assert (again.removed, again.unchanged) == (0, before.added - 1)
        assert again.failed == [
            (str(docs / "closed"), "this folder cannot be read: Permission denied; what came from it stays")
        ]
        (hit, *_) = (await service.search("leased islands", names=["handbook"])).hits
        assert "until autumn" in hit.content
        (docs / "closed/treaty.md").unlink()
        assert (await service.add("handbook", [docs])).removed == 1


async def test_what_is_gone_from_a_folder_goes_from_the_base(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [docs])
        (docs / "deep/crew.txt").unlink()
        assert (await service.add("handbook", [])).removed == 1
        found = [hit.source for hit in (await service.search("Eurylochus", names=["handbook"])).hits]
        assert "docs/deep/crew.txt" not in found


async def test_an_ingest_that_was_cut_off_goes_on_where_it_was(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for number in range(4):
        words = "\n\n".join(
            f"# Part {number}.{part}\n\nWhat part {part} of {number} says." for part in range(BATCH)
        )
        write(folder, f"{number}.md", words)
    async with knowledge(database_url, tmp_path, embedder=Counting(fails_after=2 * BATCH + 10)) as service:
        with pytest.raises(KeyboardInterrupt):
            await service.add("big", [folder])
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        done = await service.add("big", [])
        assert (done.unchanged + done.added, done.added) == (4, 2)
        assert len(model.texts) == 2 * BATCH


async def test_one_long_file_goes_on_in_its_middle(database_url: str, tmp_path: Path) -> None:
    parts = 4 * BATCH
    path = write(tmp_path, "long.md", "\n\n".join(f"# Part {n}\n\nWhat part {n} says." for n in range(parts)))
    async with knowledge(database_url, tmp_path, embedder=Counting(fails_after=2 * BATCH + 10)) as service:
        with pytest.raises(KeyboardInterrupt):
            await service.add("big", [path])
        assert not (await service.search("part 3", names=["big"])).hits
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        await service.add("big", [])
        assert len(model.texts) == parts - 2 * BATCH
        (base,) = await service.bases()
        assert (base.documents, base.chunks) == (1, parts)
        found = await service.search("What part 1000 says", names=["big"], top_k=1)
        assert found.hits[0].heading == "Part 1000"


async def test_what_was_written_of_a_long_file_goes_when_it_has_become_a_short_one(tmp_path: Path) -> None:
    parts = "\n\n".join(f"# Part {n}\n\nWhat part {n} says." for n in range(4 * BATCH))
    path = write(tmp_path, "long.md", parts)
    async with knowledge("sqlite:///kb.db", tmp_path, embedder=Counting(fails_after=2 * BATCH)) as service:
        with pytest.raises(KeyboardInterrupt):
            await service.add("big", [path])
    assert rows_of(tmp_path / "kb.db") == [(0, 2 * BATCH // 32)]
    write(tmp_path, "long.md", "# Part 1\n\nAll of it.")
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        assert (await service.add("big", [])).added == 1
    assert rows_of(tmp_path / "kb.db") == [(1, 1)]


def rows_of(path: Path) -> list[tuple[int, int]]:
    """Of each document whether it is whole, and its rows."""
    query = (
        "SELECT ready, (SELECT count(*) FROM knowledge_part WHERE document = knowledge_document.key)"
        " FROM knowledge_document"
    )
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute(query))


async def test_the_log_beside_the_database_does_not_grow_with_what_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    for chunks in (BATCH, 100 * BATCH):
        monkeypatch.setattr("zeus_runtime.knowledge.ingest.LOGGED", chunks)
        folder = tmp_path / str(chunks)
        path = write(folder, "long.md", "\n\n".join(f"# Part {n}\n\nsaid" for n in range(8 * BATCH)))
        async with knowledge("sqlite:///kb.db", folder) as service:
            await service.add("big", [path])
            sizes.append((folder / "kb.db-wal").stat().st_size)
    assert sizes[0] < sizes[1] / 3


async def test_a_base_keeps_its_model_and_its_queries_are_embedded_by_it(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path, embedder=(first := Counting(model="first-1"))) as service:
        await service.add("handbook", [docs])
    second, asked = Counting(model="second-1"), len(first.texts)
    async with knowledge(database_url, tmp_path, embedder=second, open_offline=[lambda: first]) as service:
        await service.add("other", [write(tmp_path, "mast.md", "Nobody ties the captain.")])
        write(docs, "ports.md", "Pylos has moved.")
        assert (await service.add("handbook", [])).changed == 1
        assert len(first.texts) == asked + 1
        found = await service.search("Eurylochus mast", names=["handbook", "other"])
        assert {(hit.base, hit.vector_rank is None) for hit in found.hits} == {
            ("handbook", False),
            ("other", False),
        }
        assert (first.texts[-1], second.texts[-1]) == ("Eurylochus mast", "Eurylochus mast")
        assert {base.name: base.embedding for base in await service.bases()} == {
            "handbook": "first-1",
            "other": "second-1",
        }


async def test_a_base_whose_model_is_not_configured_any_more_says_so_and_how_to_embed_it_anew(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [docs])
    async with knowledge(database_url, tmp_path, embedder=Counting(model="another-1")) as service:
        for attempt in (service.search("mast", names=["handbook"]), service.add("handbook", [])):
            with pytest.raises(
                UnavailableModelError, match=r"static-minilm-l6-v2-1 .*there is another-1"
            ) as caught:
                await attempt
            assert caught.value.exit_code == 4
            assert "zeus kb reindex handbook" in (caught.value.remedy or "")
        await service.add("other", [docs])
        found = await service.search("Eurylochus mast", names=["handbook", "other"])
        assert {hit.base for hit in found.hits} == {"other"}
        assert "not searched: the knowledge base 'handbook'" in found.notices[0]
        assert (await service.reindex("handbook")).changed == 4
        found = await service.search("Eurylochus mast", names=["handbook"])
        assert (found.hits[0].vector_rank, found.notices) == (1, ())


async def test_what_a_reindex_did_not_reach_is_compared_with_no_other_models_vectors(
    tmp_path: Path, docs: Path
) -> None:
    url = "sqlite:///kb.db"
    async with knowledge(url, tmp_path) as service:
        await service.add("handbook", [docs])
    async with knowledge(url, tmp_path, embedder=Counting(model="another-1", fails_after=0)) as service:
        with pytest.raises(KeyboardInterrupt):
            await service.reindex("handbook")
    async with knowledge(url, tmp_path, embedder=Counting(model="another-1")) as service:
        found = await service.search("Eurylochus mast", names=["handbook"])
        assert (found.hits[0].vector_rank, found.hits[0].word_rank) == (None, 1)
        assert (await service.add("handbook", [])).changed == 4
        assert (await service.search("Eurylochus mast", names=["handbook"])).hits[0].vector_rank == 1


async def test_a_users_base_is_of_the_model_that_they_chose_and_a_projects_of_the_configs(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    database = Database(database_url, directory=tmp_path)
    stored = as_stored(Ref("mine"))

    def choose(connection: Connection) -> None:
        act_for(connection, "ann", None, None)
        store_choice(connection, "ann", stored, datetime.now(UTC))

    await schema.ready(database)
    await database.run(choose)
    await database.close()
    opened: list[tuple[str, str]] = []

    def open_chosen(user: str, ref: Ref) -> Counting:
        opened.append((user, ref.name))
        return Counting(model="anns-1")

    async with knowledge(database_url, tmp_path, caller=OWNER, open_chosen=open_chosen) as service:
        await service.add("own", [docs])
        await service.add("shared", [docs], project=True)
        assert {base.name: base.embedding for base in await service.bases()} == {
            "own": "anns-1",
            "shared": "static-minilm-l6-v2-1",
        }
        assert (await service.search("mast", names=["own", "shared"])).notices == ()
        assert opened == [("ann", "mine")]


async def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    write(docs, "broken.pdf", b"no pdf")
    async with knowledge(database_url, tmp_path) as service:
        done = await service.add("handbook", [docs])
        assert (done.added, [path for path, _ in done.failed]) == (4, ["docs/broken.pdf"])


async def test_files_that_are_denied_now_take_no_place_among_the_hits(
    database_url: str, tmp_path: Path
) -> None:
    for number in range(40):
        write(tmp_path / "docs", f"closed-{number}.md", "# Ports\n\nPylos Pylos Pylos.\n")
    write(tmp_path / "docs", "open-1.md", "# Ports\n\nIn the end the ship comes to Pylos.\n")
    write(tmp_path / "docs", "open-2.md", "# Ports\n\nNobody knows how far it is to Pylos.\n")
    closed = [f"closed-{number}.md" for number in range(40)]

    def refusal_of(path: Path) -> str | None:
        return "closed" if path.name in closed else None

    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [tmp_path / "docs"])
    async with knowledge(database_url, tmp_path, rules=FileRules(refusal_of=refusal_of)) as service:
        found = await service.search("Pylos", names=["handbook"], top_k=2)
        assert sorted(hit.source for hit in found.hits) == ["docs/open-1.md", "docs/open-2.md"]
        assert {hit.word_rank for hit in found.hits} == {1, 2}
        closed.clear()
        found = await service.search("Pylos", names=["handbook"], top_k=2)
        assert all("closed" in hit.source for hit in found.hits)


async def test_a_denied_file_is_known_by_its_path_although_a_secret_in_it_is_masked(tmp_path: Path) -> None:
    path = write(tmp_path / "docs", "ports-hunter2hunter2.md", "# Ports\n\nPylos is far.\n")
    secrets = Redactor({"hunter2hunter2": "PASSWORD"})
    asked: list[Path] = []

    def refusal_of(file: Path) -> str | None:
        asked.append(file)
        return None

    async with knowledge(f"sqlite:///{tmp_path}/kb.db", tmp_path, secrets=secrets) as service:
        await service.add("handbook", [tmp_path / "docs"])
    async with knowledge(
        f"sqlite:///{tmp_path}/kb.db", tmp_path, secrets=secrets, rules=FileRules(refusal_of=refusal_of)
    ) as service:
        assert (await service.search("Pylos", names=["handbook"])).hits
    assert asked == [path]


async def test_what_is_neither_a_file_nor_a_folder_is_not_added(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    os.mkfifo(docs / "pipe.md")
    async with knowledge(database_url, tmp_path) as service:
        with pytest.raises(UsageError, match=r"pipe\.md is neither a file nor a folder"):
            await service.add("handbook", [docs / "pipe.md"])
        assert await service.bases() == []


async def test_a_file_whose_name_is_no_text_is_named_and_stops_nothing(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    odd = docs / os.fsdecode(b"odd\xff.md")
    odd.write_text("# Odd\n\nNobody can write this name down.\n")
    async with knowledge(database_url, tmp_path) as service:
        done = await service.add("handbook", [docs])
        assert (done.added, done.failed) == (4, [(str(odd), "its name is not UTF-8")])
        with pytest.raises(UsageError, match="a name that is not UTF-8"):
            await service.add("handbook", [odd])


async def test_what_came_from_a_folder_that_may_be_listed_and_not_entered_stays(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed:
        """A file of such a folder; no right is missing to the root of a machine that tests run on."""

        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self.path = entry.name, entry.path
            self.is_dir, self.is_symlink = entry.is_dir, entry.is_symlink

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            raise PermissionError(13, "Permission denied")

    write(docs, "closed/treaty.md", "# Treaty\n\nThe islands are leased until autumn.\n")
    scan = os.scandir

    @contextmanager
    def listed(path: str) -> Iterator[list[Any]]:
        with scan(path) as entries:
            yield [Closed(each) if str(path).endswith("closed") else each for each in entries]

    async with knowledge(f"sqlite:///{tmp_path}/kb.db", tmp_path) as service:
        await service.add("handbook", [docs])
        monkeypatch.setattr(os, "scandir", listed)
        again = await service.add("handbook", [docs])
        monkeypatch.undo()
        assert again.removed == 0
        assert again.failed == [
            (str(docs / "closed"), "this folder cannot be read: Permission denied; what came from it stays")
        ]
        (docs / "closed/treaty.md").unlink()
        assert (await service.add("handbook", [docs])).removed == 1


async def test_a_text_with_nul_somewhere_in_it_is_found(database_url: str, tmp_path: Path) -> None:
    path = write(tmp_path, "dump.txt", "The log begins.\n\n" * 1_000 + "# Pylos \0 lies there\n")
    async with knowledge(database_url, tmp_path) as service:
        assert (await service.add("handbook", [path])).failed == []
        found = await service.search("Pylos", names=["handbook"], top_k=1)
        assert "Pylos \0 lies" in found.hits[0].content


async def test_another_process_sees_a_change_at_once(database_url: str, tmp_path: Path, docs: Path) -> None:
    async with knowledge(database_url, tmp_path) as one, knowledge(database_url, tmp_path) as other:
        await one.add("handbook", [docs])
        assert (await other.search("sirens", names=["handbook"])).hits[0].word_rank == 1
        write(docs, "new.md", "The lotus eaters forget.\n")
        await one.add("handbook", [])
        assert (await other.search("lotus", names=["handbook"])).hits[0].source == "docs/new.md"


async def test_several_bases_are_searched_as_one(database_url: str, tmp_path: Path, docs: Path) -> None:
    async with knowledge(database_url, tmp_path, linked=["a", "b", "c"]) as service:
        await service.add("a", [docs / "ports.md"])
        await service.add("b", [docs / "deep"])
        found = await service.search("captain mast Pylos")
        assert {hit.base for hit in found.hits} == {"a", "b"}
        assert found.notices == ("there is no knowledge base 'c' yet",)


async def test_a_part_or_all_of_a_base_is_removed(database_url: str, tmp_path: Path, docs: Path) -> None:
    async with knowledge(database_url, tmp_path) as service:
        await service.add("handbook", [docs / "deep", docs / "ports.md"])
        assert await service.remove("handbook", [docs / "deep"]) == 1
        with pytest.raises(UsageError, match="was not added"):
            await service.remove("handbook", [docs / "deep"])
        assert await service.remove("handbook") == 1
        assert await service.bases() == []


async def test_a_base_is_seen_by_its_user_or_its_project_alone(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path, caller=OWNER) as owner:
        await owner.add("mine", [docs])
        await owner.add("ours", [docs], project=True)
    async with knowledge(database_url, tmp_path, caller=VIEWER) as viewer:
        assert [base.name for base in await viewer.bases()] == ["ours"]
        assert not (await viewer.search("sirens", names=["mine"])).hits
        assert (await viewer.search("sirens", names=["ours"])).hits
        with pytest.raises(UsageError, match="as viewer"):
            await viewer.add("ours", [docs])
        with pytest.raises(UsageError, match="viewer"):
            await viewer.add("theirs", [docs], project=True)
    async with knowledge(database_url, tmp_path, caller=EDITOR) as editor:
        with pytest.raises(UsageError, match="as editor"):
            await editor.remove("ours")
        await editor.add("own", [docs / "deep"], project=True)
        await editor.remove("own")
    async with knowledge(database_url, tmp_path, caller=Caller("dan")) as stranger:
        assert await stranger.bases() == []


async def test_the_nearest_base_of_a_name_is_the_users_own(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path, caller=EDITOR) as editor:
        await editor.add("handbook", [docs / "deep"], project=True)
    async with knowledge(database_url, tmp_path, caller=OWNER) as owner:
        assert (base := await owner.base("handbook")) is not None
        assert base.scope == "project"


async def collections_of(service: KnowledgeService) -> set[str]:
    """The names of all collections with vectors."""

    def named(connection: Connection) -> set[str]:
        table = "vector_collection" if connection.dialect.name == "sqlite" else "vector_collection_pg"
        return set(connection.exec_driver_sql(f"SELECT name FROM {table}").scalars())

    return await (await service._open()).run(named)


@contextmanager
def before_the_claim(service: KnowledgeService, work: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """Do ``work`` between the reading of a base and its claim."""
    claimed = service._claimed

    async def later(base: BaseInfo) -> tuple[BaseInfo, Callable[[], None]]:
        await work()
        return await claimed(base)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "_claimed", later)
        yield


@pytest.mark.parametrize("command", ["add", "reindex", "remove a path", "remove"])
async def test_a_base_that_another_process_reindexed_before_the_claim_keeps_its_new_collection(
    database_url: str, tmp_path: Path, docs: Path, command: str
) -> None:
    extra = write(tmp_path / "more", "oars.md", "Oars are made of fir.")
    other = Counting(model="other")
    async with (
        knowledge(database_url, tmp_path, open_offline=[lambda: other]) as service,
        knowledge(database_url, tmp_path, embedder=other) as elsewhere,
    ):
        await service.add("handbook", [docs])
        with before_the_claim(service, lambda: elsewhere.reindex("handbook")):
            if command == "add":
                await service.add("handbook", [extra])
            elif command == "reindex":
                await service.reindex("handbook")
            elif command == "remove a path":
                assert await service.remove("handbook", [docs]) == 4
            else:
                assert await service.remove("handbook") == 4
        left = await service.base("handbook")
        assert await collections_of(service) <= ({left.collection} if left else set())
        if command in {"add", "reindex"}:
            assert (await service.add("handbook", [])).repaired == 0
            result = await service.search("bread in the morning", names=["handbook"])
            assert (result.notices, result.hits[0].vector_rank) == ((), 1)


async def test_a_base_that_another_process_removed_before_the_claim_is_refused(
    database_url: str, tmp_path: Path, docs: Path
) -> None:
    async with knowledge(database_url, tmp_path) as service, knowledge(database_url, tmp_path) as elsewhere:
        await service.add("handbook", [docs])
        removed = before_the_claim(service, lambda: elsewhere.remove("handbook"))
        with removed, pytest.raises(UsageError, match="removed or replaced"):
            await service.reindex("handbook")
        await service.add("handbook", [docs])


@pytest.mark.parametrize("name", ["员工手册", "handbuch-für_alle"])
async def test_a_name_may_have_the_letters_of_any_language(
    database_url: str, tmp_path: Path, docs: Path, name: str
) -> None:
    async with knowledge(database_url, tmp_path) as service:
        await service.add(name, [docs / "deep"])
        assert [each.name for each in await service.bases()] == [name]


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65])
async def test_a_name_that_is_none_is_refused(tmp_path: Path, docs: Path, name: str) -> None:
    async with knowledge("sqlite:///.zeus/zeus.db", tmp_path, caller=ANN) as service:
        with pytest.raises(UsageError, match="cannot name"):
            await service.add(name, [docs])


async def test_how_a_base_is_cut_stays(tmp_path: Path, docs: Path) -> None:
    async with knowledge("sqlite:///.zeus/zeus.db", tmp_path) as service:
        await service.add("handbook", [docs], cutting=Cutting(64, 8))
        with pytest.raises(UsageError, match="cut to 64"):
            await service.add("handbook", [docs], cutting=Cutting(128, 8))


async def test_a_folder_that_is_not_there_takes_nothing_with_it(tmp_path: Path, docs: Path) -> None:
    async with knowledge("sqlite:///.zeus/zeus.db", tmp_path) as service:
        await service.add("handbook", [docs])
        shutil.rmtree(docs)
        done = await service.add("handbook", [])
        assert (done.removed, [path for path, _ in done.failed]) == (0, [str(docs)])
        assert (await service.search("sirens", names=["handbook"])).hits
        assert await service.remove("handbook", [docs]) == 4


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from typing import Any
from tests.support.knowledge import Counting, knowledge

class Dying(Counting):
    async def embed(self, texts, *, purpose):
        if len(self.texts) + len(texts) > int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().embed(texts, purpose=purpose)

async def main():
    folder = Path(sys.argv[1])
    async with knowledge("sqlite:///.zeus/zeus.db", folder, embedder=Dying()) as service:
        await service.add("big", [folder / "docs"])

asyncio.run(main())
"""


def killed_after(folder: Path, texts: int) -> int:
    command = [sys.executable, "-c", KILLED, str(folder), str(texts)]
    return subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode


async def test_a_long_document_that_is_as_before_after_a_killed_rewriting_is_listed_once(
    database_url: str, tmp_path: Path
) -> None:
    def text(word: str) -> str:
        return "\n\n".join(f"# Part {part}\n\nThe {word} of {part}." for part in range(2 * BATCH + 5))

    file = write(tmp_path / "docs", "long.md", text("bread"))
    kept = write(tmp_path / "docs", "kept.md", text("oar"))
    old(tmp_path / "docs")
    async with knowledge(database_url, tmp_path) as service:
        await service.add("big", [tmp_path / "docs"])
    for each in (file, kept):
        dying = Counting(fails_after=BATCH)
        each.write_text(each.read_text().replace("The ", "Some "))
        with pytest.raises(KeyboardInterrupt):
            async with knowledge(database_url, tmp_path, embedder=dying) as service:
                await service.add("big", [])
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        assert [each.ready for each in await service.documents("big")].count(False) == 2
        file.write_text(text("bread"))
        kept.write_text(text("oar"))
        old(tmp_path / "docs")
        done = await service.add("big", [])
        assert (done.unchanged, done.changed, done.removed, model.texts) == (2, 0, 0, [])
        assert [each.ready for each in await service.documents("big")] == [True, True]
        assert (await service.add("big", [])).repaired == 0
        assert len((await service.search("bread", names=["big"])).hits) == 5


async def test_the_unfinished_part_of_a_document_that_cannot_be_read_now_is_used_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(word: str) -> str:
        return "\n\n".join(f"# Part {part}\n\nThe {word} of {part}." for part in range(2 * BATCH))

    file = write(tmp_path / "docs", "long.md", text("bread"))
    url = "sqlite:///.zeus/zeus.db"
    async with knowledge(url, tmp_path) as service:
        await service.add("big", [file])
    file.write_text(text("oar"))
    with pytest.raises(KeyboardInterrupt):
        async with knowledge(url, tmp_path, embedder=Counting(fails_after=BATCH)) as service:
            await service.add("big", [])
    async with knowledge(url, tmp_path, embedder=(model := Counting())) as service:
        with monkeypatch.context() as patch:
            patch.setattr(reading, "MAX_BYTES", 10)
            assert len((await service.add("big", [])).failed) == 1
        assert (await service.add("big", [])).changed == 1
        assert len(model.texts) == BATCH
        assert [each.ready for each in await service.documents("big")] == [True]


async def test_a_killed_ingest_is_gone_on_with(tmp_path: Path) -> None:
    for number in range(3):
        text = "\n\n".join(
            f"# Part {number}.{part}\n\nWhat {part} of {number} says." for part in range(BATCH)
        )
        write(tmp_path / "docs", f"{number}.md", text)
    assert killed_after(tmp_path, 2 * BATCH + 1) == -signal.SIGKILL
    async with knowledge("sqlite:///.zeus/zeus.db", tmp_path, embedder=(model := Counting())) as service:
        done = await service.add("big", [])
        assert (done.unchanged + done.added, len(model.texts)) == (3, BATCH)
        (base,) = await service.bases()
        assert base.chunks == 3 * BATCH
