"""An answer is put together the same however a provider cuts it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from zeus_plugins.models.litellm.assembly import Assembly, call_ids, seed_of

from zeus_runtime.plugin.model import ModelPiece, ReasoningDelta, TextDelta, ToolCallDelta

names = st.sampled_from(["ls", "read_file", "write_file"])
arguments = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.text(max_size=8) | st.integers(), max_size=3
)


def assemble(
    deltas: list[dict[str, Any]], taken: frozenset[str] = frozenset()
) -> tuple[AIMessage, list[ModelPiece]]:
    assembly = Assembly(taken=taken, seed="seed")
    pieces = [piece for delta in deltas for piece in assembly.add(delta)]
    return assembly.message(), pieces


def part(index: int | None, call_id: str | None, name: str | None, text: str) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": text} | ({"name": name} if name else {})
    return (
        {"function": function}
        | ({} if index is None else {"index": index})
        | ({"id": call_id} if call_id else {})
    )


@given(
    st.lists(st.tuples(names, arguments), min_size=1, max_size=4),
    st.sampled_from(["plain", "no index", "same index", "repeated", "no ids", "bare"]),
    st.integers(1, 9),
)
def test_calls_are_told_apart_however_they_are_cut(
    calls: list[tuple[str, dict[str, Any]]], style: str, size: int
) -> None:
    deltas = []
    for position, (name, value) in enumerate(calls):
        text = json.dumps(value)
        cuts = [text[start : start + size] for start in range(0, len(text), size)]
        index = {"no index": None, "bare": None, "same index": 0}.get(style, position)
        call_id = None if style in ("no ids", "bare") else f"c{position}"
        for number, cut in enumerate(cuts):
            known = number == 0 or style == "repeated"
            deltas.append(
                {"tool_calls": [part(index, call_id if known else None, name if known else None, cut)]}
            )
    message, pieces = assemble(deltas)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
    assert len({call["id"] for call in message.tool_calls}) == len(calls)
    first = {piece.index: piece for piece in reversed(pieces) if isinstance(piece, ToolCallDelta)}
    assert [(first[n].id, first[n].name) for n in sorted(first)] == [
        (call["id"], call["name"]) for call in message.tool_calls
    ]


def test_whole_calls_at_one_index_without_ids_are_separate() -> None:
    message, _ = assemble(
        [{"tool_calls": [part(0, None, "ls", "{}")]}, {"tool_calls": [part(0, None, "ls", "{}")]}]
    )
    assert [call["id"] for call in message.tool_calls] == ["seed_0", "seed_1"]


def test_two_calls_with_one_id_get_two() -> None:
    message, _ = assemble([{"tool_calls": [part(0, "x", "ls", "{}"), part(1, "x", "ls", '{"a": 1}')]}])
    assert [call["args"] for call in message.tool_calls] == [{}, {"a": 1}]
    assert len({call["id"] for call in message.tool_calls}) == 2


def test_an_id_of_an_earlier_turn_is_not_used_again() -> None:
    message, _ = assemble([{"tool_calls": [part(0, "call_0", "ls", "{}")]}], frozenset({"call_0"}))
    assert message.tool_calls[0]["id"] == "call_0_seed_0"


def test_made_ids_depend_on_the_conversation_and_on_nothing_else() -> None:
    first, second = HumanMessage("a", id="1"), HumanMessage("b", id="2")
    assert seed_of([first]) == seed_of([HumanMessage("a", id="1")])
    assert len({seed_of([]), seed_of([first]), seed_of([second]), seed_of([first, second])}) == 4


def test_broken_arguments_become_an_invalid_call_and_the_others_stay() -> None:
    message, _ = assemble([{"tool_calls": [part(0, "a", "ls", '{"path": '), part(1, "b", "ls", "{}")]}])
    assert [call["id"] for call in message.tool_calls] == ["b"]
    assert message.invalid_tool_calls[0]["id"] == "a"
    assert message.invalid_tool_calls[0]["args"] == '{"path": '


def test_text_and_reasoning_stream_and_are_joined() -> None:
    message, pieces = assemble(
        [{"reasoning_content": "hm"}, {"content": "a"}, {"content": "b"}, {"content": ""}]
    )
    assert pieces == [ReasoningDelta("hm"), TextDelta("a"), TextDelta("b")]
    assert message.content == "ab"
    assert message.additional_kwargs["reasoning_content"] == "hm"


def test_signed_thinking_is_kept_block_by_block() -> None:
    def thinking(text: str, signature: str | None = None) -> dict[str, Any]:
        return {"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": signature}]}

    message, _ = assemble(
        [
            thinking("on"),
            thinking("e"),
            thinking("", "s1"),
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]},
            thinking("two"),
            thinking("", "s2"),
        ]
    )
    assert message.additional_kwargs["thinking_blocks"] == [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "two", "signature": "s2"},
    ]


def test_signatures_of_calls_are_kept_with_their_call() -> None:
    call = part(0, "a", "ls", "{}") | {"provider_specific_fields": {"thought_signature": "sig", "noise": 1}}
    message, _ = assemble([{"tool_calls": [call]}])
    assert message.additional_kwargs["tool_call_fields"] == {"a": {"thought_signature": "sig"}}


def test_halves_of_an_emoji_in_two_chunks_are_joined() -> None:
    assert assemble([{"content": "\ud83d"}, {"content": "\ude00"}])[0].content == "\N{GRINNING FACE}"


def test_the_ids_of_a_conversation_are_those_of_all_its_calls() -> None:
    message, _ = assemble([{"tool_calls": [part(0, "a", "ls", "{"), part(1, "b", "ls", "{}")]}])
    assert call_ids([HumanMessage("x"), message]) == {"a", "b"}


@pytest.mark.parametrize("delta", [{}, {"content": None}, {"tool_calls": None}, {"tool_calls": []}])
def test_an_empty_delta_brings_nothing(delta: dict[str, Any]) -> None:
    assert assemble([delta]) == (AIMessage(""), [])
