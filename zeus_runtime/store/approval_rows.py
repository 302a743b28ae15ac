"""Approval requests as rows of the sessions' database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, RowMapping, Select, bindparam, select

from zeus_runtime.errors import UsageError
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.tables import APPROVAL, PARENT, THREAD
from zeus_runtime.tools.approval import Decision, PendingApproval

if TYPE_CHECKING:
    from collections.abc import Callable


WITHDRAWN: Final = "withdrawn"


def requests() -> Select[Any]:
    """All approval requests, oldest first."""
    return (
        select(
            THREAD.c.session,
            THREAD.c.agent.label("session_agent"),
            THREAD.c.owner,
            THREAD.c.owner_project,
            PARENT.c.agent,
            APPROVAL,
        )
        .select_from(APPROVAL.join(THREAD).outerjoin(PARENT, PARENT.c.thread == THREAD.c.key))
        .order_by(APPROVAL.c.created_ms, APPROVAL.c.thread, APPROVAL.c.place, APPROVAL.c.id)
    )


def first_of(connection: Connection, query: Select[Any]) -> PendingApproval | None:
    """The first request of a query of ``requests``."""
    row = connection.execute(query.limit(1)).mappings().first()
    return None if row is None else _read(connection, row)


def all_of(
    connection: Connection, query: Select[Any], shown: Callable[[str], str] = str
) -> list[PendingApproval]:
    """The requests of a query of ``requests``.

    Args:
        shown: masks the stored texts.
    """
    return [_read(connection, row, shown) for row in connection.execute(query).mappings().all()]


def _read(connection: Connection, row: RowMapping, shown: Callable[[str], str] = str) -> PendingApproval:
    decision = None if row["decision"] is None else _decision(json.loads(shown(row["decision"])))
    request = json.loads(shown(row["request"]))
    # Of older requests; `PendingApproval` has no such field.
    request.pop("setting_digest", None)
    if "remembered_as" not in request:
        # A request that is older than these digests: "always" would be for other tools or workspaces too.
        request["may_remember"] = False
    expires = row["expires_ms"]
    if request.get("begun_with") or "approved_with" in request:
        # Whoever approved the other call did not approve this one. Without a rejection by time it waits.
        expires = None if request["on_timeout"] == "approve" else expires
        request |= {"needs_person": True, "may_remember": False, "on_timeout": "reject"}
    return PendingApproval(
        id=row["id"],
        session=row["session"],
        run_id=row["run_id"],
        place=row["place"],
        digest=row["digest"],
        created_ms=row["created_ms"],
        expires_ms=expires,
        decision=decision,
        decided_ms=row["decided_ms"],
        withdrawn=row["verdict"] == WITHDRAWN,
        shown=row["shown"],
        agent=row["agent"] or "",
        session_agent=row["session_agent"] if row["agent"] is None else _outermost(connection, row["thread"]),
        user=row["owner"] or "",
        project=row["owner_project"] or "",
        **request,
    )


def _decision(stored: dict[str, Any]) -> Decision:
    stored.pop("begun", None)  # of older decisions
    try:
        return Decision(**stored)
    except UsageError:
        # An older Zeus stored what a program gave: only a sound approval is one.
        is_approved = stored["answer"] == "approve" and isinstance(stored["arguments"], dict | None)
        told = "" if stored["reason"] is None else str(stored["reason"])
        by = stored.get("by", "user")
        return (
            Decision("approve", told, stored["arguments"], by=by)
            if is_approved
            else Decision("reject", told, by=by)
        )


ABOVE: Final = Prepared(
    select(THREAD.c.key, THREAD.c.agent, PARENT.c.run_id)
    .select_from(THREAD.join(PARENT, PARENT.c.parent == THREAD.c.key))
    .where(PARENT.c.thread == bindparam("of_thread"))
)
"""The session that a sub-agent's session works for, with its agent and its run."""


def _outermost(connection: Connection, thread: int) -> str:
    """The agent of the session that the sub-agent's session ``thread`` works for in the end."""
    agent = ""
    # A session has one parent, which is older, so this ends.
    while above := ABOVE.rows(connection, {"of_thread": thread}):
        ((thread, agent, _),) = above
    return agent
