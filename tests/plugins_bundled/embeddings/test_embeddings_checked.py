"""Wrong options of an embedding model are found by ``zeus validate``, with their place, and not by a tool in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime.cli import main


@pytest.mark.parametrize(
    ("options", "place", "said"),
    [
        (
            {"litellm": {"model": "acme/unheard-of"}},
            "3:44",
            ("dimension of the embedding model 'acme/unheard-of' is not known", "dimension: N"),
        ),
        (
            {"litellm": {"extra": {"model": "x"}}},
            "3:54",
            ("may not set 'model'", "Use `model`"),
        ),
        (
            {"litellm": {"cosine_zero": 0.9}},
            "3:50",
            ("cosine_zero (0.9) must be below cosine_one (0.6)", "measured"),
        ),
        (
            {"onnx": {"path": "models/none"}},
            "3:40",
            ("models/none/model.onnx", "which does not exist", "Put the model's ONNX file"),
        ),
    ],
    ids=["dimension", "extra", "cosines", "no folder"],
)
@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_wrong_options_of_an_embedding_model_have_a_place_and_a_remedy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    options: dict[str, Any],
    place: str,
    said: tuple[str, ...],
) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(
        f"version: 1\nmodel: gpt-4o\nmemory: {{embeddings: {json.dumps(options)}}}\n", encoding="utf-8"
    )
    assert main([verb, str(config)]) == 3
    told = capsys.readouterr()
    for each in (f"zeus.yaml:{place}", *said):
        assert each in told.out + told.err


def test_a_dimension_makes_an_unknown_embedding_model_valid(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(
        "version: 1\nmodel: gpt-4o\n"
        "memory: {embeddings: {litellm: {model: acme/unheard-of, dimension: 8}}}\n",
        encoding="utf-8",
    )
    assert main(["validate", str(config)]) == 0
