"""The figures of all memories of a place that can be found, on PostgreSQL packed into a few rows.

Seventy thousand rows take a second to fetch one by one, most of it in the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from zeus_runtime.memory.items import MEMORY_TYPES, VISIBILITIES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

ALWAYS_MS: Final = 2**62
"""A memory without a beginning or an end is valid from minus this, until this."""
_BLOCK: Final = 16_384
"""Items in a row: a value of PostgreSQL's holds a gigabyte at most, and is copied several times."""
# All aggregates of a block read its rows in one order, so the columns stay in step. Only turns need their
# `source_id`, and theirs has a "#".
_PACKED: Final = f"""
SELECT count(*), string_agg(int8send(key), ''), array_agg(id), string_agg(float8send(confidence), ''),
  string_agg(int4send(word_count), ''), string_agg(int8send(coalesce(valid_from_ms, -{ALWAYS_MS})), ''),
  string_agg(int8send(coalesce(valid_until_ms, {ALWAYS_MS})), ''), array_agg(created_by),
  string_agg(int4send(array_position(%(visibilities)s::text[], visibility) - 1), ''),
  string_agg(int4send(array_position(%(types)s::text[], memory_type) - 1), ''),
  array_agg(CASE WHEN position('#' IN source_id) > 0 THEN source_id END), array_agg(subject),
  string_agg(int8send(CASE WHEN version = 1 THEN created_ms ELSE updated_ms END), ''),
  string_agg(int8send(updated_ms), ''), array_agg(times)
FROM (
  SELECT *, (row_number() OVER (ORDER BY key) - 1) / {_BLOCK} AS block FROM memory_item
  WHERE place = %(place)s AND status = 'active' AND trust <> 'quarantined' ORDER BY key
) AS item GROUP BY block ORDER BY block"""


Column: TypeAlias = "Sequence[Any] | NDArray[Any]"


class Columns(NamedTuple):
    """Figures by item, in the order of the keys; visibilities and types as places in the lists of all."""

    keys: Column
    ids: Sequence[str]
    confidences: Column
    words: Column
    valid_from: Column
    valid_until: Column
    owners: Sequence[str]
    visibilities: Column
    types: Column
    source_ids: Sequence[str | None]
    subjects: Sequence[str | None]
    said: Column
    updated: Column
    times: Sequence[str | None]


def packed_items(connection: Connection, place: int) -> Columns:
    """All active items of a place that are not quarantined."""
    raw: Any = connection.connection.dbapi_connection
    values = {"place": place, "visibilities": list(VISIBILITIES), "types": list(MEMORY_TYPES)}
    rows = raw.execute(_PACKED, values, binary=True).fetchall()
    packed = list(zip(*rows, strict=True))[1:] if rows else [()] * 14

    def numbers(place: int, kind: str) -> NDArray[Any]:
        return np.frombuffer(b"".join(packed[place]), kind)

    return Columns(
        numbers(0, ">i8"),
        list(chain.from_iterable(packed[1])),
        numbers(2, ">f8"),
        numbers(3, ">i4"),
        numbers(4, ">i8"),
        numbers(5, ">i8"),
        list(chain.from_iterable(packed[6])),
        numbers(7, ">i4"),
        numbers(8, ">i4"),
        list(chain.from_iterable(packed[9])),
        list(chain.from_iterable(packed[10])),
        numbers(11, ">i8"),
        numbers(12, ">i8"),
        list(chain.from_iterable(packed[13])),
    )
