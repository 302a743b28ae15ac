"""Which older copies pay to be replaced: weighed at the provider's prices, together with all behind them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from zeus_plugins.middlewares.dedupe.copies import Copy, Readings, paying

from zeus_runtime.context import fold
from zeus_runtime.plugin.context import View, arrivals
from zeus_runtime.plugin.tool import Tool

POINTER = 10


async def _nothing() -> str:
    return ""


TOOLS = {
    name: Tool(name, "", {"type": "object"}, _nothing, access=access, paths=frozenset(paths))
    for name, access, paths in (
        ("read_file", "read", ()),
        ("ask", "read", ()),
        ("edit_file", "write", ()),
        ("note", "write", ("subject",)),
    )
}


def reading(
    number: int, text: str, tool: str = "read_file", status: Any = "success", **arguments: Any
) -> list[BaseMessage]:
    call = {"name": tool, "args": arguments or {"path": "/a"}, "id": f"c{number}", "type": "tool_call"}
    return [
        AIMessage("", tool_calls=[call]),  # type: ignore[list-item]
        ToolMessage(text, tool_call_id=f"c{number}", name=tool, status=status),
    ]


def view_of(*messages: BaseMessage) -> View:
    return fold(messages, [], replayable=["read_file"])


def copies(*messages: BaseMessage) -> list[tuple[int, int]]:
    return [(copy.seq, copy.newer) for copy in Readings(TOOLS).take(arrivals(view_of(*messages), 0))]


def test_the_same_call_makes_the_older_result_a_copy() -> None:
    assert copies(*reading(1, "x"), *reading(2, "y"), *reading(3, "z")) == [(2, 4), (4, 6)]


def test_other_arguments_other_tools_and_failures_do_not() -> None:
    assert copies(*reading(1, "x"), *reading(2, "x", path="/b")) == []
    assert copies(*reading(1, "x", tool="ask"), *reading(2, "x", tool="ask")) == []
    assert copies(*reading(1, "x"), *reading(2, "gone", status="error"), *reading(3, "x")) == [(2, 6)]


def changed(*messages: BaseMessage) -> list[tuple[int, int, str, str]]:
    found = Readings(TOOLS).take(arrivals(view_of(*messages), 0))
    return [(copy.seq, copy.newer, copy.changed, copy.changed_by) for copy in found]


def test_a_change_of_a_file_supersedes_all_results_that_had_read_it() -> None:
    read = (*reading(1, "x", path="a.txt"), *reading(2, "y", path="/b/../a.txt", offset=9), *reading(3, "z"))
    edit = reading(4, "done", tool="edit_file", file_path="/a.txt")
    assert changed(*read, *edit) == [(2, 8, "/a.txt", "edit_file"), (4, 8, "/a.txt", "edit_file")]
    again = reading(5, "w", path="/a.txt")
    assert changed(*read, *edit, *again) == changed(*read, *edit), "what is read later is not out of date"
    assert changed(*reading(1, "x", path="a.txt"), *reading(2, "done", tool="note", subject="a.txt"))


def test_failed_changes_reads_and_unknown_tools_supersede_no_read() -> None:
    read = reading(1, "x", path="/a.txt")
    assert changed(*read, *reading(2, "no", tool="edit_file", status="error", path="/a.txt")) == []
    assert changed(*read, *reading(2, "no", tool="ask", path="/a.txt")) == []
    assert changed(*read, *reading(2, "done", tool="patch", path="/a.txt")) == []
    assert changed(*read, *reading(2, "done", tool="edit_file", words="/a.txt")) == []


def test_the_order_of_arguments_does_not_matter() -> None:
    assert copies(*reading(1, "x", a=1, b=2), *reading(2, "x", b=2, a=1)) == [(2, 4)]


def weigh(view: View, found: list[Copy], horizon: int, read: float = 0.1, write: float = 1.0) -> list[int]:
    chosen = paying(found, view, pointer_tokens=POINTER, horizon_calls=horizon, prices=(read, write))
    return [copy.seq for copy in chosen]


def long_ago(behind: int) -> tuple[View, list[Copy]]:
    """A copy of 1,000 tokens with so many tokens behind it."""
    view = view_of(*reading(1, "x" * 4_000), HumanMessage("y" * 4 * behind), *reading(2, "x" * 4_000))
    return view, list(Readings(TOOLS).take(arrivals(view, 0)))


def test_a_copy_with_little_behind_it_goes_and_one_with_much_stays() -> None:
    assert weigh(*long_ago(100), 20) == [2]
    assert weigh(*long_ago(50_000), 20) == []
    assert weigh(*long_ago(50_000), 1_000) == [2]


def test_without_a_cache_price_every_copy_pays() -> None:
    assert weigh(*long_ago(50_000), 1, read=1.0) == [2]


def test_without_a_horizon_none_does() -> None:
    assert weigh(*long_ago(100), 0) == []


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4_000)), max_size=12), st.integers(0, 60))
def test_what_is_chosen_are_the_newest_and_saves_more_than_it_costs(
    sizes: list[tuple[int, int]], horizon: int
) -> None:
    messages = [
        message
        for number, (file, size) in enumerate(sizes)
        for message in reading(number, "x" * size, path=f"/{file}")
    ]
    view = view_of(*messages)
    found = list(Readings(TOOLS).take(arrivals(view, 0)))
    chosen = weigh(view, found, horizon)
    newest = sorted(copy.seq for copy in found)
    assert chosen == newest[len(newest) - len(chosen) :]
    if chosen:
        saved = sum(copy.tokens - POINTER for copy in found if copy.seq in chosen)
        behind = sum(item.tokens for item in view.items() if item.seq > chosen[0])
        rewritten = behind - sum(copy.tokens - POINTER for copy in found if copy.seq in chosen[1:])
        assert saved * 0.1 * horizon > max(0, rewritten) * 0.9
