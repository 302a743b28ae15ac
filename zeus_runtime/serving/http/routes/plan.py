"""The config of an agent: its plan, its text, and a check of another text. Nothing is executed or written."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from zeus_runtime.config.layers.loading import shown_text
from zeus_runtime.config.messages.diagnostics import to_json
from zeus_runtime.config.yaml.reader import MAX_BYTES
from zeus_runtime.errors import NotFoundError
from zeus_runtime.plan.judged import judged
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Administrator, service_of

router = APIRouter(tags=["agents"], route_class=RevalidatedRoute)


class EditedText(BaseModel):
    """The content that a config's file would have."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(max_length=MAX_BYTES)


@router.get("/agents/{agent}/plan")
async def plan(request: Request, caller: Administrator, agent: str) -> dict[str, Any]:
    """Exactly what a turn of the agent runs, with the place where each value was written."""
    owned = service_of(request).agent(caller, agent).of(caller.owner)
    return dict(await asyncio.to_thread(owned.plan_json))  # it may look into a database


@router.get("/sessions/{session}/plan", tags=["sessions"])
async def plan_of_session(request: Request, caller: Administrator, session: str) -> dict[str, Any]:
    """Exactly what a turn of the session runs; `own` if its `middlewares` are not those of its agent's config."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        own = await agent.own_middlewares(session) is not None
        return {**await agent.session_plan_json(session), "session": session, "own": own}


@router.get("/agents/{agent}/config")
async def config(request: Request, caller: Administrator, agent: str) -> dict[str, Any]:
    """The text of the agent's config, known secrets masked, and the other files that it is read from."""
    hosted = service_of(request).agent(caller, agent)
    document = hosted.checked.document
    if document.path is None:
        raise NotFoundError(f"the config of {agent!r} is not a file")
    path = document.path

    def read() -> str:
        return shown_text(document, path.read_text("utf-8-sig", "replace"))

    try:
        text = await asyncio.to_thread(read)
    except OSError as error:
        raise NotFoundError(f"the config of {agent!r} cannot be read: {error.strerror}") from None
    told = {
        "source": document.source,
        "text": text,
        "others": [name for name in document.files if name != document.source],
        "problem": hosted.problem,
    }
    return dict(hosted.of(caller.owner).masked(told))


@router.post("/agents/{agent}/validate")
async def validate(request: Request, caller: Administrator, agent: str, body: EditedText) -> dict[str, Any]:
    """Check a text as the content of the agent's config: every problem with its position."""
    hosted = service_of(request).agent(caller, agent)
    outcome = await asyncio.to_thread(judged, lambda: hosted.examined(body.text))
    diagnostics = [to_json(each) for each in outcome.diagnostics]
    told = {"ok": outcome.exit_code == 0, "exit_code": outcome.exit_code, "diagnostics": diagnostics}
    return dict(hosted.of(caller.owner).masked(told))
