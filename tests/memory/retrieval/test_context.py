"""What turns around a turn, and subjects, add to the words of a memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.support.memory import service
from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.retrieval.subjects import Subjects
from zeus_runtime.memory.retrieval.turns import AFTER, BEFORE, Turns
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.turns import after, before, turn_of


@pytest.mark.parametrize("source_id", [None, "chat", "#1", "chat#", "chat#1x", "https://a.example/#part"])
def test_other_sources_are_no_turns(source_id: str | None) -> None:
    assert turn_of(source_id) is None
    assert before(source_id) is None


def test_the_turns_beside_a_turn() -> None:
    assert (before("chat#1#7"), after("chat#1#7")) == ("chat#1#6", "chat#1#8")


def test_a_turn_has_shares_of_the_scores_around_it_in_any_order_of_arrival() -> None:
    turns = Turns()
    turns.add(["b#2", None, "a#3", "a#1"])
    turns.add(["a#2"])
    scores = np.array([1.0, 10.0, 100.0, 1_000.0, 0.0])
    found = turns.in_context(scores, np.ones(5, np.bool_))
    assert found.tolist() == pytest.approx(
        [1, 10, 100 + BEFORE[1] * 1_000, 1_000, BEFORE[0] * 1_000 + AFTER * 100]
    )


def test_a_turn_that_is_not_visible_adds_nothing() -> None:
    turns = Turns()
    turns.add(["a#1", "a#2"])
    found = turns.in_context(np.array([5.0, 1.0]), np.array([False, True]))
    assert found.tolist() == [5 + AFTER, 1]


def test_a_changed_turn_takes_the_place_of_its_former_version() -> None:
    turns = Turns()
    turns.add(["a#1", "a#2", "a#1"])
    found = turns.in_context(np.array([7.0, 0.0, 2.0]), np.array([False, True, True]))
    assert found[1] == pytest.approx(BEFORE[0] * 2)


def test_a_subject_is_found_by_each_of_its_words() -> None:
    subjects = Subjects()
    subjects.add(["Priya Shah", None, "Walter"])
    subjects.add(["Priya Shah"])
    assert subjects.slots_of(["priya"]).tolist() == [0, 3]
    assert subjects.slots_of(["walter", "shah"]).tolist() == [0, 2, 3]
    assert subjects.slots_of(["mei"]).tolist() == []


CHAT = [
    ("Nadia", "What is your favourite book these days?"),
    ("Tomas", "Charlotte's Web, by far."),
    ("Nadia", "I repaired the roof of my shed."),
    ("Tomas", "I repaired a bicycle and sold it."),
]


async def told(memory: MemoryService, number: int) -> MemoryItem:
    speaker, text = CHAT[number - 1]
    saved = await memory.add_explicit_memory(text, subject=speaker, source_id=f"chat#{number}")
    assert saved.item is not None
    return saved.item


async def test_an_answer_is_found_by_the_words_of_its_question(tmp_path: Path) -> None:
    memory = service(tmp_path)
    items = [await told(memory, number) for number in range(1, 5)]
    found = await memory.search_memories("the favourite book")
    assert items[1].id in [each.item.id for each in found[:2]]
    await memory.aclose()


async def test_a_name_in_a_question_finds_the_turns_of_the_speaker(tmp_path: Path) -> None:
    memory = service(tmp_path)
    items = [await told(memory, number) for number in range(1, 5)]
    for name, answer in (("Nadia", items[2]), ("Tomas", items[3])):
        found = await memory.search_memories(f"What did {name} repair?")
        assert found[0].item.id == answer.id
    await memory.aclose()


async def test_a_prompt_names_the_speaker_of_a_turn(tmp_path: Path) -> None:
    memory = service(tmp_path)
    block = memory.format_memories_for_prompt([await told(memory, 2)])
    assert "] Tomas: Charlotte's Web" in block.text
    await memory.aclose()


async def test_a_deleted_turn_leaves_the_vector_of_the_next_one(tmp_path: Path) -> None:
    memory = service(tmp_path)
    first, second = await told(memory, 1), await told(memory, 2)
    await memory.delete_memory(first.id)
    await memory.aclose()
    alone = await memory.get(second.id)
    assert alone.embedding == second.embedding
    await memory.check()
    (before_it,) = await memory.search_memories("Charlotte's Web", mode="vector", k=1)
    assert before_it.similarity == pytest.approx(1, abs=0.3)
    await memory.aclose()


async def test_words_that_an_older_analysis_indexed_are_indexed_anew(tmp_path: Path) -> None:
    memory = service(tmp_path)
    await memory.add_explicit_memory("The user adopted two cats")
    await memory.aclose()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as raw, raw:
        raw.execute("UPDATE memory_place SET analysis = 0")
        raw.execute("UPDATE memory_item SET words = '1_adopted 1_cat', word_count = 2")
    memory = service(tmp_path)
    found = await memory.search_memories("adopting")
    assert [each.item.content for each in found] == ["The user adopted two cats"]
    await memory.check()
    await memory.aclose()
