"""What the present config says of calls that wait: its rules may be others than when a call was asked about.

The run that makes a call judges it again in any case. Here a person is told, and a decision refused, before that: a
program that knows the config only as it was loaded, or cannot plan it, knows the stored judgement alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zeus_runtime.tools.approval import CallJudgement
from zeus_runtime.tools.dispatch import validate_arguments
from zeus_runtime.tools.tool import Tool, ToolResult

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.tools.approval import PendingApproval
    from zeus_runtime.tools.tool import JSON

_STRICTNESS = ("allow", "ask", "deny")


def judgement_of(plan: Plan, pending: PendingApproval, arguments: Mapping[str, JSON]) -> CallJudgement | None:
    """The strictest judgement of the plan's middlewares on a waiting call with these arguments; None without any.

    Rules judge no arguments that do not fit the tool, since it never runs with them.
    A tool of a server that is not connected is judged by its name and arguments.

    Args:
        plan: that of the agent that waits.
        arguments: those that would run, without placeholders.
    """
    tool = next((each.tool for each in plan.tools if each.tool.name == pending.tool), None)
    if tool is None:
        tool = Tool(pending.tool, "", pending.schema or {"type": "object"}, _never)
    fitted = validate_arguments(tool, dict(arguments))
    if isinstance(fitted, str):
        return None
    found: list[CallJudgement] = []
    for planned in plan.middlewares:
        judged = getattr(planned.value, "judged", None)
        if judged is None:
            continue
        with planned.blamed("judged"):
            judgement = judged(tool, fitted, plan.context.workspace)
        if judgement is not None:
            found.append(judgement)
    return max(found, key=lambda each: (_STRICTNESS.index(each.action), each.needs_person), default=None)


async def _never(**_arguments: JSON) -> ToolResult:
    raise AssertionError
