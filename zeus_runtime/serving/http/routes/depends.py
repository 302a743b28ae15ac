"""The service and the caller of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from zeus_runtime.serving.http.page_login import token_of
from zeus_runtime.serving.http.principals import Principal, Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zeus_runtime.serving.http.service import Service


def service_of(request: Request) -> Service:
    """The service that answers."""
    return cast("Service", request.app.state.service)


async def _caller(request: Request) -> Principal:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if kind.lower() == "bearer" else token_of(request)
    caller = await service_of(request).caller(given)
    request.state.caller = caller
    return caller


def _scoped(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    async def caller(request: Request) -> Principal:
        found = await _caller(request)
        found.require(scope)
        return found

    return caller


Reader = Annotated[Principal, Depends(_scoped("read"))]
Runner = Annotated[Principal, Depends(_scoped("run"))]
Administrator = Annotated[Principal, Depends(_scoped("admin"))]
Approver = Annotated[Principal, Depends(_scoped("approve"))]
