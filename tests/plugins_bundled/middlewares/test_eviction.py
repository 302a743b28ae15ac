"""Eviction of large tool results (SPEC section 7): on arrival, by tokens, to a file, with a preview."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import assert_paired, call, calling, write_agent
from tests.support.policies import GIVING, moved_prefixes, talk, texts
from zeus_runtime import Agent, ConfigError
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin.counter import counter_for

SMALL = "profiles: {models: {gpt-4o: {max_input_tokens: 4000, max_output_tokens: 1}}}\n"


def kept(folder: Path, call_id: str) -> str:
    return (folder / ".zeus/large_tool_results" / call_id).read_text()


async def test_more_than_twenty_thousand_tokens_go_to_large_tool_results_with_a_preview_of_ten_lines(
    tmp_path: Path,
) -> None:
    spoken = await talk(
        tmp_path, "middlewares: [eviction]\n", calling(call("give", "call_7", lines=8_000)), "done"
    )
    shown = texts(spoken.last)[-1]
    whole = str(spoken.history[2].content)
    assert kept(tmp_path, "call_7") == whole
    head, *preview = shown.splitlines()
    assert preview == whole.splitlines()[:10]
    assert "/large_tool_results/call_7" in head
    assert "8,000 lines" in head


async def test_twenty_thousand_tokens_and_less_stay(tmp_path: Path) -> None:
    spoken = await talk(
        tmp_path, "middlewares: [eviction]\n", calling(call("give", "c", lines=4_000)), "done"
    )
    assert spoken.last == spoken.history[:-1]
    assert not (tmp_path / ".zeus/large_tool_results").exists()


async def test_it_counts_tokens_not_characters(tmp_path: Path) -> None:
    yaml = "middlewares: [eviction: {max_tokens: 600}]\n"
    answer = calling(
        call("give", "latin", lines=10, text="the same word and again " * 4),
        call("give", "chinese", lines=10, text="龘靐齉爩鱻麤龗灪吁" * 10),
    )
    latin, chinese = texts((await talk(tmp_path, yaml, answer, "done")).last)[-2:]
    assert len(latin) > len(chinese.partition("]\n")[2])
    assert "/large_tool_results/" not in latin
    assert "/large_tool_results/chinese" in chinese


@pytest.mark.parametrize(("fraction", "whole"), [(0.04, False), (0.25, True)])
async def test_a_limit_is_never_more_than_a_share_of_the_window(
    tmp_path: Path, fraction: float, whole: bool
) -> None:
    yaml = f"middlewares: [eviction: {{max_tokens: 20000, max_fraction: {fraction}}}]\n" + SMALL
    spoken = await talk(tmp_path, yaml, calling(call("give", "c", lines=120)), "done")
    assert ("/large_tool_results/" not in texts(spoken.last)[-1]) is whole


@pytest.mark.parametrize("text", ["龘靐齉爩鱻麤龗灪吁", "aGVsbG8gd29ybGQgMTIz", "the same word and again "])
async def test_a_preview_takes_a_quarter_of_the_limit_at_most_whatever_the_text(
    tmp_path: Path, text: str
) -> None:
    yaml = "middlewares: [eviction: {max_tokens: 1000}]\n"
    spoken = await talk(tmp_path, yaml, calling(call("give", "c", lines=40, text=text * 40)), "done")
    head, _, preview = texts(spoken.last)[-1].partition("]\n")
    assert "/large_tool_results/c" in head
    assert 60 < counter_for(lookup("gpt-4o")).text(preview) <= 250 + 20


async def test_null_turns_it_off(tmp_path: Path) -> None:
    yaml = "middlewares: [eviction: {max_tokens: null}]\n"
    spoken = await talk(tmp_path, yaml, calling(call("give", "c", lines=8_000)), "done")
    assert spoken.last == spoken.history[:-1]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ls", {}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "word"}),
        ("read_file", {"path": "/long.txt"}),
        ("write_file", {"path": "/new.txt", "content": "x"}),
        ("edit_file", {"path": "/long.txt", "old": "word 1\n", "new": "word\n"}),
        ("write_todos", {"todos": [{"content": "think " * 20, "status": "pending"}]}),
    ],
)
async def test_never_for_tools_that_page_by_themselves(
    tmp_path: Path, name: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "long.txt").write_text("".join(f"word {number}\n" for number in range(1, 400)))
    yaml = "middlewares: [eviction: {max_tokens: 1}]\n"
    answer = calling(call(name, "c", **arguments), call("give", "other", lines=200))
    spoken = await talk(tmp_path, yaml, answer, "done", tools="[giving, filesystem, todos]")
    assert spoken.last[-2] == spoken.history[2]
    assert "/large_tool_results/other" in texts(spoken.last)[-1]


async def test_a_tool_can_have_a_limit_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"word {number}\n" for number in range(1, 400)))
    yaml = "middlewares: [eviction: {max_tokens: 100, tools: {give: null, read_file: 200}}]\n"
    answer = calling(
        call("give", "a", lines=500), call("read_file", "b", path="/long.txt"), call("look", "c", at="x")
    )
    a, b, c = texts((await talk(tmp_path, yaml, answer, "done")).last)[-3:]
    assert ["/large_tool_results/" in each for each in (a, b, c)] == [False, True, True]


async def test_a_users_message_goes_to_a_file_too(tmp_path: Path) -> None:
    prompt = "\n".join(f"row {number}" for number in range(1_000))
    yaml = "middlewares: [eviction: {max_user_tokens: 500}]\n"
    spoken = await talk(tmp_path, yaml, "done", prompts=[prompt])
    (shown,) = texts(spoken.last)
    assert shown.startswith("[The user's message has ")
    assert shown.splitlines()[1] == "row 0"
    assert [path.read_text() for path in (tmp_path / ".zeus/large_tool_results").iterdir()] == [prompt]
    assert spoken.history[0].content == prompt


async def test_preview_options_bound_what_is_shown(tmp_path: Path) -> None:
    yaml = "middlewares: [eviction: {max_tokens: 300, preview_lines: 2, preview_line_chars: 20}]\n"
    answer = calling(call("give", "c", lines=9, text="x " * 300))
    shown = texts((await talk(tmp_path, yaml, answer, "done")).last)[-1]
    _, *preview = shown.splitlines()
    assert preview == ["x " * 10 + "... [the line has 602 characters]"] * 2


async def test_it_is_decided_once_before_the_first_call_so_the_prefix_never_moves(tmp_path: Path) -> None:
    yaml = "middlewares: [eviction: {max_tokens: 300}]\n"
    answers = [calling(call("give", f"c{step}", lines=50 * step)) for step in range(1, 13)]
    spoken = await talk(tmp_path, yaml, *answers, "one", "two", prompts=["go", "again"])
    assert moved_prefixes(spoken.requests) == 0
    assert sum("/large_tool_results/" in text for text in texts(spoken.last)) >= 8
    assert_paired(spoken.last)


async def test_a_tool_that_is_never_evicted_is_when_the_request_would_not_fit(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"word {number}\n" for number in range(1, 900)))
    yaml = SMALL + "middlewares: [eviction]\n"
    answer = calling(call("read_file", "c", path="/long.txt"))
    spoken = await talk(tmp_path, yaml, answer, "done")
    assert "/large_tool_results/c" in texts(spoken.last)[-1]
    assert kept(tmp_path, "c") == spoken.history[2].content


async def test_two_results_under_one_id_are_both_kept(tmp_path: Path) -> None:
    yaml = "middlewares: [eviction: {max_tokens: 100}]\n"
    answers = [calling(call("give", "same", lines=lines)) for lines in (200, 300)]
    spoken = await talk(tmp_path, yaml, answers[0], "one", answers[1], "two", prompts=["go", "again"])
    first, second = (str(message.content) for message in spoken.history if message.type == "tool")
    stored = {path.read_text() for path in (tmp_path / ".zeus/large_tool_results").iterdir()}
    assert stored == {first, second}


def problems(tmp_path: Path, options: str) -> list[tuple[str, int | None, str | None]]:
    yaml = f"{SMALL}middlewares:\n  - eviction:\n      {options}\n"
    config = write_agent(tmp_path, yaml, plugin=GIVING, tools="[giving]")
    try:
        _ = Agent.from_config(config, directory=tmp_path).plan
    except ConfigError as error:
        return [
            (each.code, each.position.line if each.position else None, each.hint)
            for each in error.diagnostics
        ]
    return []


def test_an_unknown_tool_in_an_exclusion_is_an_error_at_load(tmp_path: Path) -> None:
    assert problems(tmp_path, "exclude: [ls, giv]") == [("unknown-tool", 9, "did you mean 'give'?")]
    assert [code for code, _, _ in problems(tmp_path, "tools: {gife: 5}")] == ["unknown-tool"]
    assert problems(tmp_path, "exclude: [ls, write_todos, give]") == []


def test_a_threshold_above_the_input_limit_is_an_error_at_load(tmp_path: Path) -> None:
    for options in ("max_tokens: 4001", "max_user_tokens: 4001", "tools: {give: 4001}"):
        assert [(code, line) for code, line, _ in problems(tmp_path, options)] == [("above-window", 9)]
    assert problems(tmp_path, "max_tokens: 4000") == []


@pytest.mark.parametrize(("limits", "whole"), [("", True), (", tools: {recall: 100}", False)])
async def test_a_page_of_recall_is_not_evicted_again_unless_it_is_named(
    tmp_path: Path, limits: str, whole: bool
) -> None:
    yaml = f"middlewares: [recall, eviction: {{max_tokens: 100, exclude: []{limits}}}]\n"
    spoken = await talk(
        tmp_path,
        yaml,
        calling(call("give", "big", lines=300)),
        calling(call("recall", "r1", item="/large_tool_results/big")),
        "done",
    )
    assert (str(spoken.history[2].content) in texts(spoken.last)[-1]) == whole
