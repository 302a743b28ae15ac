"""Notices for the user: the one event that reading a config emits too, so it is separate from a run's events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Final, NamedTuple, Self

from zeus_runtime.frozen import dataclass


class EventOrigin(NamedTuple):
    """The run that an event comes from.

    Args:
        session: the session's id; that of a sub-agent for its events.
        run: the run's id, 8 hex digits, 16 in a service; a resumed run keeps it. Empty if the run could not begin.
        parent: the run that gave a sub-agent its task; None for a user's run.
        time_ms: UTC milliseconds since 1970.
    """

    session: str
    run: str
    parent: str | None
    time_ms: int


_ORIGIN: Final = "_origin"


@dataclass(frozen=True)
class EventData:
    """The base of every event: frozen values with a wire name."""

    type: ClassVar[str]

    @property
    def origin(self) -> EventOrigin | None:
        """The run that emitted the event, and when; None for an event that no run has emitted.

        It is not a field: two events are equal if they tell the same, whenever they do.
        """
        return self.__dict__.get(_ORIGIN)

    def coming_from(self, origin: EventOrigin) -> Self:
        """A copy of the event with ``origin``."""
        event = object.__new__(type(self))
        event.__dict__.update(self.__dict__)
        event.__dict__[_ORIGIN] = origin
        return event

    def to_wire(self) -> dict[str, Any]:
        """The event as a JSON object: ``type``, its fields, and those of its origin."""
        origin = self.origin
        return {"type": self.type, **({} if origin is None else origin._asdict()), **asdict(self)}


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
