"""The counter of a model's own tokenizer.json, and counters of other plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.support.agents import script, write_agent
from zeus_runtime import Agent, ConfigError, ZeusError
from zeus_runtime.context.tokens import FramedCounter

WORDS = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.counter import counter_with

def create(options, context):
    return counter_with(lambda text: 10 * len(text.split()), context.profile)

@hookimpl
def register_counters():
    return [Component("words", create=create)]
"""


def write_tokenizer(file: Path) -> None:
    """A tokenizer whose tokens are words."""
    words = Tokenizer(WordLevel({"[UNK]": 0, "sail": 1, "home": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(file))


def agent(folder: Path, yaml: str, plugin: str = "") -> Agent:
    config = write_agent(folder, yaml, plugin=plugin or WORDS, tools="[]")
    return Agent.from_config(config, directory=folder, model=script("done"))


async def test_texts_are_counted_by_the_file(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    async with agent(tmp_path, "counter: {tokenizer_file: {path: tokenizer.json}}\n") as sailing:
        counter = sailing.plan.token_counter
    assert counter.exact
    assert counter.text("sail home") == 2
    assert counter.text("sail home over the wine-dark sea") == 8


async def test_a_file_that_cuts_and_fills_up_texts_counts_them_whole(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    cutting = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    cutting.enable_truncation(8)
    cutting.enable_padding(length=8)
    cutting.save(str(tmp_path / "tokenizer.json"))
    async with agent(tmp_path, "counter: {tokenizer_file: {path: tokenizer.json}}\n") as sailing:
        counter = sailing.plan.token_counter
    assert [counter.text("sail " * words) for words in (2, 100)] == [2, 100]


async def test_half_of_a_surrogate_pair_is_counted_and_no_traceback(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    async with agent(tmp_path, "counter: {tokenizer_file: {path: tokenizer.json}}\n") as sailing:
        assert sailing.plan.token_counter.text("sail \ud83d") == 2


async def test_the_file_is_beside_the_yaml_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    write_tokenizer(tmp_path / "base" / "tokenizer.json")
    (tmp_path / "base" / "base.yaml").write_text("counter: {tokenizer_file: {path: tokenizer.json}}\n")
    async with agent(tmp_path, "extends: base/base.yaml\n") as sailing:
        assert sailing.plan.token_counter.text("home") == 1


def test_a_missing_file_is_an_error_at_load_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        agent(tmp_path, "counter: {tokenizer_file: {path: absent.json}}\n")
    (problem,) = caught.value.diagnostics
    assert problem.code == "missing-file"
    assert "absent.json does not exist" in problem.message
    assert problem.position is not None
    assert problem.position.line == 6


async def test_a_file_that_is_no_tokenizer_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"no": "tokenizer"}')
    async with agent(tmp_path, "counter: {tokenizer_file: {path: tokenizer.json}}\n") as sailing:
        with pytest.raises(ZeusError, match="is not a tokenizer") as caught:
            await sailing.run("go")
    assert caught.value.exit_code == 3


async def test_a_plugins_counter_measures_the_requests(tmp_path: Path) -> None:
    prompt = "one two three four five six seven eight nine ten"
    own = []
    for yaml in ("", "counter: words\n"):
        async with agent(tmp_path / (yaml and "own"), yaml) as sailing:
            session = (await sailing.run(prompt)).session
            log = await sailing.history(session)
            counter = sailing.plan.token_counter
            assert isinstance(counter, FramedCounter)
            own.append(counter.message(log[0]))
    assert own[1] - own[0] == 100 - 10
