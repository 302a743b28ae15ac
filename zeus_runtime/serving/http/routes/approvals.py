"""Calls that wait for a decision."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from zeus_runtime.errors import NotFoundError
from zeus_runtime.serving.http.boundary import note_act
from zeus_runtime.serving.http.routes.depends import Approver, Reader, service_of
from zeus_runtime.tools.approval import Decision

router = APIRouter(tags=["approvals"])


class NewDecision(BaseModel):
    """A decision on a waiting call."""

    model_config = ConfigDict(extra="forbid")
    decision: Literal["approve", "reject"]
    changed: dict[str, Any] | None = Field(None, description="Arguments to run instead; they must fit.")
    reason: str = Field("", description="Why it is rejected, for the model.")
    instruction: str = Field("", description="A further text for the model.")
    always: bool = Field(False, description="Do not ask about this tool again.")


@router.get("/approvals")
async def pending(request: Request, caller: Reader) -> list[dict[str, Any]]:
    """The calls of the caller's sessions that wait for a decision, oldest first."""
    found = await service_of(request).approvals(caller)
    return [{**each.as_json(), "agent": hosted.name} for hosted, each in found]


@router.get("/approvals/{approval}")
async def one(request: Request, caller: Reader, approval: str) -> dict[str, Any]:
    """One waiting call, with the change that it would make now, if its tool can tell."""
    for hosted, each in await service_of(request).approvals(caller):
        if each.id == approval:
            shown = await hosted.of(caller.owner).previewed(approval)
            changes = () if shown.preview is None else shown.preview.changes
            return {
                **shown.as_json(),
                "agent": hosted.name,
                "may_remember": shown.may_remember and not shown.is_question,
                "may_change": shown.schema is not None,
                "changes": [{"path": one.path, "before": one.before, "after": one.after} for one in changes],
                "problem": "" if shown.preview is None else shown.preview.problem,
            }
    raise NotFoundError(f"no call with the id {approval!r} waits for a decision")


@router.post("/approvals/{approval}")
async def decide(request: Request, caller: Approver, approval: str, body: NewDecision) -> dict[str, Any]:
    """Decide a waiting call. Its turn is resumed once nothing else waits."""
    decision = Decision(body.decision, body.reason, body.changed, body.instruction, body.always)
    session = await service_of(request).decide(caller, approval, decision)
    note_act(request, session=session, decision=body.decision)
    return {"session": session, "decision": body.decision}
