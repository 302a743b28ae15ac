"""What a service answers instead of a result, as errors by its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from zeus_runtime.cutting import cut_text, spare
from zeus_runtime.errors import ZeusError

_MOST_BYTES: Final = 64_000
_MOST_CHARACTERS: Final = 200
"""Of an answer that is not the service's: it may name the key, which is masked later, so no word of it is cut."""


class ServiceError(ZeusError):
    """The service refused a request, or failed.

    Args:
        message: its words.
        status: the HTTP status; 0 if there was no answer.
        code: the code that its command line has too, such as ``not_found``.
        remedy, where: as of any ``ZeusError``.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "error",
        remedy: str | None = None,
        where: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, where=where)
        self.status = status
        self.code = code


class ServiceUnauthorizedError(ServiceError):
    """The token is missing or not valid."""

    exit_code = 4


class ServiceForbiddenError(ServiceError):
    """The token does not allow that."""

    exit_code = 4


class ServiceNotFoundError(ServiceError):
    """Something that was named does not exist, or is another user's."""

    exit_code = 2


class ServiceBusyError(ServiceError):
    """The session has a turn that is not over."""

    exit_code = 2


class ServiceChangedError(ServiceError):
    """What was to be edited was changed since it was read."""

    exit_code = 2


class ServiceRequestError(ServiceError):
    """The request is not valid."""

    exit_code = 2


class ServiceLimitError(ServiceError):
    """A limit was reached, such as that of requests in a time."""

    exit_code = 6


class ServiceUnavailableError(ServiceError):
    """There is no service at that address, or it cannot work now."""

    exit_code = 4


_KINDS: Final[Mapping[int, type[ServiceError]]] = {
    400: ServiceRequestError,
    401: ServiceUnauthorizedError,
    403: ServiceForbiddenError,
    404: ServiceNotFoundError,
    405: ServiceRequestError,
    409: ServiceBusyError,
    412: ServiceChangedError,
    413: ServiceRequestError,
    422: ServiceRequestError,
    429: ServiceLimitError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceUnavailableError,
}


def error_of(status: int, body: bytes) -> ServiceError:
    """The error that an answer tells: problem+json, or anything else that a proxy may send."""
    kind = _KINDS.get(status, ServiceError)
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or "code" not in told:
        said = cut_text(body[: _MOST_BYTES + spare()].decode("utf-8", "replace").strip(), _MOST_CHARACTERS)
        return kind(f"the service answered {status}{f': {said}' if said else ''}", status=status)
    return kind(
        str(told.get("detail") or told.get("title") or status),
        status=status,
        code=str(told["code"]),
        remedy=None if told.get("remedy") is None else str(told["remedy"]),
        where=None if told.get("where") is None else str(told["where"]),
    )
