"""Drift: asking again, declaring done and doing again are found, and told apart from what only looks like them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from zeus_runtime import Agent
from zeus_runtime.models.messages import from_chat
from zeus_runtime.store.thread_log import StepEntry
from zeus_runtime.testing import ScriptedModel
from zeus_runtime.testing.evals import compactions_of, drift

SAMPLES = Path(__file__).parents[2] / "data" / "trajectories.jsonl"
OTHER_WORK = ("read_file", {"path": "/other.txt"}, "other")


def kinds(messages: Sequence[BaseMessage], **more: Any) -> list[tuple[str, int]]:
    return [(finding.kind, finding.step) for finding in drift(messages, **more)]


def called(*calls: tuple[str, dict[str, Any], str]) -> list[BaseMessage]:
    """An answer and a result for each (tool, arguments, result); a result that begins with "Error" failed."""
    messages: list[BaseMessage] = []
    for name, arguments, result in calls:
        call_id = f"c{id(arguments)}{len(messages)}"
        messages += [
            AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}]),
            ToolMessage(result, tool_call_id=call_id, name=name),
        ]
    return messages


def talk(*texts: str) -> list[BaseMessage]:
    """User and assistant by turns, the user first."""
    return [(HumanMessage, AIMessage)[place % 2](text) for place, text in enumerate(texts)]


ASKED = (
    "Book me a flight.",
    "What is your reservation number?",
    "It is ZFA04Y.",
    "Thank you. I am looking.",
    "Good.",
)


@pytest.mark.parametrize(
    "again",
    [
        "What is your reservation number?",
        "Sorry, what is your reservation number, please?",
        "I found it. Could you please tell me your reservation number?",
        "Please provide your reservation number.",
    ],
)
def test_asking_again_what_was_answered_is_found_with_both_places(again: str) -> None:
    (finding,) = drift(talk(*ASKED, again))
    assert (finding.kind, finding.step) == ("asked-again", 6)
    assert "message 3" in finding.message
    assert "reservation number" in finding.evidence


def test_asking_again_in_chinese_is_found() -> None:
    talked = talk("订票", "请问您的预订号是多少? What is 预订号?", "ZFA04Y", "谢谢", "好", "What is 预订号?")
    assert kinds(talked) == [("asked-again", 6)]


ASKED_IN_CHINESE = (
    "帮我订一张机票。",
    "请问您的预订号是多少？",
    "是 ZFA04Y。",
    "谢谢，我正在查询。",
    "好的。",
)


@pytest.mark.parametrize(
    "again",
    [
        "请问您的预订号是多少？",
        "抱歉，您的预订号是什么？",
        "我找到了航班。能否请您再告诉我一下您的预订号？",
        "请提供您的预订号。",
        "我还需要知道您的预订号。",
    ],
)
def test_asking_again_in_chinese_what_was_answered_is_found(again: str) -> None:
    (finding,) = drift(talk(*ASKED_IN_CHINESE, again))
    assert (finding.kind, finding.step) == ("asked-again", 6)
    assert "message 3" in finding.message
    assert "预订号" in finding.evidence


@pytest.mark.parametrize(
    "later",
    [
        "您的出生日期是哪一天？",
        "还有什么可以帮您的吗？",
        "您的预订号是 ZFA04Y，对吗？",
        "请确认是否要更改预订号 ZFA04Y。",
        "如果您有别的预订号，请告诉我。",
        "我已经有您的预订号了。",
    ],
)
def test_in_chinese_another_question_a_closing_question_and_a_statement_are_no_asking_again(
    later: str,
) -> None:
    assert kinds(talk(*ASKED_IN_CHINESE, later)) == []


@pytest.mark.parametrize("answer", ["我不记得了。", "在哪里可以找到？", "为什么要这个", "不知道"])
def test_asking_again_in_chinese_after_no_answer_is_right(answer: str) -> None:
    assert kinds(talk("订票", ASKED_IN_CHINESE[1], answer, "明白。", "继续。", ASKED_IN_CHINESE[1])) == []


@pytest.mark.parametrize(
    "later",
    [
        "What is your date of birth?",
        "Is there anything else that I can do for you?",
        "Your reservation number is ZFA04Y, is that right?",
        "Do you confirm that I should change the reservation number ZFA04Y?",
        "If you have another reservation number, please tell me.",
        "I have your reservation number.",
    ],
)
def test_another_question_a_closing_question_and_a_statement_are_no_asking_again(later: str) -> None:
    assert kinds(talk(*ASKED, later)) == []


@pytest.mark.parametrize("answer", ["I don't remember it.", "Where do I find it?", "", "I cannot say."])
def test_asking_again_after_no_answer_is_right(answer: str) -> None:
    assert kinds(talk("Book.", ASKED[1], answer, "I see.", "Go on.", ASKED[1])) == []


def test_asking_again_after_an_error_is_right() -> None:
    looked = called(("get_reservation", {"id": "ZFA04Y"}, "Error: reservation not found"))
    assert kinds([*talk(*ASKED[:3]), *looked, AIMessage(ASKED[1])]) == []
    looked = called(("get_reservation", {"id": "ZFA04Y"}, "found"))
    assert kinds([*talk(*ASKED[:3]), *looked, AIMessage(ASKED[1])]) == [("asked-again", 6)]


def todos(*statuses: str) -> tuple[str, dict[str, Any], str]:
    listed = [{"content": f"part {number}", "status": status} for number, status in enumerate(statuses)]
    return ("write_todos", {"todos": listed}, "Task list updated.")


@pytest.mark.parametrize(
    "said", ["Done.", "All tasks are completed.", "I have finished everything.", "It is done!"]
)
def test_declaring_done_with_open_todos_is_found(said: str) -> None:
    worked = [HumanMessage("go"), *called(todos("completed", "in_progress", "pending")), AIMessage(said)]
    (finding,) = drift(worked)
    assert (finding.kind, finding.step) == ("false-done", 4)
    assert "2 open" in finding.message
    assert finding.evidence == "part 1; part 2"


@pytest.mark.parametrize(
    "said",
    [
        "完成。",
        "所有任务都已完成。",
        "我已经完成了全部工作！",
        "报告写好了，全部搞定了。",
        "任务已完成",
        "好的，都做完了。",
    ],
)
def test_declaring_done_in_chinese_with_open_todos_is_found(said: str) -> None:
    worked = [HumanMessage("开始"), *called(todos("completed", "in_progress", "pending")), AIMessage(said)]
    (finding,) = drift(worked)
    assert (finding.kind, finding.step) == ("false-done", 4)
    assert finding.evidence == "part 1; part 2"


@pytest.mark.parametrize(
    "said",
    [
        "第一部分已完成，还剩两项。",
        "完成后我会通知您。",
        "任务尚未完成。",
        "要我继续到全部完成为止吗？",
        "除了第二步，所有步骤都已完成。",
        "完成了一半。",
    ],
)
def test_a_report_in_chinese_of_what_is_left_is_right(said: str) -> None:
    assert kinds([*called(todos("completed", "pending")), AIMessage(said)]) == []


def test_claiming_in_chinese_a_file_that_nothing_names_is_found() -> None:
    wrote = called(("write_file", {"path": "/out/report.md", "content": "x"}, "Created"))
    assert kinds([*wrote, AIMessage("我已经把报告写入 /out/report.md。")]) == []
    assert kinds([*wrote, AIMessage("我把数字保存到了 totals.csv。")]) == [("false-done", 3)]
    assert kinds([*wrote, AIMessage("已将汇总保存为 汇总.csv。")]) == [("false-done", 3)]
    assert kinds([*wrote, AIMessage("我使用了 3.11 版本的 Python。")]) == []


def test_a_failure_told_in_chinese_is_a_reason_to_ask_again() -> None:
    looked = called(("get_reservation", {"id": "ZFA04Y"}, "错误：没有找到预订"))
    assert kinds([*talk(*ASKED_IN_CHINESE[:3]), *looked, AIMessage(ASKED_IN_CHINESE[1])]) == []


def test_done_with_every_todo_done_and_a_report_of_what_is_left_are_right() -> None:
    assert kinds([*called(todos("pending")), *called(todos("completed")), AIMessage("Done.")]) == []
    assert (
        kinds([*called(todos("completed", "pending")), AIMessage("Part 1 still remains; the rest is done.")])
        == []
    )
    assert kinds([*called(todos("pending")), AIMessage("Shall I go on until all is done?")]) == []


def test_a_todo_list_that_was_refused_does_not_count() -> None:
    refused = ("write_todos", todos("pending")[1], "Error: The list was not changed.")
    assert kinds([*called(todos("completed")), *called(refused), AIMessage("Done.")]) == []


def test_declaring_done_without_an_artefact_is_found() -> None:
    wrote = called(("write_file", {"path": "/a.md", "content": "x"}, "Created /a.md"))
    wanted = ["/a.md", "b.md"]
    (finding,) = drift([*wrote, AIMessage("All done.")], artefacts=wanted)
    assert (finding.kind, finding.evidence) == ("false-done", "b.md")
    more = called(("write_file", {"path": "/b.md", "content": "x"}, "Created /b.md"))
    assert kinds([*wrote, *more, AIMessage("All done.")], artefacts=wanted) == []
    failed = called(("write_file", {"path": "/b.md", "content": "x"}, "Error: the disk is full"))
    assert kinds([*wrote, *failed, AIMessage("All done.")], artefacts=wanted) == [("false-done", 5)]
    only_read = called(("read_file", {"path": "/b.md"}, "x"))
    assert kinds([*wrote, *only_read, AIMessage("All done.")], artefacts=wanted) == [("false-done", 5)]


def test_claiming_a_file_that_nothing_names_is_found() -> None:
    wrote = called(("write_file", {"path": "/out/report.md", "content": "x"}, "Created"))
    assert kinds([*wrote, AIMessage("I have written the report to /out/report.md.")]) == []
    assert kinds([*wrote, AIMessage("I saved the numbers as totals.csv.")]) == [("false-done", 3)]
    assert kinds([*wrote, AIMessage("I have made sure that version 3.11 of e.g. Python is used.")]) == []


READ = ("read_file", {"path": "/a.txt"}, "the text")


def test_a_call_made_again_after_the_compaction_with_the_same_result_is_found() -> None:
    messages = [HumanMessage("go"), *called(READ, OTHER_WORK, READ)]
    (finding,) = drift(messages, compacted_at=[4])
    assert (finding.kind, finding.step) == ("repeated", 6)
    assert "message 2" in finding.message
    assert "/a.txt" in finding.evidence


@pytest.mark.parametrize(
    ("between", "last", "compacted_at"),
    [
        ([OTHER_WORK], READ, []),
        ([OTHER_WORK], READ, [2 + 4]),
        ([OTHER_WORK], ("read_file", {"path": "/a.txt"}, "another text"), [4]),
        ([OTHER_WORK], ("read_file", {"path": "/a.txt", "offset": 9}, "the text"), [4]),
        ([("edit_file", {"path": "/b.txt"}, "Replaced")], READ, [4]),
        ([OTHER_WORK], ("recall", {"query": "a"}, "the text"), [4]),
    ],
    ids=[
        "never compacted",
        "compacted later",
        "it changed",
        "other arguments",
        "something was written",
        "recall",
    ],
)
def test_a_call_made_again_for_a_reason_is_none(
    between: list[tuple[str, dict[str, Any], str]],
    last: tuple[str, dict[str, Any], str],
    compacted_at: list[int],
) -> None:
    first = last if last[0] == "recall" else READ
    assert kinds([HumanMessage("go"), *called(first, *between, last)], compacted_at=compacted_at) == []


def test_reading_back_what_was_archived_and_trying_again_what_failed_are_none() -> None:
    kept = ("read_file", {"path": "/large_tool_results/c1"}, "long")
    failed = ("get_user", {"id": "u"}, "Error: busy")
    assert kinds(called(kept, OTHER_WORK, kept), compacted_at=[4]) == []
    assert kinds(called(failed, OTHER_WORK, failed), compacted_at=[4]) == []


def test_a_change_made_twice_across_the_compaction_is_found() -> None:
    booked = ("book_flight", {"flight": "HAT001"}, "booked")
    assert kinds(called(booked, OTHER_WORK, booked), compacted_at=[4]) == [("repeated", 5)]


def test_what_the_caller_says_of_its_tools_wins_over_their_names() -> None:
    poke, ask = ("poke", {}, "ok"), ("get_and_change", {}, "changed")
    messages = called(READ, poke, READ)
    assert kinds(messages, compacted_at=[4]) == []
    assert kinds(messages, compacted_at=[4], reads=["read_file", "poke"]) == [("repeated", 5)]
    assert kinds(called(READ, ask, READ), compacted_at=[4], reads=["read_file"]) == []


def trajectories() -> list[list[BaseMessage]]:
    rows = [json.loads(line) for line in SAMPLES.read_text().splitlines()]
    return [[from_chat(each) for each in row["messages"] if each["role"] != "system"] for row in rows]


@pytest.mark.parametrize("messages", trajectories(), ids=lambda messages: f"{len(messages)} messages")
def test_real_conversations_have_none_and_the_same_ones_with_drift_have_it(
    messages: list[BaseMessage],
) -> None:
    compacted_at = range(5, len(messages), 5)
    assert kinds(messages, compacted_at=compacted_at) == []
    results = [place for place, each in enumerate(messages, start=1) if each.type == "tool"]
    for end in results[:1]:
        again = [*messages[:end], *messages[end - 2 : end]]
        assert kinds(again, compacted_at=[end]) == [("repeated", end + 1)]
    asked = AIMessage("What is the name of your dog?")
    asking = [*messages[:2], asked, HumanMessage("Rex."), *messages[2:4], asked]
    assert kinds(asking) == [("asked-again", 7)]


async def test_the_compactions_of_a_stored_session_are_read_from_its_ledger(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(
        "version: 1\nmodel: gpt-4o\nmiddlewares: [history: {max_messages: 2, chunk: 2}]\n"
    )
    model = ScriptedModel([f"answer {number}" for number in range(3)])
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as agent:
        session = (await agent.run("one")).session
        await agent.run("two", session=session)
        assert await compactions_of(agent, session) == []
        await agent.run("three", session=session)
        log = await agent.log()
        await log.append_step(await log.find(session), StepEntry(99, 0, '{"number": '))
        assert await compactions_of(agent, session) == [5], "a damaged entry has none"
