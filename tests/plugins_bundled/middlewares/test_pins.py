"""Pins: what survives for ever, byte for byte, whatever other policies do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import assert_paired, call, calling, write_agent
from tests.support.planning import steps_of
from tests.support.policies import Talk, talk, texts
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import Notice

GOAL = "The goal: sail home to Ithaca."


async def long_talk(folder: Path, pins: str, turns: int = 8) -> Talk:
    """Turns with a tool call each, of which the history policy leaves few."""
    yaml = f"middlewares:\n  - pins: {{{pins}}}\n  - history: {{max_messages: 4, chunk: 2}}\n"
    prompts = [
        GOAL,
        *(f"turn {turn}: never eat the cattle" * (turn == 2) or f"turn {turn}" for turn in range(1, turns)),
    ]
    answers = [
        answer
        for turn in range(turns)
        for answer in (calling(call("look", f"c{turn}", at=f"place{turn}", lines=3)), f"said {turn}")
    ]
    return await talk(folder, yaml, *answers, prompts=prompts)


async def test_the_first_goal_of_the_user_survives(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "")
    assert texts(spoken.last)[0] == GOAL
    assert "turn 1" not in " ".join(texts(spoken.last))
    assert_paired(spoken.last)


async def test_without_the_option_the_goal_goes_like_the_rest(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false")
    assert GOAL not in texts(spoken.last)


async def test_messages_with_a_pattern_survive(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false, patterns: ['never eat']")
    assert texts(spoken.last)[0] == "turn 2: never eat the cattle"


async def test_patterns_are_looked_for_in_the_messages_of_the_roles(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false, patterns: ['said 1'], roles: [assistant]")
    assert texts(spoken.last)[0] == "said 1"


async def test_a_tools_results_survive_with_their_calls(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false, patterns: ['place1 2'], roles: [tool]")
    assert [message.type for message in spoken.last[:2]] == ["ai", "tool"]
    assert texts(spoken.last)[1] == "place1 1\nplace1 2\nplace1 3"
    assert_paired(spoken.last)


async def test_every_result_of_a_named_tool_survives(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "tools: [look]")
    assert sum(message.type == "tool" for message in spoken.last) == 8
    assert_paired(spoken.last)


async def test_pins_take_no_more_than_they_may(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false, tools: [look], max_tokens: 130")
    assert 1 <= sum("place" in text for text in texts(spoken.last)[:-3]) <= 4


async def test_a_message_that_is_not_pinned_for_its_size_is_told_and_in_the_ledger(tmp_path: Path) -> None:
    spoken = await long_talk(tmp_path, "first_user: false, tools: [look], max_tokens: 130")
    told = [each.message for each in spoken.events if isinstance(each, Notice)]
    assert any("a result of look" in each and "max_tokens = 130" in each for each in told)
    refused = [
        decision
        for step in await steps_of(tmp_path, spoken.session)
        for decision in step.decisions
        if decision.policy == "pins" and not decision.admitted
    ]
    assert refused
    assert all("max_tokens = 130" in each.reason and each.kind == "pin" for each in refused)


async def test_no_policy_changes_a_pinned_message(tmp_path: Path) -> None:
    yaml = "middlewares: [pins: {tools: [look]}, eviction: {max_tokens: 10}]\n"
    spoken = await talk(tmp_path, yaml, calling(call("look", "c", at="x")), "done")
    assert spoken.last == spoken.history[:-1]


async def test_what_is_pinned_stays_pinned_after_a_restart(tmp_path: Path) -> None:
    session = (await long_talk(tmp_path, "")).session
    yaml = "middlewares: [history: {max_messages: 4, chunk: 2}]\n"
    spoken = await talk(tmp_path, yaml, *(f"{n}" for n in range(6)), prompts=["again"] * 6, session=session)
    assert texts(spoken.last)[0] == GOAL


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("patterns: [fine, '(']", "misfit"),
        ("tools: [lok]", "unknown-tool"),
        ("max_tokens: 200000", "above-window"),
    ],
)
def test_what_cannot_be_is_an_error_at_load(tmp_path: Path, option: str, code: str) -> None:
    config = write_agent(tmp_path, f"middlewares: [pins: {{{option}}}]\n")
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    (problem,) = raised.value.diagnostics
    assert problem.code == code
    assert problem.position is not None
