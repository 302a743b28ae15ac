"""Where a session's time went."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Reader, service_of
from zeus_runtime.sessions.trace import trace_of

router = APIRouter(tags=["sessions"], route_class=RevalidatedRoute)


@router.get("/sessions/{session}/trace")
async def trace(request: Request, caller: Reader, session: str) -> list[dict[str, Any]]:
    """The runs of a session, oldest first, each with its model calls, tool calls, approvals and sub-agents."""
    _, agent = await service_of(request).of_session(caller, session)
    return [asdict(each) for each in await trace_of(await agent.masked_log(), session)]
