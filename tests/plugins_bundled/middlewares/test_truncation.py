"""Truncation of old calls' arguments (SPEC section 7): above a trigger, in batches, decided once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.support.agents import assert_paired, call, calling, write_agent
from tests.support.policies import GIVING, Talk, arguments, moved_prefixes, talk
from zeus_runtime import Agent, ConfigError
from zeus_runtime.context.tokens import counter_for, request_tokens
from zeus_runtime.models.profiles import lookup

WINDOW = "profiles: {models: {gpt-4o: {max_input_tokens: 20000, max_output_tokens: 1}}}\n"
BODY = "word and word again. " * 150
"""3,150 characters, about 750 tokens."""


async def storing(folder: Path, yaml: str, steps: int, body: str = BODY) -> Talk:
    answers = [
        calling(call("store", f"c{step}", name=f"n{step}", body=body, note=body)) for step in range(steps)
    ]
    return await talk(folder, yaml, *answers, "done")


def cut(spoken: Talk) -> list[list[int]]:
    """For each request, which of its calls are shown cut."""
    return [
        [
            step
            for step, each in enumerate(arguments(list(request.messages)))
            if "(argument truncated)" in each["body"]
        ]
        for request in spoken.requests
    ]


def size(spoken: Talk, step: int) -> int:
    """What a request would have taken if nothing had been cut, in tokens."""
    request = spoken.requests[step]
    whole = request.override(messages=spoken.history[: len(request.messages)])
    return request_tokens(counter_for(lookup("gpt-4o")), whole)


async def test_long_arguments_become_their_first_twenty_characters_and_a_pointer(tmp_path: Path) -> None:
    spoken = await storing(tmp_path, WINDOW + "middlewares: [truncation]\n", 11)
    first = arguments(spoken.last)[0]
    assert first["body"].startswith(BODY[:20] + "...(argument truncated)")
    assert "3,150 characters" in first["body"]
    kept = json.loads((tmp_path / ".zeus/large_tool_results/c0.arguments.json").read_text())
    assert kept == {"name": "n0", "body": BODY, "note": BODY}
    assert "/large_tool_results/c0.arguments.json" in first["body"]


async def test_only_arguments_declared_replayable_are_cut(tmp_path: Path) -> None:
    spoken = await storing(tmp_path, WINDOW + "middlewares: [truncation]\n", 11)
    assert {each["note"] for each in arguments(spoken.last)} == {BODY}
    assert {each["name"] for each in arguments(spoken.last)} == {f"n{step}" for step in range(11)}


async def test_write_file_and_edit_file_point_to_the_file(tmp_path: Path) -> None:
    answers = [
        calling(call("write_file", f"c{step}", path=f"/n{step}.md", content=BODY * 3)) for step in range(8)
    ]
    spoken = await talk(tmp_path, WINDOW + "middlewares: [truncation]\n", *answers, "done")
    first = arguments(spoken.last)[0]
    assert first["content"].startswith(BODY[:20] + "...(argument truncated)")
    assert "the file is /n0.md" in first["content"]
    assert (tmp_path / "n0.md").read_text() == BODY * 3


async def test_nothing_is_cut_below_85_percent_and_the_newest_10_percent_stay(tmp_path: Path) -> None:
    spoken = await storing(tmp_path, WINDOW + "middlewares: [truncation]\n", 12)
    when = next(step for step, each in enumerate(cut(spoken)) if each)
    whole = [size(spoken, step) for step in (when - 1, when)]
    assert whole[0] < 0.85 * 20_000 <= whole[1]
    batch = cut(spoken)[when]
    assert batch == list(range(len(batch)))
    assert when - len(batch) in (1, 2)


async def test_an_unknown_window_cuts_from_20_messages_on_and_keeps_20(tmp_path: Path) -> None:
    yaml = "middlewares: [truncation: {min_saving_tokens: 0}]\n"
    answers = [calling(call("store", f"c{step}", name="n", body=BODY)) for step in range(12)]
    spoken = await talk(tmp_path, yaml, *answers, "done", model="acme-1")
    assert (
        next(
            len(request.messages) for request, each in zip(spoken.requests, cut(spoken), strict=True) if each
        )
        == 23
    )
    assert cut(spoken)[-1] == [0, 1]


async def test_what_is_cut_stays_cut_and_batches_keep_the_prefix_between_them(tmp_path: Path) -> None:
    yaml = WINDOW + "middlewares: [truncation: {min_saving_tokens: 3000, trigger: {tokens: 6000}}]\n"
    spoken = await storing(tmp_path, yaml, 12)
    seen = cut(spoken)
    assert all(before == after[: len(before)] for before, after in itertools.pairwise(seen))
    changes = sum(before != after for before, after in itertools.pairwise(seen))
    assert moved_prefixes(spoken.requests) == changes
    assert 1 <= changes <= 3
    assert_paired(spoken.last)


@pytest.mark.parametrize(("option", "shown"), [("max_chars: 4000", BODY), ("keep_chars: 5", "word ...(arg")])
async def test_lengths_are_options(tmp_path: Path, option: str, shown: str) -> None:
    yaml = WINDOW + f"middlewares: [truncation: {{{option}, trigger: {{tokens: 2500}}}}]\n"
    spoken = await storing(tmp_path, yaml, 5)
    assert arguments(spoken.last)[0]["body"].startswith(shown)


async def test_the_yaml_can_name_arguments_of_tools_that_declare_none(tmp_path: Path) -> None:
    yaml = WINDOW + "middlewares: [truncation: {arguments: {give: [name]}, trigger: {tokens: 2500}}]\n"
    answers = [calling(call("give", f"c{step}", lines=1, name=BODY)) for step in range(6)]
    spoken = await talk(tmp_path, yaml, *answers, "done")
    assert "(argument truncated)" in arguments(spoken.last)[0]["name"]


def problems(tmp_path: Path, options: str, head: str = WINDOW) -> list[str]:
    config = write_agent(tmp_path, f"{head}middlewares: [truncation: {{{options}}}]\n", plugin=GIVING)
    config.write_text(config.read_text().replace("[probe]", "[giving]"))
    try:
        _ = Agent.from_config(config, directory=tmp_path).plan
    except ConfigError as error:
        return [each.code for each in error.diagnostics if each.position is not None]
    return []


def test_sizes_that_cannot_work_are_errors_at_load(tmp_path: Path) -> None:
    assert problems(tmp_path, "trigger: {fraction: 0.5}, keep: {fraction: 0.5}") == ["wrong-size"]
    assert problems(tmp_path, "trigger: {tokens: 30000}") == ["wrong-size"]
    assert problems(tmp_path, "trigger: {messages: 10}, keep: {messages: 20}") == ["wrong-size"]
    assert problems(tmp_path, "trigger: {messages: 20}, keep: {messages: 10}") == []
    unknown = "profiles: {}\n"
    config = write_agent(tmp_path, unknown + "middlewares: [truncation: {trigger: {fraction: 0.5}}]\n")
    config.write_text(config.read_text().replace("gpt-4o", "acme-1"))
    with pytest.raises(ConfigError, match="known window"):
        _ = Agent.from_config(config, directory=tmp_path).plan


def test_tools_and_arguments_that_are_not_there_are_errors_at_load(tmp_path: Path) -> None:
    assert problems(tmp_path, "arguments: {stor: [body]}") == ["unknown-tool"]
    assert problems(tmp_path, "arguments: {store: [boddy]}") == ["unknown-argument"]
