"""A stored session as a conversation to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.cli.transcript import transcript
from zeus_runtime.escaping import exact_line

if TYPE_CHECKING:
    from zeus_runtime.sessions.stored import Message
    from zeus_runtime.tools.approval import PendingApproval


def conversation(messages: Sequence[Message], approvals: Sequence[PendingApproval] = ()) -> str:
    """Every message whole, under its number and who said it, results with what was decided about their call."""
    from zeus_runtime.models.messages import from_payload

    decided = {(each.run_id, each.call_id): decision_text(each) for each in approvals}

    def note(message: Message) -> str:
        run_id = message.id.rpartition(".")[0]
        decision = decided.get((run_id, str(message.payload.get("tool_call_id"))), "")
        aside = " (set aside)" if message.set_aside else ""
        return f" · {message.seq}{aside}{f' · {decision}' if decision else ''}"

    return transcript([from_payload(each.payload) for each in messages], [note(each) for each in messages])


def decision_text(pending: PendingApproval) -> str:
    """``approved by user, with changed arguments``; empty if no decision was made."""
    decision = pending.decision
    if decision is None:
        return ""
    done = "approved" if decision.answer == "approve" else "rejected"
    changed = "" if decision.arguments is None else ", with changed arguments"
    # In one line: a part of a reason may be a model's.
    reason = f": {exact_line(decision.reason)}" if decision.reason else ""
    by = {"timeout": "by timeout", "earlier": "as before", "automatic": "automatically"}.get(
        decision.by, "by the user"
    )
    return f"{done} {by}{changed}{reason}"
