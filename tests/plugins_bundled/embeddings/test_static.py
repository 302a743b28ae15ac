"""The bundled table: its pieces, what its cosines mean, its size and its speed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from zeus_plugins.embeddings.static.characters import features, written
from zeus_plugins.embeddings.static.common import common_direction
from zeus_plugins.embeddings.static.embedder import DIMENSION, MODEL, StaticEmbedder, create
from zeus_plugins.embeddings.static.options import Options
from zeus_plugins.embeddings.static.table import FOLDER, ROWS, SCALES, VOCABULARY, read_table
from zeus_plugins.embeddings.static.wordpiece import WordPiece

from zeus_runtime.plugin import PlanContext
from zeus_runtime.plugin.embedding import Embedder
from zeus_runtime.testing import EmbedderConformance

PAIRS = json.loads(Path(__file__).with_name("pairs.json").read_text(encoding="utf-8"))
TABLE = read_table()


def embedder(**options: Any) -> StaticEmbedder:
    return create(Options(**options), cast(PlanContext, None))


async def embedded(texts: list[str], **options: Any) -> NDArray[np.float32]:
    return await embedder(**options).embed(texts, purpose="memory")


class TestStatic(EmbedderConformance):
    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        yield embedder()


def test_workers_make_the_table_and_not_what_embeds_otherwise_on_top_of_it() -> None:
    class Shouting(StaticEmbedder):
        async def embed(self, texts: Sequence[str], *, purpose: Literal["memory", "query"]) -> Any:
            return await super().embed([text.upper() for text in texts], purpose=purpose)

    assert embedder().worker is not None
    assert Shouting().worker is None


class TestStaticWithoutCharacters(EmbedderConformance):
    @contextmanager
    def embedding(self) -> Iterator[Embedder]:
        yield embedder(characters=False)


def reference() -> Any:
    """The pieces as the library `tokenizers` has them, of the same vocabulary."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece as Model
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    made = Tokenizer(
        Model(
            {**TABLE.vocabulary, "[UNK]": len(TABLE.vocabulary)},
            unk_token="[UNK]",
            max_input_chars_per_word=100,
        )
    )
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    return made


REFERENCE = reference()
LATIN = st.text(
    st.one_of(
        st.characters(max_codepoint=0x24F),
        st.sampled_from(" \t\n.,-_'\"%€→—…’“”"),
        st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789"),
    ),
    max_size=120,
)


@given(LATIN)
def test_the_pieces_of_latin_texts_are_those_of_the_reference(text: str) -> None:
    tokens = REFERENCE.encode(text, add_special_tokens=False).tokens
    places = [TABLE.vocabulary[token] for token in tokens if token != "[UNK]"]
    pieces = WordPiece(TABLE.vocabulary).pieces(text)
    assert pieces.known == places
    assert len(pieces.unknown) == tokens.count("[UNK]")


@pytest.mark.parametrize(
    ("text", "pieces", "unknown"),
    [
        ("Naïve café-users", ["naive", "cafe", "-", "users"], []),
        ("unbelievableness", ["unbelievable", "##ness"], []),
        ("a\x00b\u200bc", ["abc"], []),
        ("用户喜欢 PostgreSQL", ["post", "##gre", "##s", "##q", "##l"], ["用户喜欢"]),
        ("привет мир!", ["!"], ["привет", "мир"]),
        ("東京タワー、한글", [], ["東京タワー", "한글"]),
        ("x" * 101, [], ["x" * 101]),
        ("", [], []),
    ],
)
def test_a_text_falls_into_pieces_and_unknown_words(text: str, pieces: list[str], unknown: list[str]) -> None:
    found = WordPiece(TABLE.vocabulary).pieces(text)
    names = list(TABLE.vocabulary)
    assert [names[place] for place in found.known if names[place] != "、"] == pieces
    assert found.unknown == unknown


async def cosines(language: str, **options: Any) -> dict[str, NDArray[np.float32]]:
    """Of the pairs in pairs.json: the same said otherwise, related, unrelated."""
    rows = PAIRS[language]
    first, same, related = [await embedded([row[column] for row in rows], **options) for column in (1, 2, 3)]
    every = np.concatenate([first, same, related])
    topic = np.tile(np.arange(len(rows)), 3)
    apart = np.triu(topic[:, None] != topic[None, :])
    return {
        "same": (first * same).sum(axis=1),
        "related": np.concatenate([(first * related).sum(axis=1), (same * related).sum(axis=1)]),
        "unrelated": (every @ every.T)[apart],
        "found": (same @ np.concatenate([first, related]).T).argmax(axis=1) == np.arange(len(rows)),
    }


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_paraphrases_are_nearer_than_anything_else(language: str) -> None:
    of = await cosines(language)
    assert of["found"].all(), "each paraphrase finds its statement among all others"
    assert of["same"].min() > np.quantile(of["unrelated"], 0.999)
    assert np.median(of["related"]) > np.median(of["unrelated"])


async def test_the_calibration_parts_unrelated_memories_from_answers() -> None:
    rows, means = PAIRS["en"], embedder().calibration
    asked = await embedder().embed([row[2] for row in rows], purpose="query")
    cosine = asked @ (await embedded([row[1] for row in rows])).T
    own = np.eye(len(rows), dtype=bool)
    assert np.quantile(cosine[~own], 0.9) == pytest.approx(means.cosine_zero, abs=0.05)
    assert (cosine[own] > means.cosine_zero).all()
    assert np.quantile(cosine[own], 0.75) > means.cosine_one


async def test_how_a_query_asks_does_not_matter_to_what_it_finds() -> None:
    """The common component: what function words add to a query is next to nothing, to a memory it is much."""
    plain, asking = (
        "the dentist on Tuesday",
        "What is it that we have with the dentist, and when, on Tuesday?",
    )
    memory = await embedded([plain, asking])
    query = await embedder().embed([plain, asking], purpose="query")
    assert query[0] @ query[1] > memory[0] @ memory[1]
    common = common_direction(TABLE)
    assert abs(query @ common).max() < 1e-5
    assert (await embedded(["What is it that they have?"]))[0] @ common > 0.5


async def test_a_query_in_another_script_is_embedded_as_a_memory_is() -> None:
    texts = ["用户喜欢深色主题", "привет мир"]
    assert np.array_equal(await embedder().embed(texts, purpose="query"), await embedded(texts))


async def test_a_query_of_function_words_alone_still_has_a_direction() -> None:
    vector = await embedder().embed(["what about them"], purpose="query")
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_a_statement_with_another_value_is_no_duplicate() -> None:
    threshold = embedder().calibration.duplicate
    assert threshold is not None
    one, other = [await embedded([row[side] for row in PAIRS["other_value"]]) for side in (0, 1)]
    assert (one * other).sum(axis=1).max() < threshold
    assert ((await cosines("en"))["same"] > threshold).mean() > 0.15, "some paraphrases are"


async def test_characters_make_chinese_paraphrases_found() -> None:
    without = await cosines("zh", characters=False)
    assert without["found"].mean() < 0.5
    assert (await cosines("zh"))["found"].all()


async def test_characters_change_nothing_in_english() -> None:
    texts = [text for row in PAIRS["en"] for text in row[1:]]
    assert np.array_equal(await embedded(texts), await embedded(texts, characters=False))


def test_without_characters_it_is_another_model() -> None:
    assert embedder(characters=False).model != embedder().model == MODEL


@given(st.text(st.characters(min_codepoint=0x3040, max_codepoint=0x9FFF), min_size=1, max_size=8))
def test_what_is_written_alike_has_the_same_direction(word: str) -> None:
    assert np.array_equal(written([word], DIMENSION), written([word], DIMENSION))
    assert features(word)


def test_directions_have_length_one_and_hardly_a_common_part() -> None:
    words = [chr(code) for code in range(0x5000, 0x5000 + 200)]
    drawn = np.array([written([word], DIMENSION) for word in words])
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    between = (drawn @ drawn.T)[np.triu_indices(len(words), 1)]
    assert abs(between.mean()) < 0.01
    assert between.std() == pytest.approx(DIMENSION**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("The user prefers a dark theme", 1.0),
        ("用户喜欢深色主题", 0.0),
        ("theme 深色主题", 0.2),
        ("мир theme", 0.5),
        ("", 0.0),
    ],
)
def test_coverage_is_the_share_of_known_pieces(text: str, known: float) -> None:
    assert embedder().coverage(text) == known


async def test_a_text_of_nothing_known_has_no_direction() -> None:
    assert not (await embedded(["", " ", "\u200b"])).any()
    assert not (await embedded(["用户喜欢"], characters=False)).any()


def test_the_table_is_whole_and_at_most_eight_megabytes() -> None:
    files = [FOLDER / name for name in (ROWS, SCALES, VOCABULARY)]
    assert sum(file.stat().st_size for file in files) <= 8_000_000
    assert TABLE.rows.shape == (len(TABLE.vocabulary), DIMENSION)
    assert TABLE.rows.dtype == np.int8
    assert TABLE.scales.shape == (len(TABLE.vocabulary),)
    assert isinstance(TABLE.rows, np.memmap), "it is mapped, not read"
    assert "Apache License" in (FOLDER / "NOTICE.md").read_text()


def test_another_table_needs_another_name() -> None:
    """Vectors of two tables are never compared: who changes a file counts ``MODEL`` up and writes the digest here."""
    digest = hashlib.sha256()
    for name in (ROWS, SCALES, VOCABULARY):
        digest.update((FOLDER / name).read_bytes())
    assert (MODEL, digest.hexdigest()[:16]) == ("static-minilm-l6-v2-1", "5a0a6ce97269b884")


def test_the_first_vector_imports_no_runtime_of_models() -> None:
    program = """
import asyncio, sys
from zeus_plugins.embeddings.static import embedder, options
made = embedder.create(options.Options(), None)
asyncio.run(made.embed(["The user prefers a dark theme"], purpose="query"))
print(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"onnxruntime", "torch", "tokenizers", "transformers", "pydantic"}
    assert heavy.isdisjoint(done.stdout.split())
