"""Whether the rows, the lexical index and the vectors of the memories agree, and how they are made to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import DatabaseError

from zeus_runtime.errors import RunError
from zeus_runtime.memory import records

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.vectors import VectorStore


def reconcile(connection: Connection, vectors: VectorStore) -> None:
    """Forget vectors that are not of the rows as they are now, and mark rows whose vector is missing."""
    rows, kept = records.embedded(connection), vectors.made_from(connection)
    # None: the store does not know the source, so the vector counts as right if there is a row for it.
    wrong = {each for each, source in kept.items() if source not in (None, rows.get(each))}
    wrong |= kept.keys() - rows.keys()
    # Before the rows are unmarked: if this transaction is lost, the rows lack vectors, and the next `open` finds
    # that.
    vectors.remove(connection, wrong)
    records.unmark_embedded(connection, (rows.keys() - kept.keys()) | (wrong & rows.keys()))


def check(connection: Connection, vectors: VectorStore) -> None:
    """That the rows, the lexical index and the vectors agree.

    Raises:
        RunError: they do not; says which.
    """
    if connection.dialect.name == "sqlite":
        try:
            connection.exec_driver_sql(
                "INSERT INTO memory_words(memory_words, rank) VALUES ('integrity-check', 1)"
            )
        except DatabaseError as error:
            raise RunError(
                "the lexical index of the memories does not agree with their rows",
                remedy="`zeus memory reindex` makes it anew.",
            ) from error
    wrong = records.embedded_ids(connection) ^ vectors.ids(connection)
    if wrong:
        raise RunError(
            f"{len(wrong)} memories have a row or a vector without the other",
            remedy="`zeus memory reindex` makes the vectors anew.",
        )
