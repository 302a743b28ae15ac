"""Times that a text names become periods, in the language of the text; a question of a time finds what is of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.memory import Clock, service
from zeus_runtime.memory.retrieval import time_words
from zeus_runtime.memory.retrieval.time_words import periods, without_times

AT = datetime(2026, 5, 15, 12, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did I do last week?", "2026-05-04", "2026-05-11"),
        ("Was habe ich gestern gegessen?", "2026-05-14", "2026-05-15"),
        ("vor zwei Wochen war ich da", "2026-04-27", "2026-05-04"),
        ("我昨天做了什么?", "2026-05-14", "2026-05-15"),
        ("上周去了哪里", "2026-05-04", "2026-05-11"),
        ("2025年3月", "2025-03-01", "2025-04-01"),
        ("Where was I in March?", "2026-03-01", "2026-04-01"),
        ("Where was I in May?", "2026-05-01", "2026-06-01"),
        ("Where was I in November?", "2025-11-01", "2025-12-01"),
        ("im März", "2026-03-01", "2026-04-01"),
        ("en mars 2025", "2025-03-01", "2025-04-01"),
        ("el mes pasado", "2026-04-01", "2026-05-01"),
        ("вчера", "2026-05-14", "2026-05-15"),
        ("It broke on 2026-02-28", "2026-02-28", "2026-03-01"),
        ("What did I earn in 2024?", "2024-01-01", "2025-01-01"),
        ("What did I say on Monday?", "2026-05-11", "2026-05-12"),
        ("What happens next month?", "2026-06-01", "2026-07-01"),
    ],
)
def test_a_period_is_found(text: str, start: str, end: str) -> None:
    (found,) = periods(text, AT)
    assert (f"{found.start:%Y-%m-%d}", f"{found.end:%Y-%m-%d}") == (start, end)


@pytest.mark.parametrize(
    "text",
    ["May I ask you something?", "The sun is up", "It costs 2000.50 euros", "我喜欢喝茶", ""],
)
def test_what_names_no_time_has_no_period(text: str) -> None:
    assert periods(text, AT) == []


@given(st.text(max_size=40), st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))
def test_any_text_at_any_time_has_periods_that_end_after_they_begin(text: str, at: datetime) -> None:
    assert all(each.start < each.end for each in periods(text, at.replace(tzinfo=UTC)))


async def test_a_question_of_a_time_finds_what_was_said_in_it_or_of_it(tmp_path: Path) -> None:
    clock = Clock()
    clock.now = datetime(2026, 3, 10, tzinfo=UTC)
    memory = service(tmp_path, clock=clock)

    async def said(text: str, day: datetime) -> str:
        clock.now = day.replace(tzinfo=UTC)
        saved = await memory.add_explicit_memory(text, replaces=())
        assert saved.item is not None
        return saved.item.id

    rome = await said("The user ate pizza in Rome", datetime(2026, 3, 10))
    oslo = await said("The user ate pizza in Oslo", datetime(2026, 4, 20))
    concert = await said("The user heard a concert last month", datetime(2026, 4, 25))
    clock.now = datetime(2026, 5, 15, tzinfo=UTC)
    assert [each.item.id for each in await memory.search_memories("pizza in March", k=1)] == [rome]
    assert [each.item.id for each in await memory.search_memories("pizza last month", k=1)] == [oslo]
    found = await memory.search_memories("Wo war ich im März?")
    assert {each.item.id for each in found} == {rome, concert}
    assert await memory.search_memories("Wo war ich 2019?") == []
    await memory.aclose()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Who called last week?", "Who called  ?"),
        ("Who answers the phone on Sunday?", "Who answers the phone on Sunday?"),
        ("Who was ill on Monday in March 2026?", "Who was ill on Monday in  ?"),
        ("周三谁做饭", "周三谁做饭"),
    ],
)
def test_days_of_the_week_are_times_and_words(text: str, left: str) -> None:
    assert without_times(text, AT) == left


async def test_a_question_of_a_day_of_the_week_finds_what_happens_on_it_each_week(tmp_path: Path) -> None:
    clock = Clock()
    clock.now = AT
    memory = service(tmp_path, clock=clock)
    for number, day in enumerate(("Saturdays", "Sundays", "Mondays")):
        saved = await memory.add_explicit_memory(
            f"Colleague {number} answers the phone on {day}", replaces=()
        )
        assert saved.item is not None
    (best, *_) = await memory.search_memories("Who answers the phone on Sunday?")
    assert best.item.content == "Colleague 1 answers the phone on Sundays"
    await memory.aclose()


@pytest.mark.parametrize("code", [*sorted(time_words._CODES.values()), "zh", "ja", "ko"])
def test_what_is_skipped_names_no_time(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a text decide which expressions are tried; without that, nothing else is found."""
    words = time_words._words(code)
    counted = [_sample(pattern.pattern) for pattern, _, _ in words.counted]
    texts = [f"Ann war, {phrase.upper()}, in Rom" for phrase in (*words.names, *counted)]
    texts += [f"{phrase} in Rom" for phrase in (*words.names, *counted)]
    monkeypatch.setattr(time_words, "_codes", lambda _: [code])
    found = [time_words._found(text, AT) for text in texts]
    monkeypatch.setattr(time_words._TimeWords, "may_name", lambda _, there: True)
    monkeypatch.setattr(time_words._TimeWords, "may_count", lambda _, there: True)
    assert found == [time_words._found(text, AT) for text in texts]
    assert sum(map(bool, found)) > len(found) / 3


def _sample(pattern: str) -> str:
    """A text that the counted pattern fits."""
    inside = re.sub(r"^\(\?<!\\w\)\(\?:|\)\(\?!\\w\)$|^\(\?:|\)$", "", pattern)
    return re.sub(r"\(\\d[^)]*\)", "3", inside).replace("\\", "")
