"""A question says that the same call was approved before, if that approval does not hold."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.databases import asked_call, opened_thread
from zeus_runtime.store.approvals import changed_at, close, decide, open_approvals, put, settle
from zeus_runtime.store.interrupted_calls import begun_before, note_begun, note_begun_unasked
from zeus_runtime.tools.approval import ApprovalRequest, Decision

ASKED = ApprovalRequest("write_file", {"path": "/a"}, "3", setting="old", facts=("of a server",))


@pytest.mark.parametrize(
    ("answer", "change", "is_said"),
    [
        ("approve", {"setting": "new"}, True),
        ("approve", {"setting": "new", "arguments": {"path": "/b"}}, False),
        ("approve", {"setting": "new", "tool": "edit_file"}, False),
        ("approve", {"setting": "new", "place": "4"}, False),
    ],
)
async def test_only_the_same_call_with_other_settings_was_approved_before(
    tmp_path: Path, answer: Any, change: dict[str, Any], *, is_said: bool
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        first = await put(log, asked_call(thread, ASKED), ASKED.arguments)
        assert (first.approved_before, tuple(first.facts)) == (False, ASKED.facts)
        await settle(log, first, Decision(answer))
        again = replace(ASKED, **change)
        assert (await put(log, asked_call(thread, again), again.arguments)).approved_before == is_said


async def test_an_approval_of_a_call_that_was_interrupted_is_told_as_that_alone(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        first = await put(log, asked_call(thread, ASKED), ASKED.arguments)
        await settle(log, first, Decision("approve"))
        earlier = text("UPDATE pending_approval SET begun_epoch = 1")
        await log.database.run(lambda connection: connection.execute(earlier))
        again = await put(log, asked_call(thread, ASKED), ASKED.arguments)
        assert (again.interrupted, again.approved_before) == (True, False)


@pytest.mark.parametrize("ran", [{"path": "/a"}, {"path": "/b"}])
async def test_a_call_that_began_unasked_is_told_with_the_arguments_that_ran(
    tmp_path: Path, ran: dict[str, str]
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        first = await put(log, asked_call(thread, ASKED), ASKED.arguments)
        await settle(log, first, Decision("approve", arguments={"path": "/person"}))
        await note_begun_unasked(log, thread, "run", "3", ran)
        later = text("UPDATE thread SET epoch = epoch + 1")
        await log.database.run(lambda connection: connection.execute(later))
        again = await put(log, asked_call(thread, ASKED), ASKED.arguments)
        assert (again.interrupted, list(again.begun_with)) == (True, [ran] if ran != ASKED.arguments else [])
        # A config that does not ask resumes it as it was approved.
        await note_begun(log, thread, first.id, holds=False)
        await log.database.run(lambda connection: connection.execute(later))
        assert await begun_before(log, thread, "run", 3) == ({"path": "/person"},)


async def test_a_rejection_holds_with_each_later_setting_and_with_the_one_that_was_approved(
    tmp_path: Path,
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        for setting, answer in (("old", "approve"), ("new", "reject")):
            asked = await put(log, asked_call(thread, replace(ASKED, setting=setting)), ASKED.arguments)
            assert asked.is_open
            await settle(log, asked, Decision(answer))  # type: ignore[arg-type]
        for setting in ("old", "new", "third"):
            again = replace(ASKED, setting=setting)
            found = await put(log, asked_call(thread, again), again.arguments)
            closed, _ = await close(log, asked_call(thread, again))
            elsewhere = await put(log, asked_call(thread, replace(again, place="9")), again.arguments)
            for each in (found, closed, elsewhere):
                assert each is not None
                assert each.decision is not None
                assert each.decision.answer == "reject"
        other = replace(ASKED, place="11", arguments={"path": "/b"})
        assert (await put(log, asked_call(thread, other), other.arguments)).is_open


@pytest.mark.parametrize("last", [None, {"path": "/a"}])
async def test_only_a_person_approves_a_call_that_a_person_changed_under_other_settings(
    tmp_path: Path, last: dict[str, str] | None
) -> None:
    """An approval without a change, or of the same arguments, is no change, also after one."""
    by_time = replace(ASKED, reason="a rule", timeout_seconds=5, on_timeout="approve")
    async with opened_thread(tmp_path) as (log, thread):
        for setting, arguments in (("old", {"path": "/person"}), ("new", last), ("third", None)):
            asked = await put(log, asked_call(thread, replace(by_time, setting=setting)), ASKED.arguments)
            stricter = (True, "reject", None) if setting == "new" else (False, "approve", asked.expires_ms)
            assert (asked.needs_person, asked.on_timeout, asked.expires_ms) == stricter
            assert asked.approved_with == ({"path": "/person"} if setting == "new" else None)
            await settle(log, asked, Decision("approve", arguments=arguments))
            assert await changed_at(log, asked_call(thread, replace(by_time, setting=setting))) is None


async def test_a_question_that_an_older_zeus_asked_after_a_rejection_is_withdrawn(tmp_path: Path) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        for setting in ("old", "new"):
            await put(log, asked_call(thread, replace(ASKED, setting=setting)), ASKED.arguments)
        former = text("UPDATE pending_approval SET verdict = 'reject' WHERE verdict = 'withdrawn'")
        await log.database.run(lambda connection: connection.execute(former))
        assert len(await open_approvals(log)) == 1
        await put(log, asked_call(thread, replace(ASKED, setting="new")), ASKED.arguments)
        assert await open_approvals(log) == []


MODELS, PERSONS, OTHERS = None, {"path": "/person"}, {"path": "/other"}


@pytest.mark.parametrize("first", [MODELS, PERSONS])
@pytest.mark.parametrize("later", [MODELS, PERSONS, OTHERS])
@pytest.mark.parametrize("setting", ["old", "third"])
async def test_the_last_approval_counts_when_a_change_of_settings_is_taken_back(
    tmp_path: Path, first: dict[str, str] | None, later: dict[str, str] | None, setting: str
) -> None:
    """An approval holds if it has the present setting, and if no later one with another setting runs something else."""
    async with opened_thread(tmp_path) as (log, thread):
        for had, arguments in (("old", first), ("new", later)):
            asked = await put(log, asked_call(thread, replace(ASKED, setting=had)), ASKED.arguments)
            assert asked.is_open
            await settle(log, asked, Decision("approve", arguments=arguments))
        now = replace(ASKED, setting=setting)
        holds = setting == "old" and first == later
        changed = await changed_at(log, asked_call(thread, now))
        assert (changed is not None) == (not holds and later is not None)
        closed, _ = await close(log, asked_call(thread, now))
        assert (closed is not None) == holds
        again = await put(log, asked_call(thread, now), now.arguments)
        assert again.is_open == (not holds)
        assert again.needs_person == (changed is not None)
        assert (await put(log, asked_call(thread, now), now.arguments)).id == again.id
        if not holds:
            # What is said now is the last word.
            await settle(log, again, Decision("approve", arguments={"path": "/last"}))
            closed, _ = await close(log, asked_call(thread, now))
            for found in (closed, await put(log, asked_call(thread, now), now.arguments)):
                assert found is not None
                assert found.decision is not None
                assert found.decision.arguments == {"path": "/last"}
            assert await changed_at(log, asked_call(thread, now)) is None


async def test_a_former_decision_is_found_by_the_place_after_a_resume_and_elsewhere_by_the_call(
    tmp_path: Path,
) -> None:
    """Elsewhere also by the arguments as the model wrote them, which the tool took for others."""
    async with opened_thread(tmp_path) as (log, thread):
        taken = replace(ASKED, arguments={"path": 5}, written={"path": "5"})
        await settle(log, await put(log, asked_call(thread, taken), {"path": 5}), Decision("reject"))
        for change, is_rejected in (
            ({"arguments": {"path": "other"}}, True),
            ({"arguments": {"path": "other"}, "tool": "edit_file"}, True),
            ({"arguments": {"path": "5"}, "place": "9"}, True),
            ({"arguments": {"path": "other"}, "place": "11"}, False),
            ({"arguments": {"path": "5"}, "place": "12", "tool": "edit_file"}, False),
        ):
            call = asked_call(thread, replace(ASKED, **change), is_resumed=True)  # type: ignore[arg-type]
            found = await put(log, call, call.request.arguments)
            assert (found.decision is not None) == is_rejected, change


@pytest.mark.parametrize(("path", "is_changed"), [("/other", True), ("/person", False)])
async def test_a_call_that_is_now_as_the_person_wrote_it_is_not_changed(
    tmp_path: Path, path: str, *, is_changed: bool
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        given = Decision("approve", arguments={"path": "/person"})
        await settle(log, await put(log, asked_call(thread, ASKED), ASKED.arguments), given)
        now = asked_call(thread, replace(ASKED, arguments={"path": path}), is_resumed=True)
        assert (await changed_at(log, now) is not None) == is_changed


@pytest.mark.parametrize("way", ["settle", "decide"])
async def test_a_later_rejection_at_the_place_overrules_an_approval(tmp_path: Path, way: str) -> None:
    """A hook that was taken out and came back makes the approved arguments of the call again.

    The clock of the process that decides later may be the slow one.
    """
    async with opened_thread(tmp_path) as (log, thread):
        for clock, (path, answer) in zip(
            (9_000, 5_000, 7_000), (("/a", "approve"), ("/b", "reject"), ("/c", "approve")), strict=True
        ):
            log.now_ms = lambda clock=clock: clock
            asked = await put(
                log, asked_call(thread, replace(ASKED, arguments={"path": path})), {"path": path}
            )
            decision = Decision(answer)  # type: ignore[arg-type]
            if way == "settle":
                await settle(log, asked, decision)
            else:
                await decide(log, thread.session, {asked.id: decision})
        for path, answer in (("/a", "reject"), ("/b", "reject"), ("/c", "approve"), ("/d", "reject")):
            now = asked_call(thread, replace(ASKED, arguments={"path": path}), is_resumed=True)
            found = await put(log, now, {"path": path})
            assert found.decision is not None
            assert found.decision.answer == answer


@pytest.mark.parametrize(
    ("stored", "answer"),
    [
        ({"answer": "deny", "reason": None}, "reject"),
        ({"answer": False, "reason": 3}, "reject"),
        ({"answer": "approve", "always": "yes"}, "approve"),
        ({"answer": "approve", "arguments": "rm"}, "reject"),
    ],
)
async def test_a_decision_that_an_older_zeus_did_not_check_is_read(
    tmp_path: Path, stored: dict[str, Any], answer: str
) -> None:
    async with opened_thread(tmp_path) as (log, thread):
        call = asked_call(thread, ASKED)
        await settle(log, await put(log, call, ASKED.arguments), Decision("approve"))
        row = {
            "decision": json.dumps({**asdict(Decision("approve")), **stored}),
            "verdict": str(stored["answer"]),
        }
        loose = text("UPDATE pending_approval SET decision = :decision, verdict = :verdict")
        await log.database.run(lambda connection: connection.execute(loose, row))
        closed, _ = await close(log, call)
        assert closed is not None
        assert closed.decision is not None
        assert closed.decision.answer == answer
