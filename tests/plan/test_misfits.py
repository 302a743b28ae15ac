"""Options that a schema cannot check say themselves what does not fit, and the config says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import TOOLS, write_agent
from zeus_runtime import Agent, ConfigError

PICKY = (
    TOOLS
    + """
from dataclasses import dataclass

from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plan.checks.misfits import Misfit


@dataclass(frozen=True)
class Options:
    most: int = 5
    names: tuple[str, ...] = ()

    def misfits(self, around):
        if "most" in around.written and self.most > around.profile.max_input_tokens:
            yield Misfit(("most",), "too much", "write less")
        yield from around.unknown_tools(self.names, ("names",), also=["ls"])


@hookimpl
def register_middlewares():
    return [Component("picky", create=Middleware, options=Options)]
"""
)


def problems(tmp_path: Path, options: str) -> list[tuple[str, str, int | None, str | None]]:
    config = write_agent(tmp_path, f"middlewares:\n  - picky:\n      {options}\n", plugin=PICKY)
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    return [
        (each.code, each.message, each.position.line if each.position else None, each.hint)
        for each in raised.value.diagnostics
    ]


def test_what_does_not_fit_is_reported_where_it_stands(tmp_path: Path) -> None:
    assert problems(tmp_path, "most: 200000") == [("misfit", "picky: too much", 8, "write less")]


def test_a_tool_that_is_not_there_is_reported_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    assert problems(tmp_path, "names: [ls, echo, recrod]") == [
        ("unknown-tool", "picky: 'recrod' is not a tool of this agent", 8, "did you mean 'record'?")
    ]


def test_every_misfit_is_reported_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "{most: 200000, names: [nothing, like, it]}")) == 4


def test_options_that_fit_are_silent(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [picky: {most: 7, names: [ls, echo]}]\n", plugin=PICKY)
    assert Agent.from_config(config, directory=tmp_path).plan.middlewares[0].value.most == 7


def test_facts_are_not_extracted_into_another_memory_backend(tmp_path: Path) -> None:
    registers = "def register_memories():\n    return [Component('elsewhere', create=lambda options, context: None)]\n"
    plugin = f"{TOOLS}\n@hookimpl\n{registers}"
    yaml = "memory: {user: ann, project: apollo, backend: elsewhere, extract: end_of_session}\n"
    config = write_agent(tmp_path, yaml, plugin=plugin)
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    assert [(each.code, each.hint) for each in raised.value.diagnostics] == [
        ("memory-extraction", "Remove `extract`, or remove `backend`.")
    ]
