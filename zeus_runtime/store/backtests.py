"""The backtests of a service: jobs that all its processes can read, each of one user and of the sessions it replays."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from zeus_runtime.errors import LimitError, NotFoundError, RunError
from zeus_runtime.store.database import alone
from zeus_runtime.store.row_security import for_everyone
from zeus_runtime.store.tables import BACKTEST, REPLAY, THREAD

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner

BacktestState: TypeAlias = Literal["running", "complete", "failed", "cancelled", "lost"]


@dataclass(frozen=True)
class StoredBacktest:
    """A backtest.

    Args:
        agents: those whose sessions it replays.
        state: ``lost`` if the process that ran it has ended.
        created_ms: UTC milliseconds.
        problem: why it failed.
        total: how many replays it has.
        outcomes: those of the replays that are done, each with ``session`` and ``policy``.
    """

    id: str
    agents: frozenset[str]
    state: BacktestState
    created_ms: int
    problem: str
    total: int
    outcomes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class BacktestLimits:
    """How many backtests a user has in a database.

    Args:
        running: the most that run.
        kept: the most that are kept; the oldest that is over goes first.
    """

    running: int
    kept: int


async def add_backtest(
    log: ThreadLog, name: str, replays: Sequence[tuple[str, str]], limits: BacktestLimits, *, key: str | None
) -> StoredBacktest:
    """Store a backtest of the log's user that runs; a known key gives the one that has it.

    Args:
        name: its id.
        replays: the session and the policy of each.
        key: tells it from all others.

    Raises:
        LimitError: too many of the user's run.
        NotFoundError: a session was deleted.
    """
    whose = _whose(log.owner)

    def work(connection: Connection) -> StoredBacktest:
        # Other beginnings would count the same backtests.
        alone(connection, "backtests")
        known = select(BACKTEST.c.id).where(whose, BACKTEST.c.idempotency_key == key)
        if key is not None and (found := connection.execute(known).scalar()) is not None:
            return _read(log, connection, BACKTEST.c.id == found)[0]
        count = select(func.count()).where(whose, BACKTEST.c.state == "running")
        if connection.execute(count).scalar_one() >= limits.running:
            raise LimitError(
                f"{limits.running} of your backtests run already", remedy="Wait for one, or cancel it."
            )
        _drop_old(connection, whose, limits.kept - 1)
        row = {
            "id": name,
            "idempotency_key": key,
            "owner": log.owner and log.owner.user,
            "owner_project": log.owner and log.owner.project,
            "created_ms": log.now_ms(),
            "state": "running",
            "problem": "",
        }
        connection.execute(insert(BACKTEST), row)
        keys = _keys(connection, {session for session, _ in replays})
        rows = [
            {"thread": keys[session], "backtest": name, "number": number, "policy": policy}
            for number, (session, policy) in enumerate(replays)
        ]
        connection.execute(insert(REPLAY), rows)
        return _read(log, connection, BACKTEST.c.id == name)[0]

    return await log.database.run(work)


async def backtests_of(log: ThreadLog) -> Sequence[StoredBacktest]:
    """The backtests of the log's user, oldest first."""
    return await log.database.run(lambda connection: _read(log, connection, _whose(log.owner)))


async def find_backtest(log: ThreadLog, name: str) -> StoredBacktest | None:
    """A backtest of the log's user."""
    if not name.isprintable():  # no backtest has such an id, and PostgreSQL refuses NUL in a parameter
        return None
    condition = and_(_whose(log.owner), BACKTEST.c.id == name)
    found = await log.database.run(lambda connection: _read(log, connection, condition))
    return found[0] if found else None


async def add_outcome(log: ThreadLog, name: str, number: int, outcome: Mapping[str, Any]) -> bool:
    """Store the outcome of a replay; False if the backtest is over, such as one that another process cancelled.

    Args:
        number: the replay's place, from 0.

    Raises:
        NotFoundError: its session was deleted.
    """

    def work(connection: Connection) -> bool:
        # A write first: its lock keeps an end of the backtest apart.
        if not connection.execute(_running(name).values(state="running")).rowcount:
            return False
        here = (REPLAY.c.backtest == name, REPLAY.c.number == number)
        if not connection.execute(update(REPLAY).where(*here).values(outcome=json.dumps(outcome))).rowcount:
            raise NotFoundError("a session of the backtest was deleted")
        return True

    return await log.database.run(work)


async def end_backtest(log: ThreadLog, name: str, state: BacktestState, *, problem: str = "") -> None:
    """Note the end of a backtest that runs; one that is over stays as it is. A lost one leaves its key to another."""
    values: dict[str, Any] = {"state": state, "problem": problem}
    if state == "lost":
        values["idempotency_key"] = None
    await log.database.run(lambda connection: connection.execute(_running(name).values(values)))


async def running_among(log: ThreadLog, names: Collection[str]) -> Collection[str]:
    """Those backtests that are stored as running."""
    query = select(BACKTEST.c.id).where(BACKTEST.c.id.in_(names), BACKTEST.c.state == "running")
    return await log.database.run(lambda connection: set(connection.execute(query).scalars()))


def drop_replays(connection: Connection, thread: int) -> None:
    """Delete the replays of a session, and the backtests that have no other, whosever they are."""
    with for_everyone(connection):
        of_thread = select(REPLAY.c.backtest).where(REPLAY.c.thread == thread)
        # Their locks first, in order: a session that is deleted at the same time would leave a backtest to this one.
        locked = select(BACKTEST.c.id).where(BACKTEST.c.id.in_(of_thread)).order_by(BACKTEST.c.id)
        names = list(connection.execute(locked.with_for_update()).scalars())
        if names:
            connection.execute(delete(REPLAY).where(REPLAY.c.thread == thread))
            others = select(REPLAY.c.backtest).where(REPLAY.c.backtest == BACKTEST.c.id)
            connection.execute(delete(BACKTEST).where(BACKTEST.c.id.in_(names), ~others.exists()))


def _whose(owner: Owner | None) -> ColumnElement[bool]:
    user, project = (None, None) if owner is None else (owner.user, owner.project)
    return and_(
        BACKTEST.c.owner.is_not_distinct_from(user), BACKTEST.c.owner_project.is_not_distinct_from(project)
    )


def _running(name: str) -> Any:
    return update(BACKTEST).where(BACKTEST.c.id == name, BACKTEST.c.state == "running")


def _drop_old(connection: Connection, whose: ColumnElement[bool], kept: int) -> None:
    over = select(BACKTEST.c.id).where(whose, BACKTEST.c.state != "running").order_by(*_ORDER)
    every = connection.execute(select(func.count()).where(whose)).scalar_one()
    if every > kept:
        names = list(connection.execute(over.limit(every - kept)).scalars())
        connection.execute(delete(BACKTEST).where(BACKTEST.c.id.in_(names)))  # and so their replays


def _keys(connection: Connection, sessions: set[str]) -> Mapping[str, int]:
    query = select(THREAD.c.session, THREAD.c.key).where(THREAD.c.session.in_(sessions))
    found = {each.session: each.key for each in connection.execute(query)}
    if gone := sessions - found.keys():
        raise NotFoundError(f"there is no session {min(gone)!r}")
    return found


_ORDER: Final = (BACKTEST.c.created_ms, BACKTEST.c.id)


def _read(log: ThreadLog, connection: Connection, condition: ColumnElement[bool]) -> list[StoredBacktest]:
    rows = connection.execute(select(BACKTEST).where(condition).order_by(*_ORDER)).all()
    replays: dict[str, list[Any]] = {row.id: [] for row in rows}
    query = (
        select(REPLAY, THREAD.c.session, THREAD.c.agent)
        .select_from(REPLAY.join(THREAD))
        .where(REPLAY.c.backtest.in_(replays))
        .order_by(REPLAY.c.number)
    )
    for each in connection.execute(query):
        replays[each.backtest].append(each)
    return [
        StoredBacktest(
            id=row.id,
            agents=frozenset(each.agent for each in replays[row.id]),
            state=row.state,
            created_ms=row.created_ms,
            problem=log.shown(row.problem),
            total=len(replays[row.id]),
            outcomes=[_outcome(log, each) for each in replays[row.id] if each.outcome is not None],
        )
        for row in rows
        if replays[row.id]
    ]


def _outcome(log: ThreadLog, replay: Any) -> Mapping[str, Any]:
    if not replay.outcome:
        raise RunError(
            f"an outcome of the backtest {replay.backtest} is damaged", remedy="Begin the backtest again."
        )
    return {
        "session": replay.session,
        "policy": log.shown(replay.policy),
        **json.loads(log.shown(replay.outcome)),
    }
