"""The ledger's entries come back as they were; what changed nothing costs nothing."""

from __future__ import annotations

import pytest

from zeus_runtime.context.ledger import PolicyDecision, StepRecord, StepUsage
from zeus_runtime.context.prompt_cost import FixedParts, PromptPart, ToolCounts, fixed_from_json
from zeus_runtime.models.interface import ToolSchema


class Letters:
    """A counter that counts letters, and how often it was asked."""

    exact = True
    asked = 0
    tools_asked = 0

    def text(self, text: str) -> int:
        self.asked += 1
        return len(text)

    def tools(self, schemas: list[ToolSchema]) -> int:
        self.asked += 1
        self.tools_asked += 1
        return sum(len(each.name) for each in schemas)

    def fixed(self, system: str = "", schemas: list[ToolSchema] | None = None) -> int:
        self.asked += 1
        return len(system) + 5 + sum(len(each.name) for each in schemas or [])


SCHEMAS = [ToolSchema("ls", "List.", {"type": "object"})]


def test_an_entry_comes_back_as_it_was() -> None:
    step = StepRecord(
        number=3,
        run_id="ab",
        cursor=9,
        edits=2,
        model="m",
        by_source={"user": 5},
        decisions=(PolicyDecision("p", "evict", True, "why", 2, (3, 4), (1, 2), 90, 40),),
        usage=StepUsage(10, 2, 5),
        cost_usd=0.25,
    )
    assert StepRecord.from_json(step.to_json()) == step
    assert StepRecord.from_json(StepRecord(1, "", 0, 0).to_json()) == StepRecord(1, "", 0, 0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"decisions": 5}', '{"usage": {"x": 1}}', "null"])
def test_a_corrupt_entry_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its text
        StepRecord.from_json(text)


def test_an_entry_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert StepRecord.from_json('{"number": 4, "cursor": 2, "edits": 0, "run_id": "r", "new": 1}').number == 4


def test_the_fixed_part_is_named_and_counted_part_by_part() -> None:
    parts = FixedParts(Letters(), SCHEMAS)  # type: ignore[arg-type]
    fixed = parts.measure([("core", "I am."), ("time", "Today.")], "I am.\n\nToday.")
    assert fixed.sections["core"] == PromptPart(fixed.sections["core"].digest, 5)
    assert fixed.tokens == len("I am.\n\nToday.") + 7
    assert fixed.texts[fixed.sections["time"].digest] == "Today."
    again = fixed_from_json(fixed.digest, fixed.texts[fixed.digest])
    assert (again.sections, again.tools, again.tokens) == (fixed.sections, fixed.tools, fixed.tokens)


def test_tools_are_counted_once_for_all_runs_and_again_when_one_changed() -> None:
    counter = Letters()
    counts = ToolCounts(counter)  # type: ignore[arg-type]
    first = FixedParts(counter, SCHEMAS, counts).measure([("core", "I am.")], "x")  # type: ignore[arg-type]
    tools_asked = counter.tools_asked
    again = FixedParts(counter, list(SCHEMAS), counts).measure([("core", "I am.")], "x")  # type: ignore[arg-type]
    assert (again.digest, counter.tools_asked) == (first.digest, tools_asked)
    changed = [ToolSchema("ls", "List a folder.", {"type": "object"})]
    other = FixedParts(counter, changed, counts).measure([("core", "I am.")], "x")  # type: ignore[arg-type]
    assert other.tools["ls"].digest != first.tools["ls"].digest
    assert counter.tools_asked > tools_asked


def test_what_did_not_change_is_neither_counted_nor_written_again() -> None:
    counter = Letters()
    parts = FixedParts(counter, SCHEMAS)  # type: ignore[arg-type]
    first = parts.measure([("core", "I am."), ("time", "Today.")], "x")
    asked = counter.asked
    assert parts.measure([("core", "I am."), ("time", "Today.")], "x") is first
    assert counter.asked == asked
    other = parts.measure([("core", "I am."), ("time", "Tomorrow.")], "y")
    assert counter.asked == asked + 2
    assert other.sections["core"] == first.sections["core"]
    assert other.digest != first.digest


def test_a_call_that_cost_nothing_is_told_apart_from_one_whose_price_is_unknown() -> None:
    free = StepRecord(1, "run", 1, 0, cost_usd=0.0)
    assert StepRecord.from_json(free.to_json()).cost_usd == 0.0
    assert StepRecord.from_json(free.override(cost_usd=None).to_json()).cost_usd is None
