"""A session's rows as one compressed text, and back: JSON lines, each with a table's name and one row's values.

Values are copied as stored (ledger entries remain deflated), so that a restored session is byte-identical.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, column, delete, insert, select, table

from zeus_runtime.errors import RunError
from zeus_runtime.store.tables import (
    APPROVAL,
    EDIT,
    EVENT,
    MESSAGE,
    NOTE,
    ROLLBACK,
    SNAPSHOT,
    STEP,
    TEXT,
    TURN,
)

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    each.name: tuple(one.name for one in each.columns if one.name != "thread")
    for each in (MESSAGE, EDIT, STEP, TEXT, ROLLBACK, SNAPSHOT, APPROVAL, NOTE, TURN, EVENT)
}
"""Columns by table, without ``thread``; the first one gives the order. They have no types, so values stay unconverted.

A session that was archived before a column was added names its own columns.
"""

_TABLES: Final = {
    name: table(name, column("thread"), *(column(each) for each in columns))
    for name, columns in _COLUMNS.items()
}
_FORMAT: Final = 1
_ROWS_AT_ONCE: Final = 500


@dataclass(frozen=True)
class Packing:
    """A session's packed rows.

    Args:
        counts: the number of rows by table.
        digest: SHA-256 of the lines.
        data: the lines, deflated.
    """

    counts: Mapping[str, int]
    digest: str
    data: bytes


def pack_rows(connection: Connection, thread: int) -> Packing:
    """Pack every row of ``thread``; nothing is removed."""
    counts: Counter[str] = Counter()
    digest, deflate, parts = hashlib.sha256(), zlib.compressobj(6), []

    def write(value: Any) -> None:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        parts.append(deflate.compress(line))

    write({"format": _FORMAT, "columns": _COLUMNS})
    for name, source in _TABLES.items():
        columns = [source.c[each] for each in _COLUMNS[name]]
        rows = connection.execute(select(*columns).where(source.c.thread == thread).order_by(columns[0]))
        for row in rows:
            counts[name] += 1
            write([name, *map(_out, row)])
    return Packing(counts, digest.hexdigest(), b"".join([*parts, deflate.flush()]))


def unpack_rows(connection: Connection, thread: int, data: bytes, digest: str) -> None:
    """Write the rows of ``data`` as rows of ``thread``.

    Raises:
        RunError: the data is damaged.
    """
    waiting: list[dict[str, Any]] = []
    at = ""

    def flush() -> None:
        if waiting:
            connection.execute(insert(_TABLES[at]), waiting)
            waiting.clear()

    for name, row in _lines(data, digest):
        if name != at or len(waiting) >= _ROWS_AT_ONCE:
            flush()
            at = name
        # An older archive may have a column that is not needed any more.
        waiting.append(
            {"thread": thread, **{each: value for each, value in row.items() if each in _COLUMNS[name]}}
        )
    flush()


def packed_rows(data: bytes, digest: str, name: str) -> list[Mapping[str, Any]]:
    """The rows of the table ``name`` in ``data``, with values as stored.

    Raises:
        RunError: the data is damaged.
    """
    return [row for table_name, row in _lines(data, digest) if table_name == name]


def drop_rows(connection: Connection, thread: int) -> None:
    """Remove every row of ``thread``, except its row in the table ``thread``."""
    # In reverse, so that rows go before the rows that they refer to.
    for source in reversed(_TABLES.values()):
        connection.execute(delete(source).where(source.c.thread == thread))


def _lines(data: bytes, digest: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = zlib.decompress(data)
    except zlib.error as error:
        raise _damaged(str(error)) from None
    if hashlib.sha256(text).hexdigest() != digest:
        raise _damaged("its digest is another")
    # Bytes are divided at line feeds only; a str would also be divided at U+2028, which JSON does not escape.
    head, *rows = map(json.loads, text.splitlines())
    if head["format"] != _FORMAT:
        raise RunError(
            f"the archived session has the format {head['format']}, which this Zeus does not know",
            remedy="Restore it with the newer Zeus that archived it.",
        )
    # The archive's own columns, not `_COLUMNS`: a column that was added since takes its default.
    columns = head["columns"]
    return [(name, dict(zip(columns[name], map(_in, values), strict=True))) for name, *values in rows]


def _damaged(why: str) -> RunError:
    return RunError(
        f"the archived session is damaged: {why}",
        remedy="Nothing was changed. Take its row of checkpoint_archive from a backup of the database.",
    )


def _out(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    return value


def _in(value: Any) -> Any:
    # No column holds a JSON object, so an object is always the mark for bytes.
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
