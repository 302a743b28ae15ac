"""The turns that a service was asked for: a queue for each session, which outlives the service's process."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, RowMapping, Select, func, insert, select, update

from zeus_runtime.errors import BusyError
from zeus_runtime.store.tables import MESSAGE, NOTE, THREAD, TURN
from zeus_runtime.store.threads import Owner, owned

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

TurnState: TypeAlias = Literal["queued", "running", "waiting", "complete", "failed", "cancelled"]

UNFINISHED: Final = ("queued", "running")
_OPEN: Final = (*UNFINISHED, "waiting")
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
        return self.state not in _OPEN


async def add_turn(
    log: ThreadLog,
    thread: Thread,
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
        BusyError: the session has a turn that is not over, and ``queue`` is false.
    """
    now = log.now_ms()

    def work(connection: Connection) -> tuple[StoredTurn, bool]:
        # The row's lock keeps two requests with one key apart.
        connection.execute(update(THREAD).where(THREAD.c.key == thread.key).values(updated_ms=now))
        known = connection.execute(_turns().where(TURN.c.thread == thread.key, TURN.c.run_id == run))
        if (row := known.mappings().first()) is not None:
            return _read(row), False
        if not queue and connection.execute(_open_turns(thread).limit(1)).first() is not None:
            raise BusyError(
                f"the session {thread.session} has a turn that is not over",
                remedy="Wait for it, cancel it, or queue the turn (queue=1).",
            )
        last = select(func.coalesce(func.max(TURN.c.number), 0)).where(TURN.c.thread == thread.key)
        values = {
            "thread": thread.key,
            "run_id": run,
            "number": connection.execute(last).scalar_one() + 1,
            "state": "queued",
            "request": json.dumps(request),
            "idempotency_key": key,
            "created_ms": now,
        }
        connection.execute(insert(TURN), values)
        made = StoredTurn(
            session=thread.session,
            run=run,
            number=values["number"],
            state="queued",
            request=request,
            created_ms=now,
            started_ms=None,
            ended_ms=None,
            ending=None,
            idempotency_key=key,
        )
        return made, True

    return await log.database.run(work)


async def begin_turn(log: ThreadLog, session: str) -> tuple[StoredTurn, bool] | None:
    """Note that the turn of ``next_turn`` runs; also whether its run has written the session's last message.

    Raises:
        NotFoundError, UsageError: the session does not exist, or it is archived.
    """
    now = log.now_ms()

    def work(connection: Connection, thread: Thread) -> tuple[StoredTurn, bool] | None:
        while (row := connection.execute(_open_turns(thread).limit(1)).mappings().first()) is not None:
            turn = _read(row)
            if turn.state == "waiting":
                return None
            if turn.state == "queued" or turn.started_ms is None:
                started = now if turn.started_ms is None else turn.started_ms
                here = (TURN.c.thread == thread.key, TURN.c.run_id == turn.run, TURN.c.state == turn.state)
                changed = update(TURN).where(*here).values(state="running", started_ms=started)
                if not connection.execute(changed).rowcount:
                    continue  # cancelled meanwhile
                turn = replace(turn, state="running", started_ms=started)
            return turn, _last_run(connection, thread) == turn.run
        return None

    return await log.within(session, work)


async def next_turn(log: ThreadLog, thread: Thread) -> StoredTurn | None:
    """The first turn of a session that is queued or running, unless one before it waits for a decision."""
    found = await _all(log, _open_turns(thread).limit(1))
    return found[0] if found and found[0].state != "waiting" else None


async def waiting_turn(log: ThreadLog, thread: Thread) -> StoredTurn | None:
    """The turn of a session that waits for a decision: the first that is not over, if any."""
    found = await _all(log, _open_turns(thread).limit(1))
    return found[0] if found and found[0].state == "waiting" else None


async def turns_of(log: ThreadLog, thread: Thread) -> Sequence[StoredTurn]:
    """The turns of a session in order."""
    return await _all(log, _turns().where(TURN.c.thread == thread.key).order_by(TURN.c.number))


async def find_turn(log: ThreadLog, run: str) -> StoredTurn | None:
    """The turn of a run, among the sessions that the log may use."""
    found = await _all(log, _turns().where(TURN.c.run_id == run, owned(log.owner)))
    return found[0] if found else None


async def set_mark(log: ThreadLog, turn: StoredTurn, mark: str) -> None:
    """Name the conversation that ends with a turn, for ``marked_turns``."""
    changed = update(TURN).where(*_row(turn)).values(mark=mark)
    await log.database.run(lambda connection: connection.execute(changed))


async def marked_turns(log: ThreadLog, agent: str, mark: str) -> Sequence[StoredTurn]:
    """The turns with a mark that end their sessions, newest first, among the agent's sessions that the log may use."""
    later = TURN.alias()
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
    now = log.now_ms()
    values: dict[str, Any] = {"state": state}
    if state == "running":
        values["started_ms"] = now if turn.started_ms is None else turn.started_ms
    if ending is not None:
        values |= {"ending": json.dumps(ending), "ended_ms": now}

    def work(connection: Connection) -> TurnState:
        if state == "waiting":
            _lock(connection, turn)
            if _is_asked(connection, turn):
                values["state"] = "cancelled"
        changed = update(TURN).where(*_row(turn), TURN.c.state.in_(_OPEN)).values(values)
        return values["state"] if connection.execute(changed).rowcount else _state(connection, turn)

    return await log.database.run(work)


async def cancel_turn(log: ThreadLog, turn: StoredTurn, *, ending: Mapping[str, Any]) -> TurnState:
    """Cancel a turn that does not run, and return its state; ``asked_to_cancel`` tells the process that runs it.

    Args:
        ending: its terminal event, if it does not run.
    """
    now = log.now_ms()

    def work(connection: Connection) -> TurnState:
        _lock(connection, turn)
        values = {"state": "cancelled", "ending": json.dumps(ending), "ended_ms": now}
        changed = update(TURN).where(*_row(turn), TURN.c.state.in_(("queued", "waiting"))).values(values)
        if connection.execute(changed).rowcount:
            return "cancelled"
        state = _state(connection, turn)
        if state == "running" and not _is_asked(connection, turn):
            row = {"run_id": turn.run, "name": _CANCEL, "created_ms": now, "value": "true"}
            connection.execute(insert(NOTE).values(thread=_thread_of(turn), **row))
        return state

    return await log.database.run(work)


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


def _state(connection: Connection, turn: StoredTurn) -> TurnState:
    """A turn's state now; ``cancelled`` if its session was deleted."""
    return connection.execute(select(TURN.c.state).where(*_row(turn))).scalar() or "cancelled"


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
    query = select(MESSAGE.c.id).where(MESSAGE.c.thread == thread.key).order_by(MESSAGE.c.seq.desc()).limit(1)
    return (connection.execute(query).scalar() or "").rpartition(".")[0]


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


async def _all(log: ThreadLog, query: Select[Any]) -> list[StoredTurn]:
    return await log.database.run(
        lambda connection: [_read(row) for row in connection.execute(query).mappings()]
    )


def _open_turns(thread: Thread) -> Select[Any]:
    """The turns of a session that are not over, in order."""
    query = _turns().where(TURN.c.thread == thread.key, TURN.c.state.in_(_OPEN))
    return query.order_by(TURN.c.number)


def _turns() -> Select[Any]:
    return select(THREAD.c.session, TURN).select_from(TURN.join(THREAD))


def _read(row: RowMapping) -> StoredTurn:
    return StoredTurn(
        session=row["session"],
        run=row["run_id"],
        number=row["number"],
        state=row["state"],
        request=json.loads(row["request"]),
        created_ms=row["created_ms"],
        started_ms=row["started_ms"],
        ended_ms=row["ended_ms"],
        ending=None if row["ending"] is None else json.loads(row["ending"]),
        idempotency_key=row["idempotency_key"],
    )
