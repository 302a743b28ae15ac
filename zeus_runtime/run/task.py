"""A task that a call gives to a sub-agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zeus_runtime.events import Event
from zeus_runtime.tools import ToolResult

if TYPE_CHECKING:
    from zeus_runtime.context import View
    from zeus_runtime.run.usage import UsageMeter
    from zeus_runtime.tools.pausable_timeout import Clock


@dataclass(frozen=True)
class DelegatedTask:
    """What a call gives to do.

    Args:
        agent: whom.
        prompt: what.
        description: in a few words.
        handles: files whose text a slice is given.
        call_id, place, run_id: the call.
        view: what the parent's model was sent last.
        meter: where what it uses counts too.
        emit: where its events go.
        clock: its time limit.
    """

    agent: str
    prompt: str
    description: str
    handles: tuple[str, ...]
    call_id: str
    place: int
    run_id: str
    view: Callable[[], View]
    meter: UsageMeter
    emit: Callable[[Event], None]
    clock: Clock


Delegate: TypeAlias = Callable[[DelegatedTask], Awaitable[ToolResult]]
