"""A chain of models in a whole session over HTTP: a failure, a kill, a resume, and the next turn, from both wires."""

from __future__ import annotations

import json
import signal

import pytest

from tests.acceptance.test_run_over_http import MODELS, VARIABLES, finished, only, write
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.provider import Provider, Reply

KEY = "sk-acceptance-0123456789"
PRICES = {"openai": 1, "anthropic": 100}


def chained(project: Project, provider: Provider, *kinds: str) -> None:
    bases = {"openai": provider.openai, "anthropic": provider.anthropic}
    config = {
        "version": 1,
        "model": {
            "chain": [{"litellm": {"model": MODELS[kind], "api_base": bases[kind]}} for kind in kinds],
            "tries": 1,
        },
        "tools": ["filesystem"],
        "profiles": {
            "models": {
                MODELS[kind]: {
                    "max_input_tokens": 50_000,
                    "input_cost_per_token": price,
                    "output_cost_per_token": price,
                }
                for kind, price in PRICES.items()
            }
        },
    }
    project.write("zeus.yaml", json.dumps(config))


@pytest.mark.parametrize("kinds", [("openai", "anthropic"), ("anthropic", "openai")])
def test_a_killed_turn_stays_with_the_model_that_answered_in_it(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str]
) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)
    first, second = (MODELS[kind] for kind in kinds)
    replies = [
        Reply("overloaded", status=529),
        Reply("I write.", reasoning="How?", calls=[write("/a.txt", "a", "w")]),
        Reply("Half of", hang_after=5),
    ]
    with Provider(*replies) as provider:
        chained(project, provider, *kinds)
        killed = spawn(["run", "zeus.yaml", "Write a", "-o", "ndjson"], project.folder)
        assert killed.stdout is not None
        seen = []
        for line in killed.stdout:
            seen.append(json.loads(line))
            if seen[-1]["type"] == "text" and only(seen, "tool_call_result"):
                break
        killed.send_signal(signal.SIGKILL)
        assert finished(killed).exit_code == -signal.SIGKILL
        *_, asked = (received.body for received in provider.requests)
    (moved,) = only(seen, "model_changed")
    assert (moved["former"], moved["model"]) == (first, second)

    with Provider(Reply("Done.")) as provider:
        chained(project, provider, *kinds)
        resumed = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert resumed.exit_code == 0, resumed.err
        (again,) = (received.body for received in provider.requests)
    assert again == asked, "the resumed run asks the same model what the killed one asked"
    assert only(resumed.lines, "run_started")[0]["model"] == second
    assert not only(resumed.lines, "tool_call"), "a finished tool was repeated"
    assert resumed.lines[-1]["cost_usd"] == 18 * PRICES[kinds[1]]

    shown = zeus("context", "show", "--step", "2")
    assert f"chain     {first}: the provider failed (529)" in shown.out, shown.out

    with Provider(Reply("Hello.")) as provider:
        chained(project, provider, *kinds)
        following = zeus("run", "zeus.yaml", "And now?", "--continue", "-o", "ndjson")
        assert following.exit_code == 0, following.err
        assert "How?" not in json.dumps(provider.requests[0].body), "reasoning went to another provider"
    assert only(following.lines, "run_started")[0]["model"] == first
    assert following.lines[-1]["cost_usd"] == 18 * PRICES[kinds[0]]
