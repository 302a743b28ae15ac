"""Section 7, at a given moment."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zeus_runtime.config.model import TimeSection
from zeus_runtime.prompt import time_section
from zeus_runtime.prompt.clock import UnknownZoneError, zone

NOW = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)


def test_the_date_is_the_zones_and_has_no_clock_that_would_break_the_cache() -> None:
    assert (
        time_section(NOW, TimeSection(timezone="UTC"))
        == "# Time\n\nToday is Friday, 2026-11-20; the time zone is UTC."
    )
    berlin = TimeSection(timezone="Europe/Berlin")
    assert (
        time_section(NOW, berlin)
        == "# Time\n\nToday is Saturday, 2026-11-21; the time zone is Europe/Berlin."
    )
    assert time_section(NOW, berlin) == time_section(NOW.replace(minute=59, second=59), berlin)


def test_minutes_come_with_the_offset() -> None:
    time = TimeSection(precision="minute", timezone="Asia/Kolkata")
    assert time_section(NOW, time) == "# Time\n\nIt is Saturday, 2026-11-21, 05:00 (Asia/Kolkata, UTC+05:30)."


def test_none_is_nothing() -> None:
    assert time_section(NOW, TimeSection(precision="none")) == ""


def test_local_names_the_systems_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        assert (
            time_section(NOW, TimeSection())
            == "# Time\n\nToday is Saturday, 2026-11-21; the time zone is JST."
        )
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "x" * 5_000])
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(UnknownZoneError) as caught:
        zone(name)
    assert caught.value.exit_code == 3


def test_a_naive_time_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="time zone"):
        time_section(datetime(2026, 1, 1), TimeSection())
