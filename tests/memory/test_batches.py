"""Batches of memory changes: each proposal is applied once, and an undo leaves no trace in what is shown."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import forked
from tests.support.applying import CONTENTS, opened
from tests.support.databases import execute
from tests.support.memory import service
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.batches import CallPrice, FormedAnswer
from zeus_runtime.memory.consolidation import consolidate
from zeus_runtime.memory.items import Caller, MemoryItem
from zeus_runtime.memory.proposals import MemoryChange, Proposal, ProposedMemory, as_json, from_json
from zeus_runtime.memory.service import MemoryService

PRICE = CallPrice("m", 100, 10, 0.01)
DAY = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("number", [0, 2])
async def test_a_process_killed_between_two_facts_loses_none_and_saves_none_twice(
    tmp_path: Path, database_url: str, number: int
) -> None:
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION vector")
    memory = opened(tmp_path, database_url)
    old = (await memory.add_explicit_memory("The user lives in Lyon")).item
    assert old is not None
    words = [sys.executable, "-m", "tests.support.applying", tmp_path, database_url, str(number)]
    killed = await asyncio.to_thread(forked.run, words, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {each.content for each in await memory.list_memories()} == (
        {old.content} if number == 0 else set(CONTENTS[:number])
    )
    assert (await memory.batches.cursor("s1")).seq == 4
    (batch,) = await memory.batches.unfinished("s1")
    await memory.batches.apply(batch)
    assert sorted(each.content for each in await memory.list_memories()) == sorted(CONTENTS)
    assert await memory.batches.unfinished("s1") == []
    await memory.check()
    undone = await memory.batches.undo(batch.id)
    assert (len(undone.removed), undone.restored) == (4, (old.id,))
    assert [(each.id, each.valid_until) for each in await memory.list_memories()] == [(old.id, None)]
    await memory.check()
    await memory.aclose()


TEXTS = (
    "The user lives in Lyon",
    "The user lives in Berlin",
    "The user drinks green tea",
    "The user works as a nurse",
    "My name is Ann",
    "I always use Vim",
)


def visible(items: list[MemoryItem]) -> set[tuple[Any, ...]]:
    shown = "id content memory_type scope status subject valid_from valid_until superseded_by trust".split()
    return {tuple(getattr(item, name) for name in shown) for item in items}


def proposals(ids: list[str]) -> st.SearchStrategy[list[Proposal]]:
    new = st.builds(
        ProposedMemory,
        content=st.sampled_from(TEXTS),
        memory_type=st.just("fact"),
        scope=st.sampled_from(["user", "project"]),
        confidence=st.sampled_from([0.5, 0.9]),
        source=st.sampled_from(["user", "project_resource"]),
        source_id=st.just("s1:1"),
        valid_from=st.sampled_from([None, DAY, LATER]),
        replaces=st.lists(st.sampled_from(ids), max_size=2).map(tuple),
    )
    change = st.builds(
        MemoryChange,
        id=st.sampled_from(ids),
        version=st.sampled_from([1, 2]),
        valid_until=st.sampled_from([DAY, LATER]),
        retires=st.booleans(),
    )
    return st.lists(st.one_of(new, change), max_size=5)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_undo_after_a_batch_shows_what_was_shown_before(data: st.DataObject) -> None:
    async def law(memory: MemoryService) -> None:
        saved = [await memory.add_explicit_memory(each) for each in TEXTS[2:5]]
        await memory.profiles.draw("user")
        ids = [each.item.id for each in saved if each.item is not None]
        listed = await memory.list_memories(status=None)
        profile = await memory.profiles.fields("user")
        wanted = data.draw(proposals(ids))
        kind = data.draw(st.sampled_from(["extraction", "consolidation"]))
        batch = await memory.batches.begin(kind, wanted, PRICE)
        assert batch is not None
        await memory.batches.apply(batch)
        effect = await memory.batches.undo_effect(batch.id)
        undone = await memory.batches.undo(batch.id)
        assert [tuple(each.id for each in items) for items in effect] == [undone.removed, undone.restored]
        with pytest.raises(UsageError, match="undone already"):
            await memory.batches.undo_effect(batch.id)
        assert visible(await memory.list_memories(status=None)) == visible(listed)
        shown = [(each.name, each.value) for each in await memory.profiles.fields("user")]
        assert shown == [(each.name, each.value) for each in profile]
        await memory.check()

    async def opened_for_it(folder: Path) -> None:
        memory = service(folder, Caller("ann", "shop", "editor", "s1"))
        try:
            await law(memory)
        finally:
            await memory.aclose()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(opened_for_it(Path(folder)))


@given(proposals(["mem_1", "mem_2"]))
def test_proposals_are_stored_as_they_are(wanted: list[Proposal]) -> None:
    assert [from_json(as_json(each)) for each in wanted] == wanted


async def test_a_consolidation_merges_dates_retires_and_draws_the_profile_anew(tmp_path: Path) -> None:
    memory = service(tmp_path, Caller("ann", session_id="s1"))
    texts = (
        "My name is Anna",
        "The user has a cat",
        "The cat is called Momo",
        "The user lives in Lyon",
        "An exam is on Monday",
    )
    saved = [(await memory.add_explicit_memory(each, replaces=[])).item for each in texts]
    name, cat, momo, lyon, exam = (each.id for each in saved if each is not None)
    await memory.profiles.draw("user")
    asked: list[str] = []

    async def ask(system: str, text: str, schema: dict[str, Any]) -> FormedAnswer:
        asked.append(text)
        merge = {
            "ids": [cat, momo],
            "content": "The user has a cat called Momo",
            "memory_type": "fact",
            "subject": None,
        }
        alone = {**merge, "ids": [exam, "mem_0"]}
        dated = {"id": lyon, "valid_from": "2020-05-01", "valid_until": None}
        answer = {"merges": [merge, alone], "dates": [dated], "retired": [exam, name, cat]}
        return FormedAnswer(answer, PRICE)

    before = visible(await memory.list_memories(status=None))
    batch = await consolidate(memory, ask)
    assert batch is not None
    assert {(each.content, each.valid_from) for each in await memory.list_memories()} == {
        ("The user has a cat called Momo", None),
        ("The user lives in Lyon", datetime(2020, 5, 1, tzinfo=UTC)),
    }
    fields = {each.name: each.value for each in await memory.profiles.fields("user")}
    assert not fields["username"], "the line of a retired memory is gone"
    (listed,) = await memory.batches.listed()
    assert (listed.batch.kind, listed.outcomes) == (
        "consolidation",
        {"superseded": 1, "retired": 2, "dated": 1},
    )
    assert (await memory.check_rate_limit()).used == 0
    await memory.batches.undo(batch)
    assert visible(await memory.list_memories(status=None)) == before
    fields = {each.name: each.value for each in await memory.profiles.fields("user")}
    assert fields["username"] == "Anna"
    await memory.aclose()


async def test_a_memory_that_was_changed_since_the_model_saw_it_is_left_alone(tmp_path: Path) -> None:
    memory = service(tmp_path, Caller("ann", session_id="s1"))
    item = (await memory.add_explicit_memory("The user lives in Lyon")).item
    assert item is not None
    await memory.update_memory(item.id, content="The user lives in Nantes")
    batch = await memory.batches.begin("consolidation", [MemoryChange(item.id, 1, retires=True)], PRICE)
    assert batch is not None
    await memory.batches.apply(batch)
    assert [each.content for each in await memory.list_memories()] == ["The user lives in Nantes"]
    (listed,) = await memory.batches.listed()
    assert listed.outcomes == {"outdated": 1}
    await memory.aclose()
