"""Statements that are executed many times, compiled once.

SQLAlchemy takes 100 to 250 microseconds around a statement, SQLite 10 to 30 for one of a row or a few, psycopg 60
to 100. So what a search or an add executes goes to the driver as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect

    Statement: TypeAlias = Any
    """A SQLAlchemy construct that can be compiled and executed; there is no public type for both."""


def sqlite_driver(connection: Connection) -> sqlite3.Connection | None:
    """The driver's own connection to SQLite; None on another database."""
    raw: object = connection.connection.dbapi_connection
    return raw if isinstance(raw, sqlite3.Connection) else None


def server_driver(connection: Connection) -> Any:
    """psycopg's own connection, in the transaction that SQLAlchemy began."""
    raw = connection.connection.dbapi_connection
    assert raw is not None
    return raw


class Prepared:
    """A statement whose columns and parameters are integers, floats, texts and bytes, which need no conversion.

    Args:
        statement: a SQLAlchemy construct without parameters that expand.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(
        self, connection: Connection, values: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[Any]]:
        """All rows that the statement finds.

        Args:
            values: of the parameters that the statement does not hold itself.
        """
        found: Sequence[Sequence[Any]] = self._executed(connection, values or {}).fetchall()
        return found

    def run(self, connection: Connection, values: Mapping[str, object]) -> None:
        """Execute a statement that finds nothing."""
        self._executed(connection, values)

    def _executed(self, connection: Connection, values: Mapping[str, object]) -> Any:
        known = self._compiled.get(connection.dialect.name)
        if known is None:
            known = self._compiled[connection.dialect.name] = _compile(self._statement, connection.dialect)
        raw = sqlite_driver(connection)
        if raw is None:
            return server_driver(connection).execute(known.text, {**known.given, **values})
        given = known.given
        return raw.execute(
            known.text, [values[name] if name in values else given[name] for name in known.names]
        )


class _Compiled(NamedTuple):
    """A statement in a database's own words; its parameters in their order where they have no names."""

    text: str
    names: tuple[str, ...]
    given: dict[str, Any]


def _compile(statement: Statement, dialect: Dialect) -> _Compiled:
    compiled = statement.compile(dialect=dialect)
    given = {name: value for name, value in compiled.params.items() if value is not None}
    return _Compiled(compiled.string, tuple(compiled.positiontup or ()), given)
