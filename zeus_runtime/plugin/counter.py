"""Token counters: how many tokens a provider will count for a text.

A ``Counter`` is pure and additive, so that a view is counted message by message and never twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.context.tokens import Counter as Counter
    from zeus_runtime.context.tokens import counter_for as counter_for
    from zeus_runtime.context.tokens import counter_with as counter_with

_ROOMS = {
    "Counter": "context.tokens",
    "counter_for": "context.tokens",
    "counter_with": "context.tokens",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
