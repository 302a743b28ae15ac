"""Approvals: how a tool or a middleware asks the user, and how a channel answers.

A channel shows an ``ApprovalRequest`` to a person and answers with a ``Decision``. Without a channel the run ends with
``ApprovalPending``, and can be resumed after the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.escaping import json_shown as json_shown
    from zeus_runtime.strict_json import persons_json as persons_json
    from zeus_runtime.tools.approval import ApprovalChannel as ApprovalChannel
    from zeus_runtime.tools.approval import ApprovalPending as ApprovalPending
    from zeus_runtime.tools.approval import ApprovalRequest as ApprovalRequest
    from zeus_runtime.tools.approval import Approvals as Approvals
    from zeus_runtime.tools.approval import AskMode as AskMode
    from zeus_runtime.tools.approval import AskModes as AskModes
    from zeus_runtime.tools.approval import CallJudgement as CallJudgement
    from zeus_runtime.tools.approval import Decision as Decision
    from zeus_runtime.tools.approval import Listing as Listing
    from zeus_runtime.tools.approval import PendingApproval as PendingApproval
    from zeus_runtime.tools.approval_form import decision_of as decision_of
    from zeus_runtime.tools.approval_form import question_and_form as question_and_form

_ROOMS = {
    "decision_of": "tools.approval_form",
    "json_shown": "escaping",
    "persons_json": "strict_json",
    "question_and_form": "tools.approval_form",
    "ApprovalChannel": "tools.approval",
    "ApprovalPending": "tools.approval",
    "ApprovalRequest": "tools.approval",
    "Approvals": "tools.approval",
    "AskMode": "tools.approval",
    "AskModes": "tools.approval",
    "Decision": "tools.approval",
    "CallJudgement": "tools.approval",
    "Listing": "tools.approval",
    "PendingApproval": "tools.approval",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
