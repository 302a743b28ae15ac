"""Counters: what they promise whatever the model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from zeus_runtime.context.tokens import Counter, counter_for
from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.models.profiles import ModelProfile

PROFILES = (
    ModelProfile("gpt-5", provider="openai", tokenizer="o200k_base"),
    ModelProfile("gpt-4", provider="openai", tokenizer="cl100k_base"),
    ModelProfile("claude-sonnet-4-5", provider="anthropic"),
    ModelProfile("gemini/gemini-2.5-pro", provider="gemini"),
    ModelProfile("nobody/knows", provider="nobody"),
)


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.name)
def counter(request: pytest.FixtureRequest) -> Counter:
    return counter_for(request.param)


def test_no_text_is_no_token(counter: Counter) -> None:
    assert counter.text("") == 0
    assert counter.tools([]) == 0


def _joined(first: str, second: str) -> int:
    """The letters of the word that two texts make where they meet: another class of words may cost one token each."""
    parts = re.search(r"\w*$", first), re.match(r"\w*", second)
    return sum(len(part[0]) for part in parts if part is not None)


@settings(max_examples=40, deadline=None)
@given(st.text(), st.text())
def test_a_text_counts_no_less_than_its_beginning_and_no_more_than_its_parts(first: str, second: str) -> None:
    for profile in PROFILES:
        counter = counter_for(profile)
        whole = counter.text(first + second)
        assert 0 <= whole <= counter.text(first) + counter.text(second) + 8 + _joined(first, second)
        assert whole >= counter.text(first) - 8


def test_a_message_takes_no_less_than_its_text_and_tools_take_some(counter: Counter) -> None:
    assert counter.message(HumanMessage("Good morning.")) >= counter.text("Good morning.")
    tool = ToolSchema("look", "Look it up.", {"type": "object", "properties": {}})
    assert counter.fixed("Be brief.", [tool]) > counter.fixed("Be brief.") > counter.fixed()
