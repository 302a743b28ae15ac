"""Passages that were stored before their secrets were known: a search answers as if they were not there."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.knowledge import Counting, ParsedHere, knowledge, write
from zeus_runtime.config.secrets.masking import Learned, Redactor
from zeus_runtime.knowledge import reading
from zeus_runtime.knowledge.service import Cutting, KnowledgeService
from zeus_runtime.memory.embedding import EmbeddingUnavailableError

PASS = "purple-walrus-tango-4417"
SECRETS = Redactor().adding({PASS: "VAULT_PASSWORD"})
TOPICS = {
    "lunch": "The canteen opens at noon, soup on Mondays.",
    "travel": "Trains are booked by the office, second class, and never on a walrus.",
    "holiday": "Thirty days each year, ask your lead first.",
    "guests": "Announce visitors a day ahead at the door.",
    "garage": "The garage opens with your badge before eight.",
}
WORDS = ("purple", "walrus", "tango", "4417", "badger", "zebra", "vault", "walrus tango")


@pytest.fixture(autouse=True)
def _parsed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Apart", ParsedHere)


def stored_in(folder: Path, *texts: str) -> Path:
    for name, text in TOPICS.items():
        write(folder, f"{name}.md", f"# {name}\n\n{text}\n")
    for number, text in enumerate(texts):
        write(folder, f"held{number}.md", text)
    return folder


async def found(service: KnowledgeService, name: str, top_k: int) -> list[list[tuple[object, ...]]]:
    answers = []
    for word in WORDS:
        for query in (word, f"{word} canteen", f"{word} canteen office garage visitors"):
            hits = (await service.search(query, names=[name], top_k=top_k)).hits
            answers.append(
                [
                    (
                        each.source.partition("/")[2],
                        each.content,
                        each.score,
                        each.vector_rank,
                        each.word_rank,
                    )
                    for each in hits
                ]
            )
    return answers


def notations() -> list[str]:
    written = base64.b64encode(f"vault:{PASS}".encode()).decode()
    return [
        f"# Vault\n\nThe pass phrase is {PASS}.\n",
        json.dumps({"walrus": f"\n{PASS}"}),
        f"badger {written}\n",
    ]


class Away(Counting):
    """An embedding model that answers no query."""

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        if purpose == "query":
            raise EmbeddingUnavailableError("it does not answer")
        return await super().embed(texts, purpose=purpose)


@pytest.mark.parametrize(("top_k", "model"), [(1, Counting), (5, Counting), (3, Away)])
async def test_a_guess_at_a_word_of_a_secret_is_answered_as_if_its_passage_were_not_there(
    database_url: str, tmp_path: Path, top_k: int, model: type[Counting]
) -> None:
    url, embedder = database_url, model()
    async with knowledge(url, tmp_path, embedder=embedder) as service:
        await service.add("with", [stored_in(tmp_path / "with", *notations())])
        await service.add("without", [stored_in(tmp_path / "without")])
        assert await found(service, "with", top_k) != await found(service, "without", top_k)
    async with knowledge(url, tmp_path, embedder=embedder, secrets=SECRETS) as service:
        assert await found(service, "with", top_k) == await found(service, "without", top_k)


async def test_a_secret_that_is_learned_later_is_withheld_from_then_on(tmp_path: Path) -> None:
    secrets = Redactor(learned=(Learned(),))
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=secrets) as service:
        await service.add("base", [stored_in(tmp_path / "docs", f"# Vault\n\nIt opens with {PASS}.\n")])
        (first, *_) = (await service.search("walrus tango", names=["base"])).hits
        assert PASS in first.content
        secrets.learn(PASS, "VAULT_PASSWORD")
        assert "Vault" not in {
            each.heading for each in (await service.search("walrus tango vault", names=["base"])).hits
        }
        assert (await service.search("walrus", names=["base"])).notices == ()


async def test_a_passage_that_was_stored_masked_is_found(tmp_path: Path) -> None:
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        await service.add("base", [stored_in(tmp_path / "docs", f"# Vault\n\nIt opens with {PASS}.\n")])
        (first, *_) = (await service.search("the vault opens with", names=["base"])).hits
        assert first.content == "It opens with <secret:VAULT_PASSWORD>."


async def test_the_other_passages_of_its_document_are_found(tmp_path: Path) -> None:
    text = f"# Vault\n\nIt opens with {PASS}.\n\n# Door\n\nThe door has no lock.\n"
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [stored_in(tmp_path / "docs", text)])
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        (first, *_) = (await service.search("door without lock", names=["base"])).hits
        assert (first.heading, first.content) == ("Door", "The door has no lock.")


async def test_many_passages_with_a_secret_leave_the_others(tmp_path: Path) -> None:
    for number in range(4):
        lines = [
            f"# {each}\n\nIt opens with {PASS}, she said {each} times.\n" for each in range(number, 300, 3)
        ]
        write(tmp_path / "docs", f"many{number}.md", "\n".join(lines))
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [stored_in(tmp_path / "docs")])
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        hits = (await service.search("walrus canteen", names=["base"], top_k=50)).hits
        assert len(hits) == len(TOPICS)


LONG = "".join(f"A{number}-" for number in range(1_000, 1_075))


def shown_parts(contents: Sequence[str], secret: str) -> list[str]:
    """The parts of a secret, of six characters, that are shown."""
    return [part for at in range(len(secret) - 5) if (part := secret[at : at + 6]) in "\n".join(contents)]


@pytest.mark.parametrize("place", range(0, 60, 4))
@pytest.mark.parametrize(
    ("filler", "number", "secret", "more"),
    [
        ("x1y2;", 24, "sk-proj-Ab12cd34Ef-Gh56ij78Kl-Mn90op12Qr", "x1y2;" * 40),
        ("some oats. ", 11, " noble horses eat six quinces ", "some oats. " * 20),
        pytest.param("some oats. ", 11, LONG, "some oats. ", id="over four passages"),
        # The last passage is short, so it repeats the end of the one before.
        ("some oats and ", 8, "noble horses eat six quinces ", "."),
    ],
)
async def test_the_border_of_two_passages_shows_no_half_of_a_secret(
    tmp_path: Path, place: int, filler: str, number: int, secret: str, more: str
) -> None:
    path = write(tmp_path, "text.txt", filler * number + "z" * place + secret + more)
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [path, write(tmp_path, "oats.txt", "x1y2")], cutting=Cutting(40, 15))
    known = Redactor().adding({secret.strip(): "KEY"})
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=known) as service:
        hits = (await service.search("x1y2 some oats", names=["base"], top_k=50)).hits
    assert hits
    assert shown_parts([each.content for each in hits], secret.strip()) == []


@pytest.mark.parametrize("is_learned", [False, True])
async def test_how_rare_a_word_is_does_not_depend_on_passages_that_are_not_there(
    tmp_path: Path, is_learned: bool
) -> None:
    visible = {"sea": "A walrus.", "one": "Soup one.", "two": "Soup two.", "three": "Soup three."}
    # Long, so that a search for a single passage meets none of them.
    held = {f"held{number}": f"{PASS} {'and so on ' * 60}{number}" for number in range(10)}
    for folder, texts in (("with", visible | held), ("without", visible)):
        for name, text in texts.items():
            write(tmp_path / folder, f"{name}.txt", text)
    secrets = Redactor(learned=(Learned(),)).adding({"another-known-secret-77": "OTHER"})
    if not is_learned:
        secrets.learn(PASS, "VAULT_PASSWORD")
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        for folder in ("with", "without"):
            await service.add(folder, [tmp_path / folder])

    async with knowledge("sqlite:///kb.db", tmp_path, secrets=secrets) as service:

        async def best(name: str) -> list[tuple[str, float]]:
            hits = (await service.search("walrus soup", names=[name], top_k=1)).hits
            return [(each.content, each.score) for each in hits]

        if is_learned:
            assert await best("with") != await best("without")
            everything = (await service.search(PASS, names=["with"], top_k=20)).hits
            assert sum(PASS in each.content for each in everything) == 10
            secrets.learn(PASS, "VAULT_PASSWORD")
        assert await best("with") == await best("without")
        everything = (await service.search("walrus so on", names=["with"], top_k=20)).hits
        assert {each.content for each in everything} == set(visible.values())


@pytest.mark.parametrize("where", ["a heading", "a name"])
async def test_a_secret_in_a_heading_or_a_name_is_withheld_too(tmp_path: Path, where: str) -> None:
    name, heading = ("vault.md", PASS) if where == "a heading" else (f"{PASS}.md", "Vault")
    write(tmp_path / "docs", name, f"# {heading}\n\nIt opens at night.\n")
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [stored_in(tmp_path / "docs")])
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        hits = (await service.search("tango opens at night", names=["base"], top_k=20)).hits
        assert len(hits) == len(TOPICS)
        assert "It opens at night." not in [each.content for each in hits]


async def test_passages_without_a_vector_are_counted_beside_those_that_are_withheld(tmp_path: Path) -> None:
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [stored_in(tmp_path / "docs", *notations())])
    with closing(sqlite3.connect(tmp_path / "kb.db")) as connection, connection:
        connection.execute("DELETE FROM vector_collection_pack")
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        (notice,) = (await service.search("canteen", names=["base"], for_tool=False)).notices
        assert notice.startswith("8 passages of 'base' have no vector")


async def test_long_headings_are_cut_between_words(tmp_path: Path) -> None:
    for place in range(0, 24, 2):
        write(tmp_path / "docs", f"{place}.md", f"# Vault {PASS} {'door ' * 35}{'x' * place}\n\nIt opens.\n")
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [tmp_path / "docs"])
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=SECRETS) as service:
        hits = (await service.search("vault door opens", names=["base"], top_k=50)).hits
    assert any(each.heading.startswith("… door") for each in hits)
    assert shown_parts([each.heading for each in hits], PASS) == []
