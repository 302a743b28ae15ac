"""What is seen of the settings of the embedding models: requests, waits, vectors, what cosines mean."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.acceptance.settings import Flip, Scene, See
from tests.plugins_bundled.embeddings.tiny_onnx import DIMENSION, WORDS, write_model
from tests.support.provider import Provider, Received, Reply
from zeus_runtime.memory.embedding import Purpose
from zeus_runtime.plugin.embedding import Embedder, EmbeddingUnavailableError

PURPOSES: Final[tuple[Purpose, ...]] = ("memory", "query")


def embedder(scene: Scene) -> Embedder:
    """The model that the config's memories are embedded by."""
    plan = scene.agent().plan
    assert plan.memory is not None
    made: Embedder = plan.memory.embeddings.create(plan.context)
    return made


def calibration(name: str) -> See:
    """What the model says of its cosines."""

    async def see(scene: Scene) -> float:
        _write_models(scene)
        return float(getattr(embedder(scene).calibration, name))

    return see


# litellm


async def _requests(
    scene: Scene, *asked: tuple[Purpose, list[str]], unasked: int = 8
) -> tuple[list[Received], list[int]]:
    """What reaches the provider, and the dimension of what comes back.

    Args:
        unasked: numbers in a vector if the request does not say how many.
    """

    def answer(request: Received) -> Reply:
        size = request.body.get("dimensions", unasked)
        data = [
            {"object": "embedding", "index": place, "embedding": [1.0] * size}
            for place in range(len(request.body["input"]))
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return Reply(body=json.dumps({"object": "list", "model": "m", "data": data, "usage": usage}))

    with Provider(answer=answer) as provider:
        scene.environ |= {"PROVIDER": provider.openai, "OPENAI_API_KEY": "sk-environment"}
        made = embedder(scene)
        vectors = [await made.embed(texts, purpose=purpose) for purpose, texts in asked]
        return provider.requests, [each.shape[1] for each in vectors]


def asked_for(path: str) -> See:
    """What of a request for a memory's vector reaches the provider."""

    async def see(scene: Scene) -> Any:
        (request,), _ = await _requests(scene, ("memory", ["a"]))
        holder, _, name = path.partition(".")
        found = getattr(request, holder)
        return found.get(name) if name else found

    return see


async def dimensions(scene: Scene) -> tuple[int | None, int]:
    """The dimension that is asked for, and that of the vectors."""
    (request,), (size,) = await _requests(scene, ("memory", ["a"]), unasked=1536)
    return request.body.get("dimensions"), size


async def users_named(scene: Scene) -> dict[str, str | None]:
    """The field ``user`` of a memory's and of a query's request."""
    requests, _ = await _requests(scene, *((purpose, ["a"]) for purpose in PURPOSES))
    return {purpose: request.body.get("user") for purpose, request in zip(PURPOSES, requests, strict=True)}


async def batches(scene: Scene) -> list[int]:
    """How many of five texts each request holds."""
    requests, _ = await _requests(scene, ("memory", list("abcde")))
    return [len(request.body["input"]) for request in requests]


async def requests_for_a_query_asked_twice(scene: Scene) -> int:
    requests, _ = await _requests(scene, ("query", ["a"]), ("query", ["a"]))
    return len(requests)


def patience(purpose: Purpose) -> See:
    """After how many seconds a provider that never answers is left, and what it was told of that."""

    async def see(scene: Scene) -> tuple[str, float]:
        told: list[float] = []

        async def silent(**arguments: Any) -> None:
            told.append(arguments["timeout"])
            await asyncio.Event().wait()

        async def library() -> Any:
            return SimpleNamespace(
                aembedding=silent, get_llm_provider=lambda model: (model, "openai", None, None)
            )

        scene.environ |= {"OPENAI_API_KEY": "sk-environment"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("zeus_plugins.models.litellm.library.library", library)
            with pytest.raises(EmbeddingUnavailableError) as caught:
                await embedder(scene).embed(["a"], purpose=purpose)
        given = re.search(r"longer than [\d.]+ s", caught.value.message)
        assert given is not None, caught.value.message
        (seconds,) = told
        return given[0], seconds

    return see


LITELLM: Final[Mapping[str, Any]] = {"dimension": 8, "api_base": "${PROVIDER}", "api_key": "sk-given"}


def of_litellm(
    option: str, value: Any, see: See, before: Any, after: Any, *, loads: bool = True, **options: Any
) -> Flip:
    """A flip of an option of litellm's embeddings; an option given as None is not given.

    Args:
        loads: whether litellm itself is loaded for it.
    """
    kept = {key: each for key, each in {**LITELLM, **options}.items() if each is not None}
    given = {"memory": {"embeddings": {"litellm": kept}}}
    group = "litellm" if loads else "settings"
    return Flip(f"embedding:litellm.{option}", value, see, before, after, given, group=group)


# onnx


async def words_embedded(scene: Scene) -> dict[str, list[str]]:
    """Which words a memory's and a query's vector of one text are made of."""
    _write_models(scene)
    made = embedder(scene)
    found: dict[str, list[str]] = {}
    for purpose in PURPOSES:
        (vector,) = await made.embed(["dark theme"], purpose=purpose)
        found[purpose] = [WORDS[place] for place in vector.nonzero()[0]]
    return found


async def threads(scene: Scene) -> int:
    """How many threads the model's session is given."""
    import onnxruntime

    given: list[int] = []
    session = onnxruntime.InferenceSession

    def watched(path: str, settings: Any, **more: Any) -> Any:
        given.append(settings.intra_op_num_threads)
        return session(path, settings, **more)

    _write_models(scene)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", watched)
        await embedder(scene).embed(["dark"], purpose="query")
    (number,) = given
    return number


def _write_models(scene: Scene) -> None:
    """Two models: each word is a direction of its own, in ``models/two`` the next word's; ``one`` has both files."""
    for name, ahead in (("one", 0), ("two", 1)):
        rows = [
            [float(place == (word + ahead) % DIMENSION) for place in range(DIMENSION)]
            for word in range(DIMENSION)
        ]
        write_model(scene.folder / "models" / name, rows)
    models = scene.folder / "models"
    (models / "one/next.onnx").write_bytes((models / "two/model.onnx").read_bytes())


def _both(*words: str) -> dict[str, list[str]]:
    return {purpose: list(words) for purpose in PURPOSES}


FRAMED: Final = _both("[CLS]", "[SEP]", "dark", "theme")
NEXT: Final = _both("[SEP]", "x", "theme", "deployments")


def of_onnx(option: str, value: Any, see: See, before: Any, after: Any) -> Flip:
    """A flip of an option of onnx."""
    given = {"memory": {"embeddings": {"onnx": {"path": "models/one"}}}}
    return Flip(f"embedding:onnx.{option}", value, see, before, after, given)


# static


async def chinese_has_a_vector(scene: Scene) -> bool:
    (vector,) = await embedder(scene).embed(["用户喜欢深色主题"], purpose="memory")
    return bool(vector.any())


EMBEDDINGS: Final = (
    of_litellm(
        "model",
        "text-embedding-3-large",
        asked_for("body.model"),
        "text-embedding-3-small",
        "text-embedding-3-large",
    ),
    of_litellm("dimension", 4, dimensions, (None, 1536), (4, 4), dimension=None),
    of_litellm("ask_dimension", False, asked_for("body.dimensions"), 8, None),
    of_litellm(
        "api_key",
        "sk-yaml",
        asked_for("headers.authorization"),
        "Bearer sk-environment",
        "Bearer sk-yaml",
        api_key=None,
    ),
    of_litellm("api_base", "${PROVIDER}/far", asked_for("path"), "/v1/embeddings", "/v1/far/embeddings"),
    of_litellm(
        "timeout_seconds",
        0.05,
        patience("query"),
        ("longer than 0.1 s", 0.1),
        ("longer than 0.05 s", 0.05),
        loads=False,
        api_base=None,
        timeout_seconds=0.1,
        batch_timeout_seconds=0.2,
    ),
    of_litellm(
        "batch_timeout_seconds",
        0.05,
        patience("memory"),
        ("longer than 0.1 s", 0.1),
        ("longer than 0.05 s", 0.05),
        loads=False,
        api_base=None,
        timeout_seconds=0.2,
        batch_timeout_seconds=0.1,
    ),
    of_litellm("batch_size", 2, batches, [5], [2, 2, 1]),
    of_litellm("cache_size", 0, requests_for_a_query_asked_twice, 1, 2),
    of_litellm("cosine_zero", 0.3, calibration("cosine_zero"), 0.15, 0.3, loads=False, api_base=None),
    of_litellm("cosine_one", 0.9, calibration("cosine_one"), 0.6, 0.9, loads=False, api_base=None),
    of_litellm("extra", {"user": "zeus"}, asked_for("body.user"), None, "zeus"),
    of_litellm(
        "query_extra",
        {"user": "asking"},
        users_named,
        {"memory": "zeus", "query": "zeus"},
        {"memory": "zeus", "query": "asking"},
        extra={"user": "zeus"},
    ),
    of_litellm(
        "memory_extra",
        {"user": "keeping"},
        users_named,
        {"memory": "zeus", "query": "zeus"},
        {"memory": "keeping", "query": "zeus"},
        extra={"user": "zeus"},
    ),
    of_onnx("path", "models/two", words_embedded, FRAMED, NEXT),
    of_onnx("file", "next.onnx", words_embedded, FRAMED, NEXT),
    of_onnx("pooling", "cls", words_embedded, FRAMED, _both("[CLS]")),
    of_onnx("max_tokens", 3, words_embedded, FRAMED, _both("[CLS]", "[SEP]", "dark")),
    of_onnx(
        "query_prefix",
        "number ",
        words_embedded,
        FRAMED,
        {**FRAMED, "query": ["[CLS]", "[SEP]", "dark", "theme", "number"]},
    ),
    of_onnx(
        "memory_prefix",
        "number ",
        words_embedded,
        FRAMED,
        {**FRAMED, "memory": ["[CLS]", "[SEP]", "dark", "theme", "number"]},
    ),
    of_onnx("threads", 2, threads, 1, 2),
    of_onnx("cosine_zero", 0.3, calibration("cosine_zero"), 0.2, 0.3),
    of_onnx("cosine_one", 0.9, calibration("cosine_one"), 0.6, 0.9),
    Flip(
        "embedding:static.characters",
        False,
        chinese_has_a_vector,
        True,
        False,
        {"memory": {"embeddings": "static"}},
    ),
)
