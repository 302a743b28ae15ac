"""The models of a plan: each entry of a chain is planned and checked like a single model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime import Agent
from zeus_runtime.config import ConfigError
from zeus_runtime.config.layers.loading import load
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.plan import Plan
from zeus_runtime.plan.validated import check

GPT, CLAUDE = "gpt-4o", "claude-sonnet-4-5"


def planned(folder: Path, model: Any, **more: Any) -> Plan:
    (folder / "zeus.yaml").write_text(json.dumps({"version": 1, "model": model, **more}))
    return Agent.from_config(directory=folder, environ={}).plan


def refused(folder: Path, model: Any, **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as raised:
        planned(folder, model, **more)
    return [(each.code, str(each.position)) for each in raised.value.diagnostics]


def test_each_model_has_its_own_profile_counter_and_reserve(tmp_path: Path) -> None:
    entries = [GPT, {"litellm": {"model": CLAUDE, "max_tokens": 5_000}}]
    profiles = {"models": {GPT: {"max_output_tokens": 7_000}}}
    first, second = planned(tmp_path, {"chain": entries}, profiles=profiles).models
    assert (first.profile.name, first.output_reserve_tokens) == (GPT, 7_000)
    assert (second.profile.name, second.output_reserve_tokens) == (CLAUDE, 5_000)
    assert second.context.profile is second.profile
    assert first.token_counter.text("a" * 99) != second.token_counter.text("a" * 99)


def test_every_setting_and_model_changes_the_digest(tmp_path: Path) -> None:
    models: list[Any] = [
        GPT,
        {"chain": [GPT]},
        {"chain": [GPT, CLAUDE]},
        {"chain": [CLAUDE, GPT]},
        {"chain": [GPT, CLAUDE], "tries": 1},
        {"chain": [GPT, CLAUDE], "breaker": {"seconds": 5}},
    ]
    assert len({planned(tmp_path, each).digest for each in models}) == len(models)


def test_what_the_model_is_sent_changes_the_digest(tmp_path: Path) -> None:
    def known(model: str, **values: Any) -> dict[str, Any]:
        return {"profiles": {"models": {model: values}}}

    chain = {"chain": [GPT, CLAUDE]}
    configs: list[dict[str, Any]] = [
        {},
        {"secrets": {"to_model": "allow"}},
        known(GPT, vision=False),
        known(CLAUDE, vision=False),
        known(GPT, max_output_tokens=7_000),
        known(GPT, tokenizer="estimate"),
        known(GPT, max_input_tokens=9_000),
        {"models": {"summary": GPT}},
        {"models": {"summary": GPT}, **known(GPT, vision=False)},
    ]
    assert len({planned(tmp_path, chain, **each).digest for each in configs}) == len(configs)
    assert planned(tmp_path, chain).digest == planned(tmp_path, chain, secrets={"to_model": "mask"}).digest


@pytest.mark.parametrize(
    ("model", "more", "codes"),
    [
        ({"chain": []}, {}, ["wrong-length"]),
        ({"chain": [GPT, "gpt-4oo"]}, {"profiles": {"strict": True}}, ["unknown-model"]),
        ({"chain": [GPT, {"litelm": {}}]}, {}, ["unknown-component"]),
        ({"chain": [GPT, {"litellm": {"model": CLAUDE, "temprature": 0}}]}, {}, ["unknown-key"]),
        ({"chain": [GPT], "move_on": ["auth"]}, {}, ["wrong-value"]),
        ({"tries": 1}, {}, ["missing-key"]),
        ({"chain": [GPT, "acme-1"]}, {"limits": {"max_cost_usd": 1}}, ["unknown-price"]),
    ],
)
def test_a_fault_of_one_entry_is_refused(tmp_path: Path, model: Any, more: Any, codes: list[str]) -> None:
    assert [code for code, _ in refused(tmp_path, model, **more)] == codes


def test_an_entry_is_named_by_its_place(tmp_path: Path) -> None:
    text = (
        "version: 1\nmodel:\n  chain:\n    - gpt-4o\n    - litellm: {model: gpt-4o, extra: {fallbacks: []}}\n"
    )
    (tmp_path / "zeus.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"zeus\.yaml:5:\d+: ") as raised:
        _ = Agent.from_config(directory=tmp_path, environ={}).plan
    assert raised.value.diagnostics[0].path[:3] == ("model", "chain", 1)


def test_the_models_give_an_answer_with_a_form_in_the_same_way(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"output": {"schema": {**schema, "additionalProperties": False}}}
    alone = planned(tmp_path, GPT, **form).output
    both = planned(tmp_path, {"chain": [GPT, "acme-1"]}, **form).output
    assert alone is not None
    assert both is not None
    assert (alone.strategy, both.strategy) == ("response_format", "tool")
    assert "acme-1" in both.why


def test_the_address_of_each_entry_needs_permission(tmp_path: Path) -> None:
    entries = [GPT, {"litellm": {"model": "openai/acme", "api_base": "https://elsewhere.example/v1"}}]
    (tmp_path / "zeus.yaml").write_text(json.dumps({"version": 1, "model": {"chain": entries}}))
    checked = check("zeus.yaml", directory=tmp_path, environ={})
    assert "elsewhere.example" in repr(list(all_parts(checked)))


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["model.tries=3"], {"chain": [GPT, CLAUDE], "tries": 3, "breaker": {"seconds": 5}}),
        (["model.breaker.failures=1"], {"chain": [GPT, CLAUDE], "breaker": {"seconds": 5, "failures": 1}}),
        (["model.chain.1=gpt-4o"], {"chain": [GPT, GPT], "breaker": {"seconds": 5}}),
        (["model.chain.1.litellm.temperature=0"], None),
        (["model.litellm.model=o3"], {"litellm": {"model": "o3"}}),
        (["model=o3", "model.chain=[a]"], {"chain": ["a"]}),
    ],
)
def test_layers_merge_the_settings_of_a_chain(tmp_path: Path, sets: list[str], expected: Any) -> None:
    model = {"chain": [GPT, CLAUDE], "breaker": {"seconds": 5}}
    (tmp_path / "zeus.yaml").write_text(json.dumps({"version": 1, "model": model}))
    found = load(directory=tmp_path, environ={}, sets=sets).value["model"]
    if expected is None:
        expected = {**model, "chain": [GPT, {"litellm": {"model": CLAUDE, "temperature": 0}}]}
    assert found == expected
