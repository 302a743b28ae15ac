"""``models.vision``: another model describes pictures for one that takes none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run.test_model_chain import CLAUDE, GPT, played
from tests.run.test_model_roles import HAIKU, MINI, models, served, write
from tests.support.agents import play
from tests.support.pictures import png
from tests.support.planning import steps_of
from tests.support.provider import Call, Provider, Received, Reply
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ModelCallStarted, Notice, TokenUsage

BLIND = {"vision": False, "input_cost_per_token": 1, "output_cost_per_token": 1}
PRICED = {"input_cost_per_token": 7, "output_cost_per_token": 7}


def blind(folder: Path, provider: Provider, model: str = GPT, vision: Any = None, **more: Any) -> Path:
    """A config whose model takes no pictures, in a folder with some."""
    (folder / "work").mkdir(exist_ok=True)
    for name, width in (("map.png", 64), ("plan.png", 65)):
        (folder / "work" / name).write_bytes(png(width))
    own: dict[str, Any] = {
        "workspace": {"root": "work"},
        "middlewares": [{"resources": {}}],
        "tools": ["filesystem"],
        "profiles": {"models": {model: BLIND, MINI: PRICED, HAIKU: PRICED}},
    }
    return write(folder, provider, {"vision": vision or served(provider, MINI)}, model, **{**own, **more})


def has_picture(received: Received) -> bool:
    return "base64" in json.dumps(received.body)


def reading(received: Received) -> Reply:
    """A session that reads a file with a picture in it; the describing model says its size."""
    if received.body["model"] in (MINI.partition("/")[2], HAIKU.partition("/")[2]):
        return Reply("map.png: a grey field")
    is_back = "plan.png: PNG" in json.dumps(received.body)
    call = Call("read_file", json.dumps({"path": "/plan.png"}))
    return Reply("done") if is_back else Reply(calls=[call])


@pytest.mark.parametrize(("model", "other"), [(GPT, HAIKU), (CLAUDE, MINI)])
async def test_pictures_of_prompts_and_results_are_described_once_and_billed(
    tmp_path: Path, model: str, other: str
) -> None:
    with Provider(answer=reading) as provider:
        path = blind(tmp_path, provider, model, served(provider, other))
        runs = await played(path, "where is @map.png", "and now?")
        asked = provider.requests
    own, eye = model.partition("/")[2], other.partition("/")[2]
    assert models(provider) == [eye, own, eye, own, own]
    assert [has_picture(each) for each in asked] == [True, False, True, False, False]
    assert "where is @map.png" in json.dumps(asked[0].body)
    assert "a grey field" in json.dumps(asked[1].body)
    # Each model is told which pictures: the second call has the tool's only.
    assert "map.png: PNG" not in json.dumps(asked[2].body)
    started = [(each.purpose, each.model) for each in runs[0] if isinstance(each, ModelCallStarted)]
    assert started == [("vision", other), ("turn", model)] * 2
    costs = [each.cost_usd for run in runs for each in run if isinstance(each, TokenUsage)]
    steps = await steps_of(tmp_path, runs[0][-1].session)  # type: ignore[union-attr]
    policies = sum(each.policy_cost_usd or 0 for each in steps)
    assert policies > 0
    assert sum(filter(None, costs)) == policies + sum(each.cost_usd or 0 for each in steps)
    assert not [each for each in runs[0] if isinstance(each, Notice)]


async def test_a_resumed_run_does_not_describe_again(tmp_path: Path) -> None:
    down = [True]

    def answer(received: Received) -> Reply:
        if received.body["model"] == "gpt-4o" and down:
            down.clear()
            return Reply("no", status=402)
        return Reply("map.png: a grey field") if received.body["model"] == "gpt-4o-mini" else Reply("done")

    with Provider(answer=answer) as provider:
        path = blind(tmp_path, provider)
        async with Agent.from_config(path, directory=tmp_path) as agent:
            first = await play(agent, "@map.png")
            assert first[-1].type == "error"
            again = [each async for each in agent.resume(first[-1].session)]  # type: ignore[union-attr]
    assert again[-1].type == "complete"
    assert models(provider) == ["gpt-4o-mini", "gpt-4o", "gpt-4o"]


async def test_a_failed_description_is_told_and_tried_in_the_next_run(tmp_path: Path) -> None:
    failing = [True]

    def answer(received: Received) -> Reply:
        if received.body["model"] == "gpt-4o-mini" and failing:
            failing.clear()
            return Reply("no", status=402)
        return Reply("a grey field" if received.body["model"] == "gpt-4o-mini" else "done")

    with Provider(answer=answer) as provider:
        path = blind(tmp_path, provider)
        first, second = await played(path, "@map.png", "again")
        asked = provider.requests
    assert [each.code for each in first if isinstance(each, Notice)] == ["picture_not_described"]
    assert "Not described" in json.dumps(asked[1].body)
    assert first[-1].type == second[-1].type == "complete"
    assert models(provider) == ["gpt-4o-mini", "gpt-4o", "gpt-4o-mini", "gpt-4o"]
    assert "a grey field" in json.dumps(asked[-1].body)


async def test_the_cost_limit_holds_for_descriptions(tmp_path: Path) -> None:
    with Provider(answer=reading) as provider:
        path = blind(tmp_path, provider, limits={"max_cost_usd": 0.001})
        (events,) = await played(path, "@map.png")
    assert events[-1].type == "error"
    assert not provider.requests


async def test_a_model_that_takes_pictures_gets_them_and_the_role_is_called_unused(tmp_path: Path) -> None:
    with Provider() as provider:
        path = blind(tmp_path, provider, profiles={})
        await played(path, "@map.png")
        plan = Agent.from_config(path, directory=tmp_path).plan
    assert [each.code for each in plan.warnings] == ["model-unused"]
    assert models(provider) == ["gpt-4o"]
    assert has_picture(provider.requests[0])


@pytest.mark.parametrize(("vision", "where"), [(GPT, "models.vision"), ({"chain": [MINI, GPT]}, "chain")])
def test_a_model_that_takes_no_pictures_is_refused_for_them(tmp_path: Path, vision: Any, where: str) -> None:
    with Provider() as provider:
        path = blind(tmp_path, provider, vision=vision)
    with pytest.raises(ConfigError, match="takes pictures, so it cannot describe them") as raised:
        Agent.from_config(path, directory=tmp_path)
    (found,) = raised.value.diagnostics
    assert (found.code, found.position is not None) == ("no-vision", True)
