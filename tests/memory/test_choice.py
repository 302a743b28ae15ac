"""Whose embedding model is used: the user's, the YAML's, or what there is a key for."""

from __future__ import annotations

from typing import Any

import pytest

from zeus_runtime import OptionsError, Ref
from zeus_runtime.memory.choice import create_embeddings

KEYED = {"OPENAI_API_KEY": "sk-test"}
LARGE = {"litellm": {"model": "text-embedding-3-large"}}


def chosen(user: str = "ada", configured: Ref | None = None, environ: Any = (), **choices: Any) -> Ref:
    return create_embeddings(user, choices=choices, configured=configured, environ=dict(environ))


def test_the_users_own_choice_wins_over_the_yaml_and_the_key() -> None:
    assert chosen(ada=LARGE, configured=Ref("onnx", {"path": "m"}), environ=KEYED) == Ref("litellm", LARGE["litellm"])


def test_another_users_choice_is_not_ones_own() -> None:
    assert chosen(grace="onnx", configured=Ref("static")) == Ref("static")


def test_the_yaml_wins_over_the_key() -> None:
    assert chosen(configured=Ref("static"), environ=KEYED) == Ref("static")


@pytest.mark.parametrize(
    ("environ", "name"),
    [(KEYED, "litellm"), ({}, "static"), ({"OPENAI_API_KEY": "  "}, "static"), ({"ANTHROPIC_API_KEY": "k"}, "static")],
)
def test_without_a_choice_the_key_decides(environ: dict[str, str], name: str) -> None:
    assert chosen(environ=environ) == Ref(name)


@pytest.mark.parametrize("stored", ["onnx", {"onnx": None}, {"onnx": {}}, Ref("onnx")])
def test_a_choice_is_stored_as_the_yaml_would_write_it(stored: Any) -> None:
    assert chosen(ada=stored) == Ref("onnx")


@pytest.mark.parametrize("stored", ["", " ", {}, {"a": {}, "b": {}}, {"a": 3}, {"": {}}, 7])
def test_a_broken_choice_is_an_error_and_not_the_default(stored: Any) -> None:
    with pytest.raises(OptionsError, match="'ada'") as caught:
        chosen(ada=stored, environ=KEYED)
    assert caught.value.remedy
