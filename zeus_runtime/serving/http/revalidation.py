"""ETags: a client that polls gets 304 without a body, and an edit names the content that it is of (RFC 9110)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Header, Request, Response
from fastapi.routing import APIRoute

from zeus_runtime.errors import ChangedError
from zeus_runtime.serving.http.visible_json import VisibleJSON

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match", max_length=200, description="The `ETag` of what is edited; refused if it changed."
    ),
]


class RevalidatedRoute(APIRoute):
    """A route whose JSON has an ``ETag`` where it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose answer is 304 for a client that has it."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await handle(request)
            if (
                request.method != "GET"
                or response.status_code != 200
                or not isinstance(response, VisibleJSON)
            ):
                return response
            tag = _tag(response)
            response.headers["ETag"] = tag
            response.headers.setdefault("Cache-Control", "private, no-cache")
            if _has(request.headers.get("if-none-match", ""), tag):
                kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
                return Response(status_code=304, headers=kept)
            return response

        return answer


_KEPT = ("etag", "cache-control", "link")


def refuse_changed(if_match: str | None, present: Any) -> None:
    """Check that an edit is of the present content.

    Args:
        if_match: the header of the edit; None for an edit of whatever is there.
        present: the JSON that a read would answer now.

    Raises:
        ChangedError: it is of another content.
    """
    if if_match is not None and not _has(if_match, _tag(VisibleJSON(present))):
        raise ChangedError(
            "it was changed since you read it", remedy="Read it again, then edit what is there now."
        )


def _tag(response: Response) -> str:
    return f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'


def _has(header: str, tag: str) -> bool:
    # A proxy that compresses makes a tag weak; the content is the same.
    given = [each.strip().removeprefix("W/") for each in header.split(",")]
    return "*" in given or tag in given
