"""What is asked to be kept, before the gate has seen it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zeus_runtime.errors import UsageError
from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import STATUSES, VISIBILITIES, Source, Visibility


@dataclass(frozen=True)
class Draft:
    """A text and what is said of it, as a model, a person or a file gave it."""

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


def draft_of(entry: Mapping[str, Any], number: int) -> Draft:
    """The draft of an exported memory.

    Args:
        number: of the entry, from 1, for the error.

    Raises:
        UsageError: the entry is no memory.
    """
    try:
        if (
            entry.get("status", "active") not in STATUSES
            or entry.get("visibility", "members") not in VISIBILITIES
        ):
            raise ValueError("an unknown status or visibility")
        return Draft(
            content=str(entry["content"]),
            memory_type=str(entry.get("memory_type", "fact")),
            scope=str(entry.get("scope", "user")),
            confidence=float(entry.get("confidence", 1.0)),
            source=entry.get("source", "user"),
            source_id=entry.get("source_id"),
            visibility=entry.get("visibility", "members"),
            subject=entry.get("subject"),
            valid_from=_imported_time(entry.get("valid_from")),
            valid_until=_imported_time(entry.get("valid_until")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"entry {number} is no memory: {type(error).__name__}: {error}",
            remedy="Import what `zeus memory export` wrote: one JSON object per line, with at least a content.",
        ) from None


def _imported_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
