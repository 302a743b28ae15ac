"""The turns that a service was asked for: a queue for each session, which outlives the service's process."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from zeus_runtime.errors import BusyError
from zeus_runtime.events import RunFailed
from zeus_runtime.store.approvals import open_until_in, withdraw_in
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import owning
from zeus_runtime.store.session_tree import refuse_inner
from zeus_runtime.store.snapshots import is_waiting_in, take_snapshot
from zeus_runtime.store.tables import IS_OPEN, MESSAGE, NOTE, OPEN_STATES, SNAPSHOT, THREAD, TURN
from zeus_runtime.store.threads import OWNED, Owner, Thread, of_owner, owned

if TYPE_CHECKING:
    from zeus_runtime.store.snapshots import Reason
    from zeus_runtime.store.thread_log import ThreadLog

TurnState: TypeAlias = Literal["queued", "running", "waiting", "complete", "failed", "cancelled"]

UNFINISHED: Final = ("queued", "running")
_CONTINUED: Final = "The session continued without what it waited for."
_CANCEL: Final = "cancel"
"""The note of a run that the process that runs it is to cancel."""


@dataclass(frozen=True)
class StoredTurn:
    """A turn that a service was asked for; times in UTC milliseconds.

    Args:
        session: its session.
        run: the id of its run.
        number: its place among the turns of the session.
        state: ``waiting`` needs a decision on a call; the last three are final.
        request: the prompt and its attachments.
        ending: the terminal event; None before it.
        idempotency_key: the client's name for it; None without.
    """

    session: str
    run: str
    number: int
    state: TurnState
    request: Mapping[str, Any]
    created_ms: int
    started_ms: int | None
    ended_ms: int | None
    ending: Mapping[str, Any] | None
    idempotency_key: str | None

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.state not in OPEN_STATES


async def add_turn(
    log: ThreadLog,
    session: str,
    run: str,
    request: Mapping[str, Any],
    *,
    key: str | None = None,
    queue: bool = False,
) -> tuple[StoredTurn, bool]:
    """Queue a turn, unless the session has one with that run's id; also whether it is new.

    Args:
        queue: whether it may wait for others.

    Raises:
        NotFoundError, UsageError: the session does not exist, is archived, or is a sub-agent's.
        BusyError: the session has a turn that is not over, and ``queue`` is false.
    """
    now = log.now_ms()

    def work(connection: Connection, thread: Thread) -> tuple[StoredTurn, bool]:
        refuse_inner(connection, thread)
        here = {"of_thread": thread.key, "of_run": run}
        # The row's lock keeps two requests with one key apart.
        _USED.changed(connection, {"of_thread": thread.key, "now_ms": now})
        if known := _KNOWN.rows(connection, here):
            return _read(log, known[0]), False
        if not queue and _FIRST_OPEN.rows(connection, {"of_thread": thread.key}):
            raise BusyError(
                f"the session {thread.session} has a turn that is not over",
                remedy="Wait for it, cancel it, or queue the turn (queue=1).",
            )
        # Under the lock of the session's row, so no two turns get one number.
        ((last,),) = _LAST_NUMBER.rows(connection, {"of_thread": thread.key})
        made = StoredTurn(
            session=thread.session,
            run=run,
            number=last + 1,
            state="queued",
            request=request,
            created_ms=now,
            started_ms=None,
            ended_ms=None,
            ending=None,
            idempotency_key=key,
        )
        values = {
            "of_number": made.number,
            "as_json": json.dumps(request),
            "of_client": key,
            "now_ms": now,
        }
        _QUEUED.changed(connection, {**here, **values})
        return made, True

    return await log.within(session, work)


async def begin_turn(log: ThreadLog, session: str) -> tuple[StoredTurn, bool] | None:
    """Note that the turn of ``next_turn`` runs; also whether its run has written the session's last message.

    Raises:
        NotFoundError, UsageError: the session does not exist, or it is archived.
    """
    now = log.now_ms()

    def work(connection: Connection, thread: Thread) -> tuple[StoredTurn, bool] | None:
        # Each further round has seen another process change the first open turn, so it ends.
        while found := _FIRST_OPEN.rows(connection, {"of_thread": thread.key}):
            turn = _read(log, found[0])
            if turn.state == "waiting":
                return None
            if turn.state == "queued" or turn.started_ms is None:
                started = now if turn.started_ms is None else turn.started_ms
                here = {"of_thread": thread.key, "of_run": turn.run, "was": turn.state, "now_ms": started}
                if not _BEGUN.changed(connection, here):
                    continue  # cancelled meanwhile
                turn = replace(turn, state="running", started_ms=started)
            return turn, _last_run(connection, thread) == turn.run
        return None

    return await log.within(session, work)


async def next_turn(log: ThreadLog, thread: Thread) -> StoredTurn | None:
    """The first turn of a session that is queued or running, unless one before it waits for a decision."""
    found = await _first_open(log, thread)
    return found if found is not None and found.state != "waiting" else None


async def waiting_turn(log: ThreadLog, thread: Thread) -> StoredTurn | None:
    """The turn of a session that waits for a decision: the first that is not over, if any."""
    found = await _first_open(log, thread)
    return found if found is not None and found.state == "waiting" else None


async def turns_of(log: ThreadLog, thread: Thread) -> Sequence[StoredTurn]:
    """The turns of a session in order."""
    return await _all(log, _turns().where(TURN.c.thread == thread.key).order_by(TURN.c.number))


async def find_turn(log: ThreadLog, run: str, *, agent: str | None = None) -> StoredTurn | None:
    """The turn of a run, among the sessions that the log may use.

    Args:
        agent: only among this agent's sessions.
    """
    statement, whose = (_OF_ANY, {}) if log.owner is None else (_OF_OWNER, of_owner(log.owner))
    values = {"of_run": run, **whose}
    found = await log.database.run(lambda connection: statement.rows(connection, values))
    own = [turn for *turn, name in found if agent in (None, name)]
    if not own:
        return None
    await log.look(own[0][0])
    return _read(log, own[0])


async def set_mark(log: ThreadLog, turn: StoredTurn, mark: str) -> None:
    """Name the conversation that ends with a turn, for ``marked_turns``."""
    changed = update(TURN).where(*_row(turn)).values(mark=mark)
    await log.database.run(lambda connection: connection.execute(changed))


async def marked_turns(log: ThreadLog, agent: str, mark: str) -> Sequence[StoredTurn]:
    """The turns with a mark that end their sessions, newest first, among the agent's sessions that the log may use."""
    later = TURN.alias()
    # A conversation that continued after the mark is another one now: only a session that ends there continues it.
    follows = select(later.c.number).where(later.c.thread == TURN.c.thread, later.c.number > TURN.c.number)
    query = _turns().where(TURN.c.mark == mark, THREAD.c.agent == agent, owned(log.owner), ~follows.exists())
    return await _all(log, query.order_by(TURN.c.created_ms.desc()))


async def set_state(
    log: ThreadLog, turn: StoredTurn, state: TurnState, *, ending: Mapping[str, Any] | None = None
) -> TurnState:
    """Note that a turn began, waits or ended, and return its state now: a final state stays.

    A turn that was cancelled before it waits is ``cancelled``: no run would see that it was asked to.

    Args:
        ending: the terminal event of a turn that waits or ended.
    """
    return await log.database.run(setting_state(log, turn, state, ending=ending))


def setting_state(
    log: ThreadLog, turn: StoredTurn, state: TurnState, *, ending: Mapping[str, Any] | None = None
) -> Callable[[Connection], TurnState]:
    """``set_state`` inside a larger transaction."""
    now = log.now_ms()
    values = {
        "of_session": turn.session,
        "of_run": turn.run,
        "now_is": state,
        "began_ms": now if state == "running" else None,
        "over_ms": None if ending is None else now,
        "as_json": None if ending is None else json.dumps(ending),
    }

    def work(connection: Connection) -> TurnState:
        now_is = state
        # A request to cancel either came before, and its note is found here; or it waits for this lock, and finds a
        # turn that waits, which it ends itself.
        if state == "waiting":
            _lock(connection, turn)
            if _is_asked(connection, turn):
                now_is = "cancelled"
        # Only an open turn changes: a late report of a process that lost the turn does not reopen an ended one.
        is_set = _SET.changed(connection, {**values, "now_is": now_is})
        if not is_set:
            return state_in(connection, turn)
        if now_is not in OPEN_STATES:
            _ended_in(connection, turn, now)
        return now_is

    return work


def _ended_in(connection: Connection, turn: StoredTurn, now_ms: int) -> None:
    """What follows from the end of a turn that had begun, whatever ended it: nothing of it waits any more."""
    withdraw_in(connection, turn.session)
    ((key,),) = _KEY.rows(connection, {"of_session": turn.session})
    # The list of sessions says what the last snapshot says.
    if is_waiting_in(connection, thread := Thread(key, turn.session)):
        take_snapshot(connection, thread, turn.run, "interrupted", now_ms)


def give_up_in(
    connection: Connection, log: ThreadLog, thread: Thread, *states: TurnState, message: str = _CONTINUED
) -> None:
    """End what waits in a session that continues without it, inside the transaction in which it does.

    The open requests of the session and its sub-agents are withdrawn, and the turn that waits is cancelled.

    Args:
        states: of a turn that is cancelled too.
        message: why it is cancelled.
    """
    found = _FIRST_OPEN.rows(connection, {"of_thread": thread.key})
    turn = _read(log, found[0]) if found else None
    if turn is not None and turn.state in ("waiting", *states):
        ending = _cancelled(turn, message)
        setting_state(log, turn, "cancelled", ending=ending)(connection)
    else:
        # A session of no service has no turns, and one that runs may have asked before it was interrupted.
        withdraw_in(connection, thread.session)


async def give_up(log: ThreadLog, thread: Thread) -> None:
    """``give_up_in`` in a transaction of its own.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    await owning(log.database, thread, "a withdrawal", lambda connection: give_up_in(connection, log, thread))


async def end_turn(log: ThreadLog, thread: Thread, run_id: str, reason: Reason) -> None:
    """Mark the session as used now, and take a snapshot of the run's result.

    When a run completes, its open requests and its sub-agents' are withdrawn: their calls have got other results,
    because the tools that asked no longer exist. A service's turn that waited was completed by another process.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> None:
        log.touch_in(connection, thread)
        if reason == "complete":
            give_up_in(connection, log, thread)
        take_snapshot(connection, thread, run_id, reason, log.now_ms())

    await owning(log.database, thread, "the end of a turn", work)


async def cancel_turn(log: ThreadLog, turn: StoredTurn) -> TurnState:
    """Cancel a turn that does not run, and return its state; ``asked_to_cancel`` tells the process that runs it."""
    now = log.now_ms()
    ending = _cancelled(turn, "The turn was cancelled.")
    end = setting_state(log, turn, "cancelled", ending=ending)

    def work(connection: Connection) -> TurnState:
        _lock(connection, turn)
        # Not by `end`: a turn that never began has asked nothing, and one before it may wait.
        values = {"state": "cancelled", "ending": json.dumps(ending), "ended_ms": now}
        changed = update(TURN).where(*_row(turn), TURN.c.state == "queued").values(values)
        if connection.execute(changed).rowcount:
            return "cancelled"
        state = state_in(connection, turn)
        if state == "waiting":
            return end(connection)
        # A note and not a state: the process that runs the turn ends it, and may have completed it just now.
        if state == "running" and not _is_asked(connection, turn):
            row = {"run_id": turn.run, "name": _CANCEL, "created_ms": now, "value": "true"}
            connection.execute(insert(NOTE).values(thread=_thread_of(turn), **row))
        return state

    return await log.database.run(work)


def _cancelled(turn: StoredTurn, message: str) -> Mapping[str, Any]:
    """The terminal event of a turn that is cancelled while it does not run."""
    ending = RunFailed(turn.session, "cancelled", message, exit_code=130)
    return {**ending.to_wire(), "run": turn.run}


def _lock(connection: Connection, turn: StoredTurn) -> None:
    """Keep a request to cancel apart from another, and from the end of the run: by the lock of the session's row."""
    connection.execute(update(THREAD).where(THREAD.c.session == turn.session).values(epoch=THREAD.c.epoch))


def _thread_of(turn: StoredTurn) -> Any:
    return select(THREAD.c.key).where(THREAD.c.session == turn.session).scalar_subquery()


def _row(turn: StoredTurn) -> tuple[Any, ...]:
    return TURN.c.thread == _thread_of(turn), TURN.c.run_id == turn.run


def _is_asked(connection: Connection, turn: StoredTurn) -> bool:
    here = (NOTE.c.thread == _thread_of(turn), NOTE.c.run_id == turn.run, NOTE.c.name == _CANCEL)
    return connection.execute(select(NOTE.c.name).where(*here)).first() is not None


def state_in(connection: Connection, turn: StoredTurn) -> TurnState:
    """A turn's state now, inside a larger transaction; ``cancelled`` if its session was deleted."""
    found = _STATE.rows(connection, {"of_session": turn.session, "of_run": turn.run})
    state: TurnState = found[0][0] if found else "cancelled"
    return state


async def asked_to_cancel(log: ThreadLog, sessions: Collection[str]) -> Sequence[tuple[str, str]]:
    """The sessions among ``sessions`` whose running turn is to be cancelled, and its run."""
    query = (
        select(THREAD.c.session, NOTE.c.run_id)
        .select_from(
            NOTE.join(THREAD).join(TURN, (TURN.c.thread == NOTE.c.thread) & (TURN.c.run_id == NOTE.c.run_id))
        )
        .where(NOTE.c.name == _CANCEL, TURN.c.state == "running", THREAD.c.session.in_(sessions))
    )
    return await log.database.run(lambda connection: [(row[0], row[1]) for row in connection.execute(query)])


def _last_run(connection: Connection, thread: Thread) -> str:
    """The run that wrote the session's last message; empty if there is none."""
    found = _LAST_MESSAGE.rows(connection, {"of_thread": thread.key})
    return str(found[0][0]).rpartition(".")[0] if found else ""


async def unfinished_sessions(log: ThreadLog, agent: str) -> Sequence[tuple[str, Owner | None]]:
    """The sessions of an agent with turns that are queued or running, and their owners."""
    query = (
        select(THREAD.c.session, THREAD.c.owner, THREAD.c.owner_project)
        .select_from(THREAD.join(TURN))
        .where(THREAD.c.agent == agent, TURN.c.state.in_(UNFINISHED), owned(log.owner))
        .distinct()
    )

    def work(connection: Connection) -> list[tuple[str, Owner | None]]:
        return [
            (session, None if user is None else Owner(user, project))
            for session, user, project in connection.execute(query)
        ]

    return await log.database.run(work)


class PausedTurn(NamedTuple):
    """A turn that waits.

    Args:
        owner: the session's.
        until: ``open_until_in`` its session.
    """

    turn: StoredTurn
    owner: Owner | None
    until: float


async def paused_turns(log: ThreadLog, agent: str, session: str | None = None) -> Sequence[PausedTurn]:
    """The turns of an agent that wait for decisions: of one session, or of all."""
    latest = SNAPSHOT.alias()
    last = select(func.max(latest.c.number)).where(latest.c.thread == THREAD.c.key).scalar_subquery()
    # Not one that another process resumed, and that does not wait any more.
    is_paused = (SNAPSHOT.c.thread == THREAD.c.key) & (SNAPSHOT.c.number == last)
    is_paused &= (SNAPSHOT.c.run_id == TURN.c.run_id) & (SNAPSHOT.c.reason == "approval")
    query = (
        _turns()
        .add_columns(THREAD.c.owner, THREAD.c.owner_project)
        .join(SNAPSHOT, is_paused)
        # Written out: with a parameter, SQLite does not use the index of the turns that wait.
        .where(THREAD.c.agent == agent, TURN.c.state == literal_column("'waiting'"), owned(log.owner))
    )
    if session is not None:
        query = query.where(THREAD.c.session == session)

    def work(connection: Connection) -> list[PausedTurn]:
        found = []
        for *row, user, project in connection.execute(query).all():
            turn = _read(log, row)
            owner = None if user is None else Owner(user, project)
            found.append(PausedTurn(turn, owner, open_until_in(connection, turn.session)))
        return found

    return await log.database.run(work)


async def _all(log: ThreadLog, query: Select[Any]) -> list[StoredTurn]:
    return await log.database.run(lambda connection: [_read(log, row) for row in connection.execute(query)])


async def _first_open(log: ThreadLog, thread: Thread) -> StoredTurn | None:
    found = await log.database.run(lambda connection: _FIRST_OPEN.rows(connection, {"of_thread": thread.key}))
    return _read(log, found[0]) if found else None


def _turns() -> Select[Any]:
    columns = ("run_id", "number", "state", "request", "created_ms", "started_ms", "ended_ms", "ending")
    names = (TURN.c[name] for name in (*columns, "idempotency_key"))
    return select(THREAD.c.session, *names).select_from(TURN.join(THREAD))


def _read(log: ThreadLog, row: Sequence[Any]) -> StoredTurn:
    session, run, number, state, request, created_ms, started_ms, ended_ms, ending, key = row
    return StoredTurn(
        session=session,
        run=run,
        number=number,
        state=state,
        request=json.loads(log.shown(request)),
        created_ms=created_ms,
        started_ms=started_ms,
        ended_ms=ended_ms,
        ending=None if ending is None else json.loads(log.shown(ending)),
        idempotency_key=key,
    )


def _given(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    return bindparam(name, type_=column.type)


_OF_THREAD: Final = TURN.c.thread == bindparam("of_thread")
_OF_RUN: Final = TURN.c.run_id == bindparam("of_run")
_USED: Final = Prepared(
    update(THREAD).where(THREAD.c.key == bindparam("of_thread")).values(updated_ms=bindparam("now_ms"))
)
_KNOWN: Final = Prepared(_turns().where(_OF_THREAD, _OF_RUN))
_OF_ANY: Final = Prepared(_turns().add_columns(THREAD.c.agent).where(_OF_RUN))
_OF_OWNER: Final = Prepared(_turns().add_columns(THREAD.c.agent).where(_OF_RUN, OWNED))
_FIRST_OPEN: Final = Prepared(
    _turns().where(_OF_THREAD, IS_OPEN).order_by(TURN.c.number).limit(literal_column("1"))
)
_LAST_NUMBER: Final = Prepared(
    select(func.coalesce(func.max(TURN.c.number), literal_column("0"))).where(_OF_THREAD)
)
_QUEUED: Final = Prepared(
    insert(TURN).values(
        thread=bindparam("of_thread"),
        run_id=bindparam("of_run"),
        number=bindparam("of_number"),
        state=literal_column("'queued'"),
        request=bindparam("as_json"),
        idempotency_key=bindparam("of_client"),
        created_ms=bindparam("now_ms"),
    )
)
_BEGUN: Final = Prepared(
    update(TURN)
    .where(_OF_THREAD, _OF_RUN, TURN.c.state == bindparam("was"))
    .values(state=literal_column("'running'"), started_ms=bindparam("now_ms"))
)
_OF_SESSION: Final = (
    TURN.c.thread == select(THREAD.c.key).where(THREAD.c.session == bindparam("of_session")).scalar_subquery()
)
_KEY: Final = Prepared(select(THREAD.c.key).where(THREAD.c.session == bindparam("of_session")))
_STATE: Final = Prepared(select(TURN.c.state).where(_OF_SESSION, _OF_RUN))
_SET: Final = Prepared(
    update(TURN)
    .where(_OF_SESSION, _OF_RUN, IS_OPEN)
    .values(
        state=bindparam("now_is"),
        started_ms=func.coalesce(TURN.c.started_ms, _given("began_ms", TURN.c.started_ms)),
        ended_ms=func.coalesce(_given("over_ms", TURN.c.ended_ms), TURN.c.ended_ms),
        ending=func.coalesce(_given("as_json", TURN.c.ending), TURN.c.ending),
    )
)
_LAST_MESSAGE: Final = Prepared(
    select(MESSAGE.c.id)
    .where(MESSAGE.c.thread == bindparam("of_thread"))
    .order_by(MESSAGE.c.seq.desc())
    .limit(literal_column("1"))
)
