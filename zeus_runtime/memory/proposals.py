"""A memory that a model proposes in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from zeus_runtime.frozen import dataclass
from zeus_runtime.memory.items import Source


@dataclass(frozen=True)
class Proposal:
    """A memory that a model proposes; the fields are those of ``drafts.Draft``.

    Args:
        replaces: ids of memories that it makes untrue.
    """

    content: str
    memory_type: str
    scope: str
    confidence: float
    source: Source
    source_id: str
    subject: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    replaces: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form that is stored."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Proposal:
        """The proposal that was stored."""
        times = {name: stored[name] and datetime.fromisoformat(stored[name]) for name in _TIMES}
        return cls(**{**stored, **times, "replaces": tuple(stored["replaces"])})


_TIMES = ("valid_from", "valid_until")
