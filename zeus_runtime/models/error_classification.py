"""A provider's error as a ``ModelError``: its class, its HTTP status, the time to wait, and the counts it states.

Pure: reads attributes, calls nothing. It imports no provider library; exception classes are recognized by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text, unwrapped
from zeus_runtime.models.errors import ErrorClass, ModelError
from zeus_runtime.models.overflow import find_overflow

if TYPE_CHECKING:
    from datetime import datetime

_BY_NAME: Final[Mapping[str, ErrorClass]] = {
    "ContextWindowExceededError": "context_overflow",
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate_limit",
    "Timeout": "timeout",
    "APITimeoutError": "timeout",
    "TimeoutException": "timeout",
    "TimeoutError": "timeout",
    "ServiceUnavailableError": "server",
    "InternalServerError": "server",
    "BadGatewayError": "server",
    "APIConnectionError": "network",
    "TransportError": "network",
    "ClientError": "network",
    "ConnectionError": "network",
    "OSError": "network",
    "NotFoundError": "bad_request",
    "UnprocessableEntityError": "bad_request",
    "UnsupportedParamsError": "bad_request",
    "BadRequestError": "bad_request",
    "APIResponseValidationError": "server",
    "APIError": "server",
}
"""Exception class, or one of its bases, to error class; the most derived that is listed decides."""

_NAME_BEFORE_STATUS: Final = frozenset(
    {"context_overflow", "timeout", "network"},
)
"""Classes an exception's name tells better than its status: litellm gives a lost connection status 500."""

_BY_STATUS: Final[Mapping[int, ErrorClass]] = {
    401: "auth",
    402: "billing",
    403: "auth",
    408: "timeout",
    409: "server",
    413: "context_overflow",
    425: "server",
    429: "rate_limit",
    499: "network",
    504: "timeout",
}

_BY_TEXT: Final[tuple[tuple[str, ErrorClass], ...]] = (
    (r"invalid.{0,20}api[ _-]?key|authentication_error|incorrect api key|api[ _-]?key.{0,20}(?:missing|not set)",
     "auth"),
    (r"rate[ _-]?limit|too many requests|throttl|resource_exhausted|insufficient_quota|exceeded your current quota"
     r"|(?:tokens|requests) per (?:min|hour|day)", "rate_limit"),
    (r"overloaded|internal server error|server_error|service unavailable|bad gateway|temporarily unavailable",
     "server"),
    (r"timed? ?out", "timeout"),
    (r"connection (?:error|reset|refused|closed|aborted)|peer closed|disconnected|incomplete (?:chunked )?read",
     "network"),
)  # fmt: skip
"""Wording to class, for errors that come inside a stream and so have no status."""

_NO_CREDIT: Final = frozenset({"billing_error", "insufficient_quota"})
"""The codes of Anthropic and OpenAI for an account without credit; OpenAI's status is that of a limited rate."""

_NO_CREDIT_SAID: Final = "credit balance is too low"
"""Anthropic gives this error the code of any invalid request, so only its message tells it."""

_LABELS: Final[Mapping[ErrorClass, str]] = {
    "auth": "the provider refused the credential",
    "billing": "the provider's account has no credit",
    "rate_limit": "the provider limits the rate",
    "context_overflow": "the request does not fit the model's context window",
    "bad_request": "the provider refused the request",
    "server": "the provider failed",
    "network": "the connection to the provider failed",
    "timeout": "the provider did not answer in time",
}

_REMEDIES: Final[Mapping[ErrorClass, str]] = {
    "auth": "Check the API key and that it may use this model",
    "billing": "Add credit to the account: see the provider's billing page",
    "context_overflow": "Shorten the request, or use a model with a larger window",
    "network": "Check the network and, where one is set, api_base",
}
_BY_STATUS_REMEDIES: Final[Mapping[int, str]] = {
    404: "Check the model's name and api_base",
}

_LONGEST_MESSAGE: Final = 2_000
_LONGEST_WHOLE: Final = 100_000


def classify(
    text: str,
    *,
    status: int | None = None,
    names: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
    codes: frozenset[str] = frozenset(),
    now: datetime | None = None,
) -> ModelError:
    """The error a provider's answer means.

    Args:
        text: the message or body.
        status: HTTP status, where there was one.
        names: the exception's class name and those of its bases, most derived first.
        headers: the response's headers, for Retry-After.
        codes: the provider's own codes, besides those of an error object in ``text``.
        now: for a Retry-After that is a date; without it such a date is not used.
    """
    kind = _kind(text, status, names, codes | _codes(_object_in(text)))
    overflow = find_overflow(text) if kind == "context_overflow" else None
    said = _said(text)
    return ModelError(
        f"{_LABELS[kind]}{f' ({status})' if status and kind != 'network' else ''}: {readable(text)}",
        kind=kind,
        status=status,
        retry_after_seconds=retry_after(headers or {}, text, now),
        input_tokens=overflow.input_tokens if overflow else None,
        limit_tokens=overflow.limit_tokens if overflow else None,
        remedy=_BY_STATUS_REMEDIES.get(status or 0) or _REMEDIES.get(kind),
        whole=cut_text(said, _LONGEST_WHOLE) if len(said) > _LONGEST_MESSAGE else "",
    )


def _kind(text: str, status: int | None, names: tuple[str, ...], codes: frozenset[str]) -> ErrorClass:
    # Before the texts: a refused key is not repeated, whatever the message speaks of.
    if status in (401, 403):
        return "auth"
    if _NO_CREDIT & codes or (status == 400 and _NO_CREDIT_SAID in text):
        return "billing"
    # Before the status, which is 400, 413, 422 or another with each provider.
    if find_overflow(text):
        return "context_overflow"
    named = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    said = next((kind for pattern, kind in _BY_TEXT if re.search(pattern, text, re.IGNORECASE)), None)
    if named == "context_overflow" or (status == 413 and said != "rate_limit"):
        return "rate_limit" if said == "rate_limit" else "context_overflow"
    # Groq answers 413 to a request that is larger than the tokens per minute.
    if status == 413:
        return "rate_limit"
    if named in _NAME_BEFORE_STATUS:
        return named
    if status == 500 and said == "network":
        # litellm gives a refused connection the status 500.
        return said
    if status is not None and status >= 400:
        return _BY_STATUS.get(status) or ("server" if status >= 500 else "bad_request")
    return said or named or "server"


def model_error(error: BaseException, *, now: datetime | None = None) -> ModelError:
    """The ``ModelError`` for an exception of a provider's library; one that is a ModelError already stays as it is.

    Args:
        error: read for ``status_code``, ``response.headers``, ``body``, ``message`` and ``original_exception``.
        now: see ``classify``.
    """
    if isinstance(error, ModelError):
        return error
    original = getattr(error, "original_exception", None)
    # litellm keeps the error there that ended a stream, with its status and headers.
    if isinstance(original, BaseException) and original is not error:
        return model_error(original, now=now)
    names = tuple(kind.__name__ for kind in type(error).__mro__)
    codes = _codes(getattr(error, "body", None))
    return classify(
        _text(error), status=_status(error), names=names, headers=_headers(error), codes=codes, now=now
    )


def _codes(body: Any) -> frozenset[str]:
    """The code and the type of an error object, which may stand inside of others."""
    found: set[str] = set()
    while isinstance(body, Mapping):
        found.update(each for key in ("code", "type") if isinstance(each := body.get(key), str))
        body = body.get("error")
    return frozenset(found)


def _text(error: BaseException) -> str:
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    body = getattr(error, "body", None)
    if isinstance(body, Mapping) and json.dumps(body, default=str) not in text:
        detail = body.get("error", body)
        said = detail.get("message") if isinstance(detail, Mapping) else detail
        if said and str(said) not in text:
            text = f"{text} {said}"
    return text


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    try:
        return None if status is None else int(status)
    except (TypeError, ValueError):
        return None


def _headers(error: BaseException) -> Mapping[str, str]:
    for holder in (getattr(error, "response", None), error):
        for name in ("headers", "litellm_response_headers"):
            headers = getattr(holder, name, None)
            if headers:
                return {str(key).lower(): str(value) for key, value in dict(headers).items()}
    return {}


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION: Final = re.compile(
    r"(?:retryDelay\"?: ?\"?|try again in )(?=\d)"
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?!s))?"
    r"(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+(?:\.\d+)?)ms)?(?![\w])",
    re.IGNORECASE,
)
"""A duration as Go writes it: ``1h2m3s``, ``1.2s``, ``200ms``."""


def retry_after(headers: Mapping[str, str], text: str = "", now: datetime | None = None) -> float | None:
    """How many seconds the provider asks to wait; None when it does not say.

    Reads ``retry-after-ms``, ``Retry-After`` as seconds or as an HTTP date (RFC 9110, 10.2.3), and the durations
    Gemini (``retryDelay``) and OpenAI ("try again in 1.2s") put into the text.
    """
    lower = {key.lower(): value for key, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(lower[name]) / unit
        except (KeyError, ValueError):
            continue
        # `float` takes `nan` and `inf` too.
        if 0 <= seconds < float("inf"):
            return seconds
    if now is not None and "retry-after" in lower:
        from email.utils import parsedate_to_datetime

        try:
            return max(0.0, (parsedate_to_datetime(lower["retry-after"]) - now).total_seconds())
        except (TypeError, ValueError):
            return None
    said = _DURATION.search(text)
    if said is None:
        return None
    return sum(float(said[unit] or 0) * seconds for unit, seconds in _UNITS.items())


def readable(text: str) -> str:
    """A provider's message without the wrapping of exception names and JSON, cut to 2,000 characters."""
    return cut_text(_said(text), _LONGEST_MESSAGE)


def _said(text: str) -> str:
    said = re.sub(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -) ?)+", "", text.strip())
    said = _message(_object_in(said)) or said
    return unwrapped(said) or text.strip() or "no message"


def _object_in(text: str) -> Any:
    """The JSON object in a text; None if there is none."""
    start = text.find("{")
    if start >= 0:
        with suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(text, start)[0]
    return None


def _message(value: Any) -> str | None:
    while isinstance(value, Mapping):
        said = value.get("message") or value.get("detail")
        if isinstance(said, str):
            return said
        value = value.get("error")
    return value if isinstance(value, str) else None
