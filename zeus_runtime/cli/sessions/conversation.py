"""A stored session as a conversation to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.cli.transcript import transcript
from zeus_runtime.escaping import exact_line

if TYPE_CHECKING:
    from zeus_runtime.sessions.stored import Message, StoredSession
    from zeus_runtime.tools.approval import PendingApproval


def conversation(messages: Sequence[Message], stored: StoredSession) -> str:
    """Every message whole, under its number and who said it, results with what was decided about their call.

    Args:
        messages: those of ``stored`` that are shown.
    """
    from zeus_runtime.models.messages import from_payload
    from zeus_runtime.store.branch import place_when_written

    # By run, so that a long session takes time by its length and not by its square.
    decided: dict[str, list[tuple[PendingApproval, str]]] = {}
    for each in stored.approvals:
        if text := decision_text(each):
            decided.setdefault(each.run_id, []).append((each, text))

    def decisions(message: Message) -> list[str]:
        run_id, call_id = message.id.rpartition(".")[0], str(message.payload.get("tool_call_id"))
        if message.payload["role"] != "tool" or run_id not in decided:
            return []
        place = place_when_written(stored.rollbacks, message.seq)
        return [text for each, text in decided[run_id] if each.is_of(run_id, place, call_id)]

    def note(message: Message) -> str:
        aside = " (set aside)" if message.set_aside else ""
        return "".join(f" · {part}" for part in (f"{message.seq}{aside}", *decisions(message)))

    return transcript([from_payload(each.payload) for each in messages], [note(each) for each in messages])


def decision_text(pending: PendingApproval) -> str:
    """``approved by the user, with changed arguments``, ``after an interruption, rejected by the user``.

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
    changed = "" if decision.arguments is None or pending.is_question else ", with changed arguments"
    # In one line: a part of a reason may be a model's.
    reason = f": {exact_line(decision.reason)}" if decision.reason else ""
    by = {"timeout": "by timeout", "earlier": "as before", "automatic": "automatically"}.get(
        decision.by, "by the user"
    )
    again = "after an interruption, " if pending.interrupted else ""
    return f"{again}{done} {by}{changed}{reason}"
