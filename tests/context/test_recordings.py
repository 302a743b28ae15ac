"""Recordings: what is played again is well formed, whatever the session looked like."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.support.agents import assert_paired, call, calling
from zeus_runtime.context.replay.recordings import Recording, chained, read_trajectories, recording
from zeus_runtime.errors import UsageError


def result(call_id: str, text: str = "done") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name="echo")


def shape(found: Recording) -> list[tuple[str, str]]:
    return [(message.type, str(message.content)) for message in found.messages]


def test_system_messages_and_what_was_never_answered_are_left_out() -> None:
    found = recording(
        "s", [SystemMessage("be kind"), HumanMessage("hi"), AIMessage("hello"), HumanMessage("?")]
    )
    assert shape(found) == [("human", "hi"), ("ai", "hello")]


def test_user_messages_in_a_row_become_one() -> None:
    found = recording("s", [HumanMessage("a"), HumanMessage("b"), AIMessage("c")])
    assert shape(found) == [("human", "a\n\nb"), ("ai", "c")]


def test_an_answer_whose_call_has_no_result_is_left_out_with_the_results_it_has() -> None:
    messages: list[BaseMessage] = [
        HumanMessage("a"),
        calling(call("echo", "1"), call("echo", "2")),
        result("1"),
        AIMessage("b"),
    ]
    assert shape(recording("s", messages)) == [("human", "a"), ("ai", "b")]


def test_a_call_id_that_comes_again_is_renamed_with_its_result() -> None:
    turn: list[BaseMessage] = [HumanMessage("a"), calling(call("echo", "1")), result("1"), AIMessage("b")]
    found = recording("s", [*turn, *turn])
    ids = [message.tool_call_id for message in found.messages if isinstance(message, ToolMessage)]
    assert len(set(ids)) == 2
    assert_paired(found.messages)


def test_a_needle_is_an_argument_that_was_said_before() -> None:
    found = recording(
        "s",
        [
            HumanMessage("my id is omar_3817"),
            calling(call("echo", "1", user="omar_3817", note="never said")),
            result("1"),
            AIMessage("b"),
        ],
    )
    assert found.needles == {1: ("omar_3817",)}


def test_a_chain_repeats_the_recordings_up_to_its_length() -> None:
    one = recording("1", [HumanMessage("a"), calling(call("echo", "1")), result("1")])
    two = recording("2", [HumanMessage("b"), AIMessage("c")])
    found = chained("long", [one, two], 20)
    assert 16 <= len(found.messages) <= 20
    assert shape(found)[-1][0] == "ai"
    assert shape(found)[:6] == [
        ("human", "a"),
        ("ai", ""),
        ("tool", "done"),
        ("ai", "Done."),
        ("human", "b"),
        ("ai", "c"),
    ]
    assert_paired(found.messages)


def test_a_line_that_is_no_trajectory_is_named() -> None:
    good = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    with pytest.raises(UsageError, match=r"sessions\.jsonl:2: line 2 is not a trajectory"):
        read_trajectories(f'{good}\n{{"messages": [{{"role": "pilot"}}]}}\n', "sessions.jsonl")
    assert [each.name for each in read_trajectories(good)] == ["line 1"]


pieces = st.sampled_from(["user", "text", "call", "calls", "lost", "stray", "system"])


@given(st.lists(pieces, max_size=25))
def test_whatever_a_session_holds_its_recording_can_be_played(kinds: list[str]) -> None:
    messages: list[BaseMessage] = []
    for kind in kinds:
        messages += {
            "user": [HumanMessage("u")],
            "text": [AIMessage("t")],
            "call": [calling(call("echo", "x")), result("x")],
            "calls": [calling(call("echo", "x"), call("echo", "y")), result("y"), result("x")],
            "lost": [calling(call("echo", "z"))],
            "stray": [result("gone")],
            "system": [SystemMessage("s")],
        }[kind]
    found = recording("s", messages)
    assert len(found.at_seconds) == len(found.messages)
    place = 0
    while place < len(found.messages):
        message = found.messages[place]
        assert message.type in ("human", "ai")
        following = found.following(place) if message.type == "ai" else place + 1
        wanted = sorted(str(each["id"]) for each in getattr(message, "tool_calls", ()))
        results = found.messages[place + 1 : following]
        assert sorted(str(each.tool_call_id) for each in results) == wanted  # type: ignore[attr-defined]
        place = following
    assert not found.messages or found.messages[0].type == "human"
    assert not found.messages or found.messages[-1].type != "human"
