"""Waiting calls by the present config: its judgement of them, and the change that each would make now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from zeus_runtime.agent.present_rules import judgement_of
from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.redaction import masked_for
from zeus_runtime.plan.workspace_secrets import WorkspaceSecrets, family_of
from zeus_runtime.run.connections import differs_by_session
from zeus_runtime.store.approvals import note_shown
from zeus_runtime.store.session_tree import agents_to
from zeus_runtime.tools.approval import ApprovalRequest
from zeus_runtime.tools.preview import Preview, masked, preview_of

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import CallJudgement, Decision, PendingApproval
    from zeus_runtime.tools.tool import JSON, Tool


async def previewed(checked: Checked, log: ThreadLog, pending: PendingApproval) -> PendingApproval:
    """A waiting call with the change that it would make now; a decision is bound to that change from then on.

    A question that a tool asked has no preview.

    Args:
        checked: the config of the outermost agent.
    """
    if pending.is_question:
        return (await at_present(checked, log, [pending]))[0]
    entries, outermost = await agents_to(log, pending.session)
    _, checked = await _acting(checked, log, outermost)
    checked, plan = await asyncio.to_thread(_planned, checked, outermost)
    judgement = await asyncio.to_thread(_judgement, plan, entries, checked.secrets, pending, None)
    judged = _beside(plan, entries, pending.judged(judgement))
    shown = await _previewed(checked, plan, entries, judged)
    await note_shown(log, shown)
    return shown


async def at_present(
    checked: Checked, log: ThreadLog, waiting: Sequence[PendingApproval]
) -> list[PendingApproval]:
    """Waiting calls as the present config judges them, or as they are stored where that config cannot be planned."""
    found: list[PendingApproval] = []
    for pending, (own, entries) in zip(waiting, await _plans(checked, log, waiting), strict=True):
        if own is None:
            found.append(pending)
            continue
        acting, plan = own
        judgement = await asyncio.to_thread(_judgement, plan, entries, acting.secrets, pending, None)
        found.append(_beside(plan, entries, pending.judged(judgement)))
    return found


async def refuse_decided(
    checked: Checked,
    log: ThreadLog,
    waiting: Iterable[PendingApproval],
    decisions: Mapping[str, Decision],
) -> list[PendingApproval]:
    """Check the approvals among decisions, which are by id, against the present config.

    Returns:
        the approved requests that are outdated.

    Raises:
        UsageError: its rules refuse a call, or leave it to a person.
    """
    approved = [
        (each, decisions[each.id])
        for each in waiting
        if each.id in decisions and decisions[each.id].answer == "approve" and not each.is_question
    ]
    found = await _plans(checked, log, [pending for pending, _ in approved])
    outdated = []
    for (pending, decision), (own, entries) in zip(approved, found, strict=True):
        judgement = None
        if own is not None:
            acting, plan = own
            given = (plan, entries, acting.secrets, pending, decision.arguments)
            judgement = await asyncio.to_thread(_judgement, *given)
            present = _beside(plan, entries, pending)
            outdated += [present] if present.outdated else []
        if judgement is not None and judgement.action == "deny":
            raise UsageError(
                f"{pending.id} cannot be approved: the config refuses it now ({judgement.reason})",
                remedy="Reject it, or change the rule and restart what has loaded the config.",
            )
        if problem := pending.judged(judgement).problem_with(decision):
            raise UsageError(f"{pending.id} cannot be decided so: {problem}")
    return outdated


async def _plans(
    checked: Checked, log: ThreadLog, calls: Sequence[PendingApproval]
) -> list[tuple[tuple[Checked, Plan] | None, Sequence[str]]]:
    """The outermost agent's config and plan for each waiting call, and the names under ``agents`` that lead to who
    waits.

    The first is None for a config that cannot be planned.

    Args:
        checked: the config of the outermost agent.
    """
    plans: dict[tuple[object, str], tuple[Checked, Plan] | None] = {}
    found: list[tuple[tuple[Checked, Plan] | None, Sequence[str]]] = []
    for pending in calls:
        entries, outermost = await agents_to(log, pending.session)
        owner, acting = await _acting(checked, log, outermost)
        if (owner, "") not in plans:
            plans[owner, ""] = await asyncio.to_thread(_plan_of, acting, "")
        common = plans[owner, ""]
        place = outermost if common is not None and differs_by_session(common[1]) else ""
        if (owner, place) not in plans:
            plans[owner, place] = await asyncio.to_thread(_plan_of, acting, outermost)
        found.append((plans[owner, place], entries))
    return found


async def _acting(checked: Checked, log: ThreadLog, outermost: str) -> tuple[object, Checked]:
    """The user of a service whose session it is, if one is, and the config for that user's folder and memories."""
    if checked.place or (owner := await log.owner_of(outermost)) is None:
        return None, checked
    return tuple(owner), checked.acting_for(*owner)


def _plan_of(checked: Checked, session: str) -> tuple[Checked, Plan] | None:
    try:
        return _planned(checked, session)
    except ZeusError:
        return None


def _planned(checked: Checked, session: str) -> tuple[Checked, Plan]:
    # What the session's workspace holds is known to this plan alone: a service has many sessions that wait.
    own = replace(checked, session=session).for_one_user()
    plan = make_plan(own)
    WorkspaceSecrets(family_of(own, plan)).look()
    return own, plan


def _judgement(
    plan: Plan,
    entries: Sequence[str],
    secrets: Redactor,
    pending: PendingApproval,
    changed: Mapping[str, JSON] | None,
) -> CallJudgement | None:
    for entry in entries:
        if entry not in plan.agents:
            return None
        plan = plan.agents[entry].plan
    # A person's words have placeholders for the secrets that they were shown masked.
    if changed is not None:
        return judgement_of(plan, pending, secrets.real(changed))
    tool = next((each.tool for each in plan.tools if each.tool.name == pending.tool), None)
    return judgement_of(plan, pending, _written(pending, secrets, "" if tool is None else tool.setting))


def _beside(plan: Plan, entries: Sequence[str], pending: PendingApproval) -> PendingApproval:
    """The request beside its present tool; as it is where that is unknown, such as of an agent that is gone."""
    for entry in entries:
        if entry not in plan.agents:
            return pending
        plan = plan.agents[entry].plan
    own = (each.tool for each in plan.tools if each.tool.name == pending.tool)
    tool = next(chain(own, _foreseen(plan, pending.tool)), None)
    workspace = plan.context.workspace.folders_identity()
    return pending if tool is None else pending.beside(tool.setting, workspace)


def _foreseen(plan: Plan, name: str) -> Iterator[Tool]:
    """A tool that a toolset will have once it is open, with the setting that a run gives it."""
    for planned, toolset in zip(plan.opens, plan.unopened, strict=True):
        if (tool := toolset.foreseen(name)) is not None:
            yield plan.reach.of(tool.within(planned.setting))


async def _previewed(
    checked: Checked, plan: Plan, entries: Sequence[str], pending: PendingApproval
) -> PendingApproval:
    """The call with the change that it would make now, from the tool of the agent that waits.

    Args:
        plan: that of the outermost agent.
        entries: the names under ``agents`` that lead to the agent.
    """
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
    preview = None
    if tool is not None:
        try:
            preview = await preview_of(tool, arguments, masked_for(plan, redactor), pending.session)
        finally:
            # A preview may read memories, which open their database at first use.
            if plan.context.memory is not None:
                await plan.context.memory.aclose()
    if preview is None:
        return pending
    shows = masked(preview, redactor)
    if (
        arguments is pending.arguments
        and redactor.real(arguments) != arguments
        and not _is_of(pending, arguments, setting)
    ):
        # Nor would this change be the run's: the decision stays bound to the one that the run itself computed.
        problem = "the stored arguments do not tell every known secret from its placeholder"
        return replace(pending, preview=Preview(problem=problem))
    return replace(pending, preview=shows, shown=shows.digest)


def _written(pending: PendingApproval, secrets: Redactor, setting: str) -> Mapping[str, JSON]:
    """The arguments as the model wrote them: stored ones have placeholders also for secrets that it knows."""
    known = secrets.real(pending.arguments)
    return known if _is_of(pending, known, setting) else pending.arguments


def _is_of(pending: PendingApproval, arguments: Mapping[str, JSON], setting: str) -> bool:
    meant = ApprovalRequest(pending.tool, arguments, pending.place, schema=pending.schema, setting=setting)
    return meant.digest == pending.digest
