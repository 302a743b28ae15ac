"""How a run's events read in one line: calls, results, usage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from zeus_runtime.columns import cut_line, shortened
from zeus_runtime.escaping import json_shown, printable, terminal_text, word
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    RunCompleted,
    RunFailed,
    SubAgentEvent,
    TokenUsage,
    ToolCallResult,
    ToolProgress,
)
from zeus_runtime.tools.question import caller_label, tool_label

LONGEST_ARGUMENT: Final = 60


@dataclass(frozen=True)
class TokenTotals:
    """What the model calls seen so far used, in tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def adding(self, usage: TokenUsage) -> TokenTotals:
        """These totals and one more call's."""
        return replace(
            self,
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self.completion_tokens + usage.completion_tokens,
            cached_tokens=self.cached_tokens + usage.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + usage.cache_write_tokens,
        )


def call_line(tool_name: str | None, parameters: Mapping[str, Any], width: int) -> str:
    """``read_file(path="notes.md", limit=20)``, in at most ``width`` columns; what is not cut is exact."""
    line = _call(tool_name, parameters, LONGEST_ARGUMENT)
    # The size is that of the call, and not that of the line with its arguments cut.
    return cut_line(line, width, size=len(whole_call(tool_name, parameters)))


def whole_call(tool_name: str | None, parameters: Mapping[str, Any]) -> str:
    """The call in one line, exact and not cut."""
    return _call(tool_name, parameters, None)


def _call(tool_name: str | None, parameters: Mapping[str, Any], most: int | None) -> str:
    arguments = ((word(str(name)), json_shown(value)) for name, value in parameters.items())
    shown = (f"{name}={value if most is None else cut_line(value, most)}" for name, value in arguments)
    return f"{tool_label(tool_name)}({', '.join(shown)})"


def result_line(event: ToolCallResult, width: int) -> str:
    """The result's first line and how much more there is, in at most ``width`` columns."""
    lines = terminal_text(event.content).strip("\r\n\t ").split("\n")
    if not lines[0]:
        return "(nothing)"
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return shortened(lines[0], max(10, width - len(more))) + more


def progress_line(event: ToolProgress, width: int) -> str:
    """``execute_code · 3/10 · epoch 3: loss 0.2``, the last line of the progress, in at most ``width`` columns."""
    lines = [line for line in event.message.replace("\r", "\n").split("\n") if line.strip(" \t")]
    amount = "" if event.done is None or event.total is None else f"{event.done:g}/{event.total:g}"
    parts = [tool_label(event.tool_name), amount, lines[-1].strip(" \t") if lines else ""]
    return shortened(" · ".join(part for part in parts if part), width)


def decision_line(event: ApprovalDecided) -> str:
    """``record was approved, with changed arguments``, ``the question of record was declined earlier``."""
    is_yes = event.decision == "approve"
    tool = tool_label(event.tool_name)
    what = {"question": f"the question of {tool}", "file": f"a file for {tool}"}.get(event.kind, tool)
    done = ("approved", "rejected")[not is_yes]
    if event.kind == "question":
        done = ("answered", "declined")[not is_yes]
    former = " earlier" if event.former else ""
    how = {
        "timeout": " because nobody decided in time",
        "earlier": " as it was before",
        "automatic": "" if is_yes else " because only a person may approve it",
    }.get(event.by, "")
    changed = "" if event.changed is None or event.kind == "question" else ", with changed arguments"
    return f"{what} was {done}{former}{how}{changed}"


def question_line(event: ApprovalRequested, width: int) -> str:
    """``? pay needs approval (1a2b); begun before as pay(what="x") and not finished``.

    Of several begins with other arguments, the last and the number of the others.
    """
    line = f"? {caller_label(event.subagent, event.tool_name)} needs approval ({event.id})"
    if not event.interrupted:
        return line
    begun, ended = "; begun before", " and not finished"
    if event.begun_with:
        *others, last = event.begun_with
        ended = f"{f' (+{len(others)} more)' if others else ''}{ended}"
        room = max(LONGEST_ARGUMENT, width - len(f"{line}{begun} as {ended}"))
        begun = f"{begun} as {call_line(event.tool_name, last, room)}"
    return f"{line}{begun}{ended}"


def waiting_line(caller: str, tool: str, arguments: Mapping[str, Any], width: int) -> str:
    """A call that waits for a decision, behind its ``caller_text``: each agent and user has a workspace of its own."""
    called = call_line(tool, arguments, width)
    return f"{caller} → {called}" if caller else called


def subagent_line(event: SubAgentEvent, width: int) -> str:
    """A sub-agent's call, result or end in a line; empty for anything else."""
    told = event.event
    name = f"{printable(event.agent)} "
    match told["type"]:
        case "tool_call":
            return f"{name}→ {call_line(told['tool_name'], told['parameters'], width - len(name) - 4)}"
        case "tool_call_result":
            result = ToolCallResult(told["call_id"], told["tool_name"], told["content"], told["is_error"])
            tool = tool_label(result.tool_name)
            return f"{name}← {tool}: {result_line(result, width - len(name) - len(tool) - 6)}"
        case "complete":
            return f"{name}· {event.session} · done"
        case "error":
            return shortened(f"{name}· {event.session} · {told['code']}: {told['message']}", width)
        case _:
            return ""


def usage_line(ending: RunCompleted | RunFailed, totals: TokenTotals) -> str:
    """``session_… · 3 steps · 1,234 tokens in (1,000 cached) · 56 out · $0.0042``."""
    steps, cost = ending_numbers(ending)
    parts = [ending.session] if ending.session else []
    parts.append(f"{steps} {'step' if steps == 1 else 'steps'}")
    if totals.calls:
        cached = f" ({totals.cached_tokens:,} cached)" if totals.cached_tokens else ""
        parts += [f"{totals.prompt_tokens:,} tokens in{cached}", f"{totals.completion_tokens:,} out"]
    if cost is not None:
        parts.append(f"${cost:.4f}")
    return " · ".join(parts)


def ending_numbers(ending: RunCompleted | RunFailed) -> tuple[int, float | None]:
    """Steps and cost in US dollars of a run that ended."""
    if isinstance(ending, RunCompleted):
        return ending.steps, ending.cost_usd
    return int(ending.details.get("steps") or 0), ending.details.get("cost_usd")
