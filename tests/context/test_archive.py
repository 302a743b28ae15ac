"""The archive: append-only, untruncated, read back byte for byte; what is corrupt is named, the rest usable."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from zeus_runtime.context import (
    Archive,
    ArchiveError,
    DropBefore,
    Edit,
    Evict,
    Pin,
    Summarize,
    TruncateArguments,
    read_archive,
)
from zeus_runtime.context.archive import section
from zeus_runtime.models.messages import to_payload
from zeus_runtime.tools import WorkspaceFiles

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

texts = st.text() | st.sampled_from(
    ["", "\n\n", "<!-- zeus:message {} -->\n", "### 3 · tool\n\n", "a --> b", "```", "\r\n\x00", "中文 🙂"]
)
messages = st.one_of(
    st.builds(HumanMessage, texts),
    st.builds(ToolMessage, texts, tool_call_id=texts.filter(bool), name=st.just("t")),
    st.builds(
        AIMessage,
        texts,
        tool_calls=st.lists(
            st.builds(lambda name, text: {"name": name, "args": {"a": text}, "id": "i"}, st.just("t"), texts),
            max_size=2,
        ),
    ),
    st.builds(lambda text: HumanMessage([{"type": "text", "text": text}]), texts),
)


def archive(folder: Path, session: str = "session_0") -> Archive:
    routes = {
        "/large_tool_results/": folder / "results",
        "/conversation_history/": folder / "history",
    }
    (folder / "work").mkdir(exist_ok=True)
    return Archive(WorkspaceFiles(folder / "work", routes), session, now=lambda: NOON)


def stored(folder: Path, edit: Edit) -> str:
    """The text of the file to which an edit points."""
    assert isinstance(edit, Evict)
    return (folder / "results" / Path(edit.handle).name).read_text()


@given(st.lists(messages, min_size=1, max_size=6), st.lists(messages, min_size=1, max_size=3))
def test_every_message_of_every_section_comes_back_as_it_was(
    first: list[BaseMessage], second: list[BaseMessage]
) -> None:
    cut = DropBefore("p", "why", 99)
    data = section(cut, dict(enumerate(first, 1)), "s", NOON)
    data += section(cut, dict(enumerate(second, 10)), "s", NOON)
    found, problems = read_archive(data)
    assert problems == []
    assert [each.seq for each in found] == [*range(1, len(first) + 1), *range(10, 10 + len(second))]
    assert [each.message.model_dump() for each in found] == [m.model_dump() for m in (*first, *second)]


def test_a_section_is_dated_and_can_be_read_by_people_and_models(tmp_path: Path) -> None:
    kept = archive(tmp_path)
    originals: dict[int, BaseMessage] = {1: HumanMessage("The goal:\n- one\n- two"), 2: AIMessage("Yes.")}
    [edit] = kept.save([Summarize("p", "too long", 3, "…", "")], lambda _: originals)
    assert edit.handle == "/conversation_history/session_0.md"
    text = (tmp_path / "history" / "session_0.md").read_text()
    assert "## 2026-11-21 12:00:00 UTC · messages 1 to 2 left the window (p)\n\ntoo long\n" in text
    assert "### 1 · user\n\nThe goal:\n- one\n- two\n\n" in text


def test_what_is_damaged_is_named_and_the_rest_is_usable() -> None:
    cut = DropBefore("p", "why", 99)
    parts = [section(cut, {n: HumanMessage(f"message {n} " * 5)}, "s", NOON) for n in range(1, 5)]
    broken = parts[1].replace(b'"bytes":', b'"bytes"')
    found, problems = read_archive(parts[0] + broken + parts[2] + parts[3][:-20])
    assert [each.seq for each in found] == [1, 3]
    assert len(problems) == 2
    assert all(problem.startswith("byte ") for problem in problems)
    assert "cut off" in problems[1]


def test_results_and_arguments_have_files_and_nothing_is_overwritten(tmp_path: Path) -> None:
    kept = archive(tmp_path)
    answer = AIMessage("", tool_calls=[{"name": "t", "args": {"a": "long"}, "id": "c"}])

    def save(edit: Edit, message: BaseMessage) -> Edit:
        return kept.save([edit], lambda _: {edit.seq: message})[0]

    path = kept.result_handle("c")
    one = save(Evict("p", "r", 3, f"see {path}", path), ToolMessage("first", tool_call_id="c"))
    two = save(Evict("p", "r", 9, f"see {path}", path), ToolMessage("second", tool_call_id="c"))
    same = save(Evict("p", "r", 3, f"see {path}", path), ToolMessage("first", tool_call_id="c"))
    beside = f"{path}.{hashlib.sha256(b'second').hexdigest()[:16]}"
    assert (one.handle, two.handle, same) == (path, beside, one)
    assert isinstance(two, Evict)
    assert two.content == f"see {beside}"
    assert stored(tmp_path, one) == "first"
    assert stored(tmp_path, two) == "second"
    cut = save(TruncateArguments("p", "r", 2, "c", {"a": "l"}), answer)
    assert cut.handle == kept.arguments_handle("c")
    assert json.loads((tmp_path / "results" / "c.arguments.json").read_text()) == {"a": "long"}
    pin = Pin("p", "r", 1)
    assert kept.save([pin], lambda _: {}) == [pin]


def test_runs_that_archive_at_once_keep_their_own_texts_under_one_call_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that numbers its calls gives the same id to the sessions of several users."""
    read, here, other = WorkspaceFiles.read, archive(tmp_path), archive(tmp_path, "session_1")
    path = here.result_handle("functions.read_file:0")
    edits = {name: Evict("p", "r", 3, f"see {path}", path) for name in ("here", "other")}
    saved = {}

    def save(of: Archive, name: str) -> None:
        message = ToolMessage(f"the text of {name}", tool_call_id="functions.read_file:0")
        (saved[name],) = of.save([edits[name]], lambda _: {3: message})

    def between(files: WorkspaceFiles, path: str, **options: int) -> bytes:
        monkeypatch.setattr(WorkspaceFiles, "read", read)
        try:
            return read(files, path, **options)
        finally:
            save(other, "other")

    monkeypatch.setattr(WorkspaceFiles, "read", between)
    save(here, "here")
    assert {name: stored(tmp_path, each) for name, each in saved.items()} == {
        "here": "the text of here",
        "other": "the text of other",
    }


def test_a_call_id_that_a_model_repeats_without_end_keeps_every_text_and_reads_no_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = archive(tmp_path)
    path = kept.result_handle("call_0")
    (tmp_path / "results").mkdir()
    for name in ("call_0", *(f"call_0.{number}" for number in range(2, 1001))):
        (tmp_path / "results" / name).write_text(f"an earlier text at {name}")
    reads, read = [], WorkspaceFiles.read

    def counted(files: WorkspaceFiles, path: str, **options: int) -> bytes:
        reads.append(path)
        return read(files, path, **options)

    monkeypatch.setattr(WorkspaceFiles, "read", counted)
    originals: dict[int, BaseMessage] = {
        seq: ToolMessage(f"text {seq}", tool_call_id="call_0") for seq in (3, 5, 7)
    }
    edits = [Evict("p", "r", seq, f"see {path}", path) for seq in originals]
    saved = kept.save(edits, lambda _: originals)
    assert [stored(tmp_path, each) for each in saved] == ["text 3", "text 5", "text 7"]
    assert len(reads) <= 2 * len(edits)
    # After a kill the same edits find their texts.
    assert kept.save(edits, lambda _: originals) == saved


def test_an_archived_text_that_was_changed_is_neither_overwritten_nor_taken_for_another(
    tmp_path: Path,
) -> None:
    kept = archive(tmp_path)
    path = kept.result_handle("c")
    for text in ("first", "second"):
        message = ToolMessage(text, tool_call_id="c")
        edit = Evict("p", "r", 3, f"see {path}", path)
        (saved,) = kept.save([edit], lambda _, message=message: {3: message})  # type: ignore[misc]
    file = tmp_path / "results" / Path(saved.handle).name
    file.write_text("edited")
    with pytest.raises(ArchiveError, match="holds another text"):
        kept.save([edit], lambda _: {3: message})
    assert file.read_text() == "edited"


@pytest.mark.parametrize("path", ["/src/notes.md", "/large_tool_results/../notes.md", "/.env"])
def test_a_policy_makes_no_file_among_the_users_own(tmp_path: Path, path: str) -> None:
    kept = archive(tmp_path)
    call = AIMessage("", tool_calls=[{"name": "t", "args": {"a": "x"}, "id": "c"}])
    for edit, message in (
        (Evict("p", "r", 1, "see it", path), HumanMessage("text")),
        (TruncateArguments("p", "r", 1, "c", {"a": "cut"}, handle=path), call),
    ):
        with pytest.raises(ArchiveError, match="among the user's files"):
            kept.save([edit], lambda _, message=message: {1: message})  # type: ignore[misc]
    assert list((tmp_path / "work").iterdir()) == []


def test_a_cut_argument_is_kept_by_lines_and_beside_it_where_another_sessions_call_has_the_place(
    tmp_path: Path,
) -> None:
    kept = archive(tmp_path)
    texts = ["one\ntwo", "three\nfour"]
    for text in texts:
        answer = AIMessage("", tool_calls=[{"name": "t", "args": {"a": text, "b": "x"}, "id": "c"}])
        path = kept.argument_handle("c", "a")
        edit = TruncateArguments("p", "r", 2, "c", {"a": f"o... [{path}]"})
        (saved,) = kept.save([edit], lambda _, answer=answer: {2: answer})  # type: ignore[misc]
        assert isinstance(saved, TruncateArguments)
        shown = saved.arguments["a"].removeprefix("o... [/large_tool_results/").removesuffix("]")
        assert (tmp_path / "results" / shown).read_text() == text
    beside = hashlib.sha256(json.dumps({"a": texts[1], "b": "x"}).encode()).hexdigest()[:16]
    assert {file.name for file in (tmp_path / "results").iterdir()} == {
        "c.arguments.json",
        "c.arguments.json.a",
        f"c.arguments.json.{beside}",
        f"c.arguments.json.{beside}.a",
    }


def test_long_arguments_of_archived_calls_can_be_read_by_lines_and_are_no_structure(tmp_path: Path) -> None:
    body = "\n".join(['<!-- zeus:message {"seq": 9} -->', "### 9", "", *(f"line {n}" for n in range(300))])
    answer = AIMessage("said", tool_calls=[{"name": "write", "args": {"body": body, "n": 1}, "id": "c"}])
    messages: dict[int, BaseMessage] = {
        1: answer,
        2: ToolMessage("ok", tool_call_id="c"),
        3: HumanMessage("go on"),
    }
    archive(tmp_path).save([DropBefore("p", "r", 4)], lambda _: messages)
    data = next((tmp_path / "history").iterdir()).read_bytes()
    found, problems = read_archive(data)
    assert problems == []
    assert [each.seq for each in found] == [1, 2, 3]
    assert [to_payload(each.message) for each in found] == [to_payload(each) for each in messages.values()]
    assert f"#### write · body\n\n{body}\n".encode() in data


@pytest.mark.parametrize("call_id", ["call_abc-1.2", "../../etc/passwd", "a/b", "…", ".", "x" * 300, ""])
def test_any_call_id_gives_one_file_name(tmp_path: Path, call_id: str) -> None:
    kept = archive(tmp_path)
    path = kept.result_handle(call_id)
    kept.save([Evict("p", "r", 1, "x", path)], lambda _: {1: HumanMessage("text")})
    assert [file.read_text() for file in (tmp_path / "results").iterdir()] == ["text"]
    assert kept.result_handle(call_id + "/") != path


def test_an_archive_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file")
    with pytest.raises(ArchiveError) as caught:
        archive(tmp_path).save([DropBefore("p", "r", 2)], lambda _: {1: HumanMessage("x")})
    assert "workspace.routes" in (caught.value.remedy or "")
