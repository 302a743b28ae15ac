"""A profile as a text to edit: reads back as it was, and says what is wrong where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime import ConfigError
from zeus_runtime.memory.profile.document import profile_changes, profile_document, seals_in, seals_of
from zeus_runtime.memory.profile.fields import (
    CHOICES,
    ProfileValue,
    field_names,
    is_list,
    profile_fields,
    written_value,
)

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.just("\n"), max_size=30)


def document(written: dict[str, str], *lines: ProfileValue) -> str:
    return profile_document("user", profile_fields("user", written, lines, {"mem_1": 1}))


@given(st.dictionaries(st.sampled_from([n for n in field_names("user") if n not in CHOICES]), TEXTS))
def test_what_a_hand_wrote_reads_back_as_it_was(typed: dict[str, str]) -> None:
    written = {name: written_value("user", name, _typed(name, text)) for name, text in typed.items()}
    text = document(written)
    assert seals_in(text) == seals_of(text)
    assert profile_changes("user", text, "p.yaml", seals_in(text)) == {}
    found = profile_changes("user", text, "p.yaml", None)
    again = {name: written_value("user", name, value) for name, value in found.items()}
    assert {name: value for name, value in again.items() if value} == {
        name: value for name, value in written.items() if value
    }


def _typed(name: str, text: str) -> str:
    return json.dumps([text], ensure_ascii=False) if is_list(name) and text.strip() else text


def test_what_memories_say_is_shown_and_not_taken_for_the_hands() -> None:
    text = document({}, ProfileValue("profession", "diver", {"mem_1": 1}))
    assert "# from memories: diver\nprofession: " in text
    assert profile_changes("user", text, "p.yaml", None) == dict.fromkeys(field_names("user"), "")


@pytest.mark.parametrize(
    ("typed", "changes"),
    [
        ("profession: diver", {"profession": "diver"}),
        ("expertise_areas: [whales, kelp]", {"expertise_areas": '["whales", "kelp"]'}),
        ("content: |\n  One.\n  Two.", {"content": "One.\nTwo."}),
        ("username:", {"username": ""}),
        ("expertise_areas: []", {"expertise_areas": ""}),
        ("", {}),
        ("# nothing", {}),
    ],
)
def test_only_what_differs_is_changed(typed: str, changes: dict[str, str]) -> None:
    assert (
        profile_changes("user", typed, "p.yaml", seals_of("username: Ann\nexpertise_areas: [x]")) == changes
    )


@pytest.mark.parametrize(
    ("typed", "places"),
    [
        ("username: Ann\nprofesion: diver", [(2, 1, "did you mean 'profession'")]),
        ("response_format: pdf", [(1, 18, "markdown, plain, code")]),
        ("username: 42\nexpertise_areas: whales", [(1, 11, "quotes"), (2, 18, "is a list")]),
        ("expertise_areas:\n  - {a: 1}", [(2, 3, "not text")]),
        ("username: [", [(2, 1, "")]),
        ("- a", [(1, 1, "mapping")]),
        ("nickname:", [(1, 1, "its fields")]),
    ],
)
@pytest.mark.parametrize("read", [None, {}])
def test_every_problem_is_said_with_its_place(
    typed: str, places: list[tuple[int, int, str]], read: dict[str, str] | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        profile_changes("user", typed, "p.yaml", read)
    found: list[Any] = list(caught.value.diagnostics)
    assert [(each.position.line, each.position.column) for each in found] == [place[:2] for place in places]
    for each, (_, _, words) in zip(found, places, strict=True):
        assert words in f"{each.message} {each.hint}"


def test_decisions_keep_their_reasons() -> None:
    text = 'key_decisions:\n  - {decision: Use Go, reason: speed, time: "2026"}\n  - No ORM\n'
    changes = profile_changes("project", text, "p.yaml", None)
    written = {"key_decisions": written_value("project", "key_decisions", changes["key_decisions"])}
    shown = profile_document("project", profile_fields("project", written, (), {}))
    assert profile_changes("project", shown, "p.yaml", seals_of(text)) == {}
