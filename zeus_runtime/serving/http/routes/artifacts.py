"""The files that a session's tools wrote."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from zeus_runtime.models.pictures import picture_of
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Reader, service_of

router = APIRouter(prefix="/sessions/{session}/artifacts", tags=["files"], route_class=RevalidatedRoute)


@router.get("")
async def listed(request: Request, caller: Reader, session: str) -> list[dict[str, Any]]:
    """The files that tools wrote in the session and that are still there, the last changed first."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        return [agent.masked(asdict(each)) for each in await agent.artifacts(session)]


@router.get("/content", response_class=Response)
async def content(
    request: Request, caller: Reader, session: str, path: Annotated[str, Query(max_length=1000)]
) -> Response:
    """The content of one of them, to save; known secrets are masked in text."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        return to_save(await agent.artifact(session, path), path)


def to_save(data: bytes, path: str) -> Response:
    """The bytes of a file as one to save; a picture may be shown too, and nothing else of it runs in a browser."""
    name = quote(path.rpartition("/")[2], safe="", errors="replace")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Cache-Control": "private, no-cache",
    }
    return Response(data, media_type=_media_type(data), headers=headers)


def _media_type(data: bytes) -> str:
    """A type that no browser runs, whatever the file's name says."""
    picture = picture_of(data, "")
    if picture is not None:
        return picture.media_type
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"
