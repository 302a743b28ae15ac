"""The result of a sub-agent: its answer, and the evidence to check it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_runtime.events import Event, RunFailed
from zeus_runtime.run.output import accepted, has_answer, written
from zeus_runtime.tools import ToolResult
from zeus_runtime.tools.written_paths import WROTE, written_paths

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.ledger import StepRecord
    from zeus_runtime.plan.subagents import PlannedAgent
    from zeus_runtime.tools import Tool


def task_result(
    planned: PlannedAgent,
    session: str,
    ending: Event | None,
    messages: Sequence[BaseMessage],
    steps: Sequence[StepRecord],
) -> ToolResult:
    """The result of the call that gave a sub-agent a task.

    Args:
        planned: the sub-agent.
        session: its session.
        ending: the terminal event of its last run; None where an earlier run had completed the task.
        messages: its messages, without the inherited ones.
        steps: its ledger.
    """
    writing = {each.tool.name: each.tool for each in planned.plan.tools if each.tool.access == "write"}
    evidence = {
        "agent": planned.name,
        "session": session,
        # A call that failed without usage did no step; one that was refused after it was paid did.
        "steps": sum(step.usage is not None or not step.error for step in steps),
        "prompt_tokens": sum(step.usage.input_tokens for step in steps if step.usage is not None),
        "completion_tokens": sum(step.usage.output_tokens for step in steps if step.usage is not None),
        "cost_usd": _sum([cost for step in steps for cost in (step.cost_usd, step.policy_cost_usd)]),
        "files": files_written(messages, writing),
    }
    form = planned.plan.output
    is_answered = bool(messages) and (
        messages[-1].type == "ai" if form is None else has_answer(form, messages)
    )
    # A session whose answer is complete has nothing to resume: that is an answer, not a failure.
    nothing_left = isinstance(ending, RunFailed) and ending.code == "usage" and is_answered
    if isinstance(ending, RunFailed) and not nothing_left:
        text = f"The agent {planned.name} did not finish its work ({ending.code}): {ending.message}"
        return ToolResult(f"{text}\n\n{_line(evidence)}", is_error=True, artifact=evidence)
    from zeus_runtime.models.content import text_of

    answer = ""
    if is_answered:
        answer = text_of(messages[-1]) if form is None else written(accepted(form, messages))
    return ToolResult(f"{answer or '(it gave no answer)'}\n\n{_line(evidence)}", artifact=evidence)


def files_written(messages: Sequence[BaseMessage], writing: Mapping[str, Tool]) -> list[str]:
    """The paths in successful calls of tools that write, each once, in order."""
    from zeus_runtime.models.content import calls_of

    results = {getattr(each, "tool_call_id", ""): each for each in messages if each.type == "tool"}
    found: list[str] = []
    for message in messages:
        for call in calls_of(message) if message.type == "ai" else ():
            result = results.get(call["id"])
            if call["name"] not in writing or result is None or getattr(result, "status", "") == "error":
                continue
            artifact = getattr(result, "artifact", None)
            if isinstance(artifact, Mapping) and WROTE in artifact:
                found += artifact[WROTE]
            elif isinstance(call["args"], dict):
                found += written_paths(writing[call["name"]], call["args"])
    return list(dict.fromkeys(found))


def _line(evidence: Mapping[str, Any]) -> str:
    """``[researcher · session_… · 3 steps · $0.0120 · wrote /notes.md]``."""
    steps, cost, files = evidence["steps"], evidence["cost_usd"], evidence["files"]
    parts = [evidence["agent"], evidence["session"], f"{steps} {'step' if steps == 1 else 'steps'}"]
    parts += [f"${cost:.4f}"] if cost is not None else []
    parts += [f"wrote {', '.join(files)}"] if files else []
    return f"[{' · '.join(parts)}]"


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
