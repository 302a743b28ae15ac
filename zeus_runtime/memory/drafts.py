"""A text that a caller wants to keep, before the gate has checked it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast, overload

from zeus_runtime.errors import UsageError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import SOURCES, STATUSES, VISIBILITIES, Source, Status, Visibility

if TYPE_CHECKING:
    from zeus_runtime.memory.records.histories import HistoryEntry


@dataclass(frozen=True)
class Draft:
    """A text and what is said of it, as a model, a person or a file gave it.

    Args:
        created_at: since when it says so, elsewhere; None for a new one.

    Raises:
        ValueError: a value that a memory cannot have and that a model does not choose: source, visibility, times.
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

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"its source is none of {', '.join(SOURCES)}")
        if self.visibility not in VISIBILITIES:
            raise ValueError(f"its visibility is none of {', '.join(VISIBILITIES)}")
        # The gate cleans only contents and subjects; nothing else rejects characters that no database can store.
        if self.source_id is not None and _UNSTORABLE.search(self.source_id):
            raise ValueError("its source_id has characters that cannot be stored")
        for name, time in (("valid_from", self.valid_from), ("valid_until", self.valid_until)):
            if time is not None and time.utcoffset() != timedelta(0):
                raise ValueError(f"its {name} is not in UTC: {time.isoformat()}")
        if ends_before_it_begins(self.valid_from, self.valid_until):
            raise ValueError("its valid_until is not after its valid_from")


def ends_before_it_begins(valid_from: datetime | None, valid_until: datetime | None) -> bool:
    """Whether a memory with these times is never valid."""
    return valid_from is not None and valid_until is not None and valid_until <= valid_from


def draft_of(entry: Mapping[str, Any], where: str) -> Draft:
    """The draft of an exported memory.

    Args:
        where: the entry is, for the error, such as ``entry 3`` or ``kept.jsonl:3:1``.

    Raises:
        UsageError: the entry is not a memory; the error names the wrong part.
    """
    with named(where, "memory"):
        if not isinstance(entry.get("content"), str):
            raise ValueError("it has no content")
        return Draft(
            content=entry["content"],
            memory_type=_text(entry, "memory_type", "fact"),
            scope=_text(entry, "scope", "user"),
            confidence=_confidence(entry),
            source=entry.get("source", "user"),
            source_id=_text(entry, "source_id", None),
            visibility=entry.get("visibility", "members"),
            subject=_text(entry, "subject", None),
            valid_from=_imported_time(entry, "valid_from"),
            valid_until=_imported_time(entry, "valid_until"),
            created_at=_said_at(entry),
        )


@contextmanager
def named(where: str, kind: str) -> Iterator[None]:
    """Raise a ValueError of the block as a UsageError that names the entry, which is no ``kind``."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{where}: this is not a {kind}: {error}", remedy=ENTRY_FORM) from None


def status_of(entry: Mapping[str, Any], where: str) -> Status:
    """The status of an exported memory.

    Raises:
        UsageError: it has none that a memory can have.
    """
    status = entry.get("status", "active")
    with named(where, "memory"):
        if status not in STATUSES:
            raise ValueError(f"its status is none of {', '.join(STATUSES)}")
    return cast("Status", status)


def change_of(entry: Any) -> HistoryEntry:
    """An exported change of a memory; its memory's id is not in it.

    Raises:
        ValueError: it is none.
    """
    from zeus_runtime.memory.records.histories import ACTIONS, HistoryEntry

    if not isinstance(entry, Mapping) or entry.get("action") not in ACTIONS:
        raise ValueError("its history has an entry that is no change")
    version, by, content = entry.get("version"), entry.get("by"), entry.get("content")
    # Not isinstance: JSON's `true` is an int to Python.
    if type(version) is not int or not 0 < version < _MOST_VERSIONS:
        raise ValueError("its history has a version that is none")
    if not isinstance(by, str) or not isinstance(content, str) or _UNSTORABLE.search(by + content):
        raise ValueError("its history has a text that cannot be stored")
    at, since, until = (_imported_time(entry, name) for name in ("at", "valid_from", "valid_until"))
    if at is None:
        raise ValueError("its history has a change without a time")
    return HistoryEntry("", version, entry["action"], by, at, content, since, until)


# The column is a PostgreSQL integer, which has 32 bits.
_MOST_VERSIONS: Final = 2**31
# PostgreSQL stores no NUL in a text, and UTF-8 has no lone surrogates.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


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
    raise ValueError(f"its {key} is not text")


def _confidence(entry: Mapping[str, Any]) -> float:
    value = entry.get("confidence", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("its confidence is not a number")
    try:
        return float(value)
    except OverflowError:
        # A JSON integer with more than 308 digits: it is out of range, which the gate says.
        return math.inf


def _said_at(entry: Mapping[str, Any]) -> datetime | None:
    """When an exported memory was said: when it was changed, if it was (``MemoryItem.said_at``)."""
    created, version = _imported_time(entry, "created_at"), entry.get("version")
    was_changed = isinstance(version, int) and version > 1
    return _imported_time(entry, "updated_at") or created if was_changed else created


def _imported_time(entry: Mapping[str, Any], key: str) -> datetime | None:
    text = _text(entry, key, None)
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"its {key} is not a time, such as 2026-05-01T12:00:00+00:00") from None
