"""How a run is shown: plain text, one JSON object, or one JSON line per event. The terminal's view is ``terminal``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from zeus_runtime.cli.event_lines import (
    TokenTotals,
    call_line,
    decision_line,
    ending_numbers,
    progress_line,
    question_line,
    result_line,
    subagent_line,
    usage_line,
)
from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.streams import answer, columns_of, complain, is_terminal
from zeus_runtime.escaping import TerminalStream
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    ModelChanged,
    ModelRetry,
    Notice,
    RunCompleted,
    RunFailed,
    SubAgentEvent,
    Text,
    TokenUsage,
    ToolCallResult,
    ToolCallStarted,
    ToolProgress,
)
from zeus_runtime.tools.question import tool_label

PROGRESS_SECONDS: Final = 2.0
"""Between two lines of progress in a journal, which cannot take one back."""


class RunView(Protocol):
    """Gets every event of a run but the questions that the terminal asks, the terminal one last."""

    def show(self, event: Event) -> None: ...

    def close(self) -> None:
        """Leave the terminal as it was: before a question, and whatever happens before the process ends."""
        ...


class Journal:
    """What a run does besides answering, as lines on standard error.

    Args:
        quiet: only errors.
        clock: seconds; progress is shown at intervals, and only on a terminal.
    """

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._clock = clock
        self._told = float("-inf")
        self._totals = TokenTotals()

    def show(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        if isinstance(event, TokenUsage):
            self._totals = self._totals.adding(event)
        _complain_of(event)
        if self._quiet:
            return
        width = columns_of(sys.stderr) - 4 if is_terminal(sys.stderr) else 200
        if isinstance(event, ToolCallStarted):
            complain(f"→ {call_line(event.tool_name, event.parameters, width)}", "dim")
        elif isinstance(event, ToolCallResult):
            tool = tool_label(event.tool_name)
            line = result_line(event, max(20, width - len(tool) - 2))
            complain(f"← {tool}: {line}", "red" if event.is_error else "dim")
        elif isinstance(event, ToolProgress):
            now = self._clock()
            if is_terminal(sys.stderr) and now - self._told >= PROGRESS_SECONDS:
                self._told = now
                complain(f"  {progress_line(event, width)}", "dim")
        elif isinstance(event, ModelRetry):
            complain(f"trying again in {event.wait_seconds:.1f} s: {event.reason}", "yellow")
        elif isinstance(event, ModelChanged):
            complain(f"{event.model} answers now, not {event.former}: {event.reason}", "yellow")
        elif isinstance(event, Notice):
            complain(f"note: {event.message}", "yellow")
        elif isinstance(event, SubAgentEvent):
            if line := subagent_line(event, width):
                complain(f"  {line}", "dim")
        elif isinstance(event, ApprovalRequested):
            complain(question_line(event, width), "yellow")
        elif isinstance(event, ApprovalDecided):
            complain(f"! {decision_line(event)}", "dim" if event.decision == "approve" else "yellow")
        elif isinstance(event, RunCompleted | RunFailed):
            complain(usage_line(event, self._totals), "dim")


class PlainView:
    """The final answer alone on standard output, once it is there; the journal on standard error.

    Args:
        quiet: no journal but errors.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._journal = Journal(quiet=quiet)

    def show(self, event: Event) -> None:
        if isinstance(event, RunCompleted):
            answer(event.answer)
        elif isinstance(event, RunFailed) and (partial := event.details.get("partial_answer")):
            answer(partial)
        self._journal.show(event)

    def close(self) -> None:
        """Nothing is held."""


class StreamedView:
    """The answer as it streams, unadorned, for terminals that cannot move the cursor.

    Args:
        quiet: no journal but errors.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._journal = Journal(quiet=quiet)
        self._inside = False
        self._escaped = TerminalStream()

    def show(self, event: Event) -> None:
        if isinstance(event, Text):
            answer(event.text, end="", escaped=self._escaped)
            self._inside = not event.text.endswith("\n")
        elif self._inside and isinstance(
            event,
            ToolCallStarted
            | ModelRetry
            | ModelChanged
            | Notice
            | ApprovalRequested
            | ApprovalDecided
            | SubAgentEvent
            | RunCompleted
            | RunFailed,
        ):
            self.close()
        self._journal.show(event)

    def close(self) -> None:
        """End the line that is begun."""
        if self._inside:
            answer("\n", end="", escaped=self._escaped)
            self._inside = False


class NdjsonView:
    """One event per line, as it happens."""

    def show(self, event: Event) -> None:
        answer(as_json(event.to_wire(), indent=None))
        _complain_of(event)

    def close(self) -> None:
        """Nothing is held."""


class JsonView:
    """One JSON object when the run has ended."""

    def __init__(self) -> None:
        self._totals = TokenTotals()
        self._notices: list[dict[str, str]] = []

    def show(self, event: Event) -> None:
        if isinstance(event, TokenUsage):
            self._totals = self._totals.adding(event)
        elif isinstance(event, Notice):
            self._notices.append({"code": event.code, "message": event.message})
        elif isinstance(event, RunCompleted | RunFailed):
            answer(as_json(self._object(event)))
            _complain_of(event)

    def close(self) -> None:
        """Nothing is held."""

    def _object(self, ending: RunCompleted | RunFailed) -> dict[str, Any]:
        steps, cost = ending_numbers(ending)
        failed = ending if isinstance(ending, RunFailed) else None
        return {
            "session": ending.session or None,
            "status": _status(ending),
            "answer": ending.answer
            if isinstance(ending, RunCompleted)
            else ending.details.get("partial_answer"),
            "output": ending.output if isinstance(ending, RunCompleted) else None,
            "steps": steps,
            "usage": {
                "prompt_tokens": self._totals.prompt_tokens,
                "completion_tokens": self._totals.completion_tokens,
                "cached_tokens": self._totals.cached_tokens,
                "cache_write_tokens": self._totals.cache_write_tokens,
            },
            "cost_usd": cost,
            "exit_code": failed.exit_code if failed else 0,
            "error": _error(failed) if failed else None,
            "notices": self._notices,
        }


def _error(ending: RunFailed) -> dict[str, Any]:
    error = {"code": ending.code, "message": ending.message}
    return {
        **error,
        **{
            name: ending.details[name]
            for name in ("diagnostics", "pending", "refused_answer", "provider_message")
            if name in ending.details
        },
    }


def _complain_of(event: Event) -> None:
    if isinstance(event, RunFailed):
        complain(f"error: {event.message}", "red")


def _status(ending: RunCompleted | RunFailed) -> str:
    if isinstance(ending, RunCompleted):
        return "completed"
    return {6: "limited", 7: "waiting", 130: "cancelled"}.get(ending.exit_code, "failed")
