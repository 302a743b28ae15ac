"""The laws are told apart from what breaks them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.agents import call
from zeus_runtime.context import Archive, DropBefore, Edit, fold
from zeus_runtime.plugin.context import Evict, Pin, TruncateArguments
from zeus_runtime.plugin.files import WorkspaceFiles
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.testing.evals import EvaluationFinding
from zeus_runtime.testing.evals.laws import compactions, orphans, paths_in, pins, recoverable
from zeus_runtime.testing.evals.needle import but_for_room
from zeus_runtime.testing.evals.provider import Sent

LONG = "a long text\nof two lines"
HISTORY: list[BaseMessage] = [
    HumanMessage("goal"),
    AIMessage("", tool_calls=[call("store", "c1", body=LONG)]),
    ToolMessage("stored " + LONG, tool_call_id="c1", name="store"),
    AIMessage("done"),
    HumanMessage("and now?"),
]


def sent(messages: list[BaseMessage] | object) -> Sent:
    return Sent(ModelRequest("system", messages), 10)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    routes = {name: tmp_path / name.strip("/") for name in ("/large_tool_results/", "/conversation_history/")}
    return WorkspaceFiles(tmp_path, routes)


def test_a_call_without_result_and_a_result_without_call_are_orphans() -> None:
    assert list(orphans(HISTORY)) == []
    assert [finding.evidence for finding in orphans([*HISTORY[:2], HISTORY[3]])] == ["c1"]
    assert [finding.evidence for finding in orphans(HISTORY[2:])] == ["c1"]
    assert [finding.evidence for finding in orphans(HISTORY[:2])] == ["c1"]
    late = [HISTORY[1], HISTORY[0], HISTORY[2]]
    assert len(list(orphans(late))) == 2, "a result must stand directly after its call"


def test_a_pin_that_leaves_is_broken() -> None:
    pinned = fold(HISTORY, [Pin("p", "goal", 1)], 5)
    dropped = fold(HISTORY, [DropBefore("p", "old", 4)], 5)
    assert (
        list(pins([sent(pinned), sent(fold(HISTORY, [Pin("p", "goal", 1), DropBefore("p", "old", 4)], 5))]))
        == []
    )
    (finding,) = pins([sent(pinned), sent(dropped)])
    assert (finding.kind, finding.step, finding.evidence) == ("pin-broken", 2, "goal")


def test_a_request_that_does_not_extend_the_one_before_is_a_compaction() -> None:
    whole, longer = sent(HISTORY[:3]), sent(HISTORY)
    copied = [HISTORY[0].model_copy(), *HISTORY[1:]]
    changed = [HumanMessage("another"), *HISTORY[1:]]
    assert compactions([whole, longer, sent(copied)]) == []
    assert compactions([whole, sent(changed), longer, whole]) == [2, 3, 4]


def cut(files: WorkspaceFiles, *edits: Edit) -> list[str]:
    """What of the history cannot be recovered after ``edits`` whose originals were archived."""
    archive = Archive(files, "session_a")
    view = fold(HISTORY, [], 5)
    saved: list[Edit] = []
    for edit in edits:
        taken = {seq: view.original(seq) for seq in view.leaving(edit)}
        saved += archive.save([edit], lambda _edit, taken=taken: taken)  # type: ignore[misc]
    return [each.message for each in recoverable(HISTORY, fold(HISTORY, saved, 5), files, "session_a")]


def test_what_left_and_what_is_shown_shortened_is_recovered_from_what_is_named(files: WorkspaceFiles) -> None:
    evict = Evict("p", "large", 3, "see /large_tool_results/c1.", "/large_tool_results/c1")
    shown = "a long [/large_tool_results/c1.arguments.json.body]"
    truncate = TruncateArguments("p", "long", 2, "c1", {"body": shown})
    assert cut(files, evict, truncate) == []
    assert cut(files, DropBefore("p", "old", 4)) == []


def test_a_path_that_is_not_shown_or_not_right_is_found(files: WorkspaceFiles) -> None:
    evict = Evict("p", "large", 3, "it is away", "/large_tool_results/c1")
    assert len(cut(files, evict)) == 1
    assert len(cut(files, replace(evict, content="see /large_tool_results/other"))) == 1
    assert len(cut(files, TruncateArguments("p", "long", 2, "c1", {"body": "a long..."}))) == 1


def test_a_message_that_was_never_archived_is_found(files: WorkspaceFiles) -> None:
    view = fold(HISTORY, [DropBefore("p", "old", 4)], 5)
    assert len(list(recoverable(HISTORY, view, files, "session_a"))) == 3


def test_paths_are_read_from_what_is_said() -> None:
    said = "kept in /large_tool_results/c1; read /a/b.md. <summary>x</summary> 1/2 [see /c]"
    assert paths_in(said) == ["/large_tool_results/c1", "/a/b.md", "/c"]


def test_a_law_that_is_broken_where_there_is_no_room_stays_broken() -> None:
    found = [
        EvaluationFinding(kind, 0, "wrong") for kind in ("overflow", "run-failed", "orphan", "original-lost")
    ]
    assert [each.kind for each in but_for_room(found)] == ["orphan", "original-lost"]
