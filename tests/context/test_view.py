"""``view = fold(history, edits)``: what stays, what goes, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.agents import assert_paired
from zeus_runtime.context import DropBefore, edit_from_json, edit_to_json, fold, review


def conversation(groups: Sequence[int]) -> list[BaseMessage]:
    """A history: for each number a human message, and an answer with so many calls and their results."""
    messages: list[BaseMessage] = []
    for number, calls in enumerate(groups):
        messages.append(HumanMessage(f"q{number}"))
        ids = [f"{number}-{index}" for index in range(calls)]
        messages.append(
            AIMessage(
                "", tool_calls=[{"name": "t", "args": {}, "id": each, "type": "tool_call"} for each in ids]
            )
        )
        messages.extend(ToolMessage("r", tool_call_id=each) for each in ids)
    return messages


histories = st.lists(st.integers(0, 4), min_size=1, max_size=12).map(conversation)


def admitted(history: Sequence[BaseMessage], proposals: Sequence[int]) -> list[DropBefore]:
    edits: list[DropBefore] = []
    for seq in proposals:
        edit = DropBefore("test", "why", seq)
        if review(fold(history, edits), edit) is None:
            edits.append(edit)
    return edits


@given(histories, st.lists(st.integers(-3, 60), max_size=8))
def test_whatever_is_proposed_the_view_is_a_suffix_without_orphans(
    history: list[BaseMessage], proposals: list[int]
) -> None:
    view = fold(history, admitted(history, proposals))
    assert len(view) >= 1
    assert list(view) == history[len(history) - len(view) :]
    assert_paired(list(view))


@given(histories, st.lists(st.integers(1, 60), max_size=6), st.data())
def test_the_fold_of_a_prefix_is_the_view_that_was_sent_then(
    history: list[BaseMessage], proposals: list[int], data: st.DataObject
) -> None:
    length = data.draw(st.integers(1, len(history)))
    edits = admitted(history[:length], proposals)
    then = list(fold(history[:length], edits))
    assert list(fold(history, edits, length)) == then


@given(histories)
def test_every_admitted_edit_shrinks_the_view(history: list[BaseMessage]) -> None:
    for seq in range(1, len(history) + 3):
        edit = DropBefore("test", "why", seq)
        view = fold(history, [])
        if review(view, edit) is None:
            assert 0 < len(fold(history, [edit])) < len(view)


def test_an_edit_is_refused_with_its_reason() -> None:
    history = conversation([2, 0])
    view = fold(history, [])
    refused = {
        seq: reason.reason
        for seq in range(8)
        if (reason := review(view, DropBefore("p", "r", seq))) is not None
    }
    assert refused == {
        0: "it does not shrink the view",
        1: "it does not shrink the view",
        3: "message 3 is a tool result whose call would be dropped",
        4: "message 4 is a tool result whose call would be dropped",
        7: "it would leave nothing to send",
    }


@given(st.text(), st.text(), st.integers(1, 10**9))
def test_an_edit_comes_back_from_the_log_as_it_was(policy: str, reason: str, seq: int) -> None:
    edit = DropBefore(policy, reason, seq)
    assert edit_from_json(edit_to_json(edit)) == edit


def test_a_view_is_indexed_like_a_list_and_does_not_grow_with_the_history() -> None:
    history: list[BaseMessage] = [HumanMessage(str(number)) for number in range(6)]
    view = fold(history, [DropBefore("test", "why", 3)], 5)
    history.append(HumanMessage("new"))
    assert [m.content for m in view] == ["2", "3", "4"]
    assert [m.content for m in view[1:]] == ["3", "4"]
    assert view[-1].content == "4"
    assert (view.item(0).seq, view.item(-1).seq) == (3, 5)
    with pytest.raises(IndexError):
        view[3]
