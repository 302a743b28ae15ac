"""The service and the caller of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Header, Query, Request

from zeus_runtime.serving.http.page_login import token_of
from zeus_runtime.serving.http.principals import Principal, Scope, UnknownPrincipalError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zeus_runtime.serving.http.service import Service


def service_of(request: Request) -> Service:
    """The service that answers."""
    return cast("Service", request.app.state.service)


def given_token(request: Request) -> str | None:
    """The token of the request's header, or of the page's cookie; None without.

    Raises:
        ForbiddenError: another site sends the cookie.
    """
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else token_of(request)


async def _caller(request: Request) -> Principal:
    caller = await known(request, given_token(request))
    # A protocol may ask more than once in a request, which counts, and is released, once.
    if not hasattr(request.state, "admitted"):
        request.state.admitted = service_of(request).limits.admit(caller)
    return caller


async def known(request: Request, token: str | None) -> Principal:
    """The caller with that token, who is then named in the access line and in the audit log.

    Raises:
        UnknownPrincipalError: there is none.
        TooManyRequestsError: the address sent too many wrong tokens.
    """
    service = service_of(request)
    # On loopback all callers have one address: a wrong token of one would keep the others out.
    address = None if service.token is not None or request.client is None else request.client.host
    if address is not None:
        service.limits.check_address(address)
    try:
        caller = await service.caller(token)
    except UnknownPrincipalError:
        if token and address is not None:
            service.limits.note_failure(address)
        raise
    if getattr(request.state, "caller", None) is None:
        service.present[caller.owner] += 1  # the boundary counts it down
    request.state.caller, request.state.token = caller, token
    await service.prepare(caller)
    return caller


async def principal_of(request: Request, scope: Scope) -> Principal:
    """The caller of a request, who may do that.

    Raises:
        ZeusError: there is no valid token, the caller may not do that, or a limit is reached.
    """
    found = await _caller(request)
    found.require(scope)
    return found


def _scoped(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    async def caller(request: Request) -> Principal:
        return await principal_of(request, scope)

    return caller


Reader = Annotated[Principal, Depends(_scoped("read"))]
Runner = Annotated[Principal, Depends(_scoped("run"))]
Administrator = Annotated[Principal, Depends(_scoped("admin"))]
MetricsReader = Annotated[Principal, Depends(_scoped("metrics"))]
Approver = Annotated[Principal, Depends(_scoped("approve"))]

Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
AgentName = Annotated[
    str | None, Query(max_length=200, description="The agent's name; without one the only agent.")
]
