"""Models: which, what is known of them, what is sent to them, and how tokens are counted."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any
from unittest.mock import patch

import pytest

from tests.acceptance.settings import Flip, Scene, See
from tests.acceptance.shared_settings import PRICED, PROBED, problems, seen
from tests.support.hand_time import moved_by_hand
from tests.support.provider import Provider, Received, Reply
from zeus_runtime.testing import ScriptedModel

SERVED = {
    "model": {"litellm": {"model": "openai/gpt-4o", "api_base": "${PROVIDER}", "api_key": "sk-given"}},
    "retry": {"attempts": 1},
}


async def profile(scene: Scene) -> tuple[int, int | None, str]:
    """The model's limits and tokenizer."""
    found = scene.agent().plan.profile
    return found.max_input_tokens, found.max_output_tokens, found.tokenizer


async def word_tokens(scene: Scene) -> int:
    """Of a text that o200k counts as 15 and a tokenizer of words as 2."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    for name, vocabulary in (("words.json", {"[UNK]": 0}), ("other.json", {"[UNK]": 0, "a": 1})):
        tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = WhitespaceSplit() if name == "words.json" else None
        tokenizer.save(str(scene.folder / name))
    return scene.agent().plan.token_counter.text("antidisestablishmentarianism floccinaucinihilipilification")


async def cost(scene: Scene) -> float:
    """Of 500 fresh, 200 read, 300 written (100 for an hour) and 100 output tokens."""
    (usage,) = (await scene.play("done")).all("token_usage")
    return round(usage.cost_usd, 6)


async def fallback(scene: Scene) -> int:
    scene.write("extra/configs/profiles.yaml", "models: {acme-1: {max_input_tokens: 5000}}")
    return scene.agent().plan.profile.max_input_tokens


def sent(path: str) -> See:
    """What of a request reaches the provider: ``body.seed``, ``headers.authorization``, ``path``."""

    async def see(scene: Scene) -> Any:
        with Provider(Reply("x")) as provider:
            scene.environ |= {"PROVIDER": provider.openai, "OPENAI_API_KEY": "sk-environment"}
            # Only the process itself may name the machine without a word in the YAML.
            with patch.dict(os.environ, {"OPENAI_API_BASE": provider.openai}):
                assert (await scene.play()).ending == "complete"
            (request,) = provider.requests
        holder, _, name = path.partition(".")
        found = getattr(request, holder)
        return found.get(name) if name else found

    return see


async def sender(scene: Scene) -> str:
    """The program that the provider gets the request from."""
    return str(await sent("headers.user-agent")(scene)).partition("/")[0]


async def impatience(scene: Scene) -> str:
    """Which option ends the call when the provider falls silent."""
    with Provider(Reply("Hello", hang_after=1)) as provider:
        scene.environ |= {"PROVIDER": provider.openai}
        with moved_by_hand() as time:
            playing = asyncio.create_task(scene.play())
            assert await asyncio.to_thread(provider.wait_for_requests, 1)
            passing = asyncio.create_task(time.goes_on())
            last = (await playing).events[-1]
            passing.cancel()
    found = re.search(r"\((\w+_seconds)\)", last.message)  # type: ignore[union-attr]
    assert found is not None, last
    return found[1]


def replayed(prompt: str) -> See:
    """How a replay of what was recorded for the prompt "go" ends: its answer, or the error's code."""

    async def see(scene: Scene) -> str:
        wanted = scene.config
        for name in ("one", "two"):
            scene.config = {"version": 1, "model": "gpt-4o"}
            async with scene.agent(ScriptedModel([f"answer {name}"])) as agent:
                with agent.record(f"{name}.jsonl"):
                    await agent.run("go")
        scene.config = wanted
        played = await scene.play(prompt=prompt)
        return played.events[-1].answer if played.ending == "complete" else played.ending  # type: ignore[union-attr]

    return see


def replay_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float, result: Any = None) -> Any:
        pauses.append(seconds)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", pause)
    return pauses


async def seven_seconds(scene: Scene) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        pauses = replay_pauses(patch)
        await replayed("go")(scene)
    return 7.0 in pauses


def _chained(*names: str) -> list[dict[str, Any]]:
    options = {"api_base": "${PROVIDER}", "api_key": "sk-given", "idle_seconds": 60}
    return [{"litellm": {"model": f"openai/{name}", **options}} for name in names]


CHAINED = {
    "model": {"chain": _chained("gpt-4o", "gpt-4o-mini")},
    "retry": {"attempts": 3, "initial_seconds": 0},
}
FAILS_ONCE = {**CHAINED, "model": {**CHAINED["model"], "breaker": {"failures": 1}}}


def asked_in_turn(failing: str, *, runs: int = 1, hangs: bool = False) -> See:
    """The models that are asked in so many runs while one of them fails, or is silent."""

    def answer(received: Received) -> Reply:
        if received.body["model"] != failing:
            return Reply("x")
        return Reply(hang_after=0) if hangs else Reply("down", status=503)

    async def see(scene: Scene) -> list[str]:
        with Provider(answer=answer) as provider, moved_by_hand() as time:
            scene.environ |= {"PROVIDER": provider.openai}
            passing = asyncio.create_task(time.goes_on())
            async with scene.agent() as agent:
                for _ in range(runs):
                    assert [event async for event in agent.stream("go")]
            passing.cancel()
        return [request.body["model"] for request in provider.requests]

    return see


FIRST_FAILS = asked_in_turn("gpt-4o")
TWICE = asked_in_turn("gpt-4o", runs=2)


async def reserved(scene: Scene) -> int:
    """The tokens of the window for the answer."""
    return scene.agent().plan.models[0].output_reserve_tokens


def of_model(option: str, value: Any, see: See, before: Any, after: Any, **options: Any) -> Flip:
    """A flip of an option of litellm, seen by the provider."""
    model = {"litellm": {**SERVED["model"]["litellm"], **options}}  # type: ignore[index]
    kept = {key: each for key, each in model["litellm"].items() if each is not None}
    given = {**SERVED, "model": {"litellm": kept}}
    return Flip(f"model:litellm.{option}", value, see, before, after, given, group="litellm")


MODELS = (
    Flip(
        "model", "claude-3-5-sonnet", profile, (128_000, 16_384, "o200k_base"), (200_000, 8_192, "estimate")
    ),
    Flip(
        "reasoning.effort",
        "high",
        sent("body.reasoning_effort"),
        "low",
        "high",
        {
            **SERVED,
            "model": {"litellm": {**SERVED["model"]["litellm"], "model": "openai/gpt-5.2"}},  # type: ignore[index]
            "reasoning": {"effort": "low"},
        },
    ),
    Flip(
        "reasoning.budget_tokens",
        3_000,
        reserved,
        2_000 + 4_096,
        3_000 + 4_096,
        {"model": "claude-sonnet-4-5", "reasoning": {"budget_tokens": 2_000}},
    ),
    Flip(
        "profiles.models.*.reasoning",
        "budget",
        reserved,
        0,
        2_048 + 4_096,
        {"model": "gpt-5.2", "reasoning": {"effort": "medium"}},
    ),
    Flip(
        "model.chain",
        _chained("gpt-4o-mini", "gpt-4o"),
        FIRST_FAILS,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"],
        ["gpt-4o-mini"],
        CHAINED,
    ),
    Flip(
        "model.move_on",
        ["rate_limit"],
        FIRST_FAILS,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"],
        ["gpt-4o", "gpt-4o"],
        CHAINED,
    ),
    Flip(
        "model.tries",
        1,
        FIRST_FAILS,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"],
        ["gpt-4o", "gpt-4o-mini"],
        CHAINED,
    ),
    Flip(
        "model.first_token_seconds",
        20,
        asked_in_turn("gpt-4o", hangs=True),
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"],
        ["gpt-4o", "gpt-4o-mini"],
        CHAINED,
    ),
    Flip(
        "model.breaker.failures",
        1,
        TWICE,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"] * 2,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini", "gpt-4o-mini"],
        CHAINED,
    ),
    Flip(
        "model.breaker.seconds",
        0.001,
        TWICE,
        ["gpt-4o", "gpt-4o", "gpt-4o-mini", "gpt-4o-mini"],
        ["gpt-4o", "gpt-4o", "gpt-4o-mini"] * 2,
        FAILS_ONCE,
    ),
    Flip("counter", {"tokenizer_file": {"path": "words.json"}}, word_tokens, 15, 2),
    Flip("profiles.strict", True, problems, (), ("unknown-model",), {"model": "gpt-5-2"}),
    Flip("profiles.models.*.max_input_tokens", 7_000, seen("input"), 128_000, 7_000, PROBED),
    Flip(
        "profiles.models.*.max_output_tokens",
        7_000,
        sent("body.max_tokens"),
        None,
        7_000,
        {"model": "openai/gpt-4o"},
        group="litellm",
    ),
    Flip(
        "profiles.models.*.tokenizer", "cl100k_base", seen("tokenizer"), "o200k_base", "cl100k_base", PROBED
    ),
    Flip("profiles.models.*.input_cost_per_token", 2, cost, 2_000, 3_000, PRICED),
    Flip("profiles.models.*.output_cost_per_token", 20, cost, 2_000, 3_000, PRICED),
    Flip("profiles.models.*.cache_read_cost_per_token", 0, cost, 2_000, 1_800, PRICED),
    Flip("profiles.models.*.cache_write_cost_per_token", 0, cost, 2_000, 1_700, PRICED),
    Flip("profiles.models.*.cache_write_1h_cost_per_token", 0, cost, 2_000, 1_900, PRICED),
    Flip("homes", ["extra"], fallback, 64_000, 5_000, {"model": "acme-1"}),
    of_model("model", "openai/gpt-4.1", sent("body.model"), "gpt-4o", "gpt-4.1"),
    of_model(
        "api_key",
        "sk-yaml",
        sent("headers.authorization"),
        "Bearer sk-environment",
        "Bearer sk-yaml",
        api_key=None,
    ),
    of_model("api_base", "${PROVIDER}/far", sent("path"), "/v1/chat/completions", "/v1/far/chat/completions"),
    of_model("temperature", 0, sent("body.temperature"), None, 0),
    of_model("top_p", 0.5, sent("body.top_p"), None, 0.5),
    of_model("max_tokens", 77, sent("body.max_tokens"), None, 77),
    of_model("headers", {"x-team": "blue"}, sent("headers.x-team"), None, "blue"),
    of_model("extra", {"seed": 3}, sent("body.seed"), None, 3),
    of_model("stream", False, sent("body.stream"), True, None),
    of_model("wire", "litellm", sender, "zeus-runtime", "AsyncOpenAI"),
    of_model("timeout_seconds", 3, impatience, "idle_seconds", "timeout_seconds", idle_seconds=9),
    of_model("idle_seconds", 3, impatience, "timeout_seconds", "idle_seconds", timeout_seconds=9),
    Flip(
        "model:replay.cassette",
        "two.jsonl",
        replayed("go"),
        "answer one",
        "answer two",
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "model:replay.match",
        "order",
        replayed("other words"),
        "model_divergence",
        "answer one",
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "model:replay.pause_seconds",
        7,
        seven_seconds,
        False,
        True,
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "counter:tokenizer_file.path",
        "other.json",
        word_tokens,
        2,
        1,
        {"counter": {"tokenizer_file": {"path": "words.json"}}},
    ),
)
