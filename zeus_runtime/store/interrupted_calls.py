"""How far calls came before their run was interrupted, by the epochs in which approved calls began."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, func, select, update

from zeus_runtime.store.fencing import owning
from zeus_runtime.store.session_tree import children_at
from zeus_runtime.store.tables import APPROVAL, THREAD

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

_EPOCH: Final = (
    select(THREAD.c.epoch).where(THREAD.c.key == APPROVAL.c.thread).correlate(APPROVAL).scalar_subquery()
)
IS_EARLIER: Final = func.abs(func.coalesce(APPROVAL.c.begun_epoch, _EPOCH)) != _EPOCH
"""The condition that a call began under an approval in an earlier claim of its session, and so was interrupted.

A run asks only about calls without a result. A call that a middleware repeats in the same claim is not asked about
anew.
"""
IS_SPENT: Final = IS_EARLIER & (func.coalesce(APPROVAL.c.begun_epoch, 0) > 0)
"""The condition that an approval does not count any more, since the call that it was for was interrupted."""


async def note_begun(log: ThreadLog, thread: Thread, name: str, *, holds: bool) -> None:
    """Store that the call which the request ``name`` approved began to run.

    Args:
        holds: whether the approval still holds if the call is interrupted.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    row = update(APPROVAL).where(APPROVAL.c.thread == thread.key, APPROVAL.c.id == name)
    noted = row.values(begun_epoch=-_EPOCH if holds else _EPOCH, begun_with=None)
    await owning(log.database, thread, "a call's begin", lambda connection: connection.execute(noted))


async def note_begun_unasked(
    log: ThreadLog, thread: Thread, run_id: str, place: str, arguments: Mapping[str, Any]
) -> None:
    """Store that a call begins which needs no approval now, although requests at its place are about one that did.

    Args:
        arguments: those that run, with secrets masked.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    here = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id, APPROVAL.c.place == place)
    noted = update(APPROVAL).where(*here, func.coalesce(APPROVAL.c.begun_epoch, -1) < 0)
    noted = noted.values(begun_epoch=_EPOCH, begun_with=json.dumps(arguments, default=str))
    await owning(log.database, thread, "a call's begin", lambda connection: connection.execute(noted))


async def was_interrupted(log: ThreadLog, thread: Thread, run_id: str, place: str) -> bool:
    """Whether an interrupted run began an approved call at this place."""
    here = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id, APPROVAL.c.place == place)
    return await log.database.run(lambda connection: spent_in(connection, *here) > 0)


async def begun_before(
    log: ThreadLog, thread: Thread, run_id: str, place: int
) -> Sequence[Mapping[str, Any]] | None:
    """The arguments, once each, with which an earlier claim of the session began the call at this place.

    Returns:
        as far as they are known; None if nothing says that the call began.
    """
    return await log.database.run(
        lambda connection: begun_in(connection, thread, run_id, str(place), IS_EARLIER)
    )


def spent_in(connection: Connection, *where: ColumnElement[bool]) -> int:
    """How many of these approvals are of calls that were interrupted."""
    counted = select(func.count()).select_from(APPROVAL).where(*where, IS_SPENT)
    return connection.execute(counted).scalar_one()


def begun_in(
    connection: Connection, thread: Thread, run_id: str, place: str, *noted: ColumnElement[bool]
) -> Sequence[Mapping[str, Any]] | None:
    """The arguments, once each, with which the call at ``place`` was begun; None if nothing says that it began.

    This alone says how far a call came, for questions, refusals and closed calls. A call that asked something, or that
    gave its work to a sub-agent, had begun. Of another call that nobody was asked about, nothing is known.

    Args:
        noted: conditions on the approvals under which it was begun.

    Returns:
        as far as they are known, with secrets masked as they were stored.
    """
    here = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id)
    # Also under the approval of a file that the call reached.
    own = (APPROVAL.c.place == place) | APPROVAL.c.place.startswith(f"{place}:")
    begun = select(APPROVAL.c.request, APPROVAL.c.decision, APPROVAL.c.begun_with).where(
        *here, own, APPROVAL.c.begun_epoch.is_not(None), *noted
    )
    ran = []
    for request, decision, unasked in connection.execute(begun.order_by(func.abs(APPROVAL.c.begun_epoch))):
        # Without a decision, the call needed none by then.
        changed = None if decision is None else json.loads(decision)["arguments"]
        asked_about = json.loads(request)["arguments"] if changed is None else changed
        ran.append(asked_about if unasked is None else json.loads(unasked))
    agents = children_at(connection, thread.key, run_id, int(place)) if place.isdecimal() else []
    ran += [each.begun_with for each in agents if each.begun_with is not None]
    asked = select(APPROVAL.c.id).where(*here, during(place)).limit(1)
    if not ran and not agents and connection.execute(asked).first() is None:
        return None
    return tuple({json.dumps(each, sort_keys=True): each for each in ran}.values())


def during(place: str) -> ColumnElement[bool]:
    """The condition that a request was asked while the call at ``place`` ran: by the call, or about a file."""
    return APPROVAL.c.place.startswith(f"{place}:") | APPROVAL.c.place.startswith(f"{place}.")
