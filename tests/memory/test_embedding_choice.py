"""Whose embedding model is used: the user's, the YAML's, or the one that runs offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zeus_runtime import Agent, OptionsError
from zeus_runtime.memory.embedding_choice import create_embeddings
from zeus_runtime.plugin import Ref

LARGE = {"litellm": {"model": "text-embedding-3-large"}}


def chosen(user: str = "ada", configured: Ref | None = None, **choices: Any) -> Ref:
    return create_embeddings(user, choices=choices, configured=configured)


def test_the_users_own_choice_wins_over_the_yaml() -> None:
    assert chosen(ada=LARGE, configured=Ref("onnx", {"path": "m"})) == Ref("litellm", LARGE["litellm"])


def test_another_users_choice_is_not_ones_own() -> None:
    assert chosen(grace="onnx", configured=Ref("static")) == Ref("static")


def test_the_yaml_wins_over_the_default() -> None:
    assert chosen(configured=Ref("litellm")) == Ref("litellm")


def test_without_a_choice_the_offline_table_embeds() -> None:
    assert chosen() == Ref("static")


@pytest.mark.parametrize("key", ["OPENAI_API_KEY", "VOYAGE_API_KEY", "ANTHROPIC_API_KEY"])
def test_a_key_in_the_environment_does_not_decide_where_texts_go(tmp_path: Path, key: str) -> None:
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: {litellm: {model: openai/own, api_base: 'http://127.0.0.1:1/v1'}}\nmemory: {user: ann}\n"
        "knowledge: [notes]\ntools: [knowledge]\n"
    )
    plan = Agent.from_config(directory=tmp_path, environ={key: "sk-test"}).plan
    assert plan.memory is not None
    assert plan.memory.embeddings.name == "static"


@pytest.mark.parametrize("stored", ["onnx", {"onnx": None}, {"onnx": {}}, Ref("onnx")])
def test_a_choice_is_stored_as_the_yaml_would_write_it(stored: Any) -> None:
    assert chosen(ada=stored) == Ref("onnx")


@pytest.mark.parametrize("stored", ["", " ", {}, {"a": {}, "b": {}}, {"a": 3}, {"": {}}, 7])
def test_a_broken_choice_is_an_error_and_not_the_default(stored: Any) -> None:
    with pytest.raises(OptionsError, match="'ada'") as caught:
        chosen(ada=stored)
    assert caught.value.remedy
