"""Memories that were saved before their secrets were known: a search answers as if they were not there."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from tests.memory.test_backend import Careless
from tests.support.databases import execute
from tests.support.memory import OutsideStore, numbered, service
from zeus_runtime.config.secrets.masking import Learned, Redactor
from zeus_runtime.memory.backend import FoundMemory, MemoryFilter, MemoryWrite, Written
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.service import MemoryService

PASS = "purple-walrus-tango-4417"
SECRETS = Redactor().adding({PASS: "VAULT_PASSWORD"})
TEXTS = (
    "The canteen opens at noon.",
    "Trains are booked by the office, and never on a walrus.",
    "Thirty days of holiday each year.",
    "The garage opens with the badge in March 2026.",
    "Visitors are announced a day ahead.",
)
HELD = (
    f"The vault of the team opens with {PASS} at night.",
    f"The walrus of the shop is called {PASS}",
    f"In March 2026 the badger had {PASS} on it.",
)
WRITTEN = base64.b64encode(f"vault:{PASS}".encode()).decode()
ENCODED = (
    f"The badger of the shop is {WRITTEN}",
    f"In March 2026 the zebra had {WRITTEN} on it.",
    f"The lantern of the pier has {WRITTEN}",
)
WORDS = ("purple", "walrus", "tango", "4417", "badger", "zebra", "vault", "walrus tango purple")
Answers = list[Any]


async def filled(memory: MemoryService, *texts: str) -> None:
    for text in texts:
        saved = await memory.add_explicit_memory(text, replaces=[])
        assert saved.outcome == "stored", saved


async def answers(memory: MemoryService) -> Answers:
    found: Answers = []
    for word in WORDS:
        for query in (word, f"{word} canteen", f"{word} canteen office badge day", f"{word} in March 2026"):
            for k in (1, 5):
                ranked = await memory.search_memories(query, k=k)
                past = await memory.search_past(query, k=k)
                # Cosines are float32, and their last digits depend on how many are compared at once.
                found.append([(each.item.content, round(each.final_score, 6)) for each in (*ranked, *past)])
    return found


@pytest.fixture(params=["in the database", "outside", "words only"])
def how(request: pytest.FixtureRequest, database_url: str) -> dict[str, Any]:
    beside: Callable[[], Any] = SqliteVectorStore
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION vector")
        beside = PgVectorStore
    kept: dict[str, Any] = {}
    return {
        "url": database_url,
        "open_vectors": (lambda: OutsideStore(kept)) if request.param == "outside" else beside,
        "words_only": request.param == "words only",
    }


async def of_two_users(folder: Path, how: dict[str, Any]) -> tuple[MemoryService, MemoryService]:
    """Ann's memories, some of which hold a secret that is not known yet, and Bob's, which are the others of them."""
    (folder / ".zeus").mkdir()
    memory = service(folder, new_id=numbered(), **how)
    await filled(memory, *TEXTS, *HELD)
    other = memory.for_caller(Caller("bob"))
    await filled(other, *TEXTS)
    return memory, other


async def test_a_guess_at_a_word_of_a_secret_is_answered_as_if_its_memory_were_not_there(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    memory, other = await of_two_users(tmp_path, how)
    assert await answers(memory) != await answers(other)
    await memory.aclose()
    memory = service(tmp_path, new_id=numbered("n"), secrets=SECRETS, **how)
    other = memory.for_caller(Caller("bob"))
    assert await answers(memory) == await answers(other)
    await memory.aclose()


async def test_a_memory_that_holds_a_secret_in_another_spelling_is_found_by_no_word(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    (tmp_path / ".zeus").mkdir()
    memory = service(tmp_path, new_id=numbered(), **how)
    await filled(memory, *TEXTS, *ENCODED)
    assert ENCODED[1] in [each.item.content for each in await memory.search_memories("zebra", k=2)]
    await memory.aclose()
    memory = service(tmp_path, new_id=numbered("n"), secrets=SECRETS, **how)
    saved = await memory.add_explicit_memory("The badger of the shop is away.")
    assert (saved.outcome, saved.near) == ("stored", ())
    for query in ("lantern of the pier", "zebra in March 2026", "zebra", "March 2026"):
        found = await memory.search_memories(query, k=2)
        assert set(ENCODED).isdisjoint(each.item.content for each in found)
    await memory.aclose()


async def test_no_score_depends_on_a_memory_whose_secret_is_learned_later(tmp_path: Path) -> None:
    secrets = Redactor(learned=(Learned(),))
    memory = service(tmp_path, secrets=secrets)
    other = memory.for_caller(Caller("bob"))
    await filled(memory, *TEXTS, HELD[0])
    await filled(other, *TEXTS)
    # It meets no memory with the secret, but these count in how rare its words are.
    (before,) = await memory.search_memories("walrus canteen", k=1)
    secrets.learn(PASS, "VAULT_PASSWORD")
    (after,) = await memory.search_memories("walrus canteen", k=1)
    (expected,) = await other.search_memories("walrus canteen", k=1)
    assert before.item.content == after.item.content == expected.item.content
    assert round(after.similarity, 6) == round(expected.similarity, 6) != round(before.similarity, 6)
    await memory.aclose()


async def test_saving_a_guess_tells_no_more_than_searching_for_it(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    memory, other = await of_two_users(tmp_path, how)
    await memory.aclose()
    memory = service(tmp_path, new_id=numbered("n"), secrets=SECRETS, **how)
    other = memory.for_caller(Caller("bob"))
    for text in (
        "The vault of the team opens with purple walrus tango 4417 at night.",
        "The vault of the team opens with purple walrus tango 4418 at night.",
        "The badger of the shop is away.",
        "The zebra had it in April.",
    ):
        told = []
        for each in (memory, other):
            decision = await each.check_duplicate(text)
            saved = await each.add_explicit_memory(text)
            told.append(
                (type(decision), saved.outcome, saved.message, sorted(near.content for near in saved.near))
            )
        assert told[0] == told[1]
    await memory.aclose()


async def test_a_memory_is_withheld_once_its_secret_is_learned_and_found_once_it_holds_none(
    tmp_path: Path,
) -> None:
    secrets = Redactor(learned=(Learned(),))
    memory = service(tmp_path, secrets=secrets)
    await filled(memory, *TEXTS, HELD[0])
    (first, *_) = await memory.search_memories("vault tango walrus")
    assert first.item.content == HELD[0]
    secrets.learn(PASS, "VAULT_PASSWORD")
    assert HELD[0] not in [each.item.content for each in await memory.search_memories("vault tango walrus")]
    await filled(memory, "The vault of the shop has a wooden door.")
    assert HELD[0] not in [each.item.content for each in await memory.search_memories("vault tango walrus")]
    await memory.update_memory(first.item.id, content="The vault of the team opens with a word at night.")
    assert first.item.id in [each.item.id for each in await memory.search_memories("vault of the team")]
    await memory.aclose()


async def test_an_archived_memory_with_a_secret_is_not_found_in_the_past(tmp_path: Path) -> None:
    memory = service(tmp_path)
    await filled(memory, *HELD)
    for each in await memory.list_memories():
        await memory.update_memory(each.id, status="archived")
    assert await memory.search_past("walrus") != []
    await memory.aclose()
    memory = service(tmp_path, secrets=SECRETS)
    assert await memory.search_past("walrus") == []
    assert await memory.search_past("vault of the team") == []
    await memory.aclose()


async def test_a_reader_who_may_see_the_secret_finds_its_memory(tmp_path: Path) -> None:
    memory = service(tmp_path)
    await filled(memory, *TEXTS, HELD[0])
    await memory.aclose()
    memory = service(tmp_path, secrets=SECRETS, masked=Redactor())
    assert HELD[0] in [each.item.content for each in await memory.search_memories("tango")]
    await memory.aclose()


class Elsewhere(Careless):
    """Its engine finds everything, and no more than it is asked for."""

    async def save(self, write: MemoryWrite) -> Written:
        written = write.decide([FoundMemory(each, 0.7) for each in self.kept.values()])
        self.kept |= {item.id: item for _, item in written.changes}
        return written

    async def search(self, query: str, wanted: MemoryFilter, *, limit: int) -> Sequence[FoundMemory]:
        return list(await super().search(query, wanted, limit=limit))[:limit]


async def test_memories_of_another_backend_are_left_out_before_the_result_is_cut(tmp_path: Path) -> None:
    backend = Elsewhere()
    memory = service(tmp_path, open_backend=lambda: backend, new_id=numbered())
    await filled(memory, *HELD, *TEXTS)
    await memory.aclose()
    memory = service(tmp_path, open_backend=lambda: backend, secrets=SECRETS)
    found = await memory.search_memories("walrus", k=2)
    assert [each.item.content for each in found] == list(TEXTS[:2])
    found = await memory.search_memories("walrus in March 2026", k=5)
    assert {each.item.content for each in found} == set(TEXTS)
    found = await memory.search_memories("March 2026", k=5)
    assert [each.item.content for each in found] == [TEXTS[3]]
    held = next(each for each in backend.kept.values() if each.content == HELD[0])
    saved = await memory.add_explicit_memory(
        "The vault of the team opens with purple walrus tango 4418 at night."
    )
    assert saved.near
    assert (saved.outcome, held.id in [each.id for each in saved.near]) == ("stored", False)
    saved = await memory.add_explicit_memory("The vault has another pass phrase now.", replaces=[held.id])
    assert [each.id for each in saved.all_replaced] == [held.id]
    await memory.aclose()
