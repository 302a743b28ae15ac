"""Calls that wait for a decision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import exact_json
from zeus_runtime.serving.http.boundary import note_act
from zeus_runtime.serving.http.parts import Cursor, Limit, Place, part_of, place_of, tell_unread
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Approver, Reader, service_of
from zeus_runtime.strict_json import persons_json
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.preview import Preview
from zeus_runtime.tools.question import fields_of, question_lines

if TYPE_CHECKING:
    from zeus_runtime.serving.http.hosting import HostedAgent

router = APIRouter(tags=["approvals"], route_class=RevalidatedRoute)


class NewDecision(BaseModel):
    """A decision on a waiting call."""

    model_config = ConfigDict(extra="forbid")
    decision: Literal["approve", "reject"]
    changed: dict[str, Any] | None = Field(None, description="Arguments to run instead; they must fit.")
    reason: str = Field("", description="Why it is rejected, for the model.")
    instruction: str = Field("", description="A further text for the model.")
    always: bool = Field(False, description="Do not ask again about this tool with its present options.")
    automatic: bool = Field(
        False, description="No person looked at the call: refused where only a person may approve it."
    )
    seen: str | None = Field(
        None,
        description="`seen` of the waiting call as its user saw it: an approval of another change is refused."
        " Without it the approval counts for the change that was shown last.",
    )


@router.get("/approvals")
async def pending(
    request: Request, response: Response, caller: Reader, limit: Limit = None, cursor: Cursor = None
) -> list[dict[str, Any]]:
    """The calls of the caller's sessions that wait for a decision, oldest first."""
    found, unread = await service_of(request).approvals(caller)
    tell_unread(response, unread)
    after = place_of(cursor, int, str)
    shown = part_of(request, response, sorted(found, key=_place), _place, after=after, limit=limit)
    return [each.listed_json() for _, each in shown]


def _place(found: tuple[HostedAgent, PendingApproval]) -> Place:
    return found[1].created_ms, found[1].id


@router.get("/approvals/{approval}")
async def one(request: Request, caller: Reader, approval: str) -> dict[str, Any]:
    """One waiting call, with the change that it would make now, if its tool can tell.

    ``lines`` show it to a person as a terminal does: exactly, and with unseen characters as escapes; ``whole`` is
    without cuts. ``form`` has the texts of a question's fields, as a browser can show them exactly.
    """
    async with service_of(request).for_approval(caller, approval) as ((_, agent, _owner), _session):
        return waiting_call(await agent.previewed(approval))


@router.post("/approvals/{approval}")
async def decide(request: Request, caller: Approver, approval: str, body: NewDecision) -> dict[str, Any]:
    """Decide a waiting call. Its turn is resumed once nothing else waits.

    With ``always``, ``allowlist_of`` is the user on whose allowlist the tool goes: that of the session.
    ``outdated``: the call was asked under other settings of its tool, so its approval will not hold.
    """
    try:
        # Of two equal keys the body's model has one, and of 1e400 infinity.
        written = persons_json((await request.body()).decode())
    except ValueError as problem:
        raise UsageError(f"{approval} cannot be decided so: {problem}") from None
    decision = Decision(
        body.decision,
        body.reason,
        written.get("changed"),
        body.instruction,
        body.always,
        by="automatic" if body.automatic else "user",
    )
    # A client that sends `"seen": null` saw a call without a change; one that sends nothing relies on the last shown.
    seen = {approval: body.seen} if "seen" in body.model_fields_set else {}
    found, session, outdated = await service_of(request).decide(caller, {approval: decision}, seen=seen)
    note_act(request, agent=found.hosted.name, session=session)
    listed = {"allowlist_of": found.owner.user} if body.always and found.owner is not None else {}
    told = {"outdated": True} if outdated else {}
    return {"session": session, "decision": body.decision, **listed, **told}


def waiting_call(shown: PendingApproval) -> dict[str, Any]:
    """One waiting call as the API shows it."""
    preview = shown.preview or Preview()
    return {
        **shown.listed_json(),
        "may_remember": shown.may_remember and not shown.is_question,
        "may_change": shown.schema is not None,
        "changes": [{"path": one.path, "before": one.before, "after": one.after} for one in preview.changes],
        "stands_for": list(preview.stands_for),
        "facts": list(preview.facts),
        "seen": shown.shown,
        "lines": _lines(shown),
        "form": [{"name": each.name, **each.form} for each in fields_of(shown)],
        "editable": exact_json(json.dumps(dict(shown.arguments), ensure_ascii=False, indent=2)),
        "whole": _lines(shown, whole=True),
        "problem": preview.problem,
    }


def _lines(pending: PendingApproval, *, whole: bool = False) -> list[dict[str, Any]]:
    return [line.as_json() for line in question_lines(pending, whole=whole, rest="see it with `show all`")]
