"""The texts and messages that a sub-agent gets with its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_runtime.escaping import printable
from zeus_runtime.tools import WorkspaceError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.config import Redactor
    from zeus_runtime.context import View
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.subagents import PlannedAgent
    from zeus_runtime.run.delegated_task import DelegatedTask


_LARGEST_HANDLE: Final = 4_000_000
"""Bytes of one handle's file."""


def with_handles(
    task: DelegatedTask, plan: Plan, planned: PlannedAgent, secrets: Redactor
) -> tuple[str, int | None]:
    """The prompt with the text of each handle that fits the budget, and the tokens that are left of the budget.

    Args:
        plan: of the agent that gives the task.
        planned: the agent that gets it; its own rules may deny a handle, or ask before it is read, too.
        secrets: masked in the texts before they are counted.

    Raises:
        WorkspaceError: a handle cannot be read.
    """
    workspace, own = plan.context.workspace, planned.plan.context.workspace
    parts, left = [task.prompt], planned.spec.budget_tokens
    for handle in task.handles:
        data = workspace.read(handle, max_bytes=_LARGEST_HANDLE)
        # Of the real place: another name or link for the file must not lead around the sub-agent's rules.
        place = workspace.place(handle)
        why = own.refusal_of(place)
        if why is None and own.needs_question(place):
            why = f"reading it needs an approval, so {planned.name} must read it itself"
        if why is not None:
            raise WorkspaceError(f"{printable(handle)} may not be given to {planned.name}: {why}")
        try:
            text = secrets.text(data.decode())
        except UnicodeDecodeError:
            parts.append(f"({handle} is not UTF-8 text: look at it yourself.)")
            continue
        tokens = plan.token_counter.text(text)
        if left is not None and tokens > left:
            parts.append(
                f"({handle} is {tokens:,} tokens, which is more than you can be given: read it yourself.)"
            )
            continue
        left = None if left is None else left - tokens
        # A file must not end its own element and continue as instructions.
        text = text.replace("</file>", "<\\/file>")
        parts.append(f'<file path="{handle}">\n{text}\n</file>')
    return "\n\n".join(parts), left


def handed_down(view: View, *, last: int | None, budget_tokens: int | None) -> list[BaseMessage]:
    """The newest messages of a view that fit, without results at the beginning whose calls are left out.

    Args:
        last: the most messages; None for all.
        budget_tokens: the most tokens together; None for no limit.
    """
    items = list(view.items())
    start, tokens = len(items), 0
    # From the newest back; `start` is the first message that is given.
    while start > 0 and (last is None or len(items) - start < last):
        tokens += items[start - 1].tokens
        if budget_tokens is not None and tokens > budget_tokens:
            break
        start -= 1
    # A result without its call is refused by providers.
    while start < len(items) and items[start].message.type == "tool":
        start += 1
    return [item.message for item in items[start:]]
