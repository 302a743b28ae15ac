"""``models``: policies ask the model for summaries, and sub-agents answer with theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.run.test_model_chain import CLAUDE, GPT, PRICES, played, write_chain
from tests.support.planning import steps_of
from tests.support.provider import Call, Provider, Received, Reply
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ModelCallStarted, TokenUsage

MINI, HAIKU = "openai/gpt-4o-mini", "anthropic/claude-haiku-4-5"
LONG = "word " * 300
SUMMARIZED = [{"summarization": {"trigger": {"messages": 3}, "keep": {"messages": 1}}}]


def served(provider: Provider, name: str, **options: Any) -> dict[str, Any]:
    base = provider.anthropic if "claude" in name else provider.openai
    return {"litellm": {"model": name, "api_base": base, "api_key": "sk-x", **options}}


def write(folder: Path, provider: Provider, roles: Mapping[str, Any], model: str = GPT, **more: Any) -> Path:
    """A config with one model, and ``roles`` for ``models``."""
    path = write_chain(folder, provider, [model], **more)
    config = json.loads(path.read_text())
    config["model"], config["models"] = config["model"]["chain"][0], roles
    path.write_text(json.dumps(config))
    return path


def summarizing(failing: Sequence[str] = ()) -> Any:
    """Answers each request; the models ``failing`` have no credit."""

    def answer(received: Received) -> Reply:
        name = received.body["model"]
        return Reply("no", status=402) if name in failing else Reply("so so" if "mini" in name else "fine")

    return answer


def models(provider: Provider) -> list[str]:
    return [each.body["model"] for each in provider.requests]


@pytest.mark.parametrize("wire", ["native", "litellm"])
@pytest.mark.parametrize(("model", "other"), [(GPT, HAIKU), (CLAUDE, MINI)])
async def test_a_summary_is_written_and_billed_by_the_model_for_it(
    tmp_path: Path, wire: str, model: str, other: str
) -> None:
    prices = {**PRICES, other: {"input_cost_per_token": 7, "output_cost_per_token": 7}}
    with Provider(answer=summarizing()) as provider:
        roles = {"summary": served(provider, other, wire=wire)}
        path = write(
            tmp_path, provider, roles, model, middlewares=SUMMARIZED, profiles={"models": prices}, tools=[]
        )
        runs = await played(path, LONG, LONG)
    asked = [name.partition("/")[2] for name in (model, other, model)]
    assert models(provider)[:3] == asked
    started = [(each.purpose, each.model) for each in runs[1] if isinstance(each, ModelCallStarted)]
    assert started == [("summary", other), ("turn", model)]
    costs = [each.cost_usd for run in runs for each in run if isinstance(each, TokenUsage)]
    assert 18 * 7 in costs
    steps = await steps_of(tmp_path, runs[0][-1].session)  # type: ignore[union-attr]
    assert sum(each.policy_cost_usd or 0 for each in steps) == costs.count(18 * 7) * 18 * 7


async def test_the_policys_own_model_comes_before_the_role(tmp_path: Path) -> None:
    with Provider(answer=summarizing()) as provider:
        own = {**SUMMARIZED[0]["summarization"], "model": served(provider, "openai/gpt-4.1")}
        path = write(
            tmp_path,
            provider,
            {"summary": served(provider, MINI)},
            middlewares=[{"summarization": own}],
            tools=[],
        )
        await played(path, LONG, LONG)
    assert "gpt-4.1" in models(provider)
    assert "gpt-4o-mini" not in models(provider)


async def test_a_chain_of_summary_models_moves_on_by_itself(tmp_path: Path) -> None:
    with Provider(answer=summarizing(["gpt-4.1"])) as provider:
        chain = {
            "chain": [served(provider, "openai/gpt-4.1"), served(provider, MINI)],
            "breaker": {"failures": 1},
        }
        path = write(tmp_path, provider, {"summary": chain}, middlewares=SUMMARIZED, tools=[])
        runs = await played(path, LONG, LONG, LONG)
    # The second summary passes over the model whose circuit is open.
    assert models(provider).count("gpt-4.1") == 1
    assert models(provider).count("gpt-4o-mini") >= 2
    assert [each[-1].type for each in runs] == ["complete"] * 3


HELPERS = {
    "plain": {"description": "Shares the config."},
    "fork": {"description": "Continues the conversation.", "context": "fork"},
    "own": {"description": "Has a model.", "overrides": {"model": "openai/gpt-4.1"}},
    "file": {"description": "Has a config.", "config": "other.yaml"},
}


@pytest.mark.parametrize("role", ["plain", "chain"])
def test_sub_agents_without_a_model_of_their_own_get_the_role(tmp_path: Path, role: str) -> None:
    (tmp_path / "other.yaml").write_text("version: 1\nmodel: openai/gpt-4.1\n")
    with Provider() as provider:
        asked = served(provider, MINI)
        roles = {"subagents": asked if role == "plain" else {"chain": [asked, "openai/gpt-4.1"]}}
        path = write(tmp_path, provider, roles, agents=HELPERS, tools=["subagents"])
        plan = Agent.from_config(path, directory=tmp_path).plan
        found = {name: [each.profile.name for each in one.plan.models] for name, one in plan.agents.items()}
    mini = [MINI] if role == "plain" else [MINI, "openai/gpt-4.1"]
    assert found == {"plain": mini, "fork": [GPT], "own": ["openai/gpt-4.1"], "file": ["openai/gpt-4.1"]}


async def test_a_task_is_done_by_the_model_for_sub_agents(tmp_path: Path) -> None:
    def answer(received: Received) -> Reply:
        if received.body["model"] == "gpt-4o-mini":
            return Reply("helped")
        is_back = any(each["role"] == "tool" for each in received.body["messages"])
        task = {"agent": "plain", "description": "help", "prompt": "help"}
        return Reply("done") if is_back else Reply(calls=[Call("task", json.dumps(task))])

    with Provider(answer=answer) as provider:
        agents = {"plain": HELPERS["plain"]}
        path = write(
            tmp_path, provider, {"subagents": served(provider, MINI)}, agents=agents, tools=["subagents"]
        )
        (events,) = await played(path)
    assert models(provider) == ["gpt-4o", "gpt-4o-mini", "gpt-4o"], events[-1]


@pytest.mark.parametrize(
    ("roles", "more", "code"),
    [
        ({"subagents": "openai/gpt-4o"}, {}, "model-unused"),
        ({"subagents": "openai/gpt-4o"}, {"agents": {"fork": HELPERS["fork"]}}, "model-unused"),
        ({"summary": "openai/acme"}, {"limits": {"max_cost_usd": 1}}, "unknown-price"),
        ({"summary": "openai/acme"}, {"profiles": {"strict": True}}, "unknown-model"),
        ({"summary": {"litellm": {"model": "openai/gpt-4o", "top_p": 7}}}, {}, "out-of-range"),
    ],
)
def test_a_role_that_cannot_be_is_refused(
    tmp_path: Path, roles: Mapping[str, Any], more: Mapping[str, Any], code: str
) -> None:
    with Provider() as provider:
        tools = ["subagents"] if "agents" in more else []
        path = write(tmp_path, provider, roles, **{"tools": tools, **more})
    with pytest.raises(ConfigError) as raised:
        Agent.from_config(path, directory=tmp_path)
    assert [each.code for each in raised.value.diagnostics] == [code]


def test_another_model_for_summaries_is_another_plan(tmp_path: Path) -> None:
    digests = set()
    with Provider() as provider:
        for roles in ({}, {"summary": "openai/gpt-4o"}, {"summary": "openai/gpt-4.1"}):
            path = write(tmp_path, provider, roles)
            digests.add(Agent.from_config(path, directory=tmp_path).plan.digest)
    assert len(digests) == 3


def test_a_sub_agent_whose_model_does_not_reason_can_leave_it_out(tmp_path: Path) -> None:
    with Provider() as provider:
        helper = {"description": "Helps.", "overrides": {"reasoning": None}}
        more: dict[str, Any] = {"reasoning": {"effort": "low"}, "tools": ["subagents"]}
        path = write(tmp_path, provider, {"subagents": MINI}, CLAUDE, agents={"h": helper}, **more)
        assert not Agent.from_config(path, directory=tmp_path).plan.agents["h"].plan.models[0].reasoning
        path = write(
            tmp_path, provider, {"subagents": MINI}, CLAUDE, agents={"h": {"description": "Helps."}}, **more
        )
    with pytest.raises(ConfigError, match="no table says that 'openai/gpt-4o-mini' reasons"):
        Agent.from_config(path, directory=tmp_path)


async def test_an_answer_closes_the_circuit_of_a_summary_model(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(received: Received) -> Reply:
        name = received.body["model"]
        asked.append(name)
        is_down = name == "gpt-4.1" and asked.count(name) % 2
        return Reply("no", status=402) if is_down else Reply("so so")

    with Provider(answer=answer) as provider:
        chain = [served(provider, "openai/gpt-4.1"), served(provider, MINI)]
        roles = {"summary": {"chain": chain, "breaker": {"failures": 2}}}
        path = write(tmp_path, provider, roles, middlewares=SUMMARIZED, tools=[])
        await played(path, *[LONG] * 5)
    assert (asked.count("gpt-4.1"), asked.count("gpt-4o-mini")) == (4, 2)


async def test_the_role_holds_where_the_agents_own_models_form_a_chain(tmp_path: Path) -> None:
    with Provider(answer=summarizing(["gpt-4o"])) as provider:
        path = write_chain(tmp_path, provider, middlewares=SUMMARIZED, tools=[])
        config = json.loads(path.read_text())
        config["models"] = {"summary": served(provider, MINI)}
        path.write_text(json.dumps(config))
        runs = await played(path, LONG, LONG)
    purposes = [(each.purpose, each.model) for each in runs[1] if isinstance(each, ModelCallStarted)]
    assert purposes == [("summary", MINI), ("turn", GPT), ("turn", CLAUDE)]


async def test_another_model_gets_a_transcript_since_it_has_cached_nothing(tmp_path: Path) -> None:
    def answer(received: Received) -> Reply:
        if "mini" in received.body["model"]:
            return Reply("so so")
        is_last = len(provider.requests) > 3
        return Reply("done") if is_last else Reply(calls=[Call("echo", json.dumps({"text": LONG}))])

    with Provider(answer=answer) as provider:
        # By these prices the running model would go on with the conversation that it has cached.
        policy = {"summarization": {"trigger": {"messages": 4}, "keep": {"messages": 2}}}
        path = write(tmp_path, provider, {"summary": served(provider, MINI)}, middlewares=[policy])
        await played(path, LONG)
        asked = [each.body for each in provider.requests]
    assert [each["model"] for each in asked].count("gpt-4o-mini") == 1
    assert ["tools" in each for each in asked if each["model"] == "gpt-4o-mini"] == [False]
