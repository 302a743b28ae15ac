"""A question says that the same call was approved before, if that approval does not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.databases import opened_thread
from zeus_runtime.store.approvals import put, settle
from zeus_runtime.tools.approval import ApprovalRequest, Decision

ASKED = ApprovalRequest("write_file", {"path": "/a"}, "3", setting="old", facts=("of a server",))


@pytest.mark.parametrize(
    ("answer", "change", "is_said"),
    [
        ("approve", {"setting": "new"}, True),
        ("reject", {"setting": "new"}, False),
        ("approve", {"setting": "new", "arguments": {"path": "/b"}}, False),
        ("approve", {"setting": "new", "tool": "edit_file"}, False),
        ("approve", {"setting": "new", "place": "4"}, False),
    ],
)
async def test_only_the_same_call_with_other_settings_was_approved_before(
    tmp_path: Path, answer: Any, change: dict[str, Any], *, is_said: bool
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        first = await put(log, thread, "run", ASKED, ASKED.arguments)
        assert (first.approved_before, tuple(first.facts)) == (False, ASKED.facts)
        await settle(log, first, Decision(answer))
        again = replace(ASKED, **change)
        assert (await put(log, thread, "run", again, again.arguments)).approved_before == is_said


async def test_an_approval_of_a_call_that_was_interrupted_is_told_as_that_alone(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        first = await put(log, thread, "run", ASKED, ASKED.arguments)
        await settle(log, first, Decision("approve"))
        earlier = text("UPDATE pending_approval SET begun_epoch = 1")
        await log.database.run(lambda connection: connection.execute(earlier))
        again = await put(log, thread, "run", ASKED, ASKED.arguments)
        assert (again.interrupted, again.approved_before) == (True, False)
