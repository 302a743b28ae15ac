"""A new session that begins as another one was at a moment: its rows up to then, copied in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, insert, literal, select

from zeus_runtime.cutting import cut_again
from zeus_runtime.store.approval_rows import WITHDRAWN
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import reading
from zeus_runtime.store.file_references import note_files
from zeus_runtime.store.session_tree import refuse_inner
from zeus_runtime.store.snapshots import take_snapshot
from zeus_runtime.store.tables import APPROVAL, EDIT, MESSAGE, ROLLBACK, STEP, TEXT, THREAD
from zeus_runtime.store.thread_log import TITLE_CHARACTERS
from zeus_runtime.store.threads import Thread, first_epoch

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog


@dataclass(frozen=True)
class Moment:
    """A moment of a session, as the numbers of the last rows that it had then; 0 for none.

    Args:
        seq: the last message.
        edits, steps, rollbacks: the last ones.
    """

    seq: int
    edits: int
    steps: int
    rollbacks: int


POLICIES: Final = "middlewares"
"""In place of a digest: the text with a session's own middlewares, which a fork of it has too."""


def policies_in(connection: Connection, thread: Thread) -> str | None:
    """The middlewares that a session has in place of its config's, as YAML; None for those of the config."""
    found = _POLICIES.rows(connection, {"of_thread": thread.key})
    return found[0][0] if found else None


async def with_policies(log: ThreadLog, session: str, *, inner: bool = True) -> tuple[Thread, str | None]:
    """The thread of a session, and its own middlewares as they are stored; None for those of the config.

    Args:
        inner: whether it may be a sub-agent's session.

    Raises:
        UsageError: the session does not exist, is archived, or is a sub-agent's and must not be.
    """

    def work(connection: Connection, thread: Thread) -> tuple[Thread, str | None]:
        if not inner:
            refuse_inner(connection, thread)
        return thread, policies_in(connection, thread)

    return await log.within(session, work)


_POLICIES: Final = Prepared(
    select(TEXT.c.text).where(TEXT.c.thread == bindparam("of_thread"), TEXT.c.digest == POLICIES)
)


async def copy(
    log: ThreadLog,
    thread: Thread,
    session: str,
    moment: Moment,
    *,
    title_end: str,
    policies: str | None = None,
) -> Thread:
    """Begin the session ``session`` as the session of ``thread`` was at a moment; both have one owner.

    A rollback that sets nothing aside is the copy's last row: what is resumed in it is a new run.

    Args:
        title_end: follows the title, if there is one, after a blank.
        policies: the copy's own middlewares, as ``policies_in`` gives them; None for those of the other session.
    """
    now = log.now_ms()

    def work(connection: Connection) -> Thread:
        # The session may be running: rows that it writes meanwhile are beyond the moment, and left out.
        of = connection.execute(select(THREAD).where(THREAD.c.key == thread.key)).mappings().one()
        row = {
            "session": session,
            "agent": of["agent"],
            "created_ms": now,
            "updated_ms": now,
            "title": f"{cut_again(of['title'], TITLE_CHARACTERS - len(title_end) - 1)} {title_end}".strip(),
            "epoch": first_epoch(),
            "owner": of["owner"],
            "owner_project": of["owner_project"],
        }
        made = connection.execute(insert(THREAD).returning(THREAD.c.key), row)
        key = int(made.scalar_one())
        for table, column, last in (
            (MESSAGE, MESSAGE.c.seq, moment.seq),
            (EDIT, EDIT.c.number, moment.edits),
            (STEP, STEP.c.number, moment.steps),
            (ROLLBACK, ROLLBACK.c.number, moment.rollbacks),
        ):
            _copy(connection, table, thread.key, key, column <= last)
        # The decisions about the calls whose results are copied; they are for those runs, and for no call of the fork.
        copied = select(func.max(MESSAGE.c.created_ms)).where(MESSAGE.c.thread == key).scalar_subquery()
        made_by_then = APPROVAL.c.created_ms <= copied
        _copy(connection, APPROVAL, thread.key, key, APPROVAL.c.verdict != WITHDRAWN, made_by_then)
        # All of them: a text has no number, and one too many is harmless.
        _copy(connection, TEXT, thread.key, key)
        if policies is not None:
            # The other session's own, which were copied with the texts.
            connection.execute(delete(TEXT).where(TEXT.c.thread == key, TEXT.c.digest == POLICIES))
            connection.execute(insert(TEXT), {"thread": key, "digest": POLICIES, "text": policies})
        for table in (MESSAGE, EDIT):
            payloads = select(table.c.payload).where(table.c.thread == key)
            note_files(connection, key, connection.execute(payloads).scalars().all())
        end = {
            "thread": key,
            "number": moment.rollbacks + 1,
            "kept_seq": moment.seq,
            "last_seq": moment.seq,
            "edits": moment.edits,
            "steps": moment.steps,
            "created_ms": now,
        }
        connection.execute(insert(ROLLBACK), end)
        begun = Thread(key, session)
        take_snapshot(connection, begun, "", "manual", now)
        return begun

    return await reading(log.database, thread, work)


def _copy(connection: Connection, table: Table, of: int, to: int, *conditions: ColumnElement[bool]) -> None:
    others = [each for each in table.c if each.name != _THREAD]
    rows = select(literal(to), *others).where(table.c[_THREAD] == of, *conditions)
    connection.execute(insert(table).from_select([_THREAD, *(each.name for each in others)], rows))


_THREAD: Final = "thread"
