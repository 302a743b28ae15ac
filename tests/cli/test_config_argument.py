"""Which word of a command line is the config, and which is the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.cli.config_argument import config_and_prompt


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((None, None), (None, None)),
        (("-", None), ("-", None)),
        (("my agent", None), ("my agent", None)),
        (("plain", None), ("plain", None)),
        (("quickstart", None), ("quickstart", None)),
        (("hello", None), (None, "hello")),
        (("hello there", None), (None, "hello there")),
        (("prod.yaml", None), ("prod.yaml", None)),
        (("prod.yml", None), ("prod.yml", None)),
        (("configs/prod", None), ("configs/prod", None)),
        (("read configs/prod.yaml", None), (None, "read configs/prod.yaml")),
        (("x" * 5_000, None), (None, "x" * 5_000)),
        (("a\0b", None), (None, "a\0b")),
        (("hello", "you"), ("hello", "you")),
    ],
)
def test_one_word_is_a_config_that_is_there_or_looks_like_one(
    tmp_path: Path, words: tuple[str | None, str | None], meant: tuple[str | None, str | None]
) -> None:
    for name in ("zeus.yaml", "my agent", "plain"):
        (tmp_path / name).touch()
    assert config_and_prompt(*words, tmp_path, lambda: ["quickstart"]) == meant


def test_without_a_zeus_yaml_one_word_without_spaces_is_a_config(tmp_path: Path) -> None:
    assert config_and_prompt("hello", None, tmp_path, list) == ("hello", None)
    assert config_and_prompt("hello there", None, tmp_path, list) == (None, "hello there")
