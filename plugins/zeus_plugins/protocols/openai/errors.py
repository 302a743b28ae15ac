"""Errors in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from zeus_runtime.plugin import UntrustedError
from zeus_runtime.plugin.protocol import STATUS, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from zeus_runtime.plugin import ZeusError


class BadRequestError(UsageError):
    """The request is not valid.

    Args:
        message: what is wrong.
        param: the parameter that is wrong.
        reason: OpenAI's code for it.
    """

    def __init__(self, message: str, *, param: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.reason = reason


_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def status_of(code: str) -> int:
    """The HTTP status of an error's code."""
    status = STATUS.get(code, 500)
    # OpenAI answers 400 where the service answers 422, and its clients have an error class for each.
    return 400 if status == 422 else status


def body_of(
    message: str, status: int, *, code: str | None = None, param: str | None = None
) -> Mapping[str, Any]:
    """An error as OpenAI writes it."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def response_of(error: ZeusError, mask: Callable[[str], str]) -> Response:
    """The response to an error."""
    # The client did nothing wrong: the person who runs the service has to trust the config again.
    status = 503 if isinstance(error, UntrustedError) else status_of(error.code)
    told = error.message if not error.remedy else f"{error.message}. {error.remedy}"
    code, param = error.code, None
    if isinstance(error, BadRequestError):
        code, param = error.reason or "invalid_request", error.param
    body = body_of(mask(told), status, code=code, param=param)
    # OpenAI's clients repeat what failed with 409, 429 or 5xx; only a busy session is worth that.
    retry = "true" if code == "busy" else "false"
    return JSONResponse(body, status_code=status, headers={"x-should-retry": retry})
