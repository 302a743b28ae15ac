"""Composition, differences, explanations and missing texts, from a log, its edits and its ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.agents import call, calling
from zeus_runtime.context.edits import DropBefore, Edit, Evict, Pin, Summarize, TruncateArguments
from zeus_runtime.context.inspection import (
    Trace,
    composition,
    difference,
    explanation,
    session_totals,
    why_missing,
)
from zeus_runtime.context.inspection.trace import Branch
from zeus_runtime.context.ledger import PolicyDecision, StepRecord, StepUsage
from zeus_runtime.context.prompt_cost import FixedParts
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.context.view import fold
from zeus_runtime.errors import UsageError
from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.models.profiles import ModelProfile

COUNTER = counter_for(ModelProfile("gpt-5", "openai", tokenizer="o200k_base"))
TOOLS = (ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {}}),)
SECTIONS = {"core": "You are careful.", "time": "It is Monday."}

HISTORY: list[BaseMessage] = [
    HumanMessage("The goal is a blue boat."),
    calling(call("read_file", "1", path="/long.txt")),
    ToolMessage("the secret harbour " * 50, tool_call_id="1", name="read_file"),
    AIMessage("I have read it."),
    HumanMessage("Now write the plan."),
    calling(call("write_file", "2", path="/plan.txt", content="sail at dawn " * 40)),
    ToolMessage("written", tool_call_id="2", name="write_file"),
    AIMessage("Done, with the plan."),
    HumanMessage("Thanks, what next?"),
    AIMessage("Nothing next."),
]
EVICT = Evict("eviction", "it is large", 3, "see /large_tool_results/1", "/large_tool_results/1")
TRUNCATE = TruncateArguments(
    "truncation",
    "it is old",
    6,
    "2",
    {"content": "sail at dawn sail at…"},
    "/large_tool_results/2.arguments.json",
)
PIN = Pin("pins", "the first goal", 1)
SUMMARIZE = Summarize(
    "summarization", "the window is full", 9, "They planned a trip.", "/conversation_history/s.md"
)


def trace_of(calls: list[tuple[int, list[Edit]]], sections: list[dict[str, str]] | None = None) -> Trace:
    """A session whose steps were sent after the given cursors, with the edits admitted right before."""
    edits: list[tuple[int, Edit]] = []
    steps: list[StepRecord] = []
    texts: dict[str, str] = {}
    parts = FixedParts(COUNTER, TOOLS)
    for number, (cursor, admitted) in enumerate(calls, start=1):
        decisions = []
        for edit in admitted:
            view = fold(HISTORY, [each for _, each in edits], cursor, counter=COUNTER)
            after = view.effect(edit).tokens_after
            edits.append((cursor, replace(edit, tokens_before=view.tokens, tokens_after=after)))
            decisions.append(
                PolicyDecision(
                    edit.policy,
                    type(edit).__name__,
                    True,
                    edit.reason,
                    1,
                    (edit.seq,),
                    (),
                    view.tokens,
                    after,
                )
            )
        given = sections[number - 1] if sections else SECTIONS
        fixed = parts.measure(list(given.items()), "\n\n".join(given.values()))
        texts.update(fixed.texts)
        view = fold(HISTORY, [each for _, each in edits], cursor, counter=COUNTER)
        steps.append(
            StepRecord(
                number,
                "run",
                cursor,
                len(edits),
                model="gpt-5",
                fixed=fixed.digest,
                fixed_tokens=fixed.tokens,
                view_tokens=view.tokens,
                decisions=tuple(decisions),
                usage=StepUsage(100, 10, 60, 5),
                cost_usd=0.5,
            )
        )
    return Trace("s", HISTORY, edits, steps, texts, COUNTER, frozenset({"read_file"}))


WHOLE = trace_of([(1, []), (3, []), (5, [EVICT, PIN]), (7, [TRUNCATE]), (9, [SUMMARIZE])])


def test_the_composition_adds_up_to_what_the_ledger_counted() -> None:
    for step in WHOLE.steps:
        found = composition(WHOLE, step.number)
        assert sum(row.tokens for row in found.rows) == step.fixed_tokens + step.view_tokens
        assert sum(row.share for row in found.rows) == pytest.approx(1)
        assert all(row.tokens >= 0 for row in found.rows)


def test_the_composition_names_sections_tools_and_sources_with_their_survival() -> None:
    rows = {(row.part, row.name, row.survival): row.count for row in composition(WHOLE, 5).rows}
    assert rows["section", "core", "pinned"] == 1
    assert rows["tool schema", "read_file", "pinned"] == 1
    assert rows["messages", "user", "pinned"] == 1
    assert rows["messages", "user", "normal"] == 1
    assert rows["messages", "summary", "normal"] == 1
    assert ("messages", "tool:read_file", "replayable") in {
        (row.part, row.name, row.survival) for row in composition(WHOLE, 2).rows
    }


def test_the_composition_says_what_each_policy_shed_until_that_step() -> None:
    assert [each.policy for each in composition(WHOLE, 3).policies] == ["eviction", "pins"]
    last = {each.policy: each for each in composition(WHOLE).policies}
    evicted = WHOLE.edits[0][1]
    assert last["eviction"].saved_tokens == evicted.tokens_before - evicted.tokens_after > 0
    assert last["pins"].saved_tokens == 0


def test_totals_add_reported_tokens_cache_and_money() -> None:
    totals = session_totals(WHOLE.steps)
    assert (totals.steps, totals.input_tokens, totals.cache_read_tokens) == (5, 500, 300)
    assert (totals.cache_write_tokens, totals.cost_usd) == (25, 2.5)
    assert (totals.policy_tokens, totals.policy_cost_usd) == (0, None)
    assert session_totals([]).cost_usd is None


def test_the_calls_of_policies_are_totals_of_their_own() -> None:
    steps = [each.override(policy_tokens=30, policy_cost_usd=0.25) for each in WHOLE.steps[:2]]
    totals = session_totals(steps)
    assert (totals.input_tokens, totals.cost_usd) == (200, 1.0)
    assert (totals.policy_tokens, totals.policy_cost_usd) == (60, 0.5)


def test_a_difference_names_what_entered_what_left_and_the_edit() -> None:
    changes = {(each.change, each.name): each for each in difference(WHOLE, 2, 5).changes}
    assert changes["left", "3"].by == "summarization summarize"
    assert changes["left", "3"].handle == "/conversation_history/s.md"
    assert changes["entered", "summary"].what == "summary"
    assert changes["entered", "9"].source == "user"
    assert ("left", "1") not in changes
    assert ("replaced", "1") not in changes


def test_the_tokens_of_a_difference_are_the_difference_of_the_tokens() -> None:
    for first in range(1, 6):
        for second in range(1, 6):
            found = difference(WHOLE, first, second)
            grown = found.after.view_tokens - found.before.view_tokens
            assert sum(each.tokens for each in found.changes) == grown


def test_a_difference_of_a_step_with_itself_is_empty() -> None:
    assert difference(WHOLE, 3, 3).changes == []


def test_a_replaced_message_is_named_with_the_edit_that_replaced_it() -> None:
    (change,) = [each for each in difference(WHOLE, 2, 3).changes if each.change == "replaced"]
    assert (change.name, change.by, change.edit) == ("3", "eviction evict", 1)
    assert change.tokens < 0


def test_a_section_that_changed_shows_in_the_difference() -> None:
    found = difference(
        trace_of([(1, []), (3, [])], [SECTIONS, {**SECTIONS, "time": "It is Tuesday, at last."}]), 1, 2
    )
    (change,) = [each for each in found.changes if each.what == "section"]
    assert (change.change, change.name) == ("replaced", "time")


@pytest.mark.parametrize(
    ("item", "step", "status"),
    [("3", 2, "shown"), ("3", 3, "replaced"), ("3", 5, "left"), ("1", 5, "shown"), ("9", 2, "later")],
)
def test_an_explanation_says_what_became_of_a_message(item: str, step: int, status: str) -> None:
    found = explanation(WHOLE, item, step)
    assert found.status == status
    if status == "replaced":
        assert 0 < found.tokens < found.original_tokens
        assert [fate.kind for fate in found.fates] == ["evict"]
    if status == "left":
        assert [fate.kind for fate in found.fates] == ["evict", "summarize"]
        assert found.tokens == 0


def test_sections_tools_and_the_summary_can_be_explained() -> None:
    assert explanation(WHOLE, "core").what == "section"
    assert explanation(WHOLE, "read_file").what == "tool schema"
    summary = explanation(WHOLE, "summary")
    assert summary.fates[0].handle == "/conversation_history/s.md"
    assert summary.first_step == 5
    with pytest.raises(UsageError, match="no item 'corre'"):
        explanation(WHOLE, "corre")
    with pytest.raises(UsageError, match="no item '99'"):
        explanation(WHOLE, "99")


def test_a_missing_text_is_traced_to_the_edit_and_its_handle() -> None:
    (found,) = why_missing(WHOLE, "Secret HARBOUR", 4)
    assert (found.name, found.status) == ("3", "replaced")
    assert found.fate is not None
    assert (found.fate.policy, found.fate.step) == ("eviction", 3)
    assert found.fate.handle == "/large_tool_results/1"
    (gone,) = why_missing(WHOLE, "I have read it")
    assert gone.status == "left"
    assert gone.fate is not None
    assert gone.fate.handle == "/conversation_history/s.md"


def test_a_truncated_argument_is_found_as_replaced() -> None:
    (found,) = why_missing(WHOLE, "dawn sail at dawn sail at dawn", 4)
    assert found.fate is not None
    assert (found.fate.kind, found.fate.handle) == (
        "truncate_arguments",
        "/large_tool_results/2.arguments.json",
    )


def test_a_text_of_several_lines_in_an_argument_is_found() -> None:
    written = calling(call("write_file", "9", path="/a.txt", content="one line\nand another"))
    trace = replace(trace_of([(1, [])]), history=[HISTORY[0], written])
    assert [each.name for each in why_missing(trace, "line\nand")] == ["2"]


def test_a_text_that_a_return_to_an_earlier_message_set_aside_is_found() -> None:
    last = WHOLE.steps[-1]
    former = Branch(
        last.number - 1, [*WHOLE.history[:2], AIMessage("a word about walruses"), *WHOLE.history[3:]], ()
    )
    trace = replace(WHOLE, branches=[former, replace(former)])
    (found,) = why_missing(trace, "Walruses")
    assert (found.what, found.name, found.status) == ("message", "3", "set aside")
    assert f"step {last.number - 1}" in found.note
    assert "walruses" in found.excerpt
    assert [each.status for each in why_missing(trace, "blue boat")] == ["shown"], "what stayed is told once"


def test_a_text_that_is_sent_or_comes_later_or_never_was_is_told_apart() -> None:
    assert [each.status for each in why_missing(WHOLE, "blue boat")] == ["shown"]
    assert [each.status for each in why_missing(WHOLE, "what next", 2)] == ["later"]
    assert [each.what for each in why_missing(WHOLE, "planned a trip")] == ["summary"]
    assert why_missing(WHOLE, "a submarine") == []


def test_a_text_of_a_former_section_is_found_with_the_step_until_which_it_was_sent() -> None:
    trace = trace_of([(1, []), (3, []), (5, [])], [SECTIONS, SECTIONS, {**SECTIONS, "time": "It is Friday."}])
    (found,) = why_missing(trace, "Monday")
    assert (found.what, found.name, found.status) == ("section", "time", "left")
    assert found.note == "the section said so up to step 2"
    assert why_missing(trace, "Friday")[0].status == "shown"
    assert why_missing(trace, "Friday", 1)[0].status == "later"


def test_a_step_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"no step 9\n.*1 to 5"):
        composition(WHOLE, 9)
    with pytest.raises(UsageError, match="no step yet"):
        composition(trace_of([]))


def test_with_an_edit_unreadable_the_steps_before_it_can_still_be_shown() -> None:
    broken = replace(WHOLE, edits=WHOLE.edits[:1], problems=["edit 2 cannot be read"])
    assert composition(broken, 2).rows
    with pytest.raises(UsageError, match="step 5 sent cannot be rebuilt: edit 2 cannot be read"):
        composition(broken, 5)


def test_without_the_texts_the_fixed_part_is_one_row() -> None:
    found = composition(replace(WHOLE, texts={}), 1)
    assert (found.rows[0].name, found.rows[0].tokens) == ("(prompt and tools)", WHOLE.steps[0].fixed_tokens)


def test_dropped_messages_are_explained_like_summarized_ones() -> None:
    trace = trace_of([(3, []), (9, [DropBefore("history", "more than 2 messages", 5, "/h.md")])])
    assert explanation(trace, "2").status == "left"
    assert [each.fate.policy for each in why_missing(trace, "blue boat") if each.fate] == ["history"]


def test_an_excerpt_shows_the_text_that_was_found_also_behind_letters_that_fold_to_two() -> None:
    step = StepRecord(1, "run", 1, 0)
    trace = Trace("s", [HumanMessage("Straße " * 60 + "the Needle is here")], [], [step])
    (found,) = why_missing(trace, "needle")
    assert "the Needle is here" in found.excerpt


def test_a_figure_that_is_no_number_is_an_item_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no item"):
        explanation(WHOLE, "²")
