"""What waits for a decision, as `zeus approvals` writes it: here, and with `--remote`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zeus_runtime.cli.event_lines import waiting_line
from zeus_runtime.cli.output import TextTable, local_time
from zeus_runtime.cli.streams import answer, complain, reader_columns
from zeus_runtime.tools.question import OUTDATED, caller_text, deadline, question_lines

if TYPE_CHECKING:
    from zeus_runtime.tools.approval import PendingApproval

_OUTDATED = f" ({OUTDATED[:1].lower()}{OUTDATED[1:]})"


def waiting_table(found: Iterable[PendingApproval]) -> TextTable:
    """A line for each call, with known secrets masked."""
    rows = [
        (
            each.id,
            each.session,
            local_time(each.created_ms),
            "" if each.expires_ms is None else deadline(each.expires_ms, each.on_timeout),
            waiting_line(
                caller_text(each.session_agent, each.agent, each.user, each.project),
                each.tool,
                each.arguments,
                80,
            )
            + (_OUTDATED if each.outdated else ""),
        )
        for each in found
    ]
    return TextTable(rows, ("ID", "SESSION", "ASKED", "UNTIL", "CALL"))


def outdated_approval(name: str) -> str:
    """What is said of an approval that was given although it will not hold.

    Args:
        name: the call's id.
    """
    return f"{name}: {OUTDATED}: its approval does not hold."


def show_waiting(pending: PendingApproval, approving: str) -> None:
    """Print the whole question, and how to approve the change that it shows if an approval can hold.

    Args:
        approving: the command.
    """
    for line in question_lines(pending, whole=True, width=reader_columns()):
        answer(line.text, style=line.style)
    if pending.shown and not pending.outdated:
        complain(f"approve this change with: {approving}", laid_out=True)
