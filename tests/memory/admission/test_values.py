"""Numbers, dates and times in one form."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.admission.values import values


def forms(text: str) -> list[tuple[str, str]]:
    return [(value.kind, value.text) for value in values(text)]


@pytest.mark.parametrize(
    ("text", "kind", "form"),
    [
        ("16 members", "number", "16"),
        ("sixteen members", "number", "16"),
        ("10,000 EUR", "number", "10000"),
        ("40k units", "number", "40000"),
        ("1.5 million", "number", "1500000"),
        ("2 million", "number", "2000000"),
        ("2,000,000", "number", "2000000"),
        ("1.2345671 million", "number", "1234567.1"),
        ("1.2345674 million", "number", "1234567.4"),
        ("-5 degrees", "number", "-5"),
        ("16GB", "number", "16"),
        ("团队有16个人", "number", "16"),
        ("团队有十六个人", "number", "16"),
        ("两百五十克", "number", "250"),
        ("三千五百元", "number", "3500"),
        ("v2", "version", "2"),
        ("1.31.2", "version", "1.31.2"),
        ("在1.31.2上", "version", "1.31.2"),
        ("2026-03-01", "date", "2026-3-1-*"),
        ("March 1st, 2026", "date", "2026-3-1-*"),
        ("1 March 2026", "date", "2026-3-1-*"),
        ("2026年3月1日", "date", "2026-3-1-*"),
        ("三月一日", "date", "*-3-1-*"),
        ("in 2024", "date", "2024-*-*-*"),
        ("October", "date", "*-10-*-*"),
        ("Tuesdays", "date", "*-*-*-2"),
        ("星期二", "date", "*-*-*-2"),
        ("周日", "date", "*-*-*-7"),
        ("15:00", "time", "15:00"),
        ("3 pm", "time", "15:00"),
        ("12:30 am", "time", "00:30"),
        ("下午三点", "time", "15:00"),
        ("早上九点半", "time", "09:30"),
    ],
)
def test_a_value_has_one_form_however_it_is_written(text: str, kind: str, form: str) -> None:
    assert forms(text) == [(kind, form)]


@pytest.mark.parametrize(
    "text", ["You may go", "a1b2c3", "utf-8", "md5", "The second opinion", "周到的服务", "none"]
)
def test_what_is_no_value_is_not_taken_for_one(text: str) -> None:
    assert forms(text) == []


@given(st.text())
def test_values_stand_where_they_say_and_in_order(text: str) -> None:
    at = 0
    for value in values(text):
        assert at <= value.start < value.end <= len(text)
        at = value.end


@given(st.integers(0, 999_999))
def test_a_number_reads_the_same_with_and_without_separators(number: int) -> None:
    assert forms(f"It has {number} units") == forms(f"It has {number:,} units") == [("number", str(number))]


@given(st.dates(date(1900, 1, 1), date(2199, 12, 31)))
def test_a_date_reads_the_same_in_every_order(day: date) -> None:
    written = [f"{day:%Y-%m-%d}", f"{day.day} {day:%B} {day:%Y}", f"{day:%B} {day.day}, {day:%Y}"]
    assert len({tuple(forms(f"Due on {each}.")) for each in written}) == 1
