"""Failures of servers in words. The SDK's exceptions come in groups and do not name a cause that a user understands."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.plugin import MissingError, OptionsError, UntrustedError, ZeusError, cut_text, unwrapped

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST = 500
_SESSION_LOST = ("Session terminated", "Session not found")
"""Messages of a restarted remote server about a session that it does not know; the protocol has no code for this."""


REFUSED_BY_HTTP = "Server returned an error response"
"""The SDK's message for a call that was answered with any HTTP error status."""
_SDK_UNREADABLE = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")
# Takes the reason before pydantic's `[type=json_invalid, input_value=...]`, which would quote the server's answer.
_NO_JSON = re.compile(r"Invalid JSON: ([^\[\n]+)")


_SDK_VERSION = "Unsupported protocol version from the server"
_PASSING_STATUS = frozenset({408, 409, 421, 423, 425, 429})
"""The 3xx and 4xx statuses after which a later attempt may succeed."""
_REFUSALS = frozenset({-32600, -32601, -32602, -32020, -32021, -32022})
"""JSON-RPC codes that blame the request itself, and the protocol's own codes of that kind."""


class UnauthorizedError(Exception):
    """A server's account is not authorised, or is no longer authorised."""


class TalkError(Exception):
    """A server sends data that no client can read."""


@dataclass(frozen=True)
class Failure:
    """A failure as it is reported.

    Args:
        message: the failure in words.
        connection_lost: whether the server may be gone, so that this connection cannot be used any more.
        unauthorized: the error, if the account is not authorised.
    """

    message: str
    connection_lost: bool = False
    unauthorized: UnauthorizedError | None = None


def explained(error: BaseException) -> Failure:
    """The failure that caused an exception."""
    import anyio
    import httpx2
    from mcp.client.auth import OAuthFlowError
    from mcp.shared.exceptions import MCPError
    from mcp.types import CONNECTION_CLOSED
    from pydantic import ValidationError

    causes = list(_causes(error))
    # First, wherever it is in the groups: a lost connection beside it is only its consequence.
    for cause in causes:
        if isinstance(cause, UnauthorizedError):
            return Failure(str(cause), connection_lost=True, unauthorized=cause)
    for cause in causes:
        if isinstance(cause, TalkError):
            return Failure(str(cause), connection_lost=True)
        if isinstance(cause, UntrustedError):
            return Failure(f"{cause.message}. To allow it, {cause.remedy}", connection_lost=True)
        if isinstance(cause, ZeusError):
            return Failure(cause.message)
        if isinstance(cause, OAuthFlowError):
            # The SDK's message quotes the server's answer, which may contain tokens.
            misfit = next(
                (each for each in (cause.__cause__, cause.__context__) if isinstance(each, ValidationError)),
                None,
            )
            said = "its authorisation server sent an answer that is not valid in OAuth"
            return Failure(_short(str(cause)) if misfit is None else f"{said} ({unfit(misfit)})")
        if isinstance(cause, ValidationError):
            return Failure(f"its answer does not follow the protocol ({unfit(cause)})")
        if isinstance(cause, MCPError):
            if cause.message.startswith(_SDK_UNREADABLE):
                return Failure(why_unreadable(cause.message))
            lost = cause.code == CONNECTION_CLOSED or cause.message in _SESSION_LOST
            return Failure(_short(cause.message), connection_lost=lost)
        if isinstance(cause, FileNotFoundError | NotADirectoryError) and isinstance(cause.filename, Path):
            return Failure(f"its folder (cwd) {str(cause.filename)!r} does not exist", connection_lost=True)
        if isinstance(cause, PermissionError) and cause.filename:
            return Failure(f"no permission to run {str(cause.filename)!r}", connection_lost=True)
        if isinstance(cause, FileNotFoundError):
            return Failure(f"the command {cause.filename or ''!r} was not found", connection_lost=True)
        if isinstance(cause, httpx2.HTTPStatusError):
            return Failure(f"it answered HTTP {cause.response.status_code}", connection_lost=True)
        if isinstance(cause, TimeoutError):
            return Failure("it did not answer in time", connection_lost=True)
        if isinstance(cause, OSError | httpx2.HTTPError):
            return Failure(_short(str(cause) or type(cause).__name__), connection_lost=True)
        if isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError | anyio.EndOfStream):
            return Failure("its process ended", connection_lost=True)
    last = causes[-1]
    return Failure(_short(f"{type(last).__name__}: {last}"))


def why_unreadable(words: str) -> str:
    """A message that an answer cannot be read, with the reason taken from the error of the SDK's parser."""
    found = _NO_JSON.search(words)
    why = found[1].strip() if found else "it is not a message of the protocol"
    return f"its answer cannot be read: {why}"


def is_permanent(error: BaseException, status: int | None = None) -> bool:
    """Whether a restart of the server would fail in the same way, so that Zeus does not try it.

    Permanent failures: a missing command, a wrong address, setting or certificate, a refusal by HTTP or by the
    protocol, an answer that the protocol does not allow, a program that is not trusted. All others may be temporary: a
    time limit, a lost connection, an overloaded server, a process that ends.

    Args:
        status: the HTTP status of the last refused request; the SDK's exception does not have it.
    """
    return (status is not None and _is_refusal(status)) or any(map(_is_permanent, _causes(error)))


def _is_refusal(status: int) -> bool:
    return status in range(300, 500) and status not in _PASSING_STATUS


def _is_permanent(cause: BaseException) -> bool:
    import ssl

    import httpx2
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    match cause:
        case ssl.SSLCertVerificationError():
            return True
        case OSError():
            return cause.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
        case httpx2.HTTPStatusError():
            return _is_refusal(cause.response.status_code)
        case MCPError():
            return cause.code in _REFUSALS
        case RuntimeError():
            return str(cause).startswith(_SDK_VERSION)
        case httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError() | httpx2.InvalidURL():
            return True
    return isinstance(cause, ValidationError | OptionsError | MissingError | UntrustedError)


def is_too_new(error: BaseException) -> bool:
    """Whether the server supports only protocol versions that start without the older handshake."""
    from mcp.shared.exceptions import MCPError
    from mcp.types import UNSUPPORTED_PROTOCOL_VERSION

    return any(
        isinstance(cause, MCPError) and cause.code == UNSUPPORTED_PROTOCOL_VERSION for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception with all causes, and the members of exception groups, the outermost first."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        each = todo.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, BaseExceptionGroup):
            todo = [*each.exceptions, *todo]
            continue
        yield each
        if each.__cause__ is not None:
            todo.append(each.__cause__)


def unfit(error: ValidationError) -> str:
    """The first validation problem in words, without the library's advice."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(step) for step in problem["loc"])
    return _short(f"{place}: {problem['msg']}" if place else problem["msg"])


def _short(text: str) -> str:
    return cut_text(unwrapped(text).rstrip("."), _LONGEST)
