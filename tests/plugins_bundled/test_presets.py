"""The presets that ship: they load, for models known and unknown, and hold the numbers they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zeus_runtime import Agent, ConfigError

PRESETS = ("default", "zeus", "economy", "deepagents", "coder")


def middlewares(folder: Path, preset: str, model: str = "openai/gpt-5.2") -> dict[str, dict[str, Any]]:
    """Name to options of each of the preset's middlewares, in order."""
    plan = Agent.from_config(preset, directory=folder, environ={"ZEUS_MODEL": model}).plan
    return {planned.name: dict(planned.options) for planned in plan.middlewares}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_loads_with_the_policies_in_the_order_of_their_cost(tmp_path: Path, preset: str) -> None:
    order = [
        "skills",
        "resources",
        "local_context",
        "pins",
        "history",
        "eviction",
        "dedupe",
        "truncation",
        "summarization",
        "recall",
        "memory",
        "caching",
        "approve",
    ]
    found = list(middlewares(tmp_path, preset))
    assert found == [name for name in order if name in found]
    assert {"eviction", "truncation", "summarization", "caching", "approve"} <= set(found)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_model_nobody_knows_works_with_every_preset(tmp_path: Path, preset: str) -> None:
    assert middlewares(tmp_path, preset, "acme/unknown")


@pytest.mark.parametrize("name", ["truncation", "summarization"])
def test_a_fraction_of_an_unknown_window_is_an_error_with_its_place(tmp_path: Path, name: str) -> None:
    (tmp_path / "zeus.yaml").write_text(
        f"version: 1\nmodel: acme/unknown\nmiddlewares: [{{{name}: {{trigger: {{fraction: 0.5}}}}}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        _ = Agent.from_config(directory=tmp_path, environ={}).plan
    (problem,) = caught.value.diagnostics
    assert problem.path == ("middlewares", 0, name, "trigger")
    assert "assumed_fraction" in str(problem.hint)


def test_an_unwritten_trigger_above_the_assumed_window_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: acme/unknown\nmiddlewares: [{summarization: {keep: {messages: 5}}}]\n"
    )
    (planned,) = Agent.from_config(directory=tmp_path, environ={}).plan.middlewares
    assert planned.name == "summarization"


def test_what_is_not_written_of_an_unknown_model_is_what_the_specification_says(tmp_path: Path) -> None:
    plan = Agent.from_config("deepagents", directory=tmp_path, environ={"ZEUS_MODEL": "acme/unknown"}).plan
    options = {planned.name: planned.value for planned in plan.middlewares}
    trigger, keep = options["summarization"].sizes(plan.profile)
    assert (trigger.tokens, keep.messages) == (170_000, 6)
    trigger, keep = options["truncation"].sizes(plan.profile)
    assert (trigger.messages, keep.messages) == (20, 20)


def test_zeus_has_the_numbers_of_the_specification(tmp_path: Path) -> None:
    found = middlewares(tmp_path, "zeus")
    assert found["history"]["max_messages"] == 30
    assert found["eviction"]["max_tokens"] == 20_000
    assert found["eviction"]["preview_lines"] == 10
    never = {"ls", "glob", "grep", "read_file", "write_file", "edit_file", "write_todos"}
    assert set(found["eviction"]["exclude"]) == never
    assert (found["truncation"]["max_chars"], found["truncation"]["keep_chars"]) == (2_000, 20)
    assert found["summarization"]["keep"]["messages"] == 5
    plan = Agent.from_config("zeus", directory=tmp_path, environ={}).plan
    options = {planned.name: planned.value for planned in plan.middlewares}
    for name in ("summarization", "truncation"):
        trigger, keep = options[name].sizes(plan.profile)
        assert trigger.share == 0.85
        assert (keep.fraction, keep.messages) == ((None, 5) if name == "summarization" else (0.10, None))


def test_zeus_summarizes_an_unknown_model_at_54_400_tokens(tmp_path: Path) -> None:
    plan = Agent.from_config("zeus", directory=tmp_path, environ={"ZEUS_MODEL": "acme/unknown"}).plan
    options = {planned.name: planned.value for planned in plan.middlewares}
    trigger, keep = options["summarization"].sizes(plan.profile)
    assert trigger.in_tokens(plan.profile.max_input_tokens) == 54_400
    assert keep.messages == 5
    trigger, keep = options["truncation"].sizes(plan.profile)
    assert (trigger.messages, keep.messages) == (20, 20)


def test_deepagents_has_the_numbers_of_its_defaults(tmp_path: Path) -> None:
    found = middlewares(tmp_path, "deepagents")
    plan = Agent.from_config("deepagents", directory=tmp_path, environ={}).plan
    options = {planned.name: planned.value for planned in plan.middlewares}
    for name in ("summarization", "truncation"):
        trigger, keep = options[name].sizes(plan.profile)
        assert (trigger.fraction, keep.fraction) == (0.85, 0.10)
    assert found["eviction"]["max_tokens"] == 20_000
    assert found["truncation"]["max_chars"] == 2_000
