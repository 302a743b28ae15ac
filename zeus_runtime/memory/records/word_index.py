"""The upkeep of SQLite's index of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection


def rebuild_words(connection: Connection) -> None:
    """Make the lexical index anew from the rows (SQLite), be it as broken as it may."""
    if _levels(connection) > _WORN:
        # FTS5 does not even open an index with so many levels: an empty list of levels comes first.
        connection.exec_driver_sql("UPDATE memory_words_data SET block = zeroblob(7) WHERE id = 10")
    connection.exec_driver_sql(_REBUILD)


def purge_words(connection: Connection) -> None:
    """Leave nothing of deleted words in the index (SQLite before 3.42, which does not do so itself)."""
    worn = _levels(connection) > _WORN
    connection.exec_driver_sql(
        _REBUILD if worn else "INSERT INTO memory_words(memory_words) VALUES ('optimize')"
    )


def _levels(connection: Connection) -> int:
    """Bytes of the list of the index's levels."""
    return int(
        connection.exec_driver_sql("SELECT length(block) FROM memory_words_data WHERE id = 10").scalar_one()
    )


_REBUILD: Final = "INSERT INTO memory_words(memory_words) VALUES ('rebuild')"
_WORN: Final = 1_000
"""Before SQLite 3.42 each ``optimize`` of FTS5 leaves an empty level behind, and an index of 2,000 levels (4,000 bytes)
cannot be read any more; made anew, it has one."""
