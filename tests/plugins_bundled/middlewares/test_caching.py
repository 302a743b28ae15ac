"""Cache points, through the real litellm against a provider that keeps what it is told to keep (SPEC section 7)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from zeus_plugins.middlewares.caching.middleware import Caching, stable_ends
from zeus_plugins.middlewares.caching.options import Options
from zeus_plugins.models.litellm.model import create as litellm_model
from zeus_plugins.models.litellm.options import Options as LitellmOptions

from tests.support.agents import call, calling
from tests.support.provider import Reply
from tests.support.window import Served, windowed
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin import PlanContext, RunContext, Secret
from zeus_runtime.plugin.model import CachePoints, ModelProfile, ModelRequest, ModelResponse, ToolSchema

pytestmark = pytest.mark.xdist_group("litellm")

CLAUDE = lookup("anthropic/claude-sonnet-4-5")
GPT = ModelProfile("openai/gpt-5.2", provider="openai", tokenizer="o200k_base")
TOOLS = tuple(
    ToolSchema(f"tool_{n}", f"Does {n} things. " * 40, {"type": "object", "properties": {}}) for n in range(8)
)
STABLE = "You are careful. " * 400
SYSTEM = STABLE + "\n\nToday is Friday."


def caching(profile: ModelProfile = CLAUDE, **options: Any) -> Caching:
    return Caching(
        Options(**options), cast(RunContext, SimpleNamespace(profile=profile, counter=counter_for(profile)))
    )


def request(messages: Sequence[BaseMessage], system: str = SYSTEM, **changes: Any) -> ModelRequest:
    return ModelRequest(system, messages, **{"tools": TOOLS, "stable_system_length": len(STABLE), **changes})


async def points(middleware: Caching, sent: ModelRequest) -> CachePoints | None:
    seen: list[ModelRequest] = []

    async def call_next(changed: ModelRequest) -> ModelResponse:
        seen.append(changed)
        return ModelResponse(AIMessage("ok"))

    await middleware.wrap_model_call(sent, call_next)
    return seen[0].cache_points


def conversation(steps: int, parallel: int = 1) -> list[list[BaseMessage]]:
    """What is sent at each step of one turn: a question, then calls and their results."""
    said: list[BaseMessage] = [HumanMessage("Look at everything.")]
    sent = [list(said)]
    for step in range(steps):
        ids = [f"c{step}_{number}" for number in range(parallel)]
        said.append(calling(*(call("tool_1", each, n=step) for each in ids)))
        said += [ToolMessage(f"found {each} " * 30, tool_call_id=each, name="tool_1") for each in ids]
        sent.append(list(said))
    return sent


async def served(
    sent: Sequence[ModelRequest], middleware: Caching | None, profile: ModelProfile = CLAUDE
) -> list[Served]:
    """What the provider made of the requests."""
    with windowed(100_000, lambda request: Reply("ok")) as (provider, window):
        kind = profile.provider
        options = LitellmOptions(
            profile.name, api_key=Secret("sk-test"), api_base=getattr(provider, kind), max_tokens=100
        )
        model = litellm_model(
            options,
            cast(
                PlanContext,
                SimpleNamespace(
                    profile_of=lambda name: profile, environ={}, process_environ={}, profile=profile
                ),
            ),
        )

        async def ask(request: ModelRequest) -> ModelResponse:
            pieces = [piece async for piece in model.stream(request)]
            assert isinstance(pieces[-1], ModelResponse)
            return pieces[-1]

        for each in sent:
            response = await (ask(each) if middleware is None else middleware.wrap_model_call(each, ask))
            usage = response.usage
            assert usage is not None
            last = window.calls[-1]
            assert usage.input_tokens == last.input_tokens
            assert (usage.cache_read_tokens, usage.cache_write_tokens) == (
                last.read_tokens,
                last.written_tokens,
            )
    return window.calls


async def test_all_but_what_is_new_is_read_from_the_cache() -> None:
    calls = await served([request(each) for each in conversation(6)], caching())
    assert calls[0].read_tokens == 0
    assert calls[0].written_tokens == calls[0].input_tokens
    for before, now in itertools.pairwise(calls):
        assert now.read_tokens == before.input_tokens
        assert now.read_tokens + now.written_tokens == now.input_tokens
        assert now.marks == 4


async def test_without_the_middleware_nothing_is_kept() -> None:
    calls = await served([request(each) for each in conversation(3)], None)
    assert {(each.read_tokens, each.written_tokens, each.marks) for each in calls} == {(0, 0, 0)}


async def test_the_cache_stays_in_reach_when_one_answer_makes_many_calls() -> None:
    calls = await served([request(each) for each in conversation(3, parallel=30)], caching())
    for before, now in itertools.pairwise(calls):
        assert now.read_tokens == before.input_tokens


async def test_sections_that_change_leave_the_stable_part_cached() -> None:
    (first, second) = conversation(1)
    changed = request(second, STABLE + "\n\nToday is Saturday.")
    calls = await served([request(first), changed], caching())
    assert 0 < calls[1].read_tokens < calls[0].input_tokens
    assert calls[1].read_tokens >= counter_for(GPT).text(STABLE)


async def test_a_provider_that_caches_by_prefix_is_asked_for_nothing_and_reads_all_the_same() -> None:
    assert await points(caching(GPT), request(conversation(1)[1])) is None
    calls = await served([request(each) for each in conversation(6)], caching(GPT), GPT)
    assert {each.marks for each in calls} == {0}
    for before, now in itertools.pairwise(calls):
        assert before.input_tokens - now.read_tokens < 128


async def test_the_text_of_the_system_prompt_is_the_same_with_points() -> None:
    sent = [request(conversation(0)[0])]
    plain = await served(sent, None)
    marked = await served(sent, caching())
    assert "".join(piece.text for piece in plain[0].pieces if "careful" in piece.text)
    assert marked[0].input_tokens - plain[0].input_tokens <= 2


@pytest.mark.parametrize("parallel", [1, 2, 5])
@pytest.mark.parametrize("steps", [0, 1, 7])
async def test_there_are_never_more_than_four_points(steps: int, parallel: int) -> None:
    found = await points(caching(), request(conversation(steps, parallel)[-1]))
    assert found is not None
    assert found.tools + found.system + len(found.messages) <= 4


@pytest.mark.parametrize(
    ("model", "provider", "minimum"),
    [
        ("claude-sonnet-4-5", "anthropic", 1024),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", 1024),
        ("vertex_ai/claude-haiku-4-5", "vertex_ai", 4096),
    ],
)
async def test_a_prefix_too_short_for_the_model_gets_no_point(
    model: str, provider: str, minimum: int
) -> None:
    profile = ModelProfile(model, provider=provider)
    middleware = caching(profile)
    short, long = "word " * (minimum // 2), "word " * (2 * minimum)
    for text, expected in ((short, False), (long, True)):
        found = await points(
            middleware, request([HumanMessage("x")], text, tools=(), stable_system_length=len(text))
        )
        assert found is not None
        assert found.system is expected


async def test_gemini_on_vertex_and_unknown_sellers_are_left_alone() -> None:
    for profile in (
        ModelProfile("vertex_ai/gemini-2.5-pro", provider="vertex_ai"),
        ModelProfile("acme/claude-sonnet-4-5", provider="acme"),
    ):
        assert await points(caching(profile), request(conversation(1)[1])) is None


async def test_a_policys_own_call_gets_no_points() -> None:
    assert await points(caching(), request(conversation(1)[1], purpose="summary")) is None


@pytest.mark.parametrize("place", ["tools", "system", "messages"])
async def test_each_place_can_be_left_out(place: str) -> None:
    places = tuple(each for each in ("tools", "system", "messages") if each != place)
    found = await points(caching(places=places), request(conversation(1)[1]))
    assert found is not None
    assert {name: bool(getattr(found, name)) for name in ("tools", "system", "messages")} == {
        name: name != place for name in ("tools", "system", "messages")
    }


async def test_the_lifetime_reaches_the_provider() -> None:
    for lifetime, ttl in (("5m", None), ("1h", "1h")):
        sent = request(conversation(1)[1])
        with windowed(100_000, lambda request: Reply("ok")) as (provider, _):
            options = LitellmOptions(CLAUDE.name, api_key=Secret("sk-test"), api_base=provider.anthropic)
            model = litellm_model(
                options,
                cast(
                    PlanContext,
                    SimpleNamespace(
                        profile_of=lambda name: CLAUDE, environ={}, process_environ={}, profile=CLAUDE
                    ),
                ),
            )
            marked = sent.override(cache_points=await points(caching(lifetime=lifetime), sent))
            async for _piece in model.stream(marked):
                pass
            body = provider.requests[0].body
        assert body["tools"][-1]["cache_control"].get("ttl") == ttl
        assert body["system"][0]["cache_control"].get("ttl") == ttl
        assert body["system"][0]["text"] + body["system"][1]["text"] == SYSTEM


def test_the_points_in_the_messages_are_where_this_request_and_the_last_one_end() -> None:
    first, second = conversation(1, parallel=3)
    assert stable_ends(first) == (0,)
    assert stable_ends(second) == (0, len(second) - 1)
    assert stable_ends([]) == ()
