"""Recall: what left the window can be searched and read, naming message, date and source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.support.agents import call, calling
from tests.support.policies import Talk, talk, texts

DROPPING = "middlewares: [recall{options}, history: {{max_messages: 2, chunk: 2}}]\n"


async def asked(folder: Path, options: str = "", turns: int = 6, **question: Any) -> tuple[str, Talk]:
    """What recall answers after a conversation of which little is left."""
    yaml = DROPPING.format(options=f": {{{options}}}" if options else "")
    prompts = [f"the secret of room {turn} is number {turn * 111}" for turn in range(1, turns)]
    answers = [f"noted room {turn}" for turn in range(1, turns)]
    spoken = await talk(
        folder,
        yaml,
        *answers,
        calling(call("recall", "r", **question)),
        "done",
        prompts=[*prompts, "what was it"],
    )
    (result,) = (message for message in spoken.history if message.type == "tool")
    return str(result.content), spoken


async def test_what_left_the_window_is_found_with_message_date_and_source(tmp_path: Path) -> None:
    answer, spoken = await asked(tmp_path, query="secret of room 2")
    assert not any("number 222" in text for text in texts(spoken.last) if "outside the window" not in text)
    first = answer.split("\n\n")[1]
    assert re.match(
        r"#3 · \d{4}-\d\d-\d\d \d\d:\d\d UTC · user · left the window · 34 characters\n"
        r"the secret of room 2 is number 222$",
        first,
    )


async def test_what_is_in_the_window_is_not_found(tmp_path: Path) -> None:
    answer, _ = await asked(tmp_path, query="what was it")
    assert "#11 " not in answer


async def test_the_same_question_gives_the_same_answer_page_by_page(tmp_path: Path) -> None:
    one, _ = await asked(tmp_path / "a", "results_per_page: 3", query="room")
    two, _ = await asked(tmp_path / "b", "results_per_page: 3", query="room")
    undated = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", each) for each in (one, two)]
    assert undated[0] == undated[1]
    assert len(re.findall(r"^#\d+", one, re.MULTILINE)) == 3
    assert "page 1 of 3; continue with page=2" in one
    third, _ = await asked(tmp_path / "c", "results_per_page: 3", query="room", page=3)
    assert len(re.findall(r"^#\d+", third, re.MULTILINE)) == 2


async def test_without_words_everything_that_left_is_listed_oldest_first(tmp_path: Path) -> None:
    answer, _ = await asked(tmp_path)
    assert [int(seq) for seq in re.findall(r"^#(\d+)", answer, re.MULTILINE)] == list(range(1, 9))


async def test_it_says_when_nothing_is_found(tmp_path: Path) -> None:
    answer, _ = await asked(tmp_path, query="zzz")
    assert answer == "There is nothing outside the window that has 'zzz'."


async def test_the_path_of_the_history_file_lists_everything_too(tmp_path: Path) -> None:
    _, spoken = await asked(tmp_path)
    listed = await talk(
        tmp_path,
        DROPPING.format(options=""),
        calling(call("recall", "again", item=f"/conversation_history/{spoken.session}.md")),
        "done",
        prompts=["and now"],
        session=spoken.session,
    )
    answer = texts(listed.last)[-1]
    assert [int(seq) for seq in re.findall(r"^#(\d+)", answer, re.MULTILINE)] == list(range(1, 9))


async def test_an_item_is_read_whole_by_pages(tmp_path: Path) -> None:
    answer, _ = await asked(tmp_path, item="#1")
    assert answer.endswith("\n\nthe secret of room 1 is number 111")
    answer, _ = await asked(tmp_path / "missing", item="99")
    assert answer == "There is no message 99; the last is 11."
    # Python reads no number of more than 4,300 digits.
    answer, _ = await asked(tmp_path / "long", item="9" * 5000)
    assert answer.startswith("Nothing of this conversation is kept under")


async def test_an_evicted_result_is_read_by_the_path_the_notice_names(tmp_path: Path) -> None:
    yaml = "middlewares: [recall: {page_chars: 500}, eviction: {max_tokens: 100}]\n"
    spoken = await talk(
        tmp_path,
        yaml,
        calling(call("give", "big", lines=300)),
        calling(call("recall", "r1", item="/large_tool_results/big", page=2)),
        calling(call("recall", "r2", item="/large_tool_results/bi")),
        calling(call("recall", "r3", query="line 299")),
        "done",
    )
    whole = str(spoken.history[2].content)
    page, missing, found = (str(m.content) for m in spoken.history if m.name == "recall")  # type: ignore[union-attr]
    assert page.partition("\n\n")[2] == whole[500:1000]
    assert "Nothing of this conversation is kept under" in missing
    assert "line 299" in found
    assert "tool give · shown shortened" in found


async def test_a_cut_argument_is_read_by_its_path(tmp_path: Path) -> None:
    body = "the hull is of oak. " * 200
    yaml = "middlewares: [recall, truncation: {trigger: {messages: 4}, keep: {messages: 2}, min_saving_tokens: 0}]\n"
    spoken = await talk(
        tmp_path,
        yaml,
        calling(call("store", "s1", name="ship", body=body)),
        calling(call("look", "l1", at="x", lines=1)),
        calling(call("look", "l2", at="x", lines=1)),
        calling(call("recall", "r1", item="/large_tool_results/s1.arguments.json.body")),
        "done",
    )
    (answer,) = (str(m.content) for m in spoken.history if m.name == "recall")  # type: ignore[union-attr]
    assert f"body: {body}" in answer


async def test_what_recall_itself_said_is_not_found_again(tmp_path: Path) -> None:
    yaml = DROPPING.format(options="")
    spoken = await talk(
        tmp_path,
        yaml,
        "a",
        calling(call("recall", "r1", query="zebra")),
        "b",
        "c",
        "d",
        calling(call("recall", "r2", query="zebra")),
        "e",
        prompts=["zebra crossing", "two", "three", "four", "five"],
    )
    answers = [str(m.content) for m in spoken.history if m.name == "recall"]  # type: ignore[union-attr]
    assert answers[-1].startswith("1 outside the window")


async def test_before_anything_left_it_says_so(tmp_path: Path) -> None:
    spoken = await talk(tmp_path, "middlewares: [recall]\n", calling(call("recall", "r")), "done")
    assert texts(spoken.last)[-1] == "There is nothing outside the window."
