"""What a memory may hold, and what its thresholds may be."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.embedding import Calibration
from zeus_runtime.memory.items import (
    VARIABLES,
    Caller,
    MemoryItem,
    MemorySettingError,
    MemorySettings,
    Scope,
)

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ITEM = MemoryItem("m1", "The user plays chess", "habit", "user", "u1", "u1", "user", 0.9, NOW, NOW)


@pytest.mark.parametrize("confidence", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_confidence_outside_0_to_1_is_no_memory(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        replace(ITEM, confidence=confidence)


def test_versions_count_from_1() -> None:
    with pytest.raises(ValueError, match="version"):
        replace(ITEM, version=0)


@pytest.mark.parametrize("name", ["created_at", "updated_at", "last_used_at", "valid_from", "valid_until"])
@pytest.mark.parametrize(
    "time", [datetime(2026, 5, 1), datetime(2026, 5, 1, tzinfo=timezone(timedelta(hours=2)))]
)
def test_every_time_is_in_utc(name: str, time: datetime) -> None:
    with pytest.raises(ValueError, match=f"{name} is not in UTC"):
        replace(ITEM, **{name: time})


@pytest.mark.parametrize(("scope", "expected"), [("user", "u1"), ("project", None), ("session", "s1")])
def test_a_scope_means_what_the_caller_has(scope: Scope, expected: str | None) -> None:
    assert Caller("u1", session_id="s1").scope_id(scope) == expected


def test_an_empty_id_is_no_id() -> None:
    assert Caller("u1", project_id="").scope_id("project") is None


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = MemorySettings()
    assert (settings.min_confidence, settings.max_extractions, settings.extraction_window_hours) == (
        0.7,
        3,
        24,
    )
    assert (settings.min_length, settings.max_length, settings.top_k, settings.max_prompt_characters) == (
        5,
        2_000,
        5,
        2_000,
    )
    assert settings.duplicate_from(None) == 0.85


def test_the_environment_overrides_each_threshold() -> None:
    environment = {
        "MEMORY_MIN_CONFIDENCE": "0.5",
        "MEMORY_DUPLICATE_THRESHOLD": "0.9",
        "MEMORY_MAX_EXTRACTIONS": "7",
        "MEMORY_MIN_LENGTH": "2",
        "MEMORY_MAX_LENGTH": "300",
    }
    assert set(environment) == set(VARIABLES)
    settings = MemorySettings().overridden(environment)
    assert settings == MemorySettings(0.5, 0.9, max_extractions=7, min_length=2, max_length=300)


def test_unset_and_empty_variables_say_nothing() -> None:
    assert MemorySettings().overridden({"MEMORY_MIN_LENGTH": " ", "PATH": "x"}) == MemorySettings()


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("text", ["many", "-1", "nan", "1e9", "0x10"])
def test_a_value_that_cannot_be_meant_names_its_variable(variable: str, text: str) -> None:
    with pytest.raises(MemorySettingError) as caught:
        MemorySettings().overridden({variable: text})
    assert caught.value.where == variable
    assert caught.value.exit_code == 3
    assert text in caught.value.message
    assert caught.value.remedy


def test_a_fraction_of_an_extraction_is_refused() -> None:
    with pytest.raises(MemorySettingError, match="MEMORY_MAX_EXTRACTIONS"):
        MemorySettings().overridden({"MEMORY_MAX_EXTRACTIONS": "2.5"})


def test_lengths_that_leave_nothing_between_them_are_refused() -> None:
    with pytest.raises(MemorySettingError) as caught:
        MemorySettings().overridden({"MEMORY_MIN_LENGTH": "50", "MEMORY_MAX_LENGTH": "40"})
    assert caught.value.where == "MEMORY_MIN_LENGTH and MEMORY_MAX_LENGTH"


@pytest.mark.parametrize("name", [field.name for field in fields(MemorySettings)])
def test_every_setting_has_a_range(name: str) -> None:
    with pytest.raises(MemorySettingError) as caught:
        MemorySettings(**{name: -1})
    assert caught.value.where == name


def test_the_models_own_threshold_counts_unless_one_is_set() -> None:
    table = Calibration(cosine_zero=0.1, cosine_one=0.8, trust=0.8, duplicate=0.72)
    plain = Calibration(cosine_zero=0.1, cosine_one=0.8, trust=0.8)
    assert MemorySettings().duplicate_from(table) == 0.72
    assert MemorySettings().duplicate_from(plain) == 0.85
    assert MemorySettings(duplicate_threshold=0.9).duplicate_from(table) == 0.9
    assert MemorySettings(related_threshold=0.3).related_from(table) == 0.3


@given(st.floats(0.01, 1), st.floats(-0.5, 0.5))
def test_what_is_a_duplicate_is_related(duplicate: float, zero: float) -> None:
    settings = MemorySettings(duplicate_threshold=duplicate)
    calibration = Calibration(cosine_zero=zero, cosine_one=0.9, trust=1)
    assert settings.related_from(calibration) <= settings.duplicate_from(calibration)
