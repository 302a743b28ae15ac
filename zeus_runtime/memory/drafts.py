"""What is asked to be kept, before the gate has seen it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast, overload

from zeus_runtime.errors import UsageError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import SOURCES, STATUSES, VISIBILITIES, Source, Visibility


@dataclass(frozen=True)
class Draft:
    """A text and what is said of it, as a model, a person or a file gave it.

    Args:
        created_at: since when it is kept, elsewhere, in these words; None for a new one.
    """

    content: str
    memory_type: str
    scope: str
    confidence: float
    source: Source
    source_id: str | None = None
    visibility: Visibility = "members"
    subject: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    created_at: datetime | None = None


def draft_of(entry: Mapping[str, Any], where: str) -> Draft:
    """The draft of an exported memory.

    Args:
        where: the entry is, for the error, such as ``entry 3`` or ``kept.jsonl:3:1``.

    Raises:
        UsageError: the entry is no memory; says what of it is not.
    """
    try:
        if not isinstance(entry.get("content"), str):
            raise ValueError("it has no content")
        since, until = _imported_time(entry, "valid_from"), _imported_time(entry, "valid_until")
        if since is not None and until is not None and until <= since:
            raise ValueError("it is valid until before it is valid from")
        return Draft(
            content=entry["content"],
            memory_type=_text(entry, "memory_type", "fact"),
            scope=_text(entry, "scope", "user"),
            confidence=_confidence(entry),
            source=cast(Source, _one_of(entry, "source", SOURCES)),
            source_id=_source_id(entry),
            visibility=cast(Visibility, _one_of(entry, "visibility", VISIBILITIES, "members")),
            subject=_text(entry, "subject", None),
            valid_from=since,
            valid_until=until,
            created_at=_said_at(entry),
        )
    except ValueError as error:
        raise UsageError(f"{where}: this is no memory: {error}", remedy=ENTRY_FORM) from None


def is_active(entry: Mapping[str, Any], where: str) -> bool:
    """Whether an exported memory was in use; one that was archived or superseded is not imported.

    Raises:
        UsageError: it has no status that a memory can have.
    """
    try:
        return _one_of(entry, "status", STATUSES, "active") == "active"
    except ValueError as error:
        raise UsageError(f"{where}: this is no memory: {error}", remedy=ENTRY_FORM) from None


ENTRY_FORM: Final = (
    'One object a line, as `zeus memory export` writes them: {"content": "…", "memory_type": "fact"}.'
)


@overload
def _text(entry: Mapping[str, Any], key: str, default: str) -> str: ...
@overload
def _text(entry: Mapping[str, Any], key: str, default: None) -> str | None: ...
def _text(entry: Mapping[str, Any], key: str, default: str | None) -> str | None:
    value = entry.get(key, default)
    if isinstance(value, str) or (value is None and default is None):
        return value
    raise ValueError(f"its {key} is no text")


def _said_at(entry: Mapping[str, Any]) -> datetime | None:
    """``MemoryItem.said_at`` of an exported memory: what was edited says since then what it says."""
    created, updated = _imported_time(entry, "created_at"), _imported_time(entry, "updated_at")
    return created if entry.get("version", 1) == 1 or updated is None else updated


def _source_id(entry: Mapping[str, Any]) -> str | None:
    value = _text(entry, "source_id", None)
    # The gate cleans contents and subjects alone; nothing else looks at what no database can hold.
    if value is not None and re.search("[\0\ud800-\udfff]", value):
        raise ValueError("its source_id has characters that cannot be stored")
    return value


def _one_of(entry: Mapping[str, Any], key: str, values: Sequence[str], default: str = "user") -> str:
    value = entry.get(key, default)
    if not isinstance(value, str) or value not in values:
        raise ValueError(f"its {key} is none of {', '.join(values)}")
    return value


def _confidence(entry: Mapping[str, Any]) -> float:
    value = entry.get("confidence", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("its confidence is no number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _imported_time(entry: Mapping[str, Any], key: str) -> datetime | None:
    text = _text(entry, key, None)
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"its {key} is no time, such as 2026-05-01T12:00:00+00:00") from None
