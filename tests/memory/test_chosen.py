"""A user's own embedding model: where the choice is kept, what it decides, and what becomes of older vectors."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import database_url, postgres_server, postgres_url
from tests.support.memory import HashingEmbedder, OutsideStore, service
from zeus_runtime import Agent, MissingError, OptionsError
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.items import Caller, Embedding
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.plugin import Ref
from zeus_runtime.plugin.embedding import Embedder

__all__ = ["database_url", "postgres_server", "postgres_url"]

OWN = Ref("own", {"dimension": 32})
PROBE = """
from zeus_runtime.plugin import Component, hookimpl
from tests.support.memory import HashingEmbedder


@hookimpl
def register_embeddings():
    return [Component("own", create=lambda options, context: HashingEmbedder(32, model="own"))]
"""


def opened(user: str, choice: Ref) -> Embedder:
    if choice.name != "own":
        raise MissingError(f"there is no {choice.name}")
    return HashingEmbedder(choice.options["dimension"], model="own")


def memory_of(folder: Path, user: str = "ann", **more: Any) -> MemoryService:
    return service(folder, Caller(user, session_id="s1"), open_chosen=opened, **more)


async def model_of(memory: MemoryService, text: str) -> str:
    item = (await memory.add_explicit_memory(text)).item
    assert item is not None
    assert item.embedding is not None
    return item.embedding.model


async def test_a_choice_is_kept_and_given_back(tmp_path: Path, database_url: str) -> None:
    (tmp_path / ".zeus").mkdir()

    def memory() -> MemoryService:
        return memory_of(tmp_path, url=database_url, open_vectors=OutsideStore)

    first = memory()
    assert await first.embeddings.chosen() is None
    await first.embeddings.choose(Ref("own", {"dimension": 16}))
    await first.embeddings.choose(OWN)
    await first.aclose()
    second = memory()
    assert await second.embeddings.chosen() == OWN
    await second.embeddings.choose(None)
    await second.aclose()
    assert await second.embeddings.chosen() is None
    await second.aclose()


async def test_what_is_saved_and_asked_after_a_choice_is_embedded_by_it_in_the_next_process_too(
    tmp_path: Path,
) -> None:
    memory = memory_of(tmp_path)
    assert await model_of(memory, "The user plays the piano") == "hashing"
    await memory.embeddings.choose(OWN)
    assert await model_of(memory, "The user drinks green tea") == "own"
    await memory.aclose()
    later = memory_of(tmp_path)
    assert await model_of(later, "The user owns a red bicycle") == "own"
    await later.embeddings.choose(None)
    assert await model_of(later, "The user lives in a small town") == "hashing"
    await later.aclose()


async def test_rows_of_another_model_are_not_compared_until_they_are_embedded_again(
    tmp_path: Path,
) -> None:
    memory = memory_of(tmp_path)
    await memory.add_explicit_memory("The user plays the piano")
    await memory.embeddings.choose(OWN)
    assert await memory.search_memories("piano", mode="vector") == []
    assert [each.item.content for each in await memory.search_memories("piano")] == [
        "The user plays the piano"
    ], "words still find it"
    await memory.aclose()  # finishes what it does in the background
    assert (await memory.stats()).waiting == 0
    (found,) = await memory.search_memories("piano", mode="vector")
    assert found.item.embedding == Embedding("own", 32)
    assert (await memory.stats()).waiting == 0
    await memory.check()
    await memory.embeddings.choose(None)
    assert await memory.search_memories("piano", mode="vector") == []
    assert await memory.embeddings.reindex() == 1
    assert len(await memory.search_memories("piano", mode="vector")) == 1
    await memory.aclose()


async def test_memories_of_another_model_are_counted_once_with_a_remedy_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = memory_of(tmp_path, embedder=HashingEmbedder(32, model="text-embedding-3-small"))
    await before.add_explicit_memory("The user plays the piano")
    await before.search_memories("piano")
    await before.aclose()
    assert caplog.messages == []
    memory = memory_of(tmp_path)
    for _ in range(2):
        (found,) = await memory.search_memories("piano")
        assert found.item.content == "The user plays the piano"
    await memory.aclose()
    (told,) = caplog.messages
    assert told.startswith("1 memories were embedded by another model than hashing")
    assert "memory.embeddings" in told
    assert "zeus memory reindex" in told
    assert await memory.embeddings.reindex() == 1
    await memory.aclose()


async def test_an_agent_embeds_again_what_the_user_s_choice_did_not_and_goes_on_where_another_stopped(
    tmp_path: Path,
) -> None:
    memory = memory_of(tmp_path)
    for text in ("The user plays the piano", "The user drinks tea"):
        await memory.add_explicit_memory(text)
    await memory.embeddings.choose(OWN)
    assert (await memory.stats()).waiting == 2
    await memory.aclose()
    agent = memory_of(tmp_path)
    await agent.search_memories("piano")
    await agent.aclose()
    later = memory_of(tmp_path)
    assert (await later.stats()).waiting == 0
    assert await later.embeddings.embed_again() == 0
    await later.check()
    await later.aclose()


async def test_memories_without_a_vector_are_not_counted_as_another_models(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = memory_of(tmp_path, words_only=True)
    await before.add_explicit_memory("The user plays the piano")
    await before.aclose()
    memory = memory_of(tmp_path)
    assert len(await memory.search_memories("piano")) == 1
    await memory.aclose()
    assert [each for each in caplog.messages if "another model" in each] == []


async def test_a_choice_is_the_users_own_on_what_they_share(tmp_path: Path) -> None:
    ann = memory_of(tmp_path)
    bob = ann.for_caller(Caller("bob"))
    await bob.embeddings.choose(OWN)
    assert await model_of(ann, "The user plays the piano") == "hashing"
    assert await model_of(bob, "The user plays the piano") == "own"
    assert len(await ann.search_memories("piano", mode="vector")) == 1
    assert len(await bob.search_memories("piano", mode="vector")) == 1
    assert await ann.embeddings.chosen() is None
    await ann.aclose()


async def test_vectors_lost_outside_are_made_again_by_each_authors_own_model(tmp_path: Path) -> None:
    ann = memory_of(tmp_path, open_vectors=OutsideStore)
    bob = ann.for_caller(Caller("bob"))
    await bob.embeddings.choose(OWN)
    for who in (ann, bob):
        await model_of(who, "The user plays the piano")
    await ann.aclose()
    emptied = OutsideStore()
    again = memory_of(tmp_path, open_vectors=lambda: emptied)
    await again.list_memories()
    await again.aclose()
    assert {entry.item.created_by: entry.embedding.model for entry in emptied.kept.values()} == {
        "ann": "hashing",
        "bob": "own",
    }


async def test_one_users_broken_choice_leaves_the_vectors_of_others_to_be_made_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ann = memory_of(tmp_path, open_vectors=OutsideStore)
    bob, cid = ann.for_caller(Caller("bob")), ann.for_caller(Caller("cid"))
    await bob.embeddings.choose(OWN)
    await cid.embeddings.choose(OWN)
    for who in (bob, ann, cid):
        await model_of(who, "The user plays the piano")
    await ann.aclose()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
        connection.execute("UPDATE user_setting SET value = '{' WHERE user_id = 'bob'")
        connection.execute("UPDATE user_setting SET value = '\"gone\"' WHERE user_id = 'cid'")
    emptied = OutsideStore()
    again = memory_of(tmp_path, open_vectors=lambda: emptied)
    await again.list_memories()
    await again.aclose()
    assert {entry.item.created_by for entry in emptied.kept.values()} == {"ann"}
    said = [
        record.getMessage() for record in caplog.records if "wait for their vectors" in record.getMessage()
    ]
    assert [next(name for name in ("ann", "bob", "cid") if repr(name) in each) for each in said] == [
        "bob",
        "cid",
    ]


async def test_a_model_that_cannot_be_made_is_refused_and_the_former_choice_stays(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    await memory.embeddings.choose(OWN)
    with pytest.raises(MissingError):
        await memory.embeddings.choose(Ref("nothing"))
    with pytest.raises(UsageError, match="cannot be stored"):
        await memory.embeddings.choose(Ref("own", {"dimension": {1, 2}}))
    assert await memory.embeddings.chosen() == OWN
    await memory.aclose()


async def test_a_memory_that_has_no_config_has_no_choice(tmp_path: Path) -> None:
    memory = service(tmp_path)
    with pytest.raises(UsageError, match="cannot be chosen"):
        await memory.embeddings.choose(OWN)
    await memory.aclose()


@pytest.mark.parametrize("kept", ["{", "null", "7", '{"a": 1, "b": 2}'])
async def test_a_spoilt_choice_is_an_error_that_can_be_mended(tmp_path: Path, kept: str) -> None:
    memory = memory_of(tmp_path)
    await memory.embeddings.choose(OWN)
    await memory.aclose()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
        connection.execute("UPDATE user_setting SET value = ?", (kept,))
    with pytest.raises(OptionsError, match="'ann'"):
        await memory.search_memories("piano")
    assert await memory.list_memories() == [], "what needs no model goes on"
    await memory.embeddings.choose(None)
    assert await memory.search_memories("piano") == []
    await memory.aclose()


def of_config(folder: Path, **memory: Any) -> MemoryService:
    (folder / "own.py").write_text(PROBE)
    (folder / "zeus.yaml").write_text(
        f"version: 1\nmodel: gpt-4o\nmemory: {{user: ann, embeddings: {memory.get('embeddings', 'static')}}}\n"
        "plugins: {files: [own.py]}\n"
    )
    made = Agent.from_config(directory=folder, environ={}).plan.context.memory
    assert made is not None
    return made


async def test_an_agents_memory_honours_the_choice_over_its_config(tmp_path: Path) -> None:
    memory = of_config(tmp_path)
    await memory.embeddings.choose(Ref("own"))
    await memory.aclose()
    later = of_config(tmp_path)
    assert await model_of(later, "The user plays the piano") == "own"
    assert await model_of(later.for_caller(Caller("bob")), "The user plays the piano") != "own"
    await later.aclose()


@pytest.mark.parametrize(
    ("choice", "error", "words"),
    [
        (Ref("nothing"), MissingError, "nothing"),
        (Ref("static", {"charakters": False}), OptionsError, "charakters"),
        (Ref("litellm", {"batch_size": 0, "dimension": 3}), OptionsError, "'ann' chose"),
        (Ref("litellm", {"api_key": "sk-12345"}), OptionsError, "key among its options"),
        (Ref("litellm"), MissingError, "OPENAI_API_KEY"),
        (Ref("onnx", {"path": "models/none"}), MissingError, "models/none"),
    ],
    ids=["no such component", "unknown option", "wrong option", "secret", "no key", "no file"],
)
async def test_a_choice_that_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, choice: Ref, error: type[Exception], words: str
) -> None:
    memory = of_config(tmp_path)
    with pytest.raises(error, match=words) as caught:
        await memory.embeddings.choose(choice)
    assert caught.value.remedy  # type: ignore[attr-defined]
    assert "sk-12345" not in str(caught.value)
    assert await memory.embeddings.chosen() is None
    await memory.aclose()
