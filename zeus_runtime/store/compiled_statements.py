"""Frequent statements, compiled once.

SQLAlchemy takes 100 to 250 microseconds around a statement. SQLite takes 10 to 30 for one of a few rows, psycopg 60 to
100. So the statements of a search or an insert go directly to the driver.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect

    Statement: TypeAlias = Any
    """A SQLAlchemy construct that can be compiled and executed; SQLAlchemy has no public type for both."""


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
        statement: a SQLAlchemy construct without expanding parameters.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        # By the dialect's name, on which alone the text depends. Two threads may compile it at once, with the same
        # result.
        self._compiled: dict[str, _Compiled] = {}

    def rows(
        self, connection: Connection, values: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[Any]]:
        """All rows that the statement returns.

        Args:
            values: the parameters that the statement does not contain itself.
        """
        found: Sequence[Sequence[Any]] = self._executed(connection, values or {}).fetchall()
        return found

    def run(self, connection: Connection, values: Mapping[str, object]) -> None:
        """Execute a statement that returns no rows."""
        self._executed(connection, values)

    def inserted(self, connection: Connection, values: Mapping[str, object]) -> int:
        """Execute an INSERT of one row (SQLite): a third faster than RETURNING.

        Returns:
            the row's key.
        """
        key: int = self._executed(connection, values).lastrowid
        return key

    def changed(self, connection: Connection, values: Mapping[str, object]) -> int:
        """Execute a statement that writes, with columns of any type.

        Args:
            values: all of its parameters.

        Returns:
            how many rows it wrote.
        """
        compiled = self._in(connection.dialect)
        # With the statement's own values, since these may need a conversion too.
        whole = {**compiled.given, **values}
        stored = {name: stored(whole[name]) for name, stored in compiled.conversions.items()}
        return int(self._executed(connection, {**values, **stored}).rowcount)

    def run_many(
        self, connection: Connection, names: tuple[str, ...], rows: Sequence[Sequence[object]]
    ) -> None:
        """Execute a statement that returns no rows, once for each row.

        Args:
            names: the statement's parameters, in order; each row has their values.

        Raises:
            ValueError: the statement has other parameters, or in another order (SQLite).
        """
        raw = sqlite_driver(connection)
        if raw is None:
            connection.execute(self._statement, [dict(zip(names, row, strict=True)) for row in rows])
            return
        compiled = self._in(connection.dialect)
        # The driver takes values by their order, and would store them in wrong columns without an error.
        if compiled.names != names:
            raise ValueError(f"the statement takes {compiled.names}, not {names}")
        raw.executemany(compiled.text, rows)

    def _executed(self, connection: Connection, values: Mapping[str, object]) -> Any:
        compiled = self._in(connection.dialect)
        raw = sqlite_driver(connection)
        if raw is None:
            # Planned once for each connection that keeps its server process (`postgres.Server`).
            return server_driver(connection).execute(
                compiled.text, {**compiled.given, **values}, prepare=True
            )
        return raw.execute(compiled.text, compiled.in_order(values))

    def _in(self, dialect: Dialect) -> _Compiled:
        known = self._compiled.get(dialect.name)
        if known is None:
            known = self._compiled[dialect.name] = _compile(self._statement, dialect)
        return known


class _Compiled(NamedTuple):
    """A statement in a database's dialect, with its parameters in order if they have no names.

    Args:
        given: the values that the statement itself has.
        conversions: from a value to that which is stored, for the parameters that need it.
    """

    text: str
    names: tuple[str, ...]
    given: dict[str, Any]
    conversions: dict[str, Callable[[Any], Any]]

    def in_order(self, values: Mapping[str, object]) -> list[object]:
        """The values of its parameters."""
        return [values[name] if name in values else self.given[name] for name in self.names]


def _compile(statement: Statement, dialect: Dialect) -> _Compiled:
    compiled = statement.compile(dialect=dialect)
    # None is a parameter whose value the caller has to give.
    given = {name: value for name, value in compiled.params.items() if value is not None}
    processors = {
        name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()
    }
    conversions = {name: each for name, each in processors.items() if each is not None}
    return _Compiled(compiled.string, tuple(compiled.positiontup or ()), given, conversions)
