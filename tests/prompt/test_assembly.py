"""Fifteen sections, one text: the laws of `assemble`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.prompt import SECTIONS, STABLE_SECTIONS, Section, assemble

TEXTS = st.text(max_size=20)
DYNAMIC = [section for section in SECTIONS if section not in STABLE_SECTIONS]


def some(sections: list[Section] | tuple[Section, ...]) -> st.SearchStrategy[dict[Section, str]]:
    return st.dictionaries(st.sampled_from(sections), TEXTS)


def test_the_sections_are_the_specs_in_its_order() -> None:
    assert " ".join(SECTIONS) == (
        "core soul tools workflow memory mode time skills connector mcp_prompts profile memories resources sandbox "
        "attachments"
    )
    assert SECTIONS[:6] == STABLE_SECTIONS


@given(some(SECTIONS), st.randoms())
def test_the_order_of_the_mapping_means_nothing(sections: dict[Section, str], random: object) -> None:
    shuffled = list(sections.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assemble(dict(shuffled)) == assemble(sections)


@given(some(SECTIONS))
def test_parts_are_the_filled_sections_in_order(sections: dict[Section, str]) -> None:
    parts = assemble(sections).parts
    assert [section for section, _ in parts] == [s for s in SECTIONS if sections.get(s, "").strip()]
    assert all(text == sections[section].strip() for section, text in parts)


@given(some(SECTIONS))
def test_nothing_is_invented(sections: dict[Section, str]) -> None:
    assembled = assemble(sections)
    assert assembled.text == "\n\n".join(text for _, text in assembled.parts)


@given(some(SECTIONS), st.sampled_from(SECTIONS), st.sampled_from(["", " ", "\n\n", "\t"]))
def test_an_empty_section_leaves_no_trace(sections: dict[Section, str], section: Section, empty: str) -> None:
    without = {key: text for key, text in sections.items() if key != section}
    assert assemble({**without, section: empty}) == assemble(without)


@given(some(STABLE_SECTIONS), some(DYNAMIC), some(DYNAMIC))
def test_sections_1_to_6_are_the_same_bytes_whatever_the_others_hold(
    stable: Mapping[Section, str], one: Mapping[Section, str], other: Mapping[Section, str]
) -> None:
    first, second = assemble({**stable, **one}), assemble({**stable, **other})
    assert first.stable_length == second.stable_length
    assert first.text[: first.stable_length] == second.text[: second.stable_length] == assemble(stable).text


@given(some(SECTIONS))
def test_what_comes_after_the_stable_length_is_dynamic_alone(sections: dict[Section, str]) -> None:
    assembled = assemble(sections)
    dynamic = "\n\n".join(text for section, text in assembled.parts if section in DYNAMIC)
    rest = assembled.text[assembled.stable_length :]
    assert rest == (f"\n\n{dynamic}" if assembled.stable_length and dynamic else dynamic)


def test_an_unknown_section_is_an_error() -> None:
    with pytest.raises(ValueError, match="'moods'"):
        assemble({"moods": "x"})  # type: ignore[dict-item]
