"""Pictures in the budget: what they take, and that they leave with their message."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from zeus_runtime.context import Evict, fold
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.models.pictures import Picture, kept_with, pictures_of
from zeus_runtime.models.profiles import ModelProfile, lookup


def picture(width: int, height: int) -> Picture:
    return Picture("/attached_files/0/x.png", "image/png", width, height, 1)


def tokens(model: str, width: int, height: int) -> int:
    counter = counter_for(lookup(model))
    said = HumanMessage("see", additional_kwargs=kept_with([picture(width, height)]))
    return counter.message(said) - counter.message(HumanMessage("see"))


@pytest.mark.parametrize(
    ("model", "width", "height", "expected"),
    [
        # The examples of the manuals.
        ("anthropic/claude-sonnet-4-5", 200, 200, 54),
        ("anthropic/claude-sonnet-4-5", 1000, 1000, 1334),
        ("anthropic/claude-sonnet-4-5", 5000, 5000, 1600),
        ("openai/gpt-4o", 1024, 1024, 765),
        ("openai/gpt-4o", 2048, 4096, 1105),
        ("openai/gpt-4.1-mini", 1024, 1024, 1659),
        ("gemini/gemini-2.5-pro", 300, 384, 258),
        ("gemini/gemini-2.5-pro", 960, 540, 6 * 258),
        # What is sent smaller: 8,000 pixels on a side, 1,568 to Anthropic.
        ("gemini/gemini-2.5-pro", 9_000, 6_000, 11 * 7 * 258),
        ("openai/gpt-4.1-mini", 9_000, 100, round(1.62 * 250 * 3)),
        ("anthropic/claude-sonnet-4-5", 8_000, 1_000, 410),
    ],
)
def test_a_picture_takes_what_the_providers_manual_says(
    model: str, width: int, height: int, expected: int
) -> None:
    assert tokens(model, width, height) == expected


def test_for_a_model_that_does_not_see_a_picture_takes_nothing() -> None:
    assert tokens("openai/gpt-3.5-turbo", 1024, 1024) == 0


def test_another_model_that_sees_pays_by_patches() -> None:
    counter = counter_for(ModelProfile("ollama/llava", vision=True))
    said = HumanMessage("see", additional_kwargs=kept_with([picture(280, 280)]))
    assert counter.message(said) - counter.message(HumanMessage("see")) == 100


def test_an_evicted_result_takes_its_pictures_along_and_the_history_keeps_them() -> None:
    counter = counter_for(lookup("openai/gpt-4o"))
    result = ToolMessage(
        "seen", tool_call_id="c", name="look", additional_kwargs=kept_with([picture(1024, 1024)])
    )
    before = fold([result], [], counter=counter)
    assert before.tokens > 765
    after = before.applied(Evict("test", "room", 1, "gone", "/large_tool_results/c"))
    assert pictures_of(after[0]) == ()
    assert after.tokens < 20
    assert after.by_source["tool:look"] == after.tokens
    assert pictures_of(after.original(1)) == pictures_of(before[0]) != ()
