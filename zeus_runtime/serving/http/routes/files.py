"""Files that a user uploads, to send them along with prompts."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from zeus_runtime.serving.http.routes.depends import Reader, Runner, service_of

router = APIRouter(prefix="/files", tags=["files"])

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file, in hex.")]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put(
    "/{sha256}",
    status_code=201,
    openapi_extra=_BODY,
    responses={200: {"description": "It is there already."}},
)
async def put(request: Request, response: Response, caller: Runner, sha256: Digest) -> dict[str, Any]:
    """Upload a file: its bytes are the body. 200 if it is there already. It is the user's own, for some days."""
    data = await request.body()
    if not await asyncio.to_thread(service_of(request).uploads.put, caller.owner, sha256, data):
        response.status_code = 200
    return {"sha256": sha256, "size_bytes": len(data)}


@router.get("/{sha256}")
async def one(request: Request, caller: Reader, sha256: Digest) -> dict[str, Any]:
    """Whether a file is there."""
    size = await asyncio.to_thread(service_of(request).uploads.size, caller.owner, sha256)
    return {"sha256": sha256, "size_bytes": size}


@router.delete("/{sha256}", status_code=204)
async def delete(request: Request, caller: Runner, sha256: Digest) -> Response:
    """Delete an uploaded file; what was sent with it stays."""
    await asyncio.to_thread(service_of(request).uploads.delete, caller.owner, sha256)
    return Response(status_code=204)
