"""The changes of memories that a model proposes in the background: a new memory, or a change of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeAlias

from zeus_runtime.memory.items import Source


@dataclass(frozen=True)
class ProposedMemory:
    """A memory that a model proposes; the fields are those of ``drafts.Draft``.

    Args:
        replaces: ids of memories that it makes untrue, or that it holds together.
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


@dataclass(frozen=True)
class MemoryChange:
    """A change of one memory.

    Args:
        version: that the model saw; a memory that was changed since is left alone.
        valid_from, valid_until: the time in which it is true, if it is not retired.
        retires: whether it is archived.
    """

    id: str
    version: int
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    retires: bool = False


Proposal: TypeAlias = ProposedMemory | MemoryChange


def as_json(proposal: Proposal) -> dict[str, Any]:
    """The form that is stored."""
    values = {each.name: getattr(proposal, each.name) for each in fields(proposal)}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }


def from_json(stored: Mapping[str, Any]) -> Proposal:
    """The proposal that was stored."""
    times = {
        name: stored[name] and datetime.fromisoformat(stored[name]) for name in ("valid_from", "valid_until")
    }
    if "id" in stored:
        return MemoryChange(**{**stored, **times})
    return ProposedMemory(**{**stored, **times, "replaces": tuple(stored["replaces"])})
