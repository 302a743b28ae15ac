"""What a session would have sent under other context policies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import yaml
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from zeus_runtime.agent.what_if import recomputed
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Administrator, service_of
from zeus_runtime.store.forks import with_policies

router = APIRouter(tags=["context"], route_class=RevalidatedRoute)


class WhatIf(BaseModel):
    """Other policies to try."""

    model_config = ConfigDict(extra="forbid")
    middlewares: str = Field(description="The value of `middlewares`, in YAML.", max_length=20_000)
    needles: list[str] = Field(
        [], description="Texts that the last request should still contain.", max_length=50
    )


@router.get("/sessions/{session}/what-if")
async def present(request: Request, caller: Administrator, session: str) -> dict[str, Any]:
    """The present `middlewares` of the session, in YAML; `own` if they are not those of its agent's config."""
    hosted, agent = await service_of(request).of_session(caller, session)
    own = await agent.own_middlewares(session)
    text = own
    if text is None:
        lines = (await hosted.with_middlewares(None)).middlewares_for_overlay()
        text = yaml.safe_dump(agent.masked(list(lines)), sort_keys=False, allow_unicode=True)
    return {"middlewares": text, "own": own is not None}


@router.post("/sessions/{session}/what-if")
async def what_if(request: Request, caller: Administrator, session: str, body: WhatIf) -> dict[str, Any]:
    """Recompute the session under the present policies and under others. No model and no tool is called."""
    hosted, agent = await service_of(request).of_session(caller, session)
    _, own = await with_policies(await agent.log(), session, inner=False)
    recording = await agent.recording(session)
    present = await hosted.with_middlewares(own)
    other = await hosted.with_middlewares(body.middlewares, are_new=True)
    async with service_of(request).replaying:
        before = await recomputed(present, recording, policy="present", needles=body.needles)
        after = await recomputed(other, recording, policy="other", needles=body.needles)
    return {"session": session, "present": asdict(before), "other": asdict(after)}
