"""Notices for the user: the one event that reading a config emits too, so it is separate from a run's events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from zeus_runtime.frozen import dataclass


@dataclass(frozen=True)
class EventData:
    """The base of every event: frozen values with a wire name."""

    type: ClassVar[str]

    def to_wire(self) -> dict[str, Any]:
        """The event as a JSON object, ``type`` first."""
        return {"type": self.type, **asdict(self)}


@dataclass(frozen=True)
class Notice(EventData):
    """Something the user should know, such as a fallback that was taken, an interrupted call or an unknown model.

    Args:
        code: the kind of notice, stable for programs.
        message: one or more sentences for a person.
    """

    type: ClassVar[str] = "notice"
    code: str
    message: str
