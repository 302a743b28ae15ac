"""The edge of the app: sizes and hosts before a request, headers and audit log with its answer, one line after it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect

from zeus_runtime.serving.http import problems
from zeus_runtime.serving.http.open_streams import OpenStream
from zeus_runtime.store.service_audit import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastapi import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zeus_runtime.serving.http.principals import Principal
    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service

_log = logging.getLogger(__name__)
access = logging.getLogger("zeus.access")

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
FILES: Final = "/v1/files/"
"""Where clients upload files, which may be larger than other bodies."""
SAFE: Final = ("GET", "HEAD", "OPTIONS")
LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_STREAM: Final = "text/event-stream"
# Takes `session_0ace21804945`, and no text with a space or a line break: these go into logs as they are.
_ID: Final = re.compile(r"[\w:.-]{1,100}", re.ASCII)
_PLAIN: Final = re.compile(r"[\w./{}:@+-]+", re.ASCII)


def note_act(request: Request, **facts: str) -> None:
    """Tell the audit log more of a request: its ``agent`` or ``session``; never what was said."""
    request.state.facts = {**getattr(request.state, "facts", {}), **facts}


@dataclass
class _Passing:
    """A request on its way through.

    Args:
        mask: masks known secrets: a client may have written one into the address.
    """

    scope: Scope
    mask: Callable[[str], str]
    started: float = field(default_factory=time.perf_counter)
    status: int = 500
    is_answered: bool = False
    stream: OpenStream | None = None

    @property
    def caller(self) -> Principal | None:
        found: Principal | None = self.scope["state"].get("caller")
        return found

    @property
    def _path(self) -> str:
        """The path without the prefix under which a proxy offers the service."""
        return str(self.scope["path"]).removeprefix(self.scope.get("root_path", ""))

    @property
    def route(self) -> str:
        """The route's path with its parameters' names: one of few texts, whatever the client sends."""
        own = str(getattr(self.scope.get("route"), "path", ""))
        if not own:
            return "-"
        parts, whole = own.split("/")[1:], self._path.split("/")
        if ":path}" in own or len(parts) >= len(whole):
            return own
        # A route knows its path without the prefix of its router, which is no parameter.
        return "/".join((*whole[: -len(parts)], *parts))

    def fact(self, name: str) -> str | None:
        """What the route told, or the address has; None for a text that is no id, or holds a secret."""
        found = self.scope["state"].get("facts", {}).get(name) or self.scope.get("path_params", {}).get(name)
        is_id = isinstance(found, str) and _ID.fullmatch(found) and self.mask(found) == found
        return found if is_id else None


class Boundary:
    """The edge around the app of a service.

    Args:
        protocols: those that the service also speaks.
        prefix: the path under which a proxy offers it.
    """

    def __init__(
        self, app: ASGIApp, service: Service, protocols: Sequence[ServedProtocol] = (), prefix: str = ""
    ) -> None:
        self._app = app
        self._protocols = protocols
        self._prefix = prefix
        self._service = service
        self._limits = service.settings.limits
        self._hosts = service.settings.hosts or (LOOPBACK_HOSTS if service.token is not None else ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        # Starlette removes it from a path that has it, so the proxy may leave it in or not.
        scope["root_path"] = self._prefix
        passing = _Passing(scope, self._service.mask)
        metrics, streams = self._service.metrics, self._service.streams

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                if Headers(raw=message.get("headers", [])).get("content-type", "").startswith(_STREAM):
                    # The head tells that it is a stream; without one, nothing sets the limit.
                    passing.stream = OpenStream(limit, passing.caller, scope["state"].get("token"))
                    streams.add(passing.stream)
                passing.status, passing.is_answered = message["status"], True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                metrics.requests.labels(_method(scope), passing.route, passing.status).inc()
                metrics.seconds.labels(passing.route).observe(time.perf_counter() - passing.started)
                await self._audit(passing)
            await send(message)

        metrics.open.inc()
        try:
            # Inside the `try`: a refused request counts, and is told in the access line, as any other.
            refused = self._refused(scope)
            async with asyncio.timeout(None) as limit:
                if refused is not None:
                    await refused(scope, receive, answer)
                else:
                    await self._app(scope, _limited(receive, self._most_bytes(scope)), answer)
        except ClientDisconnect:
            # Nobody reads an answer; the access line has the status 499.
            pass
        except Exception as error:
            if isinstance(error, TimeoutError) and passing.stream is not None and limit.expired():
                # A TimeoutError of the app itself is not ours.
                await send({"type": "http.response.body", "body": passing.stream.last, "more_body": False})
                return
            _log.exception("%s %s failed", _method(scope), passing.mask(scope["path"]))
            if passing.is_answered:
                raise  # the server breaks the connection, so that the client takes no half for the whole
            scope["state"]["code"] = "internal"
            await problems.unexpected(error, self._service.mask)(scope, receive, answer)
        finally:
            if passing.stream is not None:
                streams.remove(passing.stream)
            metrics.open.dec()
            self._service.limits.release(scope["state"].get("admitted"))
            if passing.caller is not None:
                self._service.left(passing.caller.owner)
            self._tell(passing)

    def _refused(self, scope: Scope) -> ASGIApp | None:
        """The answer to a request that is not read further."""
        head = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if head + len(scope["raw_path"]) + len(scope["query_string"]) > self._limits.header_bytes:
            return self._problem(
                scope, 431, "too_large", f"the head has more than {self._limits.header_bytes} bytes"
            )
        headers = Headers(scope=scope)
        # Of two, a proxy before the service might have looked at the other one.
        (named, *others) = headers.getlist("host") or [""]
        host = "" if others else re.sub(r":\d+$", "", named).lower()
        # A container's health check asks by an address of its own; the answer says nothing.
        is_probe = scope["path"].removeprefix(self._prefix) == "/health"
        if self._hosts and host not in self._hosts and not is_probe:
            return self._problem(
                scope,
                421,
                "wrong_host",
                "the service is not called so",
                remedy="Its administrator can add the name to `hosts` in the service's settings.",
            )
        length = headers.get("content-length", "0")
        most = self._most_bytes(scope)
        if length.isdigit() and int(length) > most:
            return self._problem(scope, 413, "too_large", _too_large(most))
        return None

    def _most_bytes(self, scope: Scope) -> int:
        """Of the request's body."""
        is_file = scope["method"] == "PUT" and scope["path"].removeprefix(self._prefix).startswith(FILES)
        return self._limits.file_bytes if is_file else self._limits.body_bytes

    def _problem(self, scope: Scope, status: int, code: str, detail: str, *, remedy: str = "") -> ASGIApp:
        more = {"remedy": remedy} if remedy else {}
        told = ". ".join((detail, *more.values()))
        own = problems.in_protocol(self._protocols, scope, status, code, told)
        return own or problems.response(status, code, detail, headers=None, **more)

    async def _audit(self, passing: _Passing) -> None:
        caller = passing.caller
        is_act = passing.scope["method"] not in SAFE or passing.status in (403, 429)
        if caller is None or not is_act:
            return
        params: Mapping[str, Any] = passing.scope.get("path_params", {})
        subject = next((name for name in params if name != "session"), None)
        # Only ids and names of fixed sets: an audit log must not become a place where prompts or arguments are found.
        entry = AuditEntry(
            at_ms=round(time.time() * 1000),
            user_id=None if caller.owner is None else caller.owner.user,
            caller=caller.id,
            action=passing.mask(f"{passing.scope['method']} {passing.route}"),
            agent=passing.fact("agent"),
            session=passing.fact("session"),
            subject=None if subject is None else passing.fact(subject),
            decision=None,
            status=passing.status,
            outcome="done" if passing.status < 400 else str(passing.scope["state"].get("code", "refused")),
        )
        await self._service.audit(entry)

    def _tell(self, passing: _Passing) -> None:
        form = self._service.settings.access_log
        if form == "off" or not access.isEnabledFor(logging.INFO):
            return
        caller = passing.caller
        told = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": passing.mask(passing.scope["method"]),
            "path": passing.mask(passing.scope["path"]),
            "status": passing.status if passing.is_answered else 499,
            "ms": round((time.perf_counter() - passing.started) * 1000),
            "caller": "-" if caller is None else caller.id,
            "user": "-" if caller is None or caller.owner is None else caller.owner.user,
            "session": passing.fact("session") or "-",
        }
        if form == "json":
            access.info("%s", json.dumps(told))
        else:
            access.info("%s", " ".join(f"{name}={_word(value)}" for name, value in told.items()))


def _limited(receive: Receive, most: int) -> Receive:
    """The body, as long as it is not too large: a client need not say how long it is."""
    read = 0

    async def limited() -> Message:
        nonlocal read
        # Counted as it arrives: `content-length` is the client's word, and a chunked body has none.
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise HTTPException(413, _too_large(most))
        return message

    return limited


def _too_large(most: int) -> str:
    return f"the body has more than {most} bytes"


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in (*SAFE, "POST", "PUT", "PATCH", "DELETE") else "other"


def _word(value: object) -> str:
    """A value on its line: quoted if it has spaces or characters that could be another line's."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
