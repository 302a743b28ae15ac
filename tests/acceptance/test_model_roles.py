"""`reasoning` and `models` in one session of real processes, over both protocols, with a kill in the middle."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.test_run_over_http import INWARD, KEY, VARIABLES, configured, finished, only
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.pictures import png
from tests.support.provider import Call, Provider, Received, Reply

OWN = {"openai": "gpt-5.2", "anthropic": "claude-sonnet-4-5"}
EYE = {"openai": "gpt-4o", "anthropic": "claude-haiku-4-5"}
HELPER = {"openai": "gpt-4o-mini", "anthropic": "claude-opus-4-5"}
WRITER = {"openai": "gpt-4.1-mini", "anthropic": "claude-opus-4-1"}
TASK = {"agent": "helper", "description": "helps", "prompt": "Help."}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)


def wanting(project: Project, provider: Provider, kind: str) -> None:
    profile = {
        "vision": False,
        "max_input_tokens": 20_000,
        **dict.fromkeys((*INWARD, "output_cost_per_token"), 1),
    }
    address = provider.openai if kind == "openai" else provider.anthropic

    def served(names: dict[str, str]) -> dict[str, Any]:
        return {"litellm": {"model": f"{kind}/{names[kind]}", "api_base": address}}

    more = {
        "tools": ["subagents"],
        "reasoning": {"effort": "low"} if kind == "openai" else {"budget_tokens": 2_000},
        "models": {"summary": served(WRITER), "subagents": served(HELPER), "vision": served(EYE)},
        "agents": {"helper": {"description": "Helps.", "overrides": {"reasoning": None, "tools": []}}},
        "middlewares": [
            {"resources": {}},
            {"summarization": {"trigger": {"messages": 5}, "keep": {"messages": 1}}},
        ],
        "profiles": {"models": {f"{kind}/{OWN[kind]}": profile}},
    }
    configured(project, provider, kind, json.dumps(more), model=f"{kind}/{OWN[kind]}")
    (project.folder / "work" / "map.png").write_bytes(png())


def answering(kind: str, **last: Any) -> Callable[[Received], Reply]:
    """The provider of all four models."""

    def answer(received: Received) -> Reply:
        name = received.body["model"]
        if name != OWN[kind]:
            others = {
                EYE[kind]: "A grey field.",
                # Long: messages of fewer than 150 tokens together are not worth a summary.
                HELPER[kind]: "It is Grey Farm." + " Behind it lies a long field." * 20,
                WRITER[kind]: "A summary.",
            }
            return Reply(others[name])
        if "It is Grey Farm." not in json.dumps(received.body) and "A summary." not in json.dumps(
            received.body
        ):
            return Reply(reasoning="I ask the helper.", calls=[Call("task", json.dumps(TASK), "t")])
        return Reply("The picture shows Grey Farm, as the helper says.", **last)

    return answer


def names(provider: Provider) -> list[str]:
    return [each.body["model"] for each in provider.requests]


def is_asked_to_reason(kind: str, body: dict[str, Any]) -> bool:
    if kind == "openai":
        return bool(body.get("reasoning_effort") == "low")
    return bool(body.get("thinking") == {"type": "enabled", "budget_tokens": 2_000})


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_each_part_of_the_work_has_its_model_and_is_not_repeated_after_a_kill(
    project: Project, zeus: Zeus, kind: str
) -> None:
    own, eye, helper, writer = (each[kind] for each in (OWN, EYE, HELPER, WRITER))
    with Provider(answer=answering(kind, hang_after=9)) as provider:
        wanting(project, provider, kind)
        killed = spawn(["run", "zeus.yaml", "Where is @map.png?", "-o", "ndjson"], project.folder)
        assert killed.stdout is not None
        seen = []
        for line in killed.stdout:
            seen.append(json.loads(line))
            if seen[-1]["type"] == "text":
                break
        killed.send_signal(signal.SIGKILL)
        assert finished(killed).exit_code == -signal.SIGKILL
        assert names(provider) == [eye, own, helper, own]
        bodies = [each.body for each in provider.requests]
    assert [is_asked_to_reason(kind, each) for each in bodies] == [False, True, False, True]
    assert ["base64" in json.dumps(each) for each in bodies] == [True, False, False, False]
    assert [each["purpose"] for each in only(seen, "model_call")][:2] == ["vision", "turn"]

    with Provider(answer=answering(kind)) as provider:
        wanting(project, provider, kind)
        resumed = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert resumed.exit_code == 0, resumed.err
        assert names(provider) == [own], "what was done is not done again"
        assert provider.requests[0].body == bodies[-1], "the resumed run asks what the killed one asked"
    if kind == "anthropic":
        assert "I ask the helper." in json.dumps(bodies[-1]), "signed reasoning goes back to its provider"

    with Provider(answer=answering(kind)) as provider:
        wanting(project, provider, kind)
        again = zeus("run", "zeus.yaml", "And again?", "--continue", "-q")
        assert again.exit_code == 0, again.err
        assert names(provider) == [writer, own]
        assert "A summary." in json.dumps(provider.requests[-1].body)
