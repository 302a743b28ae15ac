"""``reasoning``: the fields that each provider gets, the errors for models without it, and the window."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.run.test_model_chain import CLAUDE, played, wires, write_chain
from tests.support.planning import steps_of
from tests.support.provider import Call, Provider, Reply
from zeus_runtime import Agent, Config, ConfigError
from zeus_runtime.config.model import ReasoningAmount
from zeus_runtime.models.profiles import ModelProfile, lookup
from zeus_runtime.models.reasoning import budget_of, misfits, reasoning_settings, takes_budget

GPT, MINI, OPUS = "openai/gpt-5.2", "openai/gpt-5-mini", "anthropic/claude-opus-4-7"
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def adaptive(effort: str) -> Mapping[str, Any]:
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": effort},
        "max_tokens": 128_000,
    }


def budget(tokens: int) -> Mapping[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}, "max_tokens": tokens + 4096}


@pytest.mark.parametrize("wire", ["native", "litellm"])
@pytest.mark.parametrize(
    ("model", "reasoning", "fields"),
    [
        (GPT, {"effort": "high"}, {"reasoning_effort": "high"}),
        (OPUS, {"effort": "low"}, adaptive("low")),
        (CLAUDE, {"effort": "medium"}, budget(2_048)),
        (CLAUDE, {"budget_tokens": 3_000}, budget(3_000)),
        (CLAUDE, {"effort": "none"}, {"max_tokens": 64_000}),
    ],
)
async def test_each_provider_gets_its_own_fields(
    tmp_path: Path, wire: str, model: str, reasoning: Mapping[str, Any], fields: Mapping[str, Any]
) -> None:
    with Provider(Reply("Hello")) as provider:
        path = write_chain(tmp_path, provider, [model], reasoning=reasoning)
        config = json.loads(path.read_text())
        config["model"]["chain"][0]["litellm"]["wire"] = wire
        path.write_text(json.dumps(config))
        await played(path)
        body = provider.requests[0].body
    names = ("reasoning_effort", "thinking", "output_config", "max_tokens")
    assert {each: body[each] for each in names if each in body} == fields


async def test_each_model_of_a_chain_is_asked_in_its_own_way_and_reserves_its_own_answer(
    tmp_path: Path,
) -> None:
    with Provider(Reply("oops", status=500), Reply("Hello")) as provider:
        path = write_chain(
            tmp_path, provider, [GPT, CLAUDE], reasoning={"effort": "high", "budget_tokens": 5_000}
        )
        (events,) = await played(path)
        assert wires(provider) == ["gpt", "claude"]
        first, second = (each.body for each in provider.requests)
    assert (first["reasoning_effort"], "thinking" in first) == ("high", False)
    assert second["thinking"] == budget(5_000)["thinking"]
    assert "reasoning_effort" not in second
    steps = await steps_of(tmp_path, events[-1].session)  # type: ignore[union-attr]
    assert [each.output_reserve_tokens for each in steps] == [0, 5_000 + 4_096]


async def test_a_budget_is_left_out_after_the_calls_of_a_model_that_did_not_think(tmp_path: Path) -> None:
    call = Call("echo", json.dumps({"text": "x"}))
    with Provider(Reply(calls=[call]), Reply("oops", status=500), Reply("done")) as provider:
        path = write_chain(tmp_path, provider, [GPT, CLAUDE], reasoning={"effort": "low"})
        await played(path)
        assert wires(provider) == ["gpt", "gpt", "claude"]
        assert "thinking" not in provider.requests[2].body


def refused(folder: Path, *models: str, **more: Any) -> ConfigError:
    with Provider() as provider:
        path = write_chain(folder, provider, models, **more)
    with pytest.raises(ConfigError) as raised:
        Agent.from_config(path, directory=path.parent)
    return raised.value


@pytest.mark.parametrize(
    ("models", "reasoning", "key", "said"),
    [
        (["openai/gpt-4o"], {"effort": "low"}, "reasoning", "no table says that 'openai/gpt-4o' reasons"),
        ([GPT, "openai/gpt-4o"], {"effort": "low"}, "reasoning", "no table says that 'openai/gpt-4o' reasons"),
        ([GPT], {"effort": "minimal"}, "reasoning.effort", "does not take the effort 'minimal'"),
        ([MINI], {"effort": "none"}, "reasoning.effort", "does not take the effort 'none'"),
        ([CLAUDE], {"effort": "max"}, "reasoning.effort", "does not take the effort 'max'"),
        (["anthropic/claude-opus-5-5"], {"effort": "none"}, "reasoning.effort", "the effort 'none'"),
        ([GPT], {"budget_tokens": 2_000}, "reasoning.budget_tokens", "takes no budget"),
        ([OPUS], {"budget_tokens": 2_000}, "reasoning.budget_tokens", "takes no budget"),
        ([CLAUDE, GPT], {"budget_tokens": 2_000}, "reasoning.budget_tokens", f"'{GPT}' takes no budget"),
        ([CLAUDE], {"budget_tokens": 1_023}, "reasoning.budget_tokens", "at least 1,024"),
        ([CLAUDE], {"budget_tokens": 60_000}, "reasoning.budget_tokens", "gives at most 64,000"),
        ([CLAUDE], {"budget_tokens": 2_000, "effort": "low"}, "reasoning.effort", "has no effect"),
        ([GPT], {"budget_tokens": 2_000, "effort": "low"}, "reasoning.budget_tokens", "has no effect"),
        ([GPT], {}, "reasoning", "says nothing"),
    ],
)  # fmt: skip
def test_reasoning_that_a_model_cannot_do_is_refused_at_its_line(
    tmp_path: Path, models: list[str], reasoning: Mapping[str, Any], key: str, said: str
) -> None:
    (problem,) = refused(tmp_path, *models, reasoning=reasoning).diagnostics
    assert (".".join(map(str, problem.path)), said in problem.message) == (key, True), problem
    assert problem.hint


@pytest.mark.parametrize(
    ("options", "reasoning", "key", "said"),
    [
        (
            {"max_tokens": 2_000},
            {"budget_tokens": 2_000},
            "budget_tokens",
            "less than the 2,000 of max_tokens",
        ),
        (
            {"max_tokens": 4_096},
            {"effort": "high"},
            "effort",
            "the effort 'high' is a budget of 4,096 tokens",
        ),
        ({"temperature": 0.5}, {"effort": "high"}, "effort", "takes no temperature"),
        ({"extra": {"thinking": {"type": "adaptive"}}}, {"effort": "high"}, "", "'thinking' in `extra`"),
    ],
)
def test_options_that_do_not_go_with_reasoning_are_refused(
    options: Mapping[str, Any], reasoning: Mapping[str, Any], key: str, said: str
) -> None:
    found = list(misfits(ReasoningAmount(**reasoning), lookup(CLAUDE), options, options.get("max_tokens")))
    assert [(where, said in message, bool(hint)) for where, message, hint in found] == [(key, True, True)], (
        found
    )


def test_the_users_word_on_a_model_holds(tmp_path: Path) -> None:
    with Provider() as provider:
        profiles = {"models": {"openai/acme": {"reasoning": "budget"}}}
        path = write_chain(
            tmp_path, provider, ["openai/acme"], reasoning={"budget_tokens": 9}, profiles=profiles
        )
    assert budget_of(Agent.from_config(path, directory=path.parent).plan.models[0].reasoning) == 9


@given(
    st.sampled_from(["none", "effort", "budget", "both"]),
    st.none() | st.sampled_from(EFFORTS),
    st.none() | st.integers(1, 200_000),
    st.none() | st.integers(1, 200_000),
    st.sampled_from(["anthropic", "openai", "gemini"]),
)
def test_what_is_admitted_asks_for_reasoning_once_and_fits_the_answer(
    kind: str, effort: Any, tokens: int | None, max_tokens: int | None, provider: str
) -> None:
    profile = replace(ModelProfile("acme"), reasoning=kind, provider=provider, max_output_tokens=64_000)
    asked = ReasoningAmount(effort, tokens)
    settings = reasoning_settings(asked, profile)
    assert len(settings) <= 1
    if kind == "none":
        assert not settings
    if "thinking" in settings:
        assert takes_budget(profile)
    if not list(misfits(asked, profile, {}, max_tokens)) and (spent := budget_of(settings)):
        assert spent < (max_tokens or 64_000)


def test_another_effort_is_another_plan(tmp_path: Path) -> None:
    digests = set()
    with Provider() as provider:
        for effort in ("low", "high"):
            path = write_chain(tmp_path, provider, [GPT], reasoning={"effort": effort})
            digests.add(Agent.from_config(path, directory=path.parent).plan.digest)
    assert len(digests) == 2


def test_a_config_says_nothing_of_reasoning_by_default() -> None:
    assert reasoning_settings(Config.__dataclass_fields__["reasoning"].default, lookup(GPT)) == {}
