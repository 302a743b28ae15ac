"""An order of middlewares that costs money or context is a warning with the reason, at the line that should move."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agents import TOOLS, write_agent
from zeus_runtime import Agent

PLUGIN = (
    TOOLS
    + """
from zeus_runtime.plugin.middleware import Middleware


class Changes(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request.override(messages=request.messages[-1:]))


@hookimpl
def register_middlewares():
    return [Component("changes", create=Changes)]
"""
)
HARMFUL = {
    ("summarization", "eviction"),
    ("summarization", "truncation"),
    ("summarization", "dedupe"),
    ("summarization", "pins"),
    ("history", "pins"),
    ("caching", "changes"),
}
NAMES = sorted({name for pair in HARMFUL for name in pair})


def config(folder: Path, *middlewares: str) -> Path:
    lines = [f"  - {'pins: {first_user: true}' if each == 'pins' else each}\n" for each in middlewares]
    return write_agent(folder, "middlewares:\n" + "".join(lines), plugin=PLUGIN)


def warned(folder: Path, *middlewares: str) -> list[tuple[str, int]]:
    plan = Agent.from_config(config(folder, *middlewares), directory=folder).plan
    assert [str(each) for each in plan.warnings] == [
        each.message for each in plan.notices if each.code == "harmful-order"
    ]
    return [(each.message, each.position.line) for each in plan.warnings if each.position is not None]


def test_a_summary_before_eviction_is_warned_of_with_reason_place_and_remedy(tmp_path: Path) -> None:
    plan = Agent.from_config(
        config(tmp_path, "caching", "summarization", "eviction"), directory=tmp_path
    ).plan
    (warning,) = plan.warnings
    assert (warning.code, warning.severity) == ("harmful-order", "warning")
    assert warning.message == (
        "summarization stands above eviction: summarization pays a model for a summary before eviction could make room"
        " for nothing"
    )
    assert warning.hint == "list eviction above summarization"
    assert warning.position is not None
    assert warning.position.line == 9


@pytest.mark.parametrize("pair", sorted(HARMFUL))
def test_each_harmful_pair_is_warned_of_in_one_order_only(tmp_path: Path, pair: tuple[str, str]) -> None:
    ((message, line),) = warned(tmp_path, *pair)
    assert message.startswith(f"{pair[0]} stands above {pair[1]}: ")
    assert line == 8
    assert warned(tmp_path, *reversed(pair)) == []


@given(st.permutations(NAMES))
def test_the_warnings_of_any_order_are_those_of_its_pairs(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    found = {
        tuple(message.split(":")[0].split(" stands above "))
        for message, _ in warned(tmp_path_factory.mktemp("order"), *names)
    }
    assert found == {pair for pair in combinations(names, 2) if pair in HARMFUL}


def test_an_order_without_harm_exists() -> None:
    assert any(not HARMFUL & set(combinations(order, 2)) for order in permutations(NAMES))


@pytest.mark.parametrize("preset", ["default", "zeus", "economy", "deepagents"])
def test_our_own_presets_have_no_harmful_order(tmp_path: Path, preset: str) -> None:
    assert Agent.from_config(preset, directory=tmp_path).plan.warnings == ()
