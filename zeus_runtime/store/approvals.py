"""Approval requests and their decisions, stored in the sessions' database."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    insert,
    select,
    update,
)

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.store.approval_rows import ABOVE, WITHDRAWN, all_of, first_of, requests
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import owning, reading
from zeus_runtime.store.former_decisions import (
    changed_approval,
    changed_by,
    holding,
    rejection,
    rejection_elsewhere,
    was_approved,
)
from zeus_runtime.store.interrupted_calls import IS_EARLIER, IS_SPENT, begun_in, during, spent_in
from zeus_runtime.store.session_tree import children_at
from zeus_runtime.store.tables import APPROVAL, IS_OPEN, PARENT, THREAD, TURN
from zeus_runtime.store.threads import owned
from zeus_runtime.tools.approval import Decision, PendingApproval, setting_digest
from zeus_runtime.tools.changed_arguments import is_same

if TYPE_CHECKING:
    from zeus_runtime.store.former_decisions import AskedCall
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools.approval import ApprovalRequest


# Of a SHA-256: the same request has the same id after a resume.
_ID_DIGITS: Final = 8


async def put(
    log: ThreadLog,
    call: AskedCall,
    shown: Mapping[str, Any],
    *,
    told: Mapping[str, Any] | None = None,
    workspace: str = "",
    is_judged: bool = True,
) -> PendingApproval:
    """Store the request of ``call`` if it is new, and return the stored one; an open one gets this one's judgement.

    If the call was rejected in this run, or the same at another place, the new request is rejected too. An open request
    at the same place about something else is withdrawn. An approval of a call that an interrupted run began does not
    count: it was for that run of the call. Only a person approves a call whose arguments a person changed otherwise.

    Args:
        shown: the arguments, with secrets masked.
        told: ``PendingApproval.told``.
        workspace: SHA-256 of the place of the agent's workspace.
        is_judged: whether the present rules judged the request.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    now = log.now_ms()
    thread, run_id, request = call.thread, call.run_id, call.request
    stored: dict[str, Any] = {
        "tool": request.tool,
        "arguments": shown,
        "call_id": request.call_id,
        "reason": request.reason,
        "schema": request.schema,
        "may_remember": request.may_remember,
        "needs_person": request.needs_person,
        "on_timeout": request.on_timeout,
        "workspace": workspace,
        "remembered_as": setting_digest(request.setting, workspace),
        **({} if told is None else {"told": told}),
        **({"facts": request.facts} if request.facts else {}),
        **({} if request.written is None else {"written": call.known(request.written)}),
        **({"made_beside": True} if call.is_beside else {}),
    }
    change = "" if request.preview is None else request.preview.digest
    expires = None if request.timeout_seconds is None else now + round(request.timeout_seconds * 1000)

    def work(connection: Connection) -> PendingApproval:
        if (rejected := rejection(connection, call)) is not None:
            _withdraw(connection, *call.at_place)
            return rejected
        spent = spent_in(connection, *call.at_place)
        begun = begun_in(connection, thread, run_id, request.place, IS_EARLIER)
        if begun is not None:
            stored["interrupted"] = True
            if any(not is_same(each, shown) for each in begun):
                stored["begun_with"] = begun
        if was_approved(connection, call):
            stored["approved_before"] = True
        if (changed := changed_approval(connection, call)) is not None:
            stored["approved_with"] = changed_by(changed)
        same = all_of(connection, requests().where(*call.exact, ~IS_SPENT))
        if valid := holding(connection, call, same):
            found = valid[-1]
            if found.decision is not None or (not found.withdrawn and not is_judged):
                return found
            if not found.withdrawn:
                return _asked_again(connection, found, stored, request.timeout_seconds, now)
            # The call was another one meanwhile, such as with other options of its tool, and is this one again.
            _withdraw(connection, *call.at_place)
            again = {"verdict": None, "created_ms": now, "expires_ms": expires, "shown": change}
            return _rewritten(connection, found, stored, again)
        name = _new_id(connection, thread, run_id, request, spent + len(same))
        rejected = rejection_elsewhere(connection, call)
        row: dict[str, Any] = {
            "thread": thread.key,
            "id": name,
            "run_id": run_id,
            "place": request.place,
            "digest": request.digest,
            "created_ms": now,
            "expires_ms": expires,
            # Escaped, since PostgreSQL cannot store NUL or lone surrogates.
            "request": json.dumps(stored, ensure_ascii=True),
            "shown": change,
        }
        if rejected is not None and rejected.decision is not None:
            earlier = Decision("reject", rejected.decision.reason, by="earlier")
            row |= _decided(connection, earlier, now, call.in_run)
        # Before the INSERT, which it would withdraw too: at one place only one request is open.
        _withdraw(connection, *call.at_place)
        connection.execute(insert(APPROVAL), row)
        made = first_of(connection, requests().where(APPROVAL.c.thread == thread.key, APPROVAL.c.id == name))
        assert made is not None
        return made

    return await owning(log.database, thread, "a question", work)


def _asked_again(
    connection: Connection,
    found: PendingApproval,
    stored: Mapping[str, Any],
    timeout_seconds: float | None,
    now: int,
) -> PendingApproval:
    """An open request with what the rules say now that the run asks again: it is judged by these, not by former ones.

    Its workspace stays that in which it was asked about. Time that is over stays over, and counts as the stricter says.
    """
    fresh = {**stored, "workspace": found.workspace, "remembered_as": found.remembered_as}
    # A request that is older than these digests.
    fresh["may_remember"] = bool(found.remembered_as) and stored["may_remember"]
    expires = None if timeout_seconds is None else found.created_ms + round(timeout_seconds * 1000)
    if found.expires_ms is not None and found.expires_ms <= now:
        expires = found.expires_ms
        if found.on_timeout == "reject":
            fresh["on_timeout"] = "reject"
    # Another process may have decided it just now: that decision is about the former request.
    return _rewritten(connection, found, fresh, {"expires_ms": expires}, APPROVAL.c.verdict.is_(None))


def _rewritten(
    connection: Connection,
    found: PendingApproval,
    stored: Mapping[str, Any],
    values: Mapping[str, Any],
    *where: ColumnElement[bool],
) -> PendingApproval:
    """A request that is asked again, as it is stored now; it is written only where ``where`` holds."""
    again = {**values, "request": json.dumps(stored, ensure_ascii=True)}
    connection.execute(update(APPROVAL).where(_of(found), *where).values(again))
    asked = first_of(connection, requests().where(_of(found)))
    assert asked is not None
    return asked


async def note_shown(log: ThreadLog, pending: PendingApproval) -> None:
    """Bind the later decision to the change that is shown now, unless the request is already decided."""
    undecided = update(APPROVAL).where(_of(pending), APPROVAL.c.verdict.is_(None))
    await log.database.run(lambda connection: connection.execute(undecided.values(shown=pending.shown)))


async def settle(log: ThreadLog, pending: PendingApproval, decision: Decision) -> PendingApproval:
    """Store ``decision`` on the change that ``pending`` showed, unless there is one; the request as it is now."""
    now = log.now_ms()

    def work(connection: Connection) -> PendingApproval:
        here = _of(pending)
        undecided = update(APPROVAL).where(here, APPROVAL.c.verdict.is_(None))
        # Another user may have been shown a later change meanwhile, which this decision is not about.
        decided = _decided(connection, decision, now, _run_of(pending))
        connection.execute(undecided.values({**decided, "shown": pending.shown}))
        found = first_of(connection, requests().where(here))
        return found or pending

    return await log.database.run(work)


async def close(log: ThreadLog, call: AskedCall) -> tuple[PendingApproval | None, bool]:
    """The decision in this run on a call that needs no approval now, if any; and whether it has asked at its place.

    An open request about the call is withdrawn.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> tuple[PendingApproval | None, bool]:
        _withdraw(connection, *call.at_place)
        if (rejected := rejection(connection, call)) is not None:
            return rejected, True
        asked = all_of(connection, requests().where(*call.at_place))
        same = [each for each in asked if each.digest == call.request.digest and each.decision is not None]
        if decided := holding(connection, call, same):
            # It may be the approval under which the call was begun.
            spent = spent_in(connection, *call.at_place)
            return replace(decided[-1], interrupted=spent > 0), True
        other = rejection_elsewhere(connection, call)
        return other and replace(other, interrupted=False), bool(asked)

    return await owning(log.database, call.thread, "a question", work)


async def not_begun(log: ThreadLog, thread: Thread, run_id: str, place: int) -> PendingApproval | None:
    """The last request about the call at ``place`` if it is certain that the call never began; else None.

    Nothing is known of calls that nobody was asked about.
    """
    own = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id, APPROVAL.c.place == str(place))

    def work(connection: Connection) -> PendingApproval | None:
        if begun_in(connection, thread, run_id, str(place)) is not None:
            return None
        asked = all_of(connection, requests().where(*own), log.shown)
        return asked[-1] if asked else None

    return await log.database.run(work)


async def withdraw_during(log: ThreadLog, thread: Thread, run_id: str, place: int) -> None:
    """Withdraw what the call at ``place``, which does not go on, and its sub-agents have asked.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    here = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id, during(str(place)))

    def work(connection: Connection) -> None:
        _withdraw(connection, *here)
        for child in children_at(connection, thread.key, run_id, place):
            withdraw_in(connection, child.thread.session)

    await owning(log.database, thread, "a withdrawal", work)


async def rejected_at(log: ThreadLog, call: AskedCall) -> PendingApproval | None:
    """The rejection of a call at its place, or of a file that it reached."""
    return await log.database.run(lambda connection: rejection(connection, call, with_files=True))


async def changed_at(log: ThreadLog, call: AskedCall) -> PendingApproval | None:
    """``changed_approval`` in a transaction of its own."""
    return await log.database.run(lambda connection: changed_approval(connection, call))


async def asking_places(log: ThreadLog, thread: Thread, run_id: str) -> set[str]:
    """The places of the calls about which, or while which, a run has asked, or which gave work to a sub-agent."""
    asked = select(APPROVAL.c.place).where(APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id)
    given = select(PARENT.c.place).where(PARENT.c.parent == thread.key, PARENT.c.run_id == run_id)

    def work(connection: Connection) -> set[str]:
        places = {*connection.execute(asked).scalars(), *map(str, connection.execute(given).scalars())}
        return {re.split("[.:]", each)[0] for each in places}

    return await log.database.run(work)


async def is_asked(log: ThreadLog, thread: Thread, run_id: str, place: str) -> bool:
    """Whether a run has asked about a call at this place, and the request is not withdrawn."""
    here = (APPROVAL.c.thread == thread.key, APPROVAL.c.run_id == run_id, APPROVAL.c.place == place)
    query = select(APPROVAL.c.id).where(*here, APPROVAL.c.verdict.is_distinct_from(WITHDRAWN)).limit(1)
    return await log.database.run(lambda connection: connection.execute(query).first() is not None)


async def decide(
    log: ThreadLog,
    session: str,
    decisions: Mapping[str, Decision],
    *,
    seen: Mapping[str, str | None] | None = None,
) -> list[PendingApproval]:
    """Decide requests of a session and its sub-agents, all of them or none.

    Args:
        decisions: decisions by the request's id.
        seen: ``PendingApproval.shown`` of the requests as their user saw them, or the end of ``seal``; without it,
            the last change that was shown to anybody counts.

    Raises:
        UsageError: an id is unknown, already decided, withdrawn or expired, its turn is over, changed arguments do not
            fit, ``always`` cannot be remembered, or another user was shown another change since.
    """
    now = log.now_ms()

    def work(connection: Connection) -> list[PendingApproval]:
        # First, as what ends a turn does: two transactions that lock its requests one by one could wait for each other.
        connection.execute(update(THREAD).where(THREAD.c.session == session).values(epoch=THREAD.c.epoch))
        # Read in the transaction that decides: a sub-agent that asks meanwhile has an id that no user was shown.
        family = _family(connection, session)
        asked = all_of(connection, requests().where(APPROVAL.c.thread.in_(family)))
        known = {each.id: _if_it_goes_on(connection, each) for each in asked}
        checked = [_decidable(name, decision, known, session, now) for name, decision in decisions.items()]
        decided = []
        for pending, given in zip(checked, decisions.values(), strict=True):
            decision = pending.fitting(given)
            if seen is not None and pending.id in seen and decision.answer == "approve":
                _require_seen(pending, seen[pending.id])
            undecided = update(APPROVAL).where(
                _of(pending),
                APPROVAL.c.verdict.is_(None),
                APPROVAL.c.shown.is_not_distinct_from(pending.shown),
            )
            # Another process may have decided or shown it since it was read above; the error undoes all decisions of
            # this call.
            values = _decided(connection, decision, now, _run_of(pending))
            if connection.execute(undecided.values(values)).rowcount != 1:
                raise UsageError(
                    f"{pending.id} was just decided or shown elsewhere", remedy="Look at it again."
                )
            found = first_of(connection, requests().where(_of(pending)))
            assert found is not None
            decided.append(found)
        return decided

    return await log.database.run(work)


async def open_approvals(log: ThreadLog, session: str | None = None) -> list[PendingApproval]:
    """The undecided requests, oldest first: of one session and its sub-agents, or of all sessions."""

    def work(connection: Connection) -> list[PendingApproval]:
        query = requests().where(APPROVAL.c.verdict.is_(None), owned(log.owner))
        if session is not None:
            query = query.where(APPROVAL.c.thread.in_(_family(connection, session)))
        return all_of(connection, query)

    return await log.database.run(work)


async def waiting_approval(log: ThreadLog, name: str) -> PendingApproval:
    """The undecided request with this id.

    Raises:
        NotFoundError: there is none; of one that was decided or withdrawn, the error says so.
    """
    query = requests().where(APPROVAL.c.id == name, owned(log.owner))
    found = await log.database.run(lambda connection: all_of(connection, query))
    if not found:
        raise NotFoundError(
            f"no call with the id {name!r} waits for a decision",
            remedy=f"`{zeus_command('approvals', 'pending')}` lists those that wait.",
        )
    pending = next((each for each in found if each.is_open), found[-1])
    if not pending.is_open:
        raise NotFoundError(
            _over(pending),
            remedy=f"`{zeus_command('sessions', 'show', pending.session)}` shows the decisions about its calls,"
            " in a service with `--remote URL`.",
        )
    return pending


async def asking_session(log: ThreadLog, name: str) -> str | None:
    """The session of the request with this id, which may be decided or withdrawn; None if the owner has none."""
    query = select(THREAD.c.session).select_from(APPROVAL.join(THREAD))
    query = query.where(APPROVAL.c.id == name, owned(log.owner))
    return await log.database.run(lambda connection: connection.execute(query.limit(1)).scalar())


def open_until_in(connection: Connection, session: str) -> float:
    """When nobody can decide anything of a session and its sub-agents any more, inside a larger transaction.

    Returns:
        UTC milliseconds: 0 if nothing is undecided, infinite if something waits for ever.
    """
    family = _family(connection, session)
    undecided = all_of(
        connection, requests().where(APPROVAL.c.thread.in_(family), APPROVAL.c.verdict.is_(None))
    )
    return max((math.inf if each.expires_ms is None else each.expires_ms for each in undecided), default=0)


async def approvals_of(
    log: ThreadLog, thread: Thread, runs: Collection[str] | None = None
) -> list[PendingApproval]:
    """The requests of the session itself, oldest first: of these runs, or of all."""
    query = requests().where(APPROVAL.c.thread == thread.key)
    if runs is not None:
        query = query.where(APPROVAL.c.run_id.in_(runs))
    return await reading(log.database, thread, lambda connection: all_of(connection, query, log.shown))


async def withdraw(log: ThreadLog, thread: Thread) -> None:
    """Withdraw the undecided requests of a session, whose conversation continues without them."""
    await owning(
        log.database, thread, "a withdrawal", lambda connection: withdraw_in(connection, thread.session)
    )


def withdraw_in(connection: Connection, session: str) -> None:
    """``withdraw`` inside a larger transaction, for a session and its sub-agents."""
    _WITHDRAWN_ALL.changed(connection, {"thread_session": session})


def _new_id(connection: Connection, thread: Thread, run_id: str, request: ApprovalRequest, spent: int) -> str:
    """An id that a person can type, or a long one if another request, perhaps a sub-agent's, has it already.

    Args:
        spent: how many approvals of this call do not count any more.
    """
    parts = (thread.session, run_id, request.place, request.digest, *([str(spent)] if spent else []))
    whole = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    short = whole[:_ID_DIGITS]
    taken = select(APPROVAL.c.id).where(APPROVAL.c.id == short)
    return whole if connection.execute(taken).first() is not None else short


def _decidable(
    name: str, decision: Decision, known: Mapping[str, PendingApproval], session: str, now: int
) -> PendingApproval:
    pending = known.get(name)
    waiting = ", ".join(each.id for each in known.values() if each.is_open) or "none"
    if pending is None:
        raise UsageError(
            f"nothing of {session} waits for a decision under the id {name!r}",
            remedy=f"Those that wait: {waiting}.",
        )
    if not pending.is_open:
        raise DecidedError(pending, decision, remedy=f"Those that wait: {waiting}.")
    if pending.expires_ms is not None and pending.expires_ms <= now:
        raise UsageError(
            f"the time to decide {name} is over: it counts as {pending.on_timeout}",
            remedy=f"`{zeus_command('resume', session)}` continues it; a service does so by itself.",
        )
    if problem := pending.problem_with(decision):
        raise UsageError(f"{name} cannot be decided so: {problem}")
    return pending


class DecidedError(UsageError):
    """A request does not wait any more.

    Attributes:
        approval: its id.
        is_same: whether it was decided as it would be decided now.
    """

    def __init__(self, pending: PendingApproval, decision: Decision, *, remedy: str) -> None:
        super().__init__(_over(pending), remedy=remedy)
        self.approval = pending.id
        stored, given = pending.decision, pending.fitting(decision)
        self.is_same = stored is not None and is_same(
            [stored.answer, stored.arguments], [given.answer, given.arguments]
        )


def _over(pending: PendingApproval) -> str:
    """How it came that a request does not wait any more."""
    from zeus_runtime.tools.question import local_moment

    decision = pending.decision
    if decision is None:
        return f"{pending.id} is no longer waiting: its turn ended, or the conversation continued without it"
    at = "" if pending.decided_ms is None else f", at {local_moment(pending.decided_ms)}"
    return f"{pending.id} was {decision.verb} already, {decision.by_words}{at}"


def _require_seen(pending: PendingApproval, seen: str | None) -> None:
    if not pending.was_seen(seen):
        raise UsageError(
            f"{pending.id} would make another change now than the one that you saw",
            remedy="Look at it again, then decide.",
        )


def _decided(
    connection: Connection, decision: Decision, now: int, in_run: Iterable[ColumnElement[bool]]
) -> dict[str, Any]:
    # Later than each decision of the run before it, whatever the clocks of the processes say: the last word counts.
    last = connection.execute(select(func.max(APPROVAL.c.decided_ms)).where(*in_run)).scalar()
    return {
        "verdict": decision.answer,
        "decided_ms": now if last is None else max(now, last + 1),
        "decision": json.dumps(asdict(decision), ensure_ascii=True),
    }


def _withdraw(connection: Connection, *where: Any) -> None:
    connection.execute(update(APPROVAL).where(*where, APPROVAL.c.verdict.is_(None)).values(verdict=WITHDRAWN))


def _thread_of(pending: PendingApproval) -> ColumnElement[bool]:
    key = select(THREAD.c.key).where(THREAD.c.session == pending.session).scalar_subquery()
    return APPROVAL.c.thread == key


def _of(pending: PendingApproval) -> ColumnElement[bool]:
    return _thread_of(pending) & (APPROVAL.c.id == pending.id)


def _run_of(pending: PendingApproval) -> tuple[ColumnElement[bool], ...]:
    return _thread_of(pending), APPROVAL.c.run_id == pending.run_id


def _family(connection: Connection, session: str) -> list[int]:
    """The keys of a session and of its sub-agents' sessions."""
    return [key for (key,) in _FAMILY.rows(connection, {"thread_session": session})]


def _family_of(session: BindParameter[str]) -> Select[Any]:
    own = select(THREAD.c.key.label("key")).where(THREAD.c.session == session).cte("family", recursive=True)
    # UNION and not UNION ALL: each session once, so the search ends even if one was its own ancestor.
    family = own.union(select(PARENT.c.thread).join(own, PARENT.c.parent == own.c.key))
    return select(family.c.key)


_FAMILY: Final = Prepared(_family_of(bindparam("thread_session")))
_WITHDRAWN_ALL: Final = Prepared(
    update(APPROVAL)
    .where(APPROVAL.c.thread.in_(_family_of(bindparam("thread_session"))), APPROVAL.c.verdict.is_(None))
    .values(verdict=WITHDRAWN)
)


def _if_it_goes_on(connection: Connection, pending: PendingApproval) -> PendingApproval:
    """A request as withdrawn if a service's turn that asked it ended since, in a Zeus that left it open."""
    if not pending.is_open:
        return pending
    ((thread,),) = _KEY.rows(connection, {"thread_session": pending.session})
    run_id = pending.run_id
    while above := ABOVE.rows(connection, {"of_thread": thread}):
        ((thread, _, run_id),) = above
    # A run that is resumed at a terminal after the end of its turn asks later, and goes on there.
    ended = _ENDED.rows(connection, {"of_thread": thread, "of_run": run_id, "asked_ms": pending.created_ms})
    return replace(pending, withdrawn=True) if ended else pending


_KEY: Final = Prepared(select(THREAD.c.key).where(THREAD.c.session == bindparam("thread_session")))
_ENDED: Final = Prepared(
    select(TURN.c.run_id).where(
        TURN.c.thread == bindparam("of_thread"),
        TURN.c.run_id == bindparam("of_run"),
        ~IS_OPEN,
        TURN.c.ended_ms >= bindparam("asked_ms"),
    )
)
