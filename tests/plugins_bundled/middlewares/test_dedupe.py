"""Dedupe: a file read again makes the older copy a pointer to the newer one, when that pays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import assert_paired, call, calling, write_agent
from tests.support.policies import GIVING, moved_prefixes, talk, texts
from zeus_runtime import Agent, ConfigError

WINDOW = """
profiles:
  models:
    gpt-4o:
      max_input_tokens: 20000
      max_output_tokens: 1
      input_cost_per_token: 1.0e-5
      cache_read_cost_per_token: 1.0e-6
"""


async def test_a_file_read_again_makes_the_older_copy_a_pointer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"row {number}\n" for number in range(300)))
    answers = [calling(call("read_file", f"c{step}", path="/a.txt")) for step in range(2)]
    spoken = await talk(tmp_path, "middlewares: [dedupe]\n", *answers, "done")
    older, newer = (text for text in texts(spoken.last) if "read_file" in text or "row" in text)
    assert older == (
        "[read_file was called again later with the same arguments: its newer result is further below."
        " This older one is kept in /large_tool_results/c0]"
    )
    assert newer == spoken.history[4].content
    assert (tmp_path / ".zeus/large_tool_results/c0").read_text() == spoken.history[2].content
    assert_paired(spoken.last)


@pytest.mark.parametrize(
    ("yaml", "first", "second"),
    [
        ("dedupe", {"at": "x"}, {"at": "y"}),
        ("dedupe", {"at": "x", "lines": 10}, {"at": "x", "lines": 10}),
        ("dedupe: {exclude: [look]}", {"at": "x"}, {"at": "x"}),
        ("dedupe: {min_tokens: 1000}", {"at": "x"}, {"at": "x"}),
        ("dedupe: {horizon_calls: 0}", {"at": "x"}, {"at": "x"}),
    ],
)
async def test_other_arguments_short_results_and_excluded_tools_stay(
    tmp_path: Path, yaml: str, first: dict[str, object], second: dict[str, object]
) -> None:
    answers = [calling(call("look", "c1", **first)), calling(call("look", "c2", **second))]
    spoken = await talk(tmp_path, f"middlewares: [{yaml}]\n", *answers, "done")
    assert spoken.last == spoken.history[:-1]


async def test_a_result_that_cannot_be_had_again_stays(tmp_path: Path) -> None:
    answers = [calling(call("give", f"c{step}", lines=200)) for step in range(2)]
    spoken = await talk(tmp_path, "middlewares: [dedupe]\n", *answers, "done")
    assert spoken.last == spoken.history[:-1]


async def test_a_copy_far_behind_the_cached_prefix_stays_until_the_window_fills(tmp_path: Path) -> None:
    yaml = WINDOW + "middlewares: [dedupe]\n"
    answers = [
        calling(call("look", "c1", at="x")),
        *(calling(call("give", f"g{step}", lines=200, name=str(step))) for step in range(5)),
        calling(call("look", "c2", at="x")),
        *(calling(call("give", f"h{step}", lines=200, name=str(step))) for step in range(12)),
    ]
    spoken = await talk(tmp_path, yaml, *answers, "done")
    pointed = ["called again later" in texts(list(request.messages))[2] for request in spoken.requests[1:]]
    first = pointed.index(True)
    assert first > 7
    assert all(pointed[first:])
    assert moved_prefixes(spoken.requests) == 1


async def test_many_copies_change_the_prefix_seldom(tmp_path: Path) -> None:
    answers = [calling(call("look", f"c{step}", at=f"place{step % 4}")) for step in range(40)]
    spoken = await talk(tmp_path, "middlewares: [dedupe]\n", *answers, "done")
    pointers = sum("called again later" in text for text in texts(spoken.last))
    assert pointers >= 20
    assert moved_prefixes(spoken.requests) <= pointers
    assert_paired(spoken.last)


def test_sizes_and_tools_that_cannot_be_are_errors_at_load(tmp_path: Path) -> None:
    for option, code in (("trigger: {tokens: 30000}", "wrong-size"), ("exclude: [lok]", "unknown-tool")):
        config = write_agent(
            tmp_path, f"{WINDOW}middlewares: [dedupe: {{{option}}}]\n", plugin=GIVING, tools="[giving]"
        )
        with pytest.raises(ConfigError) as raised:
            _ = Agent.from_config(config, directory=tmp_path).plan
        assert [each.code for each in raised.value.diagnostics] == [code]
