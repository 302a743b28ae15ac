"""Errors as responses: problem+json (RFC 9457) with the codes and remedies of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from zeus_runtime.errors import ZeusError
from zeus_runtime.serving.http.limits import TooManyRequestsError
from zeus_runtime.serving.http.visible_json import VisibleJSON, visible_json
from zeus_runtime.trust.decision import UntrustedError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from fastapi.responses import Response
    from starlette.types import Scope

    from zeus_runtime.serving.http.protocols import ServedProtocol

STATUS: Final[Mapping[str, int]] = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown-memory": 404,
    "busy": 409,
    "changed": 412,
    "usage": 422,
    "options": 422,
    "config": 422,
    "missing": 503,
    "embedding-unavailable": 503,
    "embedding-not-configured": 503,
    "unavailable": 503,
    "stopping": 503,
    "limit": 429,
    "too_many_requests": 429,
}
"""HTTP status by the code of an error; any other error is 500."""

MEDIA: Final = "application/problem+json"


class ProblemDetails(BaseModel):
    """What went wrong (RFC 9457), with the code and the remedy that the command line prints."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str | None = None
    where: str | None = None
    errors: list[dict[str, str]] | None = None


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": words, "content": {MEDIA: {"schema": ProblemDetails.model_json_schema()}}}
    for status, words in (("4XX", "The request is refused."), ("503", "Something that it needs is missing."))
}
"""The errors of every route, for its OpenAPI."""


def install(app: FastAPI, mask: Callable[[str], str], protocols: Sequence[ServedProtocol] = ()) -> None:
    """Answer every known error of the routes as a problem, or as a protocol has its errors.

    The boundary answers all others (``unexpected``): Starlette would answer them outside it.

    Args:
        mask: masks known secrets in texts.
        protocols: those that the service also speaks.
    """

    @app.exception_handler(ZeusError)
    async def known(request: Request, error: ZeusError) -> Response:
        request.state.code = error.code
        return problem_of(error, mask)

    # Not FastAPI's own answer: it repeats the input, which may hold a secret.
    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        places = [
            {"where": mask(".".join(map(str, each["loc"]))), "message": mask(str(each["msg"]))}
            for each in error.errors()
        ]
        told = "; ".join(f"{each['where']}: {each['message']}" for each in places)
        return response(422, "invalid_request", told, errors=places)

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = {413: "too_large", 404: "not_found"}.get(error.status_code, "http")
        told = mask(str(error.detail))
        own = in_protocol(protocols, request.scope, error.status_code, code, told, error.headers)
        return own or response(error.status_code, code, told, headers=error.headers)


def unexpected(error: Exception, mask: Callable[[str], str]) -> Response:
    """The response to an error that no code foresaw."""
    return response(500, "internal", mask(f"{type(error).__name__}: {error}"))


def in_protocol(
    protocols: Sequence[ServedProtocol],
    scope: Scope,
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> Response | None:
    """An error of a request that reached no route, as the protocol has it to which the path belongs; None for none."""
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    for each in protocols:
        if (answer := each.refusal(path, status, code, message)) is not None:
            for name, value in (headers or {}).items():
                answer.headers.setdefault(name, value)
            answer.body = visible_json(bytes(answer.body))
            answer.headers["content-length"] = str(len(answer.body))
            return answer
    return None


def problem_of(error: ZeusError, mask: Callable[[str], str]) -> Response:
    """The response to a known error."""
    more = {
        **({"remedy": mask(error.remedy)} if error.remedy else {}),
        **({"where": mask(error.where)} if error.where else {}),
    }
    status = 503 if isinstance(error, UntrustedError) else STATUS.get(error.code, 500)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if isinstance(error, TooManyRequestsError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    return response(status, error.code, mask(error.message), headers=headers, **more)


def response(
    status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """A problem as a response."""
    body = {
        "type": f"urn:zeus:problem:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        **more,
    }
    return VisibleJSON(body, status_code=status, headers=dict(headers or {}), media_type=MEDIA)
