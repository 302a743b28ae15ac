"""Packed texts come back as they were, and a damaged one is not passed off as another."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.store.approvals import approvals_of, put
from zeus_runtime.store.archived import archive, restore
from zeus_runtime.store.compressed_columns import pack, unpack
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.tools.approval import ApprovalRequest
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


@pytest.mark.parametrize("is_old", [False, True])
async def test_an_archived_question_comes_back_whatever_columns_it_was_packed_with(
    tmp_path: Path, *, is_old: bool
) -> None:
    database = Database("sqlite:///z.db", directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        change = Preview((Change("/a", None, "new"),))
        request = ApprovalRequest("write_file", {"path": "/a"}, "3", preview=change)
        asked = await put(log, thread, "run", request, request.arguments)
        assert asked.shown == change.digest != ""
        await archive(log, thread)
        if is_old:
            await database.run(_without_the_change)
        assert await restore(log, thread)
        (found,) = await approvals_of(log, thread)
        assert found == replace(asked, shown=None if is_old else change.digest)
    finally:
        await database.close()


def _without_the_change(connection: Connection) -> None:
    """Pack the archive as it was before questions had the digest of a change."""
    data = connection.execute(text("SELECT rows FROM checkpoint_archive")).scalar()
    assert data is not None
    lines = [json.loads(line) for line in zlib.decompress(data).splitlines()]
    assert lines[0]["columns"]["pending_approval"].pop() == "shown"
    for line in lines[1:]:
        if line[0] == "pending_approval":
            line.pop()
    packed = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    row = {"rows": zlib.compress(packed), "digest": hashlib.sha256(packed).hexdigest()}
    connection.execute(text("UPDATE checkpoint_archive SET rows = :rows, digest = :digest"), row)
