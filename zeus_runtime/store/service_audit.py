"""The audit log of a service: who did what, without what was said. Rows are only added, and may expire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, bindparam, delete, insert, select

from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.tables import AUDIT

if TYPE_CHECKING:
    from zeus_runtime.store.database import Database

LEAST_DAYS: Final = 30
"""The age in days before which the database lets nobody delete a row."""

_SQLITE: Final = (
    "DROP TRIGGER IF EXISTS audit_entry_no_update",
    "DROP TRIGGER IF EXISTS audit_entry_no_delete",
    """
CREATE TRIGGER audit_entry_no_update BEFORE UPDATE ON audit_entry
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
    f"""
CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry
WHEN old.at_ms > (CAST(strftime('%s', 'now') AS INTEGER) - {LEAST_DAYS} * 86400) * 1000
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
)
# TRUNCATE has no trigger for each row, so it shares one for each statement with UPDATE; a DELETE is judged by the age
# of each row.
_POSTGRES: Final = (
    """
CREATE OR REPLACE FUNCTION zeus_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    "DROP TRIGGER IF EXISTS audit_entry_no_change ON audit_entry",
    "DROP TRIGGER IF EXISTS audit_entry_no_delete ON audit_entry",
    """
CREATE TRIGGER audit_entry_no_change BEFORE UPDATE OR TRUNCATE ON audit_entry
FOR EACH STATEMENT EXECUTE FUNCTION zeus_append_only()""",
    f"""
CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry
FOR EACH ROW WHEN (old.at_ms > (extract(epoch FROM now()) - {LEAST_DAYS} * 86400) * 1000)
EXECUTE FUNCTION zeus_append_only()""",
)


@dataclass(frozen=True)
class AuditEntry:
    """One act.

    Args:
        at_ms: when it was answered, UTC milliseconds.
        user_id: the user on whose behalf; None for the user who started the service, and for keys of all users.
        caller: ``local``, ``key:ID``, or ``oidc:ISSUER``.
        action: the route, such as ``POST /v1/runs/{run}/cancel``; ``decide`` for a decision, whatever the client.
        agent: the agent's name.
        session: the session.
        subject: the id of what is acted on, besides the session: a run, an approval.
        decision: ``approve`` or ``reject``; only in a row of ``decide``.
        status: the HTTP status of the answer.
        outcome: ``done``, or the code of the error.
    """

    at_ms: int
    user_id: str | None
    caller: str
    action: str
    agent: str | None
    session: str | None
    subject: str | None
    decision: str | None
    status: int
    outcome: str


def append_only(connection: Connection) -> None:
    """Let the database refuse changes of the audit log, and deletions of its younger rows, whoever sends them.

    Only the table's owner can lift this.
    """
    for statement in _POSTGRES if connection.dialect.name == "postgresql" else _SQLITE:
        connection.exec_driver_sql(statement)


_ADDED: Final = Prepared(
    insert(AUDIT).values(
        {each: bindparam(each, type_=AUDIT.c[each].type) for each in AuditEntry.__annotations__}
    )
)


async def add_entry(database: Database, entry: AuditEntry) -> None:
    """Store an act."""
    row = asdict(entry)
    await database.write(lambda connection: _ADDED.run(connection, row))


async def expire(database: Database, before_ms: int) -> int:
    """Remove the entries from before ``before_ms`` (UTC milliseconds), which must be ``LEAST_DAYS`` ago; how many.

    Raises:
        RunError: the database refused, or cannot be written.
    """
    return await database.run(
        lambda connection: connection.execute(delete(AUDIT).where(AUDIT.c.at_ms < before_ms)).rowcount
    )


async def entries(
    database: Database, *, user: str | None = None, since_ms: int = 0, at_most: int = 100
) -> Sequence[AuditEntry]:
    """The newest acts, oldest first.

    Args:
        user: only this user's.
    """
    columns = [each for each in AUDIT.c if each.name != "number"]
    query = select(*columns).where(AUDIT.c.at_ms >= since_ms)
    if user is not None:
        query = query.where(AUDIT.c.user_id == user)
    query = query.order_by(AUDIT.c.number.desc()).limit(at_most)

    def work(connection: Connection) -> list[AuditEntry]:
        return [AuditEntry(*row) for row in connection.execute(query)]

    return (await database.run(work))[::-1]
