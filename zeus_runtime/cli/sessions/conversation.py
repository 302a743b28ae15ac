"""A stored session as a conversation to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.cli.transcript import transcript
from zeus_runtime.sessions.decisions import decided_beside, decision_text

if TYPE_CHECKING:
    from zeus_runtime.sessions.stored import Message, StoredSession


def conversation(messages: Sequence[Message], stored: StoredSession) -> str:
    """Every message whole, under its number and who said it, results with what was decided about their call.

    Args:
        messages: those of ``stored`` that are shown.
    """
    from zeus_runtime.models.messages import from_payload

    beside = decided_beside(stored.approvals, stored.rollbacks)

    def note(message: Message) -> str:
        aside = " (set aside)" if message.set_aside else ""
        decisions = map(decision_text, beside(message.seq, message.id, message.payload))
        return "".join(f" · {part}" for part in (f"{message.seq}{aside}", *decisions))

    return transcript([from_payload(each.payload) for each in messages], [note(each) for each in messages])
