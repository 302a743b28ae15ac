"""Packed texts come back as they were, and a damaged one is not passed off as another."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Integer, Table, column, insert, table, text

from tests.support.databases import asked_call, opened_thread
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.store.approvals import approvals_of, put, settle
from zeus_runtime.store.archived import archive, restore
from zeus_runtime.store.compressed_columns import Packed, pack, unpack
from zeus_runtime.store.tables import TABLES
from zeus_runtime.store.turns import add_turn, marked_turns, set_mark
from zeus_runtime.tools.approval import ApprovalRequest, Decision
from zeus_runtime.tools.preview import Change, Preview


@given(st.text())
def test_a_text_comes_back_as_it_was(said: str) -> None:
    assert unpack(pack(said)) == said


def test_a_row_of_the_ledger_takes_a_third() -> None:
    sources = {"user": 9, "assistant": 644, "tool:write_todos": 132, "tool:grep": 67, "tool:lookup": 4810}
    row = StepRecord(
        number=512,
        run_id="0788a1b6",
        cursor=1024,
        edits=0,
        model="openai/gpt-5.2",
        input_limit_tokens=272_000,
        fixed="d98afdbbd68b83029e3fcf53",
        fixed_tokens=4066,
        view_tokens=5662,
        by_source=sources,
        messages=1023,
        duration_ms=3.1,
    ).to_json()
    assert len(pack(row)) < len(row) / 2.5


def test_what_was_not_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(b"\xff\xff not packed")


@pytest.mark.parametrize("columns", ["its own", "fewer", "more"])
async def test_an_archived_question_comes_back_whatever_columns_it_was_packed_with(
    tmp_path: Path, columns: str
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        change = Preview((Change("/a", None, "new"),))
        request = ApprovalRequest("write_file", {"path": "/a"}, "3", preview=change)
        asked = await put(log, asked_call(thread, request), request.arguments)
        assert asked.shown == change.digest != ""
        await archive(log, thread)
        if columns != "its own":
            await log.database.run(partial(_packed_before, has_change=columns == "more"))
        assert await restore(log, thread)
        (found,) = await approvals_of(log, thread)
        assert found == replace(asked, shown=None if columns == "fewer" else change.digest)


async def test_a_decision_with_a_field_of_before_is_read(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        asked = await put(log, asked_call(thread, ApprovalRequest("write_file", {}, "3")), {})
        settled = await settle(log, asked, Decision("reject"))
        older = text(
            "UPDATE pending_approval SET decision = json_set(decision, '$.begun', 'It was begun before.')"
        )
        await log.database.run(lambda connection: connection.execute(older))
        assert await approvals_of(log, thread) == [settled]


async def test_every_column_of_a_session_comes_back_from_its_archive(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        packed = [each for each in TABLES if "thread" in each.columns and each.name not in NOT_PACKED]
        rows = {each.name: _filled(each, thread.key) for each in packed}

        def fill(connection: Connection) -> None:
            for each in packed:
                # Without the types: the archive copies values as they are stored.
                bare = table(each.name, *(column(name) for name in rows[each.name]))
                connection.execute(insert(bare), rows[each.name])

        def stored(connection: Connection) -> dict[str, object]:
            return {
                each.name: [
                    dict(row) for row in connection.execute(text(f"SELECT * FROM {each.name}")).mappings()
                ]
                for each in packed
            }

        await log.database.run(fill)
        before = await log.database.run(stored)
        assert before == {name: [row] for name, row in rows.items()}
        assert await archive(log, thread)
        assert not any((await log.database.run(stored)).values())
        assert await restore(log, thread)
        assert await log.database.run(stored) == before


async def test_a_conversation_is_found_by_its_mark_after_an_archive(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        turn, _ = await add_turn(log, thread.session, "run_1", {"prompt": "hello"})
        await set_mark(log, turn, "conversation")
        assert await archive(log, thread)
        assert await restore(log, thread)
        assert await marked_turns(log, "a", "conversation") == [turn]


NOT_PACKED = {"checkpoint_archive", "thread_parent", "backtest_replay", "original_handle"}
"""Tables whose rows stay when their session is archived."""


def _filled(source: Table, thread: int) -> dict[str, object]:
    """A row of a table with a value in each column."""
    values: dict[str, object] = {}
    for number, each in enumerate(source.columns, 1):
        if isinstance(each.type, Packed):
            values[each.name] = pack("{}")
        else:
            values[each.name] = number if isinstance(each.type, Integer) else f"{each.name} {number}"
    return {**values, "thread": thread}


def _packed_before(connection: Connection, *, has_change: bool) -> None:
    """Pack the archive as it was before questions had the digest of a change, or while they had one of the call."""
    data = connection.execute(text("SELECT rows FROM checkpoint_archive")).scalar()
    assert data is not None
    lines = [json.loads(line) for line in zlib.decompress(data).splitlines()]
    columns = lines[0]["columns"]["pending_approval"]
    if has_change:
        columns.append("call_digest")
    else:
        assert [columns.pop() for _ in range(3)] == ["begun_with", "begun_epoch", "shown"]
    for line in (each for each in lines[1:] if each[0] == "pending_approval"):
        line[len(columns) + 1 :] = ["a digest"] if has_change else []
    packed = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    row = {"rows": zlib.compress(packed), "digest": hashlib.sha256(packed).hexdigest()}
    connection.execute(text("UPDATE checkpoint_archive SET rows = :rows, digest = :digest"), row)
