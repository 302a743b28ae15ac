"""The audit log of a service: who did what, without what was said. Rows are added, never changed or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, insert, select

from zeus_runtime.store.tables import AUDIT

if TYPE_CHECKING:
    from zeus_runtime.store.database import Database

_SQLITE: Final = """
CREATE TRIGGER IF NOT EXISTS audit_entry_no_{name} BEFORE {verb} ON audit_entry
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"""
_POSTGRES: Final = (
    """
CREATE OR REPLACE FUNCTION zeus_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    "DROP TRIGGER IF EXISTS audit_entry_no_change ON audit_entry",
    """
CREATE TRIGGER audit_entry_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
FOR EACH STATEMENT EXECUTE FUNCTION zeus_append_only()""",
)


@dataclass(frozen=True)
class AuditEntry:
    """One act.

    Args:
        at_ms: when it was answered, UTC milliseconds.
        user_id: the user on whose behalf; None for the user who started the service, and for keys of all users.
        caller: ``local``, ``key:ID``, or ``oidc:ISSUER``.
        action: the route, such as ``POST /v1/runs/{run}/cancel``.
        agent: the agent's name.
        session: the session.
        subject: the id in the address that is not the session's: a run, an approval.
        decision: of an approval.
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
    """Let the database refuse changes of the audit log, whoever sends them; only the table's owner can lift this."""
    if connection.dialect.name == "postgresql":
        for statement in _POSTGRES:
            connection.exec_driver_sql(statement)
        return
    for verb in ("UPDATE", "DELETE"):
        connection.exec_driver_sql(_SQLITE.format(name=verb.lower(), verb=verb))


async def add_entry(database: Database, entry: AuditEntry) -> None:
    """Store an act."""
    await database.write(lambda connection: connection.execute(insert(AUDIT), asdict(entry)))


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
