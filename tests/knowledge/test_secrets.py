"""Passages that were stored before their secrets were known: a search answers as if they were not there."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.knowledge import ParsedHere, knowledge, write
from zeus_runtime.config.secrets.masking import Learned, Redactor
from zeus_runtime.knowledge import reading
from zeus_runtime.knowledge.service import Cutting, KnowledgeService

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


@pytest.mark.parametrize("top_k", [1, 5])
async def test_a_guess_at_a_word_of_a_secret_is_answered_as_if_its_passage_were_not_there(
    database_url: str, tmp_path: Path, top_k: int
) -> None:
    url = database_url
    async with knowledge(url, tmp_path) as service:
        await service.add("with", [stored_in(tmp_path / "with", *notations())])
        await service.add("without", [stored_in(tmp_path / "without")])
        assert await found(service, "with", top_k) != await found(service, "without", top_k)
    async with knowledge(url, tmp_path, secrets=SECRETS) as service:
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


def shown_parts(contents: Sequence[str], secret: str) -> list[str]:
    """The parts of a secret, of six characters, that are shown."""
    return [part for at in range(len(secret) - 5) if (part := secret[at : at + 6]) in "\n".join(contents)]


@pytest.mark.parametrize("place", range(0, 60, 4))
@pytest.mark.parametrize("how", ["in a long line", "in prose"])
async def test_the_border_of_two_passages_shows_no_half_of_a_secret(
    tmp_path: Path, place: int, how: str
) -> None:
    secret = (
        "sk-proj-Ab12cd34Ef-Gh56ij78Kl-Mn90op12Qr"
        if how == "in a long line"
        else "noble horses eat six quinces"
    )
    filler, number = ("x1y2;", 24) if how == "in a long line" else ("some oats. ", 11)
    text = (
        filler * number
        + "z" * place
        + f" {secret} " * (how == "in prose")
        + secret * (how != "in prose")
        + filler * 40
    )
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("base", [write(tmp_path, "text.txt", text)], cutting=Cutting(40, 15))
    async with knowledge("sqlite:///kb.db", tmp_path, secrets=Redactor().adding({secret: "KEY"})) as service:
        hits = (await service.search("x1y2 some oats", names=["base"], top_k=50)).hits
    assert hits
    assert shown_parts([each.content for each in hits], secret) == []
