"""The planner's admission rules: what an edit must satisfy before the view changes."""

from __future__ import annotations

from dataclasses import dataclass

from zeus_runtime.context.edits import Edit
from zeus_runtime.context.view import View


@dataclass(frozen=True)
class Budget:
    """What one model call may hold, in tokens: the input limit and what the output may need of it."""

    input_limit_tokens: int
    output_reserve_tokens: int


@dataclass(frozen=True)
class Refusal:
    """Why an edit was not admitted."""

    edit: Edit
    reason: str


def review(view: View, edit: Edit) -> Refusal | None:
    """None if ``edit`` may be admitted to ``view``, else why not.

    An edit must shrink the view, leave something to send, and never part a tool call from its result.
    """
    if edit.seq <= view.first:
        return Refusal(edit, "it does not shrink the view")
    place = edit.seq - view.first
    if place >= len(view):
        return Refusal(edit, "it would leave nothing to send")
    if view[place].type == "tool":
        return Refusal(edit, f"message {edit.seq} is a tool result whose call would be dropped")
    return None
