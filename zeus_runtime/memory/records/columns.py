"""The values of columns: times in milliseconds, and one key for texts that say the same."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from sqlalchemy import case

from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.store.memory_tables import ITEM

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

SAID_MS: Final = case((ITEM.c.version == 1, ITEM.c.created_ms), else_=ITEM.c.updated_ms)
"""``MemoryItem.said_at`` of a row."""


def to_ms(time: datetime) -> int:
    """Milliseconds since 1970, rounded down."""
    return (time - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """The UTC time of so many milliseconds since 1970."""
    return _EPOCH + milliseconds * _MILLISECOND


def ms_or_none(time: datetime | None) -> int | None:
    """``to_ms`` where there is a time."""
    return None if time is None else to_ms(time)


def time_or_none(milliseconds: int | None) -> datetime | None:
    """``from_ms`` where there is a time."""
    return None if milliseconds is None else from_ms(milliseconds)


@lru_cache(64)
def digest(content: str) -> str:
    """Equal for texts that ``duplicate_key`` takes for the same."""
    return hashlib.sha256(duplicate_key(content).encode()).hexdigest()[:32]
