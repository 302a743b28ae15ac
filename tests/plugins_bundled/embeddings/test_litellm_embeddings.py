"""The embedding component `litellm`, driven through the real litellm against a provider on the loopback."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from zeus_plugins.embeddings.litellm_embeddings.embedder import LitellmEmbedder, create
from zeus_plugins.embeddings.litellm_embeddings.options import Options

from tests.support.provider import Provider, Received, Reply
from zeus_runtime import MissingError, OptionsError
from zeus_runtime.plugin import PlanContext, Secret
from zeus_runtime.plugin.embedding import Embedder, EmbeddingUnavailableError
from zeus_runtime.testing import EmbedderConformance

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")

DIMENSION = 8


def numbers(text: str, size: int = DIMENSION) -> list[float]:
    """A vector for ``text``, of any length but 1."""
    drawn = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))
    return [float(each) for each in drawn.normal(0, 3, size)]


def reply(vectors: list[Any], places: list[int] | None = None) -> Reply:
    data = [
        {"object": "embedding", "index": place, "embedding": vector}
        for place, vector in zip(places or range(len(vectors)), vectors, strict=True)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply(body=json.dumps({"object": "list", "model": "m", "data": data, "usage": usage}))


def honest(request: Received) -> Reply:
    return reply([numbers(text) for text in request.body["input"]])


def context(**environ: str) -> PlanContext:
    return cast(PlanContext, SimpleNamespace(environ=environ))


def embedder(provider: Provider, **options: Any) -> LitellmEmbedder:
    values = {"dimension": DIMENSION, "api_base": provider.openai, "api_key": Secret("sk-test"), **options}
    return create(Options(**values), context())


@contextmanager
def serving(
    answer: Callable[[Received], Reply] = honest, **options: Any
) -> Iterator[tuple[Provider, LitellmEmbedder]]:
    with Provider(answer=answer) as provider:
        yield provider, embedder(provider, **options)


class TestLitellm(EmbedderConformance):
    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        with serving() as (_, made):
            yield made


async def test_the_request_names_model_texts_dimension_and_key() -> None:
    with serving() as (provider, made):
        await made.embed(["one", "two"], purpose="memory")
        (request,) = provider.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.body["model"] == "text-embedding-3-small"
    assert request.body["input"] == ["one", "two"]
    assert request.body["dimensions"] == DIMENSION


async def test_a_model_with_one_dimension_is_not_asked_for_it() -> None:
    with serving(ask_dimension=False) as (provider, made):
        await made.embed(["one"], purpose="memory")
        assert "dimensions" not in provider.requests[0].body


async def test_vectors_are_brought_to_length_one_and_into_the_texts_order() -> None:
    def shuffled(request: Received) -> Reply:
        texts = request.body["input"]
        places = list(range(len(texts)))[::-1]
        return reply([numbers(texts[place]) for place in places], places)

    with serving(shuffled) as (_, made):
        vectors = await made.embed(["one", "two", "three"], purpose="memory")
    for text, vector in zip(["one", "two", "three"], vectors, strict=True):
        expected = np.array(numbers(text), dtype=np.float32)
        assert np.allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


async def test_a_request_holds_at_most_256_texts_each_once_and_no_blank_one() -> None:
    texts = [f"text {count % 600}" for count in range(700)] + ["", "  "]
    with serving() as (provider, made):
        vectors = await made.embed(texts, purpose="memory")
        assert [len(request.body["input"]) for request in provider.requests] == [256, 256, 88]
    assert np.allclose(vectors[0], vectors[600])
    assert not vectors[700:].any()


async def test_only_blank_texts_ask_nobody() -> None:
    with serving() as (provider, made):
        assert not (await made.embed(["", " "], purpose="query")).any()
        assert provider.requests == []


async def test_a_query_asked_again_is_answered_from_memory() -> None:
    with serving(cache_size=2) as (provider, made):
        for text in ("a", "b", "a", "c", "a"):
            await made.embed([text], purpose="query")
        assert [request.body["input"] for request in provider.requests] == [["a"], ["b"], ["c"]]
        await made.embed(["b"], purpose="query")
        assert provider.requests[-1].body["input"] == ["b"], "the one asked longest ago is forgotten"


async def test_what_is_kept_can_be_turned_off_and_holds_no_memories() -> None:
    with serving(cache_size=0) as (provider, made):
        await made.embed(["a"], purpose="query")
        await made.embed(["a"], purpose="query")
        assert len(provider.requests) == 2
    with serving() as (provider, made):
        await made.embed(["a"], purpose="memory")
        await made.embed(["a"], purpose="query")
        await made.embed(["a"], purpose="memory")
        assert len(provider.requests) == 3


async def test_queries_and_memories_may_be_asked_differently() -> None:
    changes = {"extra": {"user": "zeus"}, "query_extra": {"user": "asking"}}
    with serving(**changes) as (provider, made):
        await made.embed(["a"], purpose="memory")
        await made.embed(["a"], purpose="query")
        assert [request.body["user"] for request in provider.requests] == ["zeus", "asking"]


@pytest.mark.parametrize(
    ("purpose", "limit"), [("query", "timeout_seconds"), ("memory", "batch_timeout_seconds")]
)
async def test_a_slow_provider_is_left_at_the_limit(purpose: Any, limit: str) -> None:
    with serving(lambda _: Reply(hang_after=0), **{limit: 0.5}) as (provider, made):
        with pytest.raises(EmbeddingUnavailableError, match=r"longer than 0.5 s|timed? ?out"):
            await made.embed(["a"], purpose=purpose)
        assert await asyncio.to_thread(provider.wait_for_hangup), "the connection is given up"


@pytest.mark.parametrize("status", [429, 500, 503, 401, 404])
async def test_a_provider_that_fails_makes_the_model_unavailable_at_once(status: int) -> None:
    with serving(lambda _: Reply("on fire", status=status)) as (provider, made):
        with pytest.raises(EmbeddingUnavailableError, match="on fire") as caught:
            await made.embed(["a"], purpose="query")
        assert len(provider.requests) == 1, "no retry: search goes on by words"
    assert "sk-test" not in str(caught.value)


async def test_nobody_there_makes_the_model_unavailable() -> None:
    with Provider() as provider:
        made = embedder(provider)
    with pytest.raises(EmbeddingUnavailableError):
        await made.embed(["a"], purpose="query")


@pytest.mark.parametrize(
    "answer",
    [
        reply([]),
        reply([numbers("a"), numbers("b")]),
        reply([numbers("a")], [3]),
        reply([["no", "number"] * 4]),
        reply([[0.0] * DIMENSION]),
        reply([[float("nan")] * DIMENSION]),
        Reply(body="{}"),
        Reply(body="not JSON"),
    ],
    ids=[
        "none",
        "too many",
        "wrong place",
        "no numbers",
        "no direction",
        "not a number",
        "empty",
        "not JSON",
    ],
)
async def test_an_answer_that_is_not_what_was_asked_for_is_not_used(answer: Reply) -> None:
    with serving(lambda _: answer) as (_, made), pytest.raises(EmbeddingUnavailableError):
        await made.embed(["a"], purpose="query")


async def test_a_wrong_dimension_is_an_error_that_names_both() -> None:
    with (
        serving(lambda _: reply([numbers("a", 5)])) as (_, made),
        pytest.raises(OptionsError, match="5 numbers for a text, not 8") as caught,
    ):
        await made.embed(["a"], purpose="query")
    assert "dimension to 5" in str(caught.value.remedy)


def test_a_missing_key_is_named_at_creation() -> None:
    for model, variable in (
        ("text-embedding-3-small", "OPENAI_API_KEY"),
        ("openai/text-embedding-3-large", "OPENAI_API_KEY"),
        ("voyage/voyage-3.5", "VOYAGE_API_KEY"),
        ("embed-english-v3.0", "COHERE_API_KEY"),
    ):
        with pytest.raises(MissingError, match=variable) as caught:
            create(Options(model=model, dimension=4), context(OPENAI_API_KEY=" "))
        assert caught.value.exit_code == 4
        assert variable in str(caught.value.remedy)


async def test_the_key_comes_from_the_environment_or_dotenv() -> None:
    with Provider(answer=honest) as provider:
        options = Options(dimension=DIMENSION, api_base=provider.openai)
        await create(options, context(OPENAI_API_KEY="sk-env")).embed(["a"], purpose="query")
        await create(options, context()).embed(["a"], purpose="query")
        keys = [request.headers["authorization"] for request in provider.requests]
    assert keys == ["Bearer sk-env", "Bearer unused"], "a server of one's own may need none"


@pytest.mark.parametrize(
    ("model", "dimension"),
    [
        ("text-embedding-3-small", 1536),
        ("openai/text-embedding-3-large", 3072),
        ("text-embedding-ada-002", 1536),
        ("text-embedding-005", 768),
    ],
)
def test_the_dimension_of_a_listed_model_is_known(model: str, dimension: int) -> None:
    made = create(Options(model=model, api_key=Secret("k")), context())
    assert made.dimension == dimension
    assert made.model == model.removeprefix("openai/")


def test_the_dimension_of_another_model_must_be_given() -> None:
    with pytest.raises(OptionsError, match="dimension") as caught:
        create(Options(model="ollama/mine"), context())
    assert "dimension" in str(caught.value.remedy)
    assert create(Options(model="ollama/mine", dimension=768), context()).dimension == 768


@pytest.mark.parametrize(
    "options",
    [
        {"extra": {"dimensions": 3}},
        {"query_extra": {"ssl_verify": False}},
        {"query_extra": {"input": "x"}},
        {"memory_extra": {"num_retries": 3}},
        {"cosine_zero": 0.9},
        {"cosine_one": 0.1},
    ],
)
def test_options_that_contradict_others_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionsError):
        create(Options(api_key=Secret("k"), **options), context())


def test_measured_cosines_replace_the_known_ones() -> None:
    made = create(Options(api_key=Secret("k"), cosine_zero=0.3, cosine_one=0.7), context())
    assert (made.calibration.cosine_zero, made.calibration.cosine_one) == (0.3, 0.7)


def test_creating_it_imports_nothing_heavy() -> None:
    program = """
import sys
from types import SimpleNamespace
from zeus_plugins.embeddings.litellm_embeddings import embedder, options
embedder.create(options.Options(), SimpleNamespace(environ={"OPENAI_API_KEY": "k"}))
print(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"litellm", "numpy", "asyncio", "pydantic"}.isdisjoint(done.stdout.split())
