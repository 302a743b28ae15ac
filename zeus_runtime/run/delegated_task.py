"""A task that a call gives to a sub-agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zeus_runtime.events import Event
from zeus_runtime.tools import ToolResult

if TYPE_CHECKING:
    from zeus_runtime.context import View
    from zeus_runtime.run.usage import UsageMeter
    from zeus_runtime.tools.pausable_timeout import Clock
    from zeus_runtime.tools.tool import JSON


@dataclass(frozen=True)
class DelegatedTask:
    """A call's task for a sub-agent.

    Args:
        agent: the sub-agent's name.
        prompt: the task.
        description: the task in a few words.
        handles: the files whose text a sub-agent with a slice of the context gets.
        call_id, place, run_id: identify the call.
        arguments: those with which the call runs.
        view: the messages that the parent's model was sent last.
        meter: the parent's, which also counts the sub-agent's usage.
        emit: receives the sub-agent's events.
        clock: the call's time limit.
    """

    agent: str
    prompt: str
    description: str
    handles: tuple[str, ...]
    call_id: str
    place: int
    run_id: str
    arguments: Mapping[str, JSON]
    view: Callable[[], View]
    meter: UsageMeter
    emit: Callable[[Event], None]
    clock: Clock


Delegate: TypeAlias = Callable[[DelegatedTask], Awaitable[ToolResult]]
