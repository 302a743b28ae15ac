"""Models for parts of the work: who writes summaries, who does a sub-agent's tasks, and who describes pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tests.acceptance.agent_settings import NAME, given
from tests.acceptance.settings import Flip, Scene, See
from tests.support.hand_time import moved_by_hand
from tests.support.pictures import png
from tests.support.provider import Provider, Received, Reply

OPTIONS = {"api_base": "${PROVIDER}", "api_key": "sk-given", "idle_seconds": 60}


def _served(name: str) -> dict[str, Any]:
    return {"litellm": {"model": f"openai/{name}", **OPTIONS}}


def _chained(*names: str) -> list[dict[str, Any]]:
    return [_served(name) for name in names]


def summarizers(*, runs: int = 2, hangs: bool = False) -> See:
    """The models that are asked for summaries in so many runs while gpt-4.1 fails, or is silent."""

    def answer(received: Received) -> Reply:
        if received.body["model"] != "gpt-4.1":
            return Reply("x")
        return Reply(hang_after=0) if hangs else Reply("down", status=503)

    async def see(scene: Scene) -> list[str]:
        session = None
        with Provider(answer=answer) as provider, moved_by_hand() as time:
            scene.environ |= {"PROVIDER": provider.openai}
            passing = asyncio.create_task(time.goes_on())
            async with scene.agent() as agent:
                for _ in range(runs):
                    events = [event async for event in agent.stream("word " * 300, session=session)]
                    session = events[-1].session  # type: ignore[union-attr]
            passing.cancel()
        asked = [request.body["model"] for request in provider.requests]
        return [each for each in asked if each != "gpt-4o"]

    return see


def rule(name: str) -> See:
    """A setting of the chain of the sub-agent's models."""

    async def see(scene: Scene) -> Any:
        return attrgetter(name)(scene.agent().plan.agents[NAME].plan.config.model)

    return see


async def describers(scene: Scene) -> list[str]:
    """The models that are asked to describe an attached picture while gpt-4.1 fails."""

    def answer(received: Received) -> Reply:
        return Reply("down", status=503) if received.body["model"] == "gpt-4.1" else Reply("x")

    (scene.folder / "map.png").write_bytes(png())
    with Provider(answer=answer) as provider:
        scene.environ |= {"PROVIDER": provider.openai}
        async with scene.agent() as agent:
            async for _ in agent.stream("see", attachments=["map.png"]):
                pass
    return [each.body["model"] for each in provider.requests if each.body["model"] != "gpt-4o"]


def vision_rule(name: str) -> See:
    """A setting of the chain of the models that describe pictures."""

    async def see(scene: Scene) -> Any:
        return attrgetter(name)(scene.agent().plan.config.models.vision)

    return see


async def its_models(scene: Scene) -> Sequence[str]:
    """The sub-agent's models."""
    return [each.profile.name for each in scene.agent().plan.agents[NAME].plan.models]


SUMMARIZED: dict[str, Any] = {
    "model": _served("gpt-4o"),
    "middlewares": [{"summarization": {"trigger": {"messages": 3}, "keep": {"messages": 1}}}],
    "retry": {"attempts": 3, "initial_seconds": 0},
}
CHAIN: dict[str, Any] = {"chain": _chained("gpt-4.1", "gpt-4.1-mini")}
CHAINED = {**SUMMARIZED, "models": {"summary": CHAIN}}
FAILS_ONCE = {**SUMMARIZED, "models": {"summary": {**CHAIN, "breaker": {"failures": 1}}}}
HELPED = given(more={"models": {"subagents": {"chain": ["gpt-4.1", "gpt-4o"]}}})
BLIND: dict[str, Any] = {
    "model": _served("gpt-4o"),
    "middlewares": [{"resources": {}}],
    "profiles": {"models": {"openai/gpt-4o": {"vision": False}}},
    "retry": {"attempts": 1},
}
PLANNED_VISION = {
    "model": "gpt-4o",
    "profiles": {"models": {"gpt-4o": {"vision": False}}},
    "models": {"vision": {"chain": ["gpt-4.1", "gpt-4.1-mini"]}},
}
DESCRIBED = {**BLIND, "models": {"vision": CHAIN}}
ONE, TWO = summarizers(), summarizers(runs=3)
FIRST_TWICE = ["gpt-4.1", "gpt-4.1", "gpt-4.1-mini"]

ROLES = (
    Flip("models.summary", _served("gpt-4.1-mini"), ONE, [], ["gpt-4.1-mini"], SUMMARIZED),
    Flip(
        "models.summary.chain",
        _chained("gpt-4.1-mini", "gpt-4.1"),
        ONE,
        FIRST_TWICE,
        ["gpt-4.1-mini"],
        CHAINED,
    ),
    Flip("models.summary.move_on", ["rate_limit"], ONE, FIRST_TWICE, ["gpt-4.1"] * 4, CHAINED),
    Flip("models.summary.tries", 1, ONE, FIRST_TWICE, ["gpt-4.1", "gpt-4.1-mini"], CHAINED),
    Flip(
        "models.summary.first_token_seconds",
        20,
        summarizers(hangs=True),
        FIRST_TWICE,
        ["gpt-4.1", "gpt-4.1-mini"],
        CHAINED,
    ),
    Flip("models.summary.breaker.failures", 1, TWO, FIRST_TWICE * 2, [*FIRST_TWICE, "gpt-4.1-mini"], CHAINED),
    Flip(
        "models.summary.breaker.seconds",
        0.001,
        TWO,
        [*FIRST_TWICE, "gpt-4.1-mini"],
        FIRST_TWICE * 2,
        FAILS_ONCE,
    ),
    Flip("models.subagents", "gpt-4.1", its_models, ["gpt-4o"], ["gpt-4.1"], given()),
    Flip(
        "models.subagents.chain",
        ["gpt-4.1-mini", "gpt-4o"],
        its_models,
        ["gpt-4.1", "gpt-4o"],
        ["gpt-4.1-mini", "gpt-4o"],
        HELPED,
    ),
    Flip(
        "models.subagents.move_on",
        ["server"],
        rule("move_on"),
        ("rate_limit", "billing", "server", "network", "timeout", "context_overflow"),
        ("server",),
        HELPED,
    ),
    Flip("models.subagents.tries", 1, rule("tries"), 2, 1, HELPED),
    Flip("models.subagents.first_token_seconds", 20, rule("first_token_seconds"), None, 20, HELPED),
    Flip("models.subagents.breaker.failures", 1, rule("breaker.failures"), 3, 1, HELPED),
    Flip("models.subagents.breaker.seconds", 9, rule("breaker.seconds"), 60, 9, HELPED),
    Flip("models.vision", _served("gpt-4.1-mini"), describers, [], ["gpt-4.1-mini"], BLIND),
    Flip(
        "models.vision.chain",
        _chained("gpt-4.1-mini", "gpt-4.1"),
        describers,
        ["gpt-4.1", "gpt-4.1-mini"],
        ["gpt-4.1-mini"],
        DESCRIBED,
    ),
    Flip(
        "models.vision.move_on",
        ["rate_limit"],
        describers,
        ["gpt-4.1", "gpt-4.1-mini"],
        ["gpt-4.1"],
        DESCRIBED,
    ),
    Flip("models.vision.tries", 1, vision_rule("tries"), 2, 1, PLANNED_VISION),
    Flip(
        "models.vision.first_token_seconds", 20, vision_rule("first_token_seconds"), None, 20, PLANNED_VISION
    ),
    Flip("models.vision.breaker.failures", 1, vision_rule("breaker.failures"), 3, 1, PLANNED_VISION),
    Flip("models.vision.breaker.seconds", 9, vision_rule("breaker.seconds"), 60, 9, PLANNED_VISION),
)
