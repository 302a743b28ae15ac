"""What was decided about the calls of a stored session, for the messages with their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from zeus_runtime.escaping import exact_line, json_shown

if TYPE_CHECKING:
    from zeus_runtime.store.branch import Rollback
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import PendingApproval

DecidedBeside: TypeAlias = "Callable[[int, str, Mapping[str, Any]], list[PendingApproval]]"
"""The decided requests about the call whose result a message is, by the message's ``seq``, id and payload."""


async def approvals_in(
    log: ThreadLog, session: str, messages: Iterable[str] | None = None
) -> Sequence[PendingApproval]:
    """The requests of a session as ``log`` gives its messages: whole, so that nothing is cut before it is masked.

    Args:
        messages: ids; only the requests of the runs that wrote these.
    """
    from zeus_runtime.run.approvals import masked_decision, masked_pending
    from zeus_runtime.store.approvals import approvals_of
    from zeus_runtime.store.masked_log import MaskedLog

    runs = None if messages is None else {_run_of(each) for each in messages}
    approvals = await approvals_of(log, await log.find(session), runs)
    if not isinstance(log, MaskedLog):
        return approvals
    return [
        replace(
            masked_pending(each, log.secrets.masked),
            decision=each.decision and masked_decision(each.decision, log.secrets),
        )
        for each in approvals
    ]


def decided_beside(approvals: Sequence[PendingApproval], rollbacks: Sequence[Rollback]) -> DecidedBeside:
    """Find the decisions beside each message of a session, oldest first."""
    from zeus_runtime.store.branch import place_when_written

    # By run, so that a long session takes time by its length and not by its square.
    decided: dict[str, list[PendingApproval]] = {}
    for each in approvals:
        if each.decision is not None:
            decided.setdefault(each.run_id, []).append(each)

    def beside(seq: int, name: str, payload: Mapping[str, Any]) -> list[PendingApproval]:
        run_id = _run_of(name)
        if payload["role"] != "tool" or run_id not in decided:
            return []
        place = place_when_written(rollbacks, seq)
        call_id = str(payload.get("tool_call_id"))
        return [each for each in decided[run_id] if each.is_of(run_id, place, call_id)]

    return beside


def _run_of(message: str) -> str:
    return message.rpartition(".")[0]


def decision_text(pending: PendingApproval) -> str:
    """``approved by the user, with changed arguments {"path": "a"}``, ``begun before, rejected by the user``.

    Empty if no decision was made.
    """
    decision = pending.decision
    if decision is None:
        return ""
    is_yes = decision.answer == "approve"
    done = {
        "call": ("approved", "rejected"),
        "file": ("a file approved", "a file rejected"),
        "question": ("a question answered", "a question declined"),
    }[pending.kind][not is_yes]
    arguments = changed_arguments(pending)
    changed = "" if arguments is None else f", with changed arguments {json_shown(arguments)}"
    # In one line: a part of a reason may be a model's.
    reason = f": {exact_line(decision.reason)}" if decision.reason else ""
    again = "begun before, " if pending.interrupted else ""
    otherwise = "after a change of the tool's settings, " if pending.approved_before else ""
    return f"{again}{otherwise}{done} {decision.by_words}{changed}{reason}"


def changed_arguments(pending: PendingApproval) -> dict[str, Any] | None:
    """The arguments that the user wrote instead of those of a call; None if the user changed none."""
    decision = pending.decision
    if decision is None or decision.arguments is None or pending.is_question:
        return None
    written, asked = (
        json.dumps(dict(each), sort_keys=True) for each in (decision.arguments, pending.arguments)
    )
    return None if written == asked else dict(decision.arguments)
