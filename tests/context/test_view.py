"""``view = fold(history, edits)``: what stays, what goes, what is refused, and that the totals add up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.agents import assert_paired
from zeus_runtime.context import (
    DropBefore,
    Edit,
    Evict,
    Pin,
    Summarize,
    TruncateArguments,
    View,
    edit_from_json,
    edit_to_json,
    fold,
    review,
)

LONG = "a long text, again and again. " * 8


def conversation(groups: Sequence[int]) -> list[BaseMessage]:
    """A history: for each number a human message, and an answer with so many calls and their results."""
    messages: list[BaseMessage] = []
    for number, calls in enumerate(groups):
        messages.append(HumanMessage(f"q{number}"))
        ids = [f"{number}-{index}" for index in range(calls)]
        messages.append(
            AIMessage(
                "",
                tool_calls=[
                    {"name": "t", "args": {"text": LONG}, "id": each, "type": "tool_call"} for each in ids
                ],
            )
        )
        messages.extend(ToolMessage(LONG, tool_call_id=each, name="t") for each in ids)
    return messages


histories = st.lists(st.integers(0, 4), min_size=1, max_size=12).map(conversation)


@st.composite
def proposals(draw: st.DrawFn) -> Edit:
    """Any edit, sensible or not."""
    seq = draw(st.integers(-2, 45))
    kind = draw(st.sampled_from(["drop", "evict", "truncate", "summarize", "pin"]))
    if kind == "drop":
        return DropBefore("test", "why", seq)
    if kind == "evict":
        return Evict("test", "why", seq, draw(st.sampled_from(["pointer", LONG * 2])), f"/r/{seq}")
    if kind == "truncate":
        call_id = f"{draw(st.integers(0, 11))}-{draw(st.integers(0, 3))}"
        return TruncateArguments("test", "why", seq, call_id, {"text": "cut"})
    if kind == "summarize":
        return Summarize("test", "why", seq, draw(st.sampled_from(["summary", LONG * 20])), "/h")
    return Pin("test", "why", seq)


def admitted(history: Sequence[BaseMessage], proposed: Sequence[Edit]) -> tuple[list[Edit], View]:
    """What the rules let pass, and the view it makes, edit by edit."""
    edits: list[Edit] = []
    view = fold(history, [])
    for edit in proposed:
        if review(view, edit) is None:
            edits.append(edit)
            view = view.applied(edit)
    return edits, view


def counted(messages: Sequence[BaseMessage]) -> int:
    return fold(list(messages), []).tokens


@given(histories, st.lists(proposals(), max_size=10))
@settings(max_examples=100)
def test_whatever_is_proposed_no_call_or_result_is_orphaned_and_the_order_is_kept(
    history: list[BaseMessage], proposed: list[Edit]
) -> None:
    _, view = admitted(history, proposed)
    assert len(view) >= 1
    assert_paired(list(view))
    seqs = [view.seq(index) for index in range(len(view)) if view.seq(index)]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == len(history)


@given(histories, st.lists(proposals(), max_size=10))
@settings(max_examples=100)
def test_the_totals_add_up_after_any_edits(history: list[BaseMessage], proposed: list[Edit]) -> None:
    edits, view = admitted(history, proposed)
    assert view.tokens == sum(item.tokens for item in view.items()) == counted(list(view))
    by_source: dict[str, int] = {}
    for item in view.items():
        by_source[item.source] = by_source.get(item.source, 0) + item.tokens
    assert {source: tokens for source, tokens in view.by_source.items() if tokens} == by_source
    assert view.edits == len(edits)
    assert len(view) == view.length == len(list(view))


@given(histories, st.lists(proposals(), max_size=12))
@settings(max_examples=100)
def test_what_is_pinned_stays_in_the_view_byte_for_byte(
    history: list[BaseMessage], proposed: list[Edit]
) -> None:
    view = fold(history, [])
    pinned: dict[int, BaseMessage] = {}
    for edit in proposed:
        if review(view, edit) is None:
            view = view.applied(edit)
            for seq in view.pinned:
                pinned.setdefault(seq, view[view.index(seq)])
        assert set(pinned) == view.pinned
        assert all(view[view.index(seq)] == message for seq, message in pinned.items())


@given(histories, st.lists(proposals(), max_size=8), st.data())
def test_the_fold_of_a_prefix_is_the_view_that_was_sent_then(
    history: list[BaseMessage], proposed: list[Edit], data: st.DataObject
) -> None:
    length = data.draw(st.integers(1, len(history)))
    while length < len(history) and history[length].type == "tool":
        length += 1
    edits, then = admitted(history[:length], proposed)
    assert list(fold(history, edits, length)) == list(then)
    assert fold(history, edits, length).tokens == then.tokens


@given(histories, st.lists(proposals(), max_size=10))
def test_one_edit_at_a_time_gives_what_folding_them_all_gives(
    history: list[BaseMessage], proposed: list[Edit]
) -> None:
    edits, view = admitted(history, proposed)
    whole = fold(history, edits)
    assert list(whole) == list(view)
    assert (whole.tokens, whole.by_source, whole.pinned) == (view.tokens, view.by_source, view.pinned)


@given(histories, st.lists(proposals(), max_size=10))
def test_an_older_view_still_shows_what_it_showed(history: list[BaseMessage], proposed: list[Edit]) -> None:
    view = fold(history, [])
    kept: list[tuple[View, list[BaseMessage], int]] = []
    for edit in proposed:
        kept.append((view, list(view), view.tokens))
        if review(view, edit) is None:
            view = view.applied(edit)
    for older, messages, tokens in kept:
        assert list(older) == messages
        assert older.tokens == tokens


@given(histories, st.lists(proposals(), max_size=10))
def test_every_admitted_edit_but_a_pin_shrinks_the_view(
    history: list[BaseMessage], proposed: list[Edit]
) -> None:
    view = fold(history, [])
    for edit in proposed:
        if review(view, edit) is None:
            after = view.applied(edit)
            assert after.tokens == view.effect(edit).tokens_after
            assert after.tokens == view.tokens if isinstance(edit, Pin) else after.tokens < view.tokens
            view = after


@given(histories, st.data())
def test_a_view_extended_step_by_step_is_the_fold_of_the_whole(
    history: list[BaseMessage], data: st.DataObject
) -> None:
    view = fold(history, [], 0)
    upto = 0
    while upto < len(history):
        upto = data.draw(st.integers(upto + 1, len(history)))
        view = view.extended(upto)
    whole = fold(history, [])
    assert list(view) == list(whole)
    assert (view.tokens, view.by_source) == (whole.tokens, whole.by_source)


@given(histories, st.lists(proposals(), max_size=8), st.lists(st.integers(0, 14), min_size=1, max_size=4))
def test_what_arrived_is_the_end_of_the_view_whoever_asked_before(
    history: list[BaseMessage], proposed: list[Edit], asked: list[int]
) -> None:
    _, view = admitted(history, proposed)
    for after in asked:
        new = list(takewhile(lambda item: item.seq > after, reversed(list(view.items()))))  # noqa: B023
        assert list(view.arrived(after)) == new[::-1]


def test_two_futures_of_one_view_do_not_mix() -> None:
    history = conversation([1, 1])
    view = fold(history, [])
    left = view.applied(Evict("p", "r", 3, "left", "/l"))
    right = view.applied(Evict("p", "r", 6, "right", "/r"))
    assert (left[2].content, left[5].content) == ("left", LONG)
    assert (right[2].content, right[5].content) == (LONG, "right")
    assert (view.evicted(3), left.evicted(3), right.evicted(3)) == (False, True, False)


def test_a_pin_takes_its_whole_tool_group_along() -> None:
    view = fold(conversation([2, 0, 0]), [Pin("p", "r", 4), DropBefore("p", "r", 7)])
    assert view.pinned == {2, 3, 4}
    assert [view.seq(index) for index in range(len(view))] == [2, 3, 4, 7, 8]
    assert_paired(list(view))
    assert [item.survival for item in view.items()] == ["pinned"] * 3 + ["normal"] * 2


def test_a_summary_stands_between_the_pins_and_what_stays_and_a_later_cut_replaces_it() -> None:
    history = conversation([0, 0, 0, 0])
    view = fold(history, [Pin("p", "r", 1), Summarize("p", "r", 5, "so far", "/h")])
    assert [message.content for message in view] == ["q0", "so far", "q2", "", "q3", ""]
    assert (view.item(1).seq, view.item(1).source, view.first) == (0, "summary", 5)
    again = view.applied(Summarize("p", "r", 7, "more", "/h"))
    assert [message.content for message in again] == ["q0", "more", "q3", ""]
    dropped = view.applied(DropBefore("p", "r", 7))
    assert [message.content for message in dropped] == ["q0", "q3", ""]
    assert dropped.summary is None


def test_items_say_their_source_and_how_they_survive() -> None:
    history = conversation([1])
    view = fold(history, [], replayable=["t"])
    assert [(item.seq, item.source, item.survival) for item in view.items()] == [
        (1, "user", "normal"),
        (2, "assistant", "normal"),
        (3, "tool:t", "replayable"),
    ]
    evicted = fold(history, [Evict("p", "r", 1, "x", "/1")])
    assert evicted.item(0).survival == "replayable"


def test_a_replaced_message_keeps_its_identity_and_the_original_is_untouched() -> None:
    history = conversation([2])
    view = fold(
        history, [TruncateArguments("p", "r", 2, "0-1", {"text": "cut"}), Evict("p", "r", 3, "see /x", "/x")]
    )
    answer, result = view[1], view[2]
    assert isinstance(answer, AIMessage)
    assert isinstance(result, ToolMessage)
    assert [call["args"]["text"] for call in answer.tool_calls] == [LONG, "cut"]
    assert (result.tool_call_id, result.content) == ("0-0", "see /x")
    assert view.original(2) is history[1]
    assert view.original(3).content == LONG
    assert (view.truncated("0-1"), view.truncated("0-0"), view.evicted(3)) == (True, False, True)


def test_an_edit_is_refused_with_its_reason() -> None:
    history = conversation([2, 0])
    view = fold(history, [Pin("p", "r", 5)])
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


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (Evict("p", "r", 5, "", "/x"), "message 5 is pinned"),
        (Evict("p", "r", 9, "", "/x"), "there is no message 9"),
        (Evict("p", "r", 1, LONG, "/x"), "it does not shrink the view"),
        (TruncateArguments("p", "r", 2, "none", {}), "message 2 has no call 'none'"),
        (TruncateArguments("p", "r", 2, "0-0", {"no": ""}), "the call '0-0' has no argument 'no'"),
        (TruncateArguments("p", "r", 2, "0-0", {"text": LONG}), "it does not shrink the view"),
        (Summarize("p", "r", 5, LONG * 50, "/h"), "it does not shrink the view"),
        (Summarize("p", "r", 4, "s", "/h"), "message 4 is a tool result whose call would be dropped"),
        (Pin("p", "r", 5), "message 5 is pinned already"),
        (Pin("p", "r", 0), "there is no message 0"),
    ],
)
def test_each_rule_has_its_reason(edit: Edit, reason: str) -> None:
    view = fold(conversation([2, 0]), [Pin("p", "r", 5)])
    refusal = review(view, edit)
    assert refusal is not None
    assert refusal.reason == reason


def test_what_has_left_the_view_cannot_be_edited_or_pinned() -> None:
    view = fold(conversation([1, 0]), [DropBefore("p", "r", 4)])
    for edit in (Evict("p", "r", 3, "", "/x"), Pin("p", "r", 3)):
        refusal = review(view, edit)
        assert refusal is not None
        assert refusal.reason == "message 3 has left the view"


@given(proposals())
def test_an_edit_comes_back_from_the_log_as_it_was(edit: Edit) -> None:
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


def test_each_message_is_counted_once_however_often_the_view_changes() -> None:
    counts: list[BaseMessage] = []

    class Counting:
        exact = True

        def message(self, message: BaseMessage) -> int:
            counts.append(message)
            return 10

    history = conversation([1] * 50)
    view = fold(history, [], 0, counter=Counting())  # type: ignore[arg-type]
    for upto in range(1, len(history) + 1):
        view = view.extended(upto)
    assert len(counts) == len(history)
    view = view.applied(Evict("p", "r", 3, "x", "/x")).applied(DropBefore("p", "r", 4))
    assert len(counts) == len(history) + 1
