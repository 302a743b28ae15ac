"""Statements that are executed many times, compiled once.

SQLAlchemy takes 100 microseconds and more around each statement, and SQLite 10 to 30 for one of a row or a few. What a
search or an add executes therefore goes to SQLite's driver as it is; a server's round trip outweighs the difference,
and its driver is left to SQLAlchemy, which knows its types.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect

    Statement: TypeAlias = Any
    """A SQLAlchemy construct that can be compiled and executed; there is no public type for both."""


def sqlite_driver(connection: Connection) -> sqlite3.Connection | None:
    """The driver's own connection to SQLite; None on another database."""
    raw: object = connection.connection.dbapi_connection
    return raw if isinstance(raw, sqlite3.Connection) else None


class Prepared:
    """A statement whose columns and parameters are integers, floats, texts and bytes, which need no conversion.

    Args:
        statement: a SQLAlchemy construct without parameters that expand.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._text = ""
        self._names: tuple[str, ...] = ()
        self._given: dict[str, Any] = {}

    def rows(
        self, connection: Connection, values: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[Any]]:
        """All rows that the statement finds.

        Args:
            values: of the parameters that the statement does not hold itself.
        """
        raw = sqlite_driver(connection)
        if raw is None:
            return connection.execute(self._statement, dict(values or {})).all()
        return raw.execute(*self._bound(connection.dialect, values or {})).fetchall()

    def run(self, connection: Connection, values: Mapping[str, object]) -> None:
        """Execute a statement that finds nothing."""
        raw = sqlite_driver(connection)
        if raw is None:
            connection.execute(self._statement, dict(values))
        else:
            raw.execute(*self._bound(connection.dialect, values))

    def inserted(self, driver: sqlite3.Connection, dialect: Dialect, values: Mapping[str, object]) -> int:
        """Execute an INSERT of one row by SQLite's driver: a third quicker than RETURNING. The row's key."""
        key = driver.execute(*self._bound(dialect, values)).lastrowid
        assert key is not None
        return key

    def run_many(
        self, connection: Connection, names: tuple[str, ...], rows: Sequence[Sequence[object]]
    ) -> None:
        """Execute a statement that finds nothing once for each row.

        Args:
            names: of its parameters, in its order; what each row holds.

        Raises:
            ValueError: the statement's parameters are others, or in another order (SQLite).
        """
        raw = sqlite_driver(connection)
        if raw is None:
            connection.execute(self._statement, [dict(zip(names, row, strict=True)) for row in rows])
            return
        if not self._text:
            self._compile(connection.dialect)
        if self._names != names:
            raise ValueError(f"the statement takes {self._names}, not {names}")
        raw.executemany(self._text, rows)

    def _bound(self, dialect: Dialect, values: Mapping[str, object]) -> tuple[str, list[object]]:
        if not self._text:
            self._compile(dialect)
        given = self._given
        return self._text, [values[name] if name in values else given[name] for name in self._names]

    def _compile(self, dialect: Dialect) -> None:
        compiled = self._statement.compile(dialect=dialect)
        self._names = tuple(compiled.positiontup or ())
        self._given = {name: value for name, value in compiled.params.items() if value is not None}
        self._text = compiled.string
