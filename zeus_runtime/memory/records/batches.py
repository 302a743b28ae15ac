"""Batches of memory changes as rows, their steps, and how far each session was searched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import and_, delete, func, insert, select, update

from zeus_runtime.memory.records.columns import from_ms, ms_or_none, time_or_none, to_ms
from zeus_runtime.store.memory_tables import BATCH, BATCH_STEP, CURSOR, ITEM

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

BatchKind: TypeAlias = Literal["extraction", "consolidation", "documents"]
BatchState: TypeAlias = Literal["open", "done", "unreadable", "undone"]


class Batch(NamedTuple):
    """The memory changes that one answer of a model proposed.

    Args:
        session: whose messages it was about; of documents, the part's key; None for a consolidation.
        first_seq, last_seq: the part of the session's log; 0 without a session.
        state: ``open`` while they are being saved; ``unreadable`` for an answer without proposals that could be read.
        proposals: empty when all are saved.
        cost_usd: of the call; None where no price is known.
    """

    id: str
    user_id: str
    kind: BatchKind
    session: str | None
    first_seq: int
    last_seq: int
    state: BatchState
    proposals: Sequence[Any]
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    created_at: datetime


class Replaced(NamedTuple):
    """A memory that gave way, or was changed.

    Args:
        version: that it has since then.
        valid_from, valid_until: before that.
    """

    id: str
    version: int
    valid_from: datetime | None
    valid_until: datetime | None


class BatchStep(NamedTuple):
    """The effect of one proposal.

    Args:
        item: the memory that it added; None if it added none.
    """

    number: int
    outcome: str
    item: str | None
    replaced: tuple[Replaced, ...]


class SearchCursor(NamedTuple):
    """How far a session was searched for facts.

    Args:
        seq: the last message that was searched; 0 for none.
        due: the number of runs that may have left new messages.
    """

    seq: int
    due: int


def cursor_of(connection: Connection, session: str) -> SearchCursor:
    """How far a session was searched."""
    row = connection.execute(select(CURSOR.c.seq, CURSOR.c.due).where(CURSOR.c.session == session)).first()
    return SearchCursor(0, 0) if row is None else SearchCursor(*row)


def set_due(connection: Connection, session: str, user_id: str, agent: str) -> None:
    """Note that a session may have new messages."""
    where = CURSOR.c.session == session
    if not connection.execute(update(CURSOR).where(where).values(due=CURSOR.c.due + 1)).rowcount:
        row = {"session": session, "user_id": user_id, "agent": agent, "seq": 0, "due": 1}
        connection.execute(insert(CURSOR), row)


def due_sessions(connection: Connection, user_id: str, agent: str) -> list[str]:
    """The sessions of a user and an agent that may have new messages."""
    where = and_(CURSOR.c.user_id == user_id, CURSOR.c.agent == agent, CURSOR.c.due > 0)
    return list(
        connection.execute(select(CURSOR.c.session).where(where).order_by(CURSOR.c.session)).scalars()
    )


def searched(connection: Connection, session: str, seq: int) -> None:
    """Note that all messages up to ``seq`` were searched."""
    # Only forwards, so that a late or repeated call moves nothing back.
    connection.execute(update(CURSOR).where(CURSOR.c.session == session, CURSOR.c.seq < seq).values(seq=seq))


def set_searched(connection: Connection, session: str, due: int) -> None:
    """Note that the messages of ``due`` runs were searched; a run that began meanwhile still counts."""
    # Subtracted and not set to 0, as runs may have counted up since `due` was read.
    connection.execute(update(CURSOR).where(CURSOR.c.session == session).values(due=CURSOR.c.due - due))


def put_batch(connection: Connection, batch: Batch) -> None:
    """Insert a batch."""
    row = batch._asdict() | {"proposals": _json(batch.proposals), "created_ms": to_ms(batch.created_at)}
    del row["created_at"]
    connection.execute(insert(BATCH), row)


def set_state(connection: Connection, batch: str, state: BatchState) -> None:
    """Write a batch's last state; its proposals go."""
    connection.execute(update(BATCH).where(BATCH.c.id == batch).values(state=state, proposals="[]"))


def batches(connection: Connection, user_id: str, *where: ColumnElement[bool]) -> list[Batch]:
    """The user's batches for which ``where`` holds, oldest first."""
    query = (
        select(*_COLUMNS).where(BATCH.c.user_id == user_id, *where).order_by(BATCH.c.created_ms, BATCH.c.id)
    )
    return [_batch(row) for row in connection.execute(query)]


def open_batches(connection: Connection, user_id: str, session: str | None) -> list[Batch]:
    """The user's batches of one session, or of none, that are not saved completely."""
    return batches(connection, user_id, BATCH.c.session == session, BATCH.c.state == "open")


def batch_of(connection: Connection, user_id: str, batch: str) -> Batch | None:
    """One of the user's batches; on PostgreSQL its row is locked until the transaction ends."""
    query = select(*_COLUMNS).where(BATCH.c.id == batch, BATCH.c.user_id == user_id).with_for_update()
    row = connection.execute(query).first()
    return None if row is None else _batch(row)


_COLUMNS: Final = tuple(
    BATCH.c[name] if name != "created_at" else BATCH.c.created_ms for name in Batch._fields
)


def _batch(row: Any) -> Batch:
    made = Batch(*row)
    return made._replace(proposals=json.loads(row.proposals), created_at=from_ms(row.created_ms))


def put_step(connection: Connection, batch: str, step: BatchStep) -> None:
    """Insert the effect of one proposal."""
    replaced = [
        [each.id, each.version, ms_or_none(each.valid_from), ms_or_none(each.valid_until)]
        for each in step.replaced
    ]
    row = {**step._asdict(), "batch": batch, "replaced": _json(replaced)}
    connection.execute(insert(BATCH_STEP), row)


def steps_of(connection: Connection, batch: str) -> list[BatchStep]:
    """The steps of a batch, in order."""
    query = select(BATCH_STEP).where(BATCH_STEP.c.batch == batch).order_by(BATCH_STEP.c.number)
    return [
        BatchStep(
            row.number,
            row.outcome,
            row.item,
            tuple(
                Replaced(name, version, time_or_none(since), time_or_none(until))
                for name, version, since, until in json.loads(row.replaced)
            ),
        )
        for row in connection.execute(query)
    ]


def outcome_counts(connection: Connection, user_id: str) -> dict[str, dict[str, int]]:
    """Of each of the user's batches the number of its proposals by outcome."""
    query = (
        select(BATCH_STEP.c.batch, BATCH_STEP.c.outcome, func.count())
        .join(BATCH, BATCH.c.id == BATCH_STEP.c.batch)
        .where(BATCH.c.user_id == user_id)
        .group_by(BATCH_STEP.c.batch, BATCH_STEP.c.outcome)
    )
    counted: dict[str, dict[str, int]] = {}
    for batch, outcome, count in connection.execute(query):
        counted.setdefault(batch, {})[outcome] = count
    return counted


def spent(connection: Connection, session: str, since: int) -> float:
    """The cost of the calls for a session's messages from number ``since`` on, in US dollars."""
    query = select(func.sum(BATCH.c.cost_usd)).where(BATCH.c.session == session, BATCH.c.last_seq >= since)
    return float(connection.execute(query).scalar() or 0.0)


def new_since_consolidation(connection: Connection, user_id: str) -> int:
    """How many active memories the user made since the last consolidation."""
    last = select(func.max(BATCH.c.created_ms)).where(
        BATCH.c.user_id == user_id, BATCH.c.kind == "consolidation"
    )
    since = connection.execute(last).scalar() or 0
    where = (ITEM.c.created_by == user_id, ITEM.c.status == "active", ITEM.c.created_ms > since)
    return int(connection.execute(select(func.count()).select_from(ITEM).where(*where)).scalar_one())


def forget_batches_of(connection: Connection, session: str) -> None:
    """Remove what is noted of a session that is deleted; memories that came from it stay."""
    ids = select(BATCH.c.id).where(BATCH.c.session == session)
    connection.execute(delete(BATCH_STEP).where(BATCH_STEP.c.batch.in_(ids)))
    connection.execute(delete(BATCH).where(BATCH.c.session == session))
    connection.execute(delete(CURSOR).where(CURSOR.c.session == session))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
