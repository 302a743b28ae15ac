"""The events of a service without the secrets of this machine, also those that come in several pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from zeus_runtime.client.results import ServiceEvent, event_of
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import (
    PIECES,
    AnswerReset,
    ModelCallEnded,
    ModelChanged,
    ModelRetry,
    OutputPartial,
    RunCompleted,
    RunFailed,
    RunStarted,
    SubAgentEvent,
    ToolCallChunk,
    ToolCallStarted,
)

_Told: TypeAlias = Mapping[str, Any]

_VOID: Final = frozenset({ModelRetry.type, ModelChanged.type, AnswerReset.type})
_NEXT: Final = frozenset(
    {ModelCallEnded.type, ToolCallStarted.type, RunStarted.type, RunCompleted.type, RunFailed.type}
)
"""Behind these, no piece of the answer follows. Others may come between two pieces."""


class MaskedEvents:
    """Holds back the end of each text that streams, as the model of a local run does (``HeldPieces``)."""

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._held: dict[tuple[str, str, int], tuple[str, ServiceEvent]] = {}

    def passed(self, event: ServiceEvent) -> Iterator[ServiceEvent]:
        """What of the event, and of what was held before it, can be told now."""
        whose, told = _innermost(event.data)
        kind = told.get("type", "")
        if (word := PIECES.get(kind)) and isinstance(told.get(word), str):
            key = (whose, kind, told.get("index", 0))
            text, rest = self._secrets.settled(self._held.get(key, ("",))[0] + told[word])
            self._held[key] = rest, event
            # A call's piece without text may bring its id and name.
            if text or kind == ToolCallChunk.type:
                yield self._masked(event, {**told, word: text})
            return
        if kind in _VOID:
            self._taken(whose)
        elif kind in _NEXT and told.get("purpose", "turn") == "turn":
            yield from self.rest(whose)
        if kind == OutputPartial.type:
            told = {**told, "value": self._settled(told.get("value"))}
        yield self._masked(event, told)

    def rest(self, whose: str | None = None) -> Iterator[ServiceEvent]:
        """What is held.

        Args:
            whose: of this sub-agent's session, or of the agent itself with an empty one; None for all.
        """
        for end, event in self._taken(whose):
            _, told = _innermost(event.data)
            more = {"call_id": None, "tool_name": None} if told["type"] == ToolCallChunk.type else {}
            if end:
                yield self._masked(event, {**told, **more, PIECES[told["type"]]: self._secrets.text(end)})

    def _taken(self, whose: str | None) -> list[tuple[str, ServiceEvent]]:
        return [self._held.pop(key) for key in [*self._held] if whose in (None, key[0])]

    def _masked(self, event: ServiceEvent, told: _Told) -> ServiceEvent:
        return event_of(event.number, self._secrets.masked(_with_innermost(event.data, told)))

    def _settled(self, value: Any) -> Any:
        """A value that grows: its last text may end within a secret."""
        if isinstance(value, str):
            return self._secrets.settled(value)[0]
        if isinstance(value, list) and value:
            return [*value[:-1], self._settled(value[-1])]
        if isinstance(value, dict) and value:
            return {**value, (last := next(reversed(value))): self._settled(value[last])}
        return value


def _innermost(told: _Told) -> tuple[str, _Told]:
    """The event that events of sub-agents wrap, and the session of the sub-agent; empty without one."""
    whose = ""
    while _is_wrapped(told):
        whose, told = str(told.get("session")), told["event"]
    return whose, told


def _with_innermost(told: _Told, inner: _Told) -> _Told:
    return {**told, "event": _with_innermost(told["event"], inner)} if _is_wrapped(told) else inner


def _is_wrapped(told: _Told) -> bool:
    return told.get("type") == SubAgentEvent.type and isinstance(told.get("event"), dict)
