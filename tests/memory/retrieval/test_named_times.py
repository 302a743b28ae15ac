"""A question about a time is answered from times stored with the rows, exactly as from the texts."""

from __future__ import annotations

import random
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.memory import START, Clock, service
from zeus_runtime.memory.database_memory import DatabaseMemory
from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.records.columns import to_ms
from zeus_runtime.memory.retrieval.named_times import NamedTimes, time_column
from zeus_runtime.memory.retrieval.packed_items import ALWAYS_MS
from zeus_runtime.memory.retrieval.time_words import Period, periods, times_of
from zeus_runtime.memory.searching import MemorySearch
from zeus_runtime.memory.service import MemoryService

_SAID: Final = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(
    lambda at: at.replace(tzinfo=UTC, microsecond=0)
)
_TEXTS: Final = st.sampled_from(
    (
        "The user met Ann last week",
        "The user met Ann yesterday and in March 2024",
        "上周用户去了巴黎",
        "Born on 1960-02-28",
        "The user likes tea",
    )
)


@given(st.lists(st.tuples(_TEXTS, _SAID, st.none() | _SAID, st.none() | _SAID), max_size=6), _SAID)
def test_stored_times_are_those_of_the_texts(
    drawn: list[tuple[str, datetime, datetime | None, datetime | None]], at: datetime
) -> None:
    asked = [*periods("in 2024", at), *periods("last month", at), Period(at - timedelta(days=3), at)]
    items = [_item(text, said, since, until) for text, said, since, until in drawn]
    named = NamedTimes()
    for item in items:
        named.add([time_column(item.content, item.said_at)])
    said = np.array([to_ms(item.said_at) for item in items], np.int64)
    valid = [
        np.array([default if time is None else to_ms(time) for time in times], np.int64)
        for default, times in (
            (-ALWAYS_MS, [item.valid_from for item in items]),
            (ALWAYS_MS, [item.valid_until for item in items]),
        )
    ]
    for times in (asked[:1], asked[:2], [Period(*(_day(each) for each in asked[2]))]):
        expected = [any(own.meets(each) for own in times_of(item) for each in times) for item in items]
        assert named.meeting(times, said, valid, ALWAYS_MS).tolist() == expected


def _day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0)


def _item(text: str, said: datetime, since: datetime | None, until: datetime | None) -> MemoryItem:
    return MemoryItem(
        id="mem_1",
        content=text,
        memory_type="fact",
        scope="user",
        scope_id="ann",
        created_by="ann",
        source="user",
        confidence=1.0,
        created_at=said,
        updated_at=said,
        valid_from=since,
        valid_until=until if until is None or since is None or until > since else None,
    )


class Foreign(DatabaseMemory):
    """The bundled backend as one of another author's, whose memories are read to know their times."""

    in_database = False


async def _filled(tmp_path: Path, clock: Clock) -> MemoryService:
    memory = service(tmp_path, clock=clock)
    choose = random.Random(7)
    what, when = ("concert", "dentist", "report", "pizza"), ("last month", "yesterday", "in March 2025", "")
    saved = []
    for number in range(120):
        text = f"The user had {choose.choice(what)} number {number} {choose.choice(when)}".strip()
        since = START + timedelta(days=choose.randrange(90)) if number % 9 == 0 else None
        clock.now = START - timedelta(days=choose.randrange(200))
        saved.append(await memory.add_explicit_memory(text, valid_from=since, replaces=()))
    clock.now = START + timedelta(days=100)
    for each in saved[::11]:
        assert each.item is not None
        await memory.update_memory(each.item.id, content=f"{each.item.content}, corrected yesterday")
    return memory


@pytest.mark.parametrize("anew", [False, True], ids=["as written", "read anew"])
async def test_a_question_of_a_time_is_answered_as_by_reading_all(tmp_path: Path, anew: bool) -> None:
    clock = Clock()
    memory = await _filled(tmp_path, clock)
    if anew:
        await memory.aclose()
        memory = service(tmp_path, clock=clock)
    found, opened = [], memory._shared
    for query in (
        "concert last month",
        "pizza yesterday",
        "dentist in March 2025",
        "last week",
        "bicycle in 2025",
    ):
        ours, theirs = [
            await MemorySearch(opened, memory.caller, backend(opened, memory.caller)).best(
                query, limit=7, mode="fused", memory_type=None, scope=None
            )
            for backend in (DatabaseMemory, Foreign)
        ]
        assert [(each.item.id, round(each.final_score, 9)) for each in ours] == [
            (each.item.id, round(each.final_score, 9)) for each in theirs
        ], query
        found += ours
    assert len(found) > 20
    await memory.aclose()


async def test_rows_from_before_get_their_times_when_the_memory_is_opened(tmp_path: Path) -> None:
    clock = Clock()
    memory = service(tmp_path, clock=clock)
    for year in (2021, 2022):
        await memory.add_explicit_memory(f"The user saw a comet in March {year}", replaces=())
    await memory.aclose()
    with sqlite3.connect(tmp_path / "memory.db") as raw:
        raw.execute("UPDATE memory_item SET times = NULL")
        raw.execute("UPDATE memory_place SET analysis = 0")
    raw.close()
    memory = service(tmp_path, clock=clock)
    for year in (2021, 2022):
        (found,) = await memory.search_memories(f"Which comet in {year}?", k=1)
        assert found.item.content.endswith(str(year))
    await memory.aclose()
