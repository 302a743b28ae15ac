"""The embedding component `onnx`, with a model of a few kilobytes."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from zeus_plugins.embeddings.onnx.embedder import OnnxEmbedder, create
from zeus_plugins.embeddings.onnx.options import Options

from tests.plugins_bundled.embeddings.tiny_onnx import DIMENSION, WORDS, write_model, write_tokenizer
from zeus_runtime import MissingError, OptionsError
from zeus_runtime.plugin import PlanContext
from zeus_runtime.plugin.embedding import Embedder, EmbeddingUnavailableError
from zeus_runtime.testing import EmbedderConformance


def rows() -> list[list[float]]:
    drawn = random.Random(3)
    return [[drawn.gauss(0, 1) for _ in range(DIMENSION)] for _ in WORDS]


def embedder(folder: Path, **options: Any) -> OnnxEmbedder:
    return create(Options("model", **options), cast(PlanContext, SimpleNamespace(directory=folder)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "model", rows())
    return tmp_path


class TestOnnx(EmbedderConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        yield embedder(self.folder)


@pytest.mark.skipif(
    "ZEUS_TEST_ONNX_MODEL" not in os.environ, reason="ZEUS_TEST_ONNX_MODEL names no model folder"
)
class TestARealModel(EmbedderConformance):
    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        path = Path(os.environ["ZEUS_TEST_ONNX_MODEL"])
        yield create(Options(path.name), cast(PlanContext, SimpleNamespace(directory=path.parent)))


async def test_a_vector_is_the_mean_over_the_tokens_or_the_first_ones(folder: Path) -> None:
    table = np.array(rows(), dtype=np.float32)
    tokens = table[[WORDS.index(word) for word in ("[CLS]", "dark", "theme", "[SEP]")]]
    for pooling, expected in (("mean", tokens.mean(axis=0)), ("cls", tokens[0])):
        (vector,) = await embedder(folder, pooling=pooling).embed(["dark theme"], purpose="memory")
        assert np.allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


async def test_queries_and_memories_get_their_prefixes(folder: Path) -> None:
    plain, prefixed = embedder(folder), embedder(folder, query_prefix="query ", memory_prefix="list ")
    for purpose, prefix in (("query", "query "), ("memory", "list ")):
        expected = await plain.embed([prefix + "theme"], purpose="memory")
        assert np.allclose(await prefixed.embed(["theme"], purpose=cast(Any, purpose)), expected)


async def test_a_long_text_is_cut_at_max_tokens(folder: Path) -> None:
    cut = embedder(folder, max_tokens=4)
    long, short = await cut.embed(["dark theme friday list", "dark theme"], purpose="memory")
    assert np.allclose(long, short)


def test_what_makes_a_vector_is_in_the_models_name(folder: Path) -> None:
    names = {embedder(folder).model, embedder(folder).model}
    assert len(names) == 1
    names |= {
        embedder(folder, **change).model
        for change in ({"pooling": "cls"}, {"max_tokens": 9}, {"query_prefix": "q "}, {"memory_prefix": "m "})
    }
    write_model(folder / "model", rows()[::-1])
    names.add(embedder(folder).model)
    assert len(names) == 6
    assert embedder(folder, threads=2).model in names, "threads do not change a vector"


def test_coverage_is_the_share_of_known_tokens(folder: Path) -> None:
    made = embedder(folder)
    assert made.coverage("dark theme") == 1
    assert made.coverage("dark 主题") == 0.5
    assert made.coverage("") == 0


@pytest.mark.parametrize("absent", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named_with_a_remedy(folder: Path, absent: str) -> None:
    (folder / "model" / absent).unlink()
    with pytest.raises(MissingError, match=absent) as caught:
        embedder(folder)
    assert caught.value.exit_code == 4
    assert caught.value.remedy


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named_with_the_extra(
    folder: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingError, match=package) as caught:
        embedder(folder)
    assert "zeus-runtime[onnx]" in str(caught.value.remedy)


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_an_error_and_no_traceback(folder: Path, broken: str) -> None:
    (folder / "model" / broken).write_bytes(b"nothing of the kind")
    with pytest.raises(OptionsError, match=broken):
        embedder(folder)


def test_a_model_for_something_else_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "model", rows(), ["pixels"])
    with pytest.raises(OptionsError, match="not a text encoder"):
        embedder(tmp_path)


async def test_a_model_that_fails_is_unavailable_and_no_traceback(tmp_path: Path) -> None:
    write_model(tmp_path / "model", rows()[:10])
    made = embedder(tmp_path)
    with pytest.raises(EmbeddingUnavailableError, match="failed on 3 tokens"):
        await made.embed(["list"], purpose="memory")


def test_a_tokenizer_that_fills_up_texts_does_not_change_them(folder: Path) -> None:
    from tokenizers import Tokenizer

    plain = embedder(folder)
    file = folder / "model" / "tokenizer.json"
    filling = Tokenizer.from_file(str(file))
    filling.enable_padding(length=64)
    filling.save(str(file))
    assert np.allclose(embedder(folder)._one("dark theme"), plain._one("dark theme"))
    write_tokenizer(folder / "model")


def test_the_cosines_must_be_in_order(folder: Path) -> None:
    with pytest.raises(OptionsError, match="below cosine_one"):
        embedder(folder, cosine_zero=0.9, cosine_one=0.5)
    assert embedder(folder, cosine_zero=0.1, cosine_one=0.7).calibration.cosine_one == 0.7
