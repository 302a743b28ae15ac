"""The change that a waiting call would make now, computed by the tool of the agent that waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.redaction import masked_for
from zeus_runtime.store.approvals import note_shown
from zeus_runtime.store.session_tree import parent_of
from zeus_runtime.tools.approval import ApprovalRequest
from zeus_runtime.tools.preview import Preview, masked, preview_of, redacted

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import PendingApproval
    from zeus_runtime.tools.tool import JSON


async def previewed(checked: Checked, log: ThreadLog, pending: PendingApproval) -> PendingApproval:
    """A waiting call with the change that it would make now; a decision is bound to that change from then on.

    A question that a tool asked has no preview.

    Args:
        checked: the config of the outermost agent.
    """
    if pending.is_question:
        return pending
    entries, outermost = await _entries(log, pending.session)
    shown = await _previewed(replace(checked, session=outermost), entries, pending)
    await note_shown(log, shown)
    return shown


async def _entries(log: ThreadLog, session: str) -> tuple[list[str], str]:
    """The names under ``agents``, outermost first, that lead to the agent of a session; and the outermost session."""
    names: list[str] = []
    thread = await log.find(session)
    while (parent := await parent_of(log, thread)) is not None:
        names.insert(0, (await log.info(thread)).agent.rpartition("/")[2])
        thread = await log.find(parent)
    return names, thread.session


async def _previewed(checked: Checked, entries: Sequence[str], pending: PendingApproval) -> PendingApproval:
    """The call with the change that it would make now, from the tool of the agent that waits.

    Args:
        entries: the names under ``agents`` that lead to the agent.
    """
    plan = make_plan(checked)
    # The secrets of the run, or the digest would be another one than the run's.
    redactor = checked.secrets
    for entry in entries:
        if entry not in plan.agents:
            return replace(pending, preview=Preview(problem=f"this config has no agent {entry!r} there"))
        plan = plan.agents[entry].plan
    if pending.workspace not in ("", plan.context.workspace.folders_identity()):
        problem = "the agent that waits has another workspace than this config: name its own with --config"
        return replace(pending, preview=Preview(problem=problem))
    tool = next((each.tool for each in plan.tools if each.tool.name == pending.tool), None)
    setting = "" if tool is None else tool.setting
    arguments = _written(pending, redactor, setting)
    preview = None if tool is None else await preview_of(tool, arguments, masked_for(plan, redactor))
    if preview is None:
        return pending
    shows = masked(preview, redactor)
    if (
        arguments is pending.arguments
        and redactor.real(arguments) != arguments
        and not _is_of(pending, arguments, setting)
    ):
        shows = Preview(problem="the stored arguments do not tell every known secret from its placeholder")
    return replace(pending, preview=shows, shown=redacted(preview, redactor.masked).digest)


def _written(pending: PendingApproval, secrets: Redactor, setting: str) -> Mapping[str, JSON]:
    """The arguments as the model wrote them: stored ones have placeholders also for secrets that it knows."""
    known = secrets.real(pending.arguments)
    return known if _is_of(pending, known, setting) else pending.arguments


def _is_of(pending: PendingApproval, arguments: Mapping[str, JSON], setting: str) -> bool:
    meant = ApprovalRequest(pending.tool, arguments, pending.place, schema=pending.schema, setting=setting)
    return meant.digest == pending.digest
