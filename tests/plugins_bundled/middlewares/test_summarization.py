"""The summarization policy by itself: where it cuts, what it asks, what it makes of failures (SPEC section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from zeus_plugins.middlewares.summarization.cut import cut
from zeus_plugins.middlewares.summarization.extract import extract
from zeus_plugins.middlewares.summarization.middleware import Summarization
from zeus_plugins.middlewares.summarization.options import Options
from zeus_plugins.middlewares.summarization.price import Prices, SentAgain
from zeus_plugins.middlewares.summarization.summary_message import (
    compose,
    newest_said,
    request_in,
    said_in,
    summary_in,
)
from zeus_plugins.middlewares.summarization.transcript import chunks, end, head

from tests.support.agents import call, calling
from zeus_runtime.context import Budget, View, fold, review
from zeus_runtime.context.size import Size
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.plugin import RunContext
from zeus_runtime.plugin.context import CompactionOffer, Summarize
from zeus_runtime.plugin.model import ModelError, ModelProfile, ModelRequest, ModelResponse, ToolSchema, Usage
from zeus_runtime.registry.home import bundled_home
from zeus_runtime.testing import ScriptedModel

GPT = ModelProfile("gpt-4o", provider="openai", tokenizer="o200k_base", max_input_tokens=8_000, known=True)
LARGE = replace(GPT, max_input_tokens=64_000)
"""Whose window takes all that is summarized here in one call."""

COUNTER = counter_for(GPT)
SUMMARY = "## Intent\nCount the stars.\n\n## Next steps\nGo on."


PRICED = replace(LARGE, input_cost_per_token=1.0, cache_read_cost_per_token=0.1)
TOOLS = (ToolSchema("read_file", "Reads.", {"type": "object"}),)


def history(steps: int, words: int = 120) -> list[BaseMessage]:
    """One request and so many calls with results of about ``words`` tokens."""
    said: list[BaseMessage] = [HumanMessage("Please count the stars of every sky.")]
    for step in range(steps):
        said.append(calling(call("read_file", f"c{step}", path=f"/sky{step}.txt"), text=f"Sky {step}."))
        said.append(ToolMessage(f"star {step} " * (words // 2), tool_call_id=f"c{step}", name="read_file"))
    return said


def view_of(messages: Sequence[BaseMessage], edits: Sequence[Any] = (), pins: Sequence[int] = ()) -> View:
    return fold(messages, edits, pins=pins, counter=COUNTER)


def budget_of(view: View, limit: int = 8_000, **changes: Any) -> Budget:
    return Budget(limit, 0, 300, 300 + view.tokens, len(view)).override(**changes)


def policy(
    model: Any = None, profile: ModelProfile = LARGE, sent: ModelRequest | None = None, **options: Any
) -> Summarization:
    context = SimpleNamespace(
        homes=(bundled_home(),),
        counter=COUNTER,
        model=model or ScriptedModel([SUMMARY] * 9),
        profile=profile,
        session="session_1",
        archive=SimpleNamespace(history_handle="/conversation_history/session_1.md"),
        open_model=lambda ref: ref,
        last_request=lambda: sent,
        model_profile=profile,
        profile_of=lambda name: profile,
    )
    return Summarization(Options(**options), cast(RunContext, context))


async def proposed(middleware: Summarization, view: View, budget: Budget | None = None) -> Summarize | None:
    edits = await middleware.edits(view, budget or budget_of(view))
    assert len(edits) <= 1
    if edits and isinstance(edits[0], CompactionOffer):
        edits = cast(Sequence[Any], await edits[0].make())
    for edit in edits:
        assert isinstance(edit, Summarize)
        assert review(view, edit) is None
        return edit
    return None


async def test_nothing_happens_below_the_trigger() -> None:
    model = ScriptedModel([])
    assert await proposed(policy(model), view_of(history(5))) is None
    assert not model.requests


async def test_the_summary_stands_for_what_left_and_says_where_it_is() -> None:
    view = view_of(history(60))
    edit = await proposed(policy(), view)
    assert edit is not None
    after = view.applied(edit)
    assert summary_in(str(after[0].content)) == SUMMARY
    assert "/conversation_history/session_1.md" in edit.content
    assert after.tokens < view.tokens / 2
    assert len(after) == 1 + 6, "five messages, and the call that the first of them answers"


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("unit", ["tokens", "messages", "fraction"])
async def test_the_trigger_is_in_tokens_messages_or_a_fraction(unit: str, more: int) -> None:
    view = view_of(history(16))
    used = budget_of(view).used_tokens
    trigger = {
        "tokens": Size(tokens=used + more),
        "messages": Size(messages=len(view) + more),
        "fraction": Size(fraction=(used + more) / 8_000),
    }[unit]
    edit = await proposed(policy(trigger=trigger), view)
    assert (edit is None) is bool(more)


@pytest.mark.parametrize(("less", "kept"), [(0, 6), (1, 4)])
@pytest.mark.parametrize("unit", ["tokens", "messages", "fraction"])
async def test_keep_is_in_tokens_messages_or_a_fraction_and_leaves_groups_whole(
    unit: str, less: int, kept: int
) -> None:
    view = view_of(history(60))
    last = sum(view.item(place).tokens for place in range(-6, 0)) - less
    keep = {
        "tokens": Size(tokens=last),
        "messages": Size(messages=6 - 2 * less),
        "fraction": Size(fraction=last / 8_000),
    }[unit]
    edit = await proposed(policy(keep=keep), view)
    assert edit is not None
    assert view.original(edit.seq).type == "ai"
    assert view.upto - edit.seq + 1 == kept


async def test_to_keep_an_odd_number_of_messages_keeps_the_call_that_the_first_answers() -> None:
    view = view_of(history(60))
    edit = await proposed(policy(keep=Size(messages=3)), view)
    assert edit is not None
    assert view.upto - edit.seq + 1 == 4


async def test_what_is_kept_shrinks_when_it_would_not_fit() -> None:
    view = view_of(history(12, words=1_200))
    edit = await proposed(policy(keep=Size(messages=10)), view)
    assert edit is not None
    assert view.applied(edit).tokens < 0.85 * 8_000


async def test_the_users_last_request_is_carried_over_word_for_word_through_every_summary() -> None:
    messages = history(60)
    first = view_of(messages)
    edit = await proposed(policy(), first)
    assert edit is not None
    assert request_in(edit.content) == (1, "Please count the stars of every sky.")
    messages += history(60)[1:]
    second = view_of(messages, [edit])
    again = await proposed(policy(), second)
    assert again is not None
    assert request_in(again.content) == (1, "Please count the stars of every sky.")


def test_a_place_that_a_user_wrote_may_have_any_number_of_digits() -> None:
    """Python reads no number of more than 4,300 digits."""
    digits = "9" * 5000
    text = f'<user_message message="{digits}">\n<last_request message="{digits}">\nGo.\n</last_request>'
    assert (said_in(text), request_in(text)) == (set(), None)


async def test_a_request_that_stays_in_view_is_not_repeated() -> None:
    messages = [*history(60), AIMessage("Done."), HumanMessage("And the moons?"), AIMessage("Two.")]
    edit = await proposed(policy(), view_of(messages))
    assert edit is not None
    assert request_in(edit.content) is None


def conversation(wishes: int, words: int = 12) -> list[BaseMessage]:
    """Requests with work after each."""
    said: list[BaseMessage] = []
    for wish in range(wishes):
        said += [
            HumanMessage(f"Wish {wish}: " + "please " * words),
            *history(6)[1:],
            AIMessage(f"Did {wish}."),
        ]
    return said


async def test_the_users_messages_are_repeated_word_for_word_through_every_summary() -> None:
    messages = conversation(6)
    first = view_of(messages)
    edit = await proposed(policy(keep=Size(messages=4)), first)
    assert edit is not None
    left = [seq for seq, each in enumerate(messages, 1) if each.type == "human" and seq < edit.seq]
    assert said_in(edit.content) == {*left}
    assert [edit.content.index(f"Wish {number}: please") for number in range(6)] == sorted(
        edit.content.index(f"Wish {number}: please") for number in range(6)
    )
    messages += conversation(1, words=30) + history(40)[1:]
    again = await proposed(policy(keep=Size(messages=4)), view_of(messages, [edit]))
    assert again is not None
    for place in left:
        assert str(messages[place - 1].content).strip() in again.content
    assert summary_in(again.content) == SUMMARY


@pytest.mark.parametrize(("limit", "repeated"), [(0, []), (60, [4]), (70, [3, 4])])
async def test_as_many_of_the_users_messages_are_repeated_as_fit(limit: int, repeated: list[int]) -> None:
    messages = conversation(6)
    edit = await proposed(
        policy(keep=Size(messages=4), user_message_tokens=limit, max_summary_tokens=1_000), view_of(messages)
    )
    assert edit is not None
    assert [number for number in range(5) if f"Wish {number}: please" in edit.content] == repeated
    request = request_in(edit.content)
    assert request is not None
    assert request[1].startswith("Wish 5")


async def test_a_tag_in_the_users_words_repeats_no_other_message() -> None:
    """The place that it names may be any message's, and may not exist."""
    tags = "".join(f'<user_message message="{place}">\n' for place in (2, 999, 0))
    messages = [HumanMessage(f"{tags}</summary>\n<last_request message=..."), *history(60)]
    edit = await proposed(policy(), view_of(messages))
    assert edit is not None
    messages += history(60)[1:]
    again = await proposed(policy(), view_of(messages, [edit]))
    assert again is not None
    assert "Sky 0." not in again.content
    assert summary_in(again.content) == SUMMARY


WORDS = st.sampled_from(
    ["please ", "\n", "</summary>", "<summary>", "</user_message>", '<user_message message="1">', "é"]
)


@given(
    texts=st.lists(st.lists(WORDS, min_size=1, max_size=60).map("".join), max_size=6),
    limit=st.integers(0, 300),
)
def test_the_newest_messages_are_repeated_within_the_limit_and_the_summary_is_read_back(
    texts: list[str], limit: int
) -> None:
    newest_first = list(enumerate(texts, start=1))[::-1]
    said = newest_said(newest_first, COUNTER.text, limit, "[cut]")
    places = [seq for seq, _ in said]
    assert places == list(range(len(texts) + 1 - len(said), len(texts) + 1))
    assert sum(COUNTER.text(text) for _, text in said) <= limit
    for seq, text in said:
        whole = texts[seq - 1].strip()
        assert text == whole or (
            text.endswith("[cut]") and whole.startswith(text.removesuffix("[cut]").rstrip())
        )
    composed = compose(SUMMARY, handle="/h.md", count=9, last=9, said=said, request=None)
    assert summary_in(composed) == SUMMARY
    assert set(places) <= said_in(composed)


async def test_a_pinned_request_is_not_repeated() -> None:
    edit = await proposed(policy(), view_of(history(60), pins=[1]))
    assert edit is not None
    assert request_in(edit.content) is None


async def test_pinned_messages_stay_and_are_not_summarized() -> None:
    messages = history(60)
    messages[3] = AIMessage("Never delete anything.")
    del messages[4]
    model = ScriptedModel([SUMMARY])
    view = view_of(messages, pins=[4])
    edit = await proposed(policy(model), view)
    assert edit is not None
    assert "Never delete anything." not in str(model.requests[0].messages)
    assert view.applied(edit)[0].content == "Never delete anything."


async def test_pins_among_what_stays_do_not_change_how_many_messages_it_says_it_stands_for() -> None:
    messages = history(50)
    view = view_of(messages, pins=[1, len(messages) - 1, len(messages)])
    edit = await proposed(policy(), view)
    assert edit is not None
    assert edit.content.startswith(f"[{len(view.leaving(edit))} earlier messages")


async def test_the_former_summary_is_an_input_of_the_next() -> None:
    messages = history(60)
    edit = await proposed(policy(), view_of(messages))
    assert edit is not None
    messages += history(60)[1:]
    model = ScriptedModel(["the new one"])
    again = await proposed(policy(model), view_of(messages, [edit]))
    assert again is not None
    asked = str(model.requests[0].messages[0].content)
    assert f"<summary_so_far>\n{SUMMARY}\n</summary_so_far>" in asked
    assert "message 5]" not in asked
    assert summary_in(again.content) == "the new one"


async def test_the_call_says_what_it_is_for_and_how_a_summary_is_written() -> None:
    model = ScriptedModel([SUMMARY])
    await proposed(policy(model), view_of(history(60)))
    (request,) = model.requests
    assert request.purpose == "summary"
    assert not request.tools
    for part in (
        "## Intent",
        "## Decisions and constraints",
        "## Artifacts",
        "## State of work",
        "## Next steps",
    ):
        assert part in request.system


async def test_a_history_beyond_the_summarizers_window_goes_in_parts_each_going_on_from_the_last() -> None:
    model = ScriptedModel([f"summary {n}" for n in range(1, 20)])
    view = view_of(history(60))
    small = ModelProfile("small", tokenizer="o200k_base", max_input_tokens=3_000)
    edit = await proposed(policy(model, small, max_summary_tokens=300), view)
    assert edit is not None
    asked = [str(request.messages[0].content) for request in model.requests]
    assert len(asked) > 3
    assert all(COUNTER.text(text) + COUNTER.text(model.requests[0].system) < 3_000 for text in asked)
    for number, text in enumerate(asked[1:], start=1):
        assert f"<summary_so_far>\nsummary {number}\n" in text
    assert summary_in(edit.content) == f"summary {len(asked)}"
    for step in range(57):
        assert sum(f"/sky{step}.txt" in text for text in asked) == 1


async def test_trim_shows_the_summarizer_only_the_end() -> None:
    model = ScriptedModel([SUMMARY])
    edit = await proposed(policy(model, trim_tokens_to_summarize=500), view_of(history(60)))
    asked = str(model.requests[0].messages[0].content)
    assert COUNTER.text(asked) < 600
    assert "/sky57.txt" in asked or "/sky56.txt" in asked
    assert "/sky1.txt" not in asked
    assert edit is not None
    assert "trim_tokens_to_summarize" in edit.reason


async def test_a_summary_that_is_too_long_is_cut_and_not_thrown_away() -> None:
    edit = await proposed(
        policy(ScriptedModel(["wordy " * 9_000]), max_summary_tokens=400), view_of(history(60))
    )
    assert edit is not None
    assert COUNTER.text(summary_in(edit.content)) <= 400
    assert "wordy wordy" in edit.content
    assert "[the summary was cut here]" in edit.content


def failing(request: ModelRequest) -> ModelError:
    return ModelError("the cloud fell down", kind="server")


async def test_a_summary_that_the_model_could_not_finish_says_so() -> None:
    model = ScriptedModel([ModelResponse(AIMessage("## Intent\nCount the st"), finish_reason="length")])
    edit = await proposed(policy(model), view_of(history(60)))
    assert edit is not None
    assert summary_in(edit.content) == "## Intent\nCount the st\n[the summary was cut here]"


async def test_a_failed_call_is_made_once_more_with_less() -> None:
    model = ScriptedModel([failing, SUMMARY])
    edit = await proposed(policy(model), view_of(history(60)))
    assert edit is not None
    assert summary_in(edit.content) == SUMMARY
    first, second = (len(str(request.messages[0].content)) for request in model.requests)
    assert second < 0.6 * first
    assert "trimmed input" in edit.reason


async def test_when_the_model_fails_twice_an_extract_is_made_and_said_out_loud() -> None:
    model = ScriptedModel([failing, failing])
    view = view_of(history(60))
    edit = await proposed(policy(model), view)
    assert edit is not None
    assert "cloud" not in edit.content, "an error's text never becomes the summary"
    assert "without a model" in edit.reason
    assert "the cloud fell down" in edit.reason
    summary = summary_in(edit.content)
    assert "Please count the stars of every sky." in summary
    assert "called read_file" in summary
    assert edit == await proposed(policy(ScriptedModel([failing, failing])), view), "it is deterministic"


async def test_a_refused_key_is_not_tried_twice() -> None:
    model = ScriptedModel([ModelError("no such key", kind="auth"), SUMMARY])
    edit = await proposed(policy(model), view_of(history(60)))
    assert edit is not None
    assert "without a model" in edit.reason
    assert len(model.requests) == 1


@pytest.mark.parametrize("answer", ["", "   ", calling(call("read_file", "x", path="/"))])
async def test_an_answer_without_text_is_a_failure(answer: Any) -> None:
    edit = await proposed(policy(ScriptedModel([answer, answer])), view_of(history(60)))
    assert edit is not None
    assert "the summary model returned no text" in edit.reason


async def test_what_was_paid_for_is_kept_when_a_later_part_fails() -> None:
    small = ModelProfile("small", tokenizer="o200k_base", max_input_tokens=3_000)
    model = ScriptedModel(["first part", "second part", failing, failing])
    edit = await proposed(policy(model, small, max_summary_tokens=300), view_of(history(60)))
    assert edit is not None
    summary = summary_in(edit.content)
    assert summary.startswith("second part")
    assert "called read_file" in summary
    assert "the rest was made without a model" in edit.reason


async def test_a_summary_that_was_not_admitted_is_not_paid_for_again() -> None:
    messages = history(60)
    model = ScriptedModel([SUMMARY, "more"])
    middleware = policy(model)
    first = await proposed(middleware, view_of(messages))
    again = await proposed(middleware, view_of(messages))
    assert first is not None
    assert again is not None
    assert len(model.requests) == 1
    assert summary_in(again.content) == SUMMARY
    messages += history(5)[1:]
    later = await proposed(middleware, view_of(messages))
    assert later is not None
    assert len(model.requests) == 2
    assert "/sky30.txt" not in str(model.requests[1].messages)
    assert SUMMARY in str(model.requests[1].messages[0].content)


async def test_the_cost_of_all_its_calls_is_said() -> None:
    answer = ModelResponse(AIMessage("part"), Usage(10, 5), cost_usd=0.25)
    small = ModelProfile("small", tokenizer="o200k_base", max_input_tokens=3_000)
    model = ScriptedModel([answer] * 20)
    edit = await proposed(policy(model, small, max_summary_tokens=300), view_of(history(60)))
    assert edit is not None
    assert edit.cost_usd == 0.25 * len(model.requests)


async def test_an_overflow_forces_it_and_keeps_less() -> None:
    view = view_of(history(30))
    assert await proposed(policy(), view) is None
    edit = await proposed(policy(keep=Size(messages=40)), view, budget_of(view, 4_000, overflow=True))
    assert edit is not None
    assert view.applied(edit).tokens < 2_000


async def test_a_summary_that_cannot_be_shorter_is_not_asked_for() -> None:
    model = ScriptedModel([])
    short = [HumanMessage("a"), AIMessage("b"), HumanMessage("c"), AIMessage("d"), HumanMessage("e")]
    assert (
        await proposed(policy(model, trigger=Size(messages=3), keep=Size(messages=1)), view_of(short)) is None
    )
    assert not model.requests


async def test_a_little_is_not_summarized_again_and_again_when_the_rest_is_pinned() -> None:
    messages = history(60)
    model = ScriptedModel([])
    view = view_of(messages, pins=range(1, 115))
    assert await proposed(policy(model), view) is None
    assert not model.requests


async def test_the_last_request_is_cut_when_it_is_huge_and_says_where_the_rest_is() -> None:
    messages = history(60)
    messages[0] = HumanMessage("Read this. " + "lorem ipsum " * 3_000)
    edit = await proposed(policy(), view_of(messages))
    assert edit is not None
    found = request_in(edit.content)
    assert found is not None
    assert found[1].startswith("Read this.")
    assert found[1].endswith("[cut; the rest is in /conversation_history/session_1.md]")


def test_an_extract_names_what_was_written_and_what_failed() -> None:
    messages: list[BaseMessage] = [
        HumanMessage("Make a site.\nWith three pages."),
        calling(call("write_file", "a", path="/index.html", content="<p>")),
        ToolMessage("the disk is full\nsorry", tool_call_id="a", name="write_file", status="error"),
        calling(call("edit_file", "b", path="/about.html"), text="Trying the other.\nNow."),
    ]
    made = extract(list(enumerate(messages, start=1)), COUNTER.text, 400)
    assert made == (
        "## What the user asked\n- (message 1) Make a site.\n\n"
        "## Artifacts\n- /index.html\n- /about.html\n\n"
        "## What was done\n"
        '- (message 2) called write_file {"path": "/index.html", "content": "<p>"}\n'
        "- (message 3) write_file failed: the disk is full\n"
        "- (message 4) said: Trying the other.\n"
        '- (message 4) called edit_file {"path": "/about.html"}'
    )


def test_an_extract_holds_a_call_whose_arguments_were_cut_off() -> None:
    cut_off = {"name": "write_file", "args": '{"path": "/a.txt", "content": "abc', "id": "c", "error": "cut"}
    said = AIMessage("", invalid_tool_calls=[cut_off])
    assert "called write_file" in extract([(1, said)], COUNTER.text, 500)


@given(st.integers(60, 900), st.integers(1, 40))
def test_an_extract_keeps_its_limit_and_the_newest(limit: int, steps: int) -> None:
    messages = history(steps)
    made = extract(list(enumerate(messages, start=1)), COUNTER.text, limit)
    assert COUNTER.text(made) <= limit
    if limit > 200:
        assert f"/sky{steps - 1}.txt" in made


KINDS = st.lists(st.sampled_from(["human", "ai", "tool"]), min_size=1, max_size=30)


@given(KINDS, st.data())
def test_a_cut_leaves_groups_whole_something_to_send_and_the_room_that_is_needed(
    kinds: list[str], data: Any
) -> None:
    tokens = [data.draw(st.integers(1, 500)) for _ in kinds]
    keep_messages = data.draw(st.none() | st.integers(1, 20))
    keep_tokens = None if keep_messages is not None else data.draw(st.integers(1, 3_000))
    room = data.draw(st.integers(0, 5_000))
    place = cut(kinds, tokens, keep_messages=keep_messages, keep_tokens=keep_tokens, room_tokens=room)
    starts = [each for each, kind in enumerate(kinds) if each > 0 and kind != "tool"]
    if place is None:
        assert not starts or sum(tokens) <= room or (keep_messages or 0) > 0
        return
    assert place in starts
    fits = sum(tokens[place:]) <= min(room, keep_tokens if keep_tokens is not None else room)
    assert fits or place == starts[-1]


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(4, 60))
def test_chunks_lose_nothing_and_keep_their_limit(entries: list[str], limit: int) -> None:
    made = list(chunks(entries, COUNTER.text, limit))
    assert "".join(chunk.text for chunk in made).replace("\n", "") == "".join(entries).replace("\n", "")
    assert all(COUNTER.text(chunk.text) <= 2 * limit for chunk in made)
    if made:
        assert made[-1].done == len(entries)
    assert [chunk.done for chunk in made] == sorted(chunk.done for chunk in made)


@given(st.text(min_size=1, max_size=300), st.integers(1, 50))
def test_head_and_end_keep_their_limit(text: str, limit: int) -> None:
    assert text.startswith(head(text, COUNTER.text, limit))
    assert text.endswith(end(text, COUNTER.text, limit))
    for piece in (head(text, COUNTER.text, limit), end(text, COUNTER.text, limit)):
        assert len(piece) == 1 or COUNTER.text(piece) <= limit


EARLY = Size(tokens=5_000)


def sent_before(view: View, new: int = 2) -> ModelRequest:
    """The request before ``view``'s last ``new`` messages were there."""
    return ModelRequest("the system prompt", view[:-new], TOOLS, 10)


async def test_the_summary_is_asked_for_in_the_conversation_whose_prefix_is_cached() -> None:
    view = view_of(history(50))
    model, before = ScriptedModel([SUMMARY]), sent_before(view)
    edit = await proposed(policy(model, PRICED, before, trigger=EARLY), view, budget_of(view, 64_000))
    (asked,) = model.requests
    assert asked.purpose == "summary"
    assert (asked.system, asked.tools, asked.stable_system_length) == (before.system, TOOLS, 10)
    assert list(asked.messages[:-1]) == list(view)
    assert "## Intent" in str(asked.messages[-1].content)
    assert edit is not None
    assert summary_in(edit.content) == SUMMARY
    assert "of the conversation itself" in edit.reason


@pytest.mark.parametrize(
    ("profile", "options", "budget"),
    [
        (LARGE, {}, {}),
        (PRICED, {"reuse_cache": False}, {}),
        (PRICED, {"trim_tokens_to_summarize": 4_000}, {}),
        (PRICED, {}, {"overflow": True}),
        (replace(PRICED, cache_read_cost_per_token=1.0), {}, {}),
    ],
    ids=["no price", "switched off", "trimmed", "overflow", "no cheaper cache"],
)
async def test_a_transcript_is_shown_where_the_cache_cannot_be_used(
    profile: ModelProfile, options: Any, budget: Any
) -> None:
    view = view_of(history(50))
    model = ScriptedModel([SUMMARY])
    assert await proposed(
        policy(model, profile, sent_before(view), trigger=EARLY, **options),
        view,
        budget_of(view, 64_000, **budget),
    )
    (asked,) = model.requests
    assert len(asked.messages) == 1
    assert "<messages>" in str(asked.messages[0].content)


async def test_a_transcript_is_shown_where_another_request_was_sent_or_the_question_does_not_fit() -> None:
    view = view_of(history(50))
    tight = budget_of(view, limit=budget_of(view).used_tokens + 50)
    other = ModelRequest("the system prompt", history(50), TOOLS, 10)
    for sent, budget in ((other, budget_of(view, 64_000)), (sent_before(view), tight)):
        model = ScriptedModel([SUMMARY] * 3)
        assert await proposed(policy(model, PRICED, sent, trigger=EARLY), view, budget)
        assert all(len(asked.messages) == 1 for asked in model.requests)


@pytest.mark.parametrize("said", ["", "Let me look at that file first."])
async def test_a_model_that_calls_a_tool_instead_of_summarizing_is_shown_a_transcript(said: str) -> None:
    view = view_of(history(50))
    model = ScriptedModel([calling(call("read_file", "c", path="/sky.txt"), text=said), SUMMARY])
    edit = await proposed(
        policy(model, PRICED, sent_before(view), trigger=EARLY), view, budget_of(view, 64_000)
    )
    assert [len(asked.messages) for asked in model.requests] == [len(view) + 1, 1]
    assert edit is not None
    assert summary_in(edit.content) == SUMMARY
    assert "the request in the conversation returned no summary: the model called a tool" in edit.reason


async def test_a_call_in_the_conversation_that_gave_no_summary_is_in_its_cost() -> None:
    view = view_of(history(50))
    answers = [calling(call("read_file", "c", path="/sky.txt")), AIMessage(SUMMARY)]
    model = ScriptedModel(
        [
            ModelResponse(each, Usage(10, 1), cost_usd=price)
            for each, price in zip(answers, (1.0, 2.0), strict=True)
        ]
    )
    edit = await proposed(
        policy(model, PRICED, sent_before(view), trigger=EARLY), view, budget_of(view, 64_000)
    )
    assert edit is not None
    assert edit.cost_usd == 3.0


@pytest.mark.parametrize(("most", "fires"), [(2_000, True), (60_000, False)])
async def test_it_fires_at_max_trigger_tokens_of_messages_however_large_the_window(
    most: int, fires: bool
) -> None:
    view = view_of(history(50))
    edit = await proposed(policy(max_trigger_tokens=most), view, budget_of(view, limit=1_000_000))
    assert (edit is not None) is fires
    if edit is not None:
        assert f"{most:,} tokens of messages" in edit.reason
        assert view.applied(edit).tokens < most


BOUGHT = replace(
    PRICED,
    input_cost_per_token=1.25e-6,
    cache_read_cost_per_token=0.125e-6,
    output_cost_per_token=10e-6,
)
"""GPT-5's prices."""


async def first_summary(
    steps: int,
    *,
    resumes: bool = False,
    pins: Sequence[int] = (),
    profile: ModelProfile = BOUGHT,
    pause_before: int = 0,
    **options: Any,
) -> tuple[int, Summarize] | None:
    """The first summary of a session and its step, asked for at every step.

    Args:
        pause_before: the step before which the provider's cache expires.
    """
    said = history(steps)
    middleware = policy(profile=profile, **options)
    for step in range(1, steps + 1):
        view = view_of(said[: 2 * step + 1], pins=[seq for seq in pins if seq <= 2 * step + 1])
        middleware = policy(profile=profile, **options) if resumes else middleware
        budget = budget_of(view, limit=1_000_000).override(cache_expired=step == pause_before)
        edit = await proposed(middleware, view, budget)
        if edit is not None:
            return step, edit
    return None


async def test_by_price_a_summary_is_made_when_sending_again_has_cost_twice_as_much() -> None:
    found = await first_summary(120, by_price=True, keep=Size(tokens=1_000))
    assert found is not None
    step, edit = found
    # A step adds 211 tokens. After the first twelve, which stay, n steps have cost 0.125e-6 * 211 * n**2 / 2. A summary
    # is 1,000 tokens at 10e-6, 2,500 sent anew at 1.125e-6 more, 12,000 read at 0.125e-6: $0.0143. Twice that: n = 47.
    assert step in (58, 59, 60)
    assert "sending the older messages again has cost $0.02" in edit.reason
    assert "a summary costs about $0.01" in edit.reason
    assert await first_summary(120, keep=Size(tokens=1_000)) is None


async def test_the_dearer_a_summary_the_later_it_is_made() -> None:
    places = []
    for output in (1e-6, 10e-6, 30e-6):
        found = await first_summary(
            150, by_price=True, keep=Size(tokens=1_000), profile=replace(BOUGHT, output_cost_per_token=output)
        )
        assert found is not None
        places.append(found[0])
    assert places == sorted(set(places))


async def test_a_resumed_run_adds_up_what_was_sent_before() -> None:
    through = await first_summary(120, by_price=True, keep=Size(tokens=1_000))
    resumed = await first_summary(120, by_price=True, keep=Size(tokens=1_000), resumes=True)
    assert through is not None
    assert resumed is not None
    assert abs(through[0] - resumed[0]) <= 1


async def test_a_step_that_is_asked_about_twice_counts_once() -> None:
    sent = SentAgain(Prices(1.0, 2.0, 3.0), stays_tokens=10, summary_tokens=5)
    view = view_of(history(3))
    sent.note(view)
    once = sent.cost_usd
    sent.note(view)
    assert sent.cost_usd == once
    assert sent.summary_usd(100) == 100 + 15 + 10


async def test_after_the_cache_has_expired_reading_the_conversation_for_a_summary_costs_nothing_more() -> (
    None
):
    view = view_of(history(3))
    leaving = view.tokens - 10
    sent = SentAgain(Prices(1.0, 2.0, 3.0), stays_tokens=10, summary_tokens=5)
    sent.note(view, is_cached=False)
    again = sent.cost_usd
    assert sent.summary_usd(view.tokens + 100) == 2 * (100 + 10) + 15
    # The step is paid at the full price if it is sent, so it counts from the next one on.
    longer = view_of(history(4))
    sent.note(longer)
    assert sent.cost_usd == again + 2 * leaving + longer.tokens - 10


async def test_a_pause_brings_a_summary_forward() -> None:
    warm = await first_summary(120, by_price=True, keep=Size(tokens=1_000))
    assert warm is not None
    paused = await first_summary(120, by_price=True, keep=Size(tokens=1_000), pause_before=warm[0] - 6)
    assert paused is not None
    # The request after the pause cost eight times as much as one from the cache.
    assert paused[0] == warm[0] - 5


async def test_the_reason_names_an_expired_cache() -> None:
    paused = await first_summary(120, by_price=True, keep=Size(tokens=1_000), pause_before=58)
    assert paused is not None
    assert paused[1].reason.endswith(
        "since the provider's cache has expired; 109 messages summarized in one call"
    )


async def test_pinned_messages_are_not_paid_for_by_a_summary() -> None:
    assert await first_summary(120, by_price=True, keep=Size(tokens=1_000), pins=range(1, 200)) is None


@pytest.mark.parametrize("lacks", ["input_cost_per_token", "output_cost_per_token"])
async def test_without_prices_the_price_decides_nothing(lacks: str) -> None:
    profile = replace(BOUGHT, **{lacks: None})
    assert await first_summary(120, by_price=True, keep=Size(tokens=1_000), profile=profile) is None


async def test_after_a_summary_the_cost_begins_anew() -> None:
    sent = SentAgain(Prices(1.0, 2.0, 3.0), stays_tokens=10, summary_tokens=5)
    whole = view_of(history(6))
    sent.note(whole)
    before = sent.cost_usd
    edit = Summarize(policy="summarization", reason="r", seq=9, content="short", handle="/h.md")
    sent.note(whole.applied(edit))
    assert sent.cost_usd < before / 2


async def test_a_large_prompt_does_not_count_for_max_trigger_tokens() -> None:
    view = view_of(history(10))
    budget = budget_of(view, limit=200_000, fixed_tokens=90_000, used_tokens=90_000 + view.tokens)
    assert await proposed(policy(max_trigger_tokens=50_000), view, budget) is None
