"""A model behind the mask: what it is sent and what it answers, whole and in pieces."""

from __future__ import annotations

import asyncio
import string
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from zeus_runtime.config import Redactor
from zeus_runtime.config.placeholders import is_searched
from zeus_runtime.models.interface import (
    ModelPiece,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
)
from zeus_runtime.models.masking import Masked, masked_message

KEY = "sk-live-0123456789"
SECRETS = Redactor().adding({KEY: "API_KEY", f"{KEY}-and-more": "LONGER", "live-0123": "INNER"})

alphabet = string.ascii_lowercase[:3] + "012-"
secrets = st.lists(st.text(alphabet, min_size=8, max_size=12).filter(is_searched), min_size=1, max_size=3)


class Spoken:
    """A model that says given pieces, and remembers what it was asked."""

    name = "spoken"

    def __init__(self, *pieces: ModelPiece) -> None:
        self.pieces = pieces
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.asked.append(request)
        for piece in self.pieces:
            yield piece


def heard(known: Redactor, *pieces: ModelPiece, request: ModelRequest | None = None) -> list[ModelPiece]:
    async def listen() -> list[ModelPiece]:
        model = Masked(Spoken(*pieces, ModelResponse(AIMessage("end"))), known)
        return [piece async for piece in model.stream(request or ModelRequest("", []))]

    return asyncio.run(listen())


def split(text: str, places: Sequence[int]) -> list[str]:
    cuts = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(cuts)]


@given(st.data())
def test_however_a_text_is_split_it_comes_out_as_if_it_were_whole(data: st.DataObject) -> None:
    known = Redactor().adding(data.draw(secrets))
    parts = st.one_of(st.text(alphabet, max_size=6), st.sampled_from(known.forms))
    text = "".join(data.draw(st.lists(parts, max_size=5)))
    pieces = split(text, data.draw(st.lists(st.integers(0, 60))))
    for kind in (TextDelta, ReasoningDelta):
        told = [piece.text for piece in heard(known, *map(kind, pieces)) if isinstance(piece, kind)]
        assert "".join(told) == known.text(text)
    calls = [ToolCallDelta(1, None, None, each) for each in pieces]
    said = [piece.arguments for piece in heard(known, *calls) if isinstance(piece, ToolCallDelta)]
    assert "".join(said) == known.text(text)


@pytest.mark.parametrize("at", range(len(KEY) + 1))
def test_a_secret_that_is_cut_in_two_does_not_show(at: int) -> None:
    told = heard(SECRETS, TextDelta(f"it is {KEY[:at]}"), TextDelta(f"{KEY[at:]}, yes"))
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "it is <secret:API_KEY>, yes"


def test_parallel_calls_and_text_are_held_apart() -> None:
    pieces = [
        ToolCallDelta(0, "a", "one", f'{{"x": "{KEY[:5]}'),
        ToolCallDelta(1, "b", "two", f'{{"y": "{KEY[:7]}'),
        TextDelta(KEY[:9]),
        ToolCallDelta(0, None, None, f'{KEY[5:]}"}}'),
        ToolCallDelta(1, None, None, f'{KEY[7:]}"}}'),
        TextDelta(KEY[9:]),
    ]
    told = heard(SECRETS, *pieces)
    calls = [each for each in told if isinstance(each, ToolCallDelta)]
    assert "".join(each.arguments for each in calls if each.index == 0) == '{"x": "<secret:API_KEY>"}'
    assert "".join(each.arguments for each in calls if each.index == 1) == '{"y": "<secret:API_KEY>"}'
    assert [(each.id, each.name) for each in calls if each.id] == [("a", "one"), ("b", "two")]
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "<secret:API_KEY>"
    assert isinstance(told[-1], ModelResponse)


def test_what_was_held_of_a_call_that_starts_again_is_void() -> None:
    told = heard(SECRETS, TextDelta("a sk-"), Retrying(2, "again", 0), TextDelta("b"))
    assert [each.text for each in told if isinstance(each, TextDelta)] == ["a ", "b"]


def test_text_without_a_secret_is_not_held_back() -> None:
    pieces = [TextDelta(each) for each in ("Hello", " wor", "ld!")]
    assert heard(SECRETS, *pieces)[:3] == pieces


def test_the_finished_answer_holds_no_secret_anywhere() -> None:
    message = AIMessage(
        f"I {KEY}",
        tool_calls=[{"id": "a", "name": "x", "args": {"deep": [{"er": KEY}]}, "type": "tool_call"}],
        invalid_tool_calls=[{"id": "b", "name": "y", "args": KEY, "error": KEY, "type": "invalid_tool_call"}],
        additional_kwargs={"reasoning_content": f"so {KEY}"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )

    async def ask() -> ModelResponse:
        model = Masked(Spoken(ModelResponse(message, finish_reason="length")), SECRETS)
        (answer,) = [piece async for piece in model.stream(ModelRequest("", []))]
        assert isinstance(answer, ModelResponse)
        return answer

    answer = asyncio.run(ask())
    assert KEY not in repr(answer)
    assert answer.message.tool_calls[0]["args"] == {"deep": [{"er": "<secret:API_KEY>"}]}
    assert answer.message.usage_metadata == message.usage_metadata
    assert answer.finish_reason == "length"


def test_nothing_of_a_request_holds_a_secret_and_its_stable_part_keeps_its_end() -> None:
    spoken = Spoken(ModelResponse(AIMessage("end")))
    model = Masked(spoken, SECRETS)
    schema = ToolSchema("t", f"uses {KEY}", {"type": "object", "properties": {"a": {"default": KEY}}})
    stable = f"You are {KEY}."
    request = ModelRequest(
        f"{stable} Today {KEY}", [HumanMessage(KEY)], tools=(schema,), stable_system_length=len(stable)
    )

    async def ask() -> None:
        _ = [piece async for piece in model.stream(request)]
        _ = [piece async for piece in model.stream(request)]

    asyncio.run(ask())
    first, second = spoken.asked
    assert KEY not in repr(first)
    assert first.system[: first.stable_system_length] == "You are <secret:API_KEY>."
    assert first == second
    assert first.messages[0] is second.messages[0], "a message is looked at once"


def test_a_request_without_a_secret_is_passed_on_as_it_is() -> None:
    spoken = Spoken(ModelResponse(AIMessage("end")))
    messages: tuple[Any, ...] = (HumanMessage("hello"),)
    request = ModelRequest("You are.", messages, tools=(ToolSchema("t", "d", {"type": "object"}),))

    async def ask() -> None:
        _ = [piece async for piece in Masked(spoken, SECRETS, tuple).stream(request)]

    asyncio.run(ask())
    assert spoken.asked[0] is request


def test_a_secret_over_two_blocks_of_text_does_not_show() -> None:
    halves: list[str | dict[str, Any]] = [
        {"type": "text", "text": f"a {KEY[:9]}"},
        {"type": "text", "text": f"{KEY[9:]} b"},
    ]
    picture = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    masked = masked_message(HumanMessage([*halves, picture, halves[0]]), SECRETS)
    assert masked.content == [{"type": "text", "text": "a <secret:API_KEY> b"}, picture, halves[0]]


def test_a_piece_of_another_kind_between_its_halves_does_not_show_a_secret() -> None:
    pieces = [TextDelta(KEY[:9]), ToolCallDelta(0, "c", "echo", '{"a":'), TextDelta(KEY[9:] + ".")]
    told = heard(SECRETS, *pieces, ToolCallDelta(0, None, None, "1}"))
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "<secret:API_KEY>."
    assert "".join(each.arguments for each in told if isinstance(each, ToolCallDelta)) == '{"a":1}'
