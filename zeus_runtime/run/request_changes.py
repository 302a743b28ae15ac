"""What middlewares make of a planned request before it is sent, for the ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.ledger import RequestChange
from zeus_runtime.models.messages import to_chat

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.models.interface import ModelRequest

_PARTS: Final = ("system", "messages", "tools", "settings")
"""What the model sees. Places for caching and the like change no text."""


class RequestChanges:
    """The changes of one call, noted as each middleware passes its request on.

    An unchanged request costs nothing. Of changed messages only those that came or went are counted.

    Args:
        planned: the request before the first middleware.
        counter: the model's.
    """

    def __init__(self, planned: ModelRequest, counter: Counter) -> None:
        self._planned = planned
        self._sent = planned
        self._counter = counter
        self._changes: dict[str, RequestChange] = {}

    def note(self, middleware: str, given: ModelRequest, changed: ModelRequest) -> None:
        """Note the request that a middleware passes on; of several, as after a failure, the last one counts."""
        if changed.purpose != self._planned.purpose:
            return
        self._sent = changed
        # Removed and set again, so that the order is that of the last pass.
        self._changes.pop(middleware, None)
        if given is not changed and (parts := tuple(_changed(given, changed))):
            self._changes[middleware] = RequestChange(middleware, parts, self._tokens(given, changed, parts))

    @property
    def noted(self) -> tuple[RequestChange, ...]:
        """The changes, outermost middleware first."""
        return tuple(self._changes.values())

    @property
    def digest(self) -> str:
        """The SHA-256 of the changed parts as they were sent; empty if the request was sent as planned."""
        parts = {
            part: _plain(part, getattr(self._sent, part)) for part in _changed(self._planned, self._sent)
        }
        if not parts:
            return ""
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def _tokens(self, given: ModelRequest, changed: ModelRequest, parts: Sequence[str]) -> int:
        tokens = 0
        if "messages" in parts:
            # By identity: middlewares pass unchanged messages on as they are, and both requests keep them alive.
            old, new = ({id(each): each for each in one.messages} for one in (given, changed))
            tokens += sum(self._counter.message(new[key]) for key in new.keys() - old.keys())
            tokens -= sum(self._counter.message(old[key]) for key in old.keys() - new.keys())
        if {*parts} - {"messages"}:
            tokens += self._fixed(changed) - self._fixed(given)
        return tokens

    def _fixed(self, request: ModelRequest) -> int:
        return self._counter.fixed(request.system, request.tools, request.settings)


def _changed(given: ModelRequest, changed: ModelRequest) -> Iterator[str]:
    for part in _PARTS:
        old, new = getattr(given, part), getattr(changed, part)
        if old is not new and not (_same(old, new) if part == "messages" else old == new):
            yield part


def _same(old: Sequence[BaseMessage], new: Sequence[BaseMessage]) -> bool:
    return len(old) == len(new) and all(one is other for one, other in zip(old, new, strict=True))


def _plain(part: str, value: Any) -> Any:
    if part == "messages":
        return [to_chat(each) for each in value]
    return [vars(each) for each in value] if part == "tools" else value
