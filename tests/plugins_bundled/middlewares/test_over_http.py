"""The context policies over HTTP: a provider that counts exactly, refuses what does not fit in real providers' words
and keeps a prompt cache, driven through the real litellm."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.agents import TOOLS, play
from tests.support.planning import steps_of
from tests.support.provider import Call, Provider, Received, Reply
from tests.support.window import WORDINGS, Window, windowed
from zeus_runtime import Agent
from zeus_runtime.events import Event

pytestmark = pytest.mark.xdist_group("litellm")

MODELS = {"openai": "openai/gpt-4o", "anthropic": "anthropic/claude-sonnet-4-5"}


@pytest.fixture(autouse=True, scope="module", params=["auto", "litellm"])
def wire(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run each test on both wires."""
    Chosen.wire = request.param
    yield request.param
    Chosen.wire = "auto"


class Chosen:
    wire = "auto"


GOAL = "Count the stars of every sky."
POLICIES = "eviction: {max_tokens: 2000}, truncation, summarization, caching"


def counting(steps: int, words: int = 150) -> Callable[[Received], Reply]:
    """Calls ``echo`` so many times, then says done; a summary call gets a summary."""
    made = 0

    def answer(request: Received) -> Reply:
        nonlocal made
        if "You keep the record" in json.dumps(request.body):
            return Reply("## Intent\nCount the stars. " + "So far so good. " * 20)
        made += 1
        if made > steps:
            return Reply("done")
        text = f"sky {made}: " + "star " * words
        return Reply(calls=[Call("echo", json.dumps({"text": text}), f"c{made}")], piece=400)

    return answer


def write(folder: Path, provider: Provider, *, kind: str, limit: int, policies: str) -> Path:
    """An agent of the provider's; ``limit`` is what it believes the window to be."""
    (folder / "probe.py").write_text(TOOLS)
    path = folder / "zeus.yaml"
    path.write_text(
        "version: 1\nname: test\n"
        f"model: {{litellm: {{model: {MODELS[kind]}, api_base: '{getattr(provider, kind)}', api_key: sk-test,"
        f" wire: {Chosen.wire}}}}}\n"
        f"tools: [probe]\nplugins: {{files: [probe.py]}}\nmiddlewares: [{policies}]\n"
        f"profiles: {{models: {{{MODELS[kind]}: {{max_input_tokens: {limit}}}}}}}\n"
    )
    return path


async def run(
    folder: Path, provider: Provider, *, kind: str, limit: int, policies: str = POLICIES
) -> list[Event]:
    """One turn of a new session."""
    path = write(folder, provider, kind=kind, limit=limit, policies=policies)
    async with Agent.from_config(path, directory=folder, environ={}) as agent:
        return await play(agent, GOAL)


def turns(window: Window, provider: Provider) -> list[tuple[Mapping[str, object], int, int]]:
    """Body, size and cached part of each answered request of the agent's own."""
    return [
        (request.body, served.input_tokens, served.read_tokens)
        for request, served in zip(provider.requests, window.calls, strict=True)
        if not served.refused and "You keep the record" not in json.dumps(request.body)
    ]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_long_run_never_overflows_a_window_that_is_known(tmp_path: Path, kind: str) -> None:
    with windowed(8_000, counting(40), wording=kind) as (provider, window):
        events = await run(tmp_path, provider, kind=kind, limit=8_000)
    assert events[-1].type == "complete", events[-1]
    assert not [served for served in window.calls if served.refused]
    assert len(window.calls) > 41, "there were summaries"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_what_is_sent_again_is_read_from_the_cache(tmp_path: Path, kind: str) -> None:
    with windowed(16_000, counting(40), wording=kind) as (provider, window):
        await run(tmp_path, provider, kind=kind, limit=16_000)
        sent = turns(window, provider)
    reusable = read = compactions = 0
    for (_, before, _), (_, now, cached) in itertools.pairwise(sent):
        if now < before:
            compactions += 1
            continue
        reusable += before
        read += cached
    assert compactions <= 4
    assert read / reusable >= (0.95 if kind == "anthropic" else 0.93), (
        "OpenAI's cache has steps of 128 tokens"
    )


async def test_the_ledger_says_what_was_read_and_written(tmp_path: Path) -> None:
    with windowed(100_000, counting(6), wording="anthropic") as (provider, window):
        events = await run(tmp_path, provider, kind="anthropic", limit=100_000)
    steps = await steps_of(tmp_path, events[-1].session)  # type: ignore[union-attr]
    said = [
        (each.usage.input_tokens, each.usage.cache_read_tokens, each.usage.cache_write_tokens)
        for each in steps
        if each.usage
    ]
    assert said == [(each.input_tokens, each.read_tokens, each.written_tokens) for each in window.calls]
    assert sum(read for _, read, _ in said) > sum(written for _, _, written in said)


@pytest.mark.parametrize("wording", WORDINGS)
async def test_a_window_smaller_than_believed_is_found_out_and_nothing_is_lost(
    tmp_path: Path, wording: str
) -> None:
    kind = "anthropic" if wording == "anthropic" else "openai"
    with windowed(6_000, counting(16, words=375), wording=wording) as (provider, window):
        events = await run(tmp_path, provider, kind=kind, limit=60_000)
    assert events[-1].type == "complete", events[-1]
    refused = sum(served.refused for served in window.calls)
    assert refused >= 1
    if "{limit}" in WORDINGS[wording][1]:
        assert refused <= 2, "a stated window is remembered"
    results = [event for event in events if event.type == "tool_call_result"]
    assert len(results) == 16
    for body in (request.body for request in provider.requests):
        assert GOAL in json.dumps(body) or "You keep the record" in json.dumps(body)


async def test_a_request_whose_fixed_part_does_not_fit_says_what_takes_how_much(tmp_path: Path) -> None:
    with windowed(500, counting(1), wording="openai") as (provider, _):
        events = await run(tmp_path, provider, kind="openai", limit=60_000)
    failed = events[-1]
    assert failed.type == "error"
    assert failed.code == "model_context_overflow"  # type: ignore[union-attr]
    assert "prompt and tools" in failed.message  # type: ignore[union-attr]


async def test_an_overflow_of_the_summary_call_is_answered_with_less(tmp_path: Path) -> None:
    """The summarizer's own window is smaller than believed: its call is refused, then made with half."""
    with windowed(6_000, counting(40), wording="openai") as (provider, window):
        events = await run(
            tmp_path,
            provider,
            kind="openai",
            limit=12_000,
            policies="summarization: {trigger: {tokens: 5900}}",
        )
    assert events[-1].type == "complete", events[-1]
    assert sum(served.refused for served in window.calls) <= 4
