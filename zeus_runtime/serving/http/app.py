"""The ASGI app: routes, authentication, errors, and the headers of every response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response

from zeus_runtime import __version__
from zeus_runtime.errors import UsageError
from zeus_runtime.serving.http import problems
from zeus_runtime.serving.http.boundary import Boundary
from zeus_runtime.serving.http.parts import UNREAD
from zeus_runtime.serving.http.protocols import all_running
from zeus_runtime.serving.http.routes import (
    approvals,
    artifacts,
    backtests,
    context,
    files,
    knowledge,
    memory,
    messages,
    page,
    plan,
    sessions,
    trace,
    what_if,
)
from zeus_runtime.serving.http.routes.depends import MetricsReader, given_token, known
from zeus_runtime.serving.http.visible_json import VisibleBodies, VisibleJSON

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service


def _naming(route: BaseRoute, app: ASGIApp) -> ASGIApp:
    """The app of a route, which the audit log and the metrics name; only FastAPI's own routes are in the scope."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = route
        await app(scope, receive, send)

    return named


def _describe_tokens(app: FastAPI) -> None:
    """Say in the OpenAPI that requests need a token; ``depends`` checks it."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"}
        }
        schema["security"] = [{"token": []}]
        return schema

    app.openapi = described  # type: ignore[method-assign]


_REQUEST_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
)


def app_of(service: Service, protocols: Sequence[ServedProtocol] = (), *, prefix: str = "") -> FastAPI:
    """The app of a service; its start resumes turns, and its end closes the service.

    Args:
        protocols: further forms in which clients use it.
        prefix: the path under which a proxy offers it, such as ``/zeus``; requests may have it or not.

    Raises:
        UsageError: a protocol, or the prefix, has a path of the service itself.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # Outside the block: a service that cannot start closes itself.
        await service.start()
        try:
            async with all_running(protocols):
                yield
        finally:
            await service.aclose()

    app = FastAPI(
        title="Zeus runtime",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        default_response_class=VisibleJSON,
        responses=problems.RESPONSES,
        # Its spans and logs would have addresses with their queries, and errors with their texts: a search of one user.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    _describe_tokens(app)
    app.state.service = service
    problems.install(app, service.mask, protocols)
    app.add_middleware(Boundary, service=service, protocols=protocols, prefix=prefix)
    if service.settings.cors.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.cors.origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=(
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "Last-Event-ID",
                "If-Match",
                "If-None-Match",
            ),
            expose_headers=("Retry-After", "ETag", "Link", UNREAD),
        )
    for each in (
        sessions,
        messages,
        approvals,
        context,
        trace,
        what_if,
        memory,
        knowledge,
        plan,
        files,
        artifacts,
        backtests,
    ):
        app.include_router(each.router, prefix="/v1")
    app.include_router(page.router)

    @app.get("/health", tags=["operation"], response_class=PlainTextResponse)
    async def health() -> Response:
        """Whether the process answers."""
        return PlainTextResponse("ok\n")

    @app.get("/ready", tags=["operation"])
    async def ready(request: Request) -> Response:
        """Whether turns can run. With a token, also why configs or databases of the caller's agents are not used."""
        await service.hosting.look()
        if (token := given_token(request)) is None:
            return VisibleJSON({"ready": True})
        caller = await known(request, token)
        found = ((each.name, each.problem_of(caller.owner)) for each in service.agents_of(caller))
        bad = {name: service.mask(problem) for name, problem in found if problem}
        away = {each.name: each.away for each in service.agents_of(caller) if each.away}
        return VisibleJSON({"ready": True, "unread_configs": bad, "databases_away": away})

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metrics(_caller: MetricsReader) -> Response:
        """The service's figures, in the Prometheus text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    # Starlette takes the first route that fits, so a protocol's route of the same path would never be reached.
    own = {getattr(each, "path", "") for each in app.routes}
    for route in (each for protocol in protocols for each in protocol.routes()):
        if (path := getattr(route, "path", "")) in own:
            raise UsageError(
                f"a protocol serves {path}, which is the service's own", remedy="Choose another path."
            )
        if (served := getattr(route, "app", None)) is not None:
            route.app = VisibleBodies(_naming(route, served))  # type: ignore[attr-defined]
        app.router.routes.append(route)
    # Starlette takes the prefix off any path that has it: with `/page`, `/page/page.js` would become `/page.js`.
    paths = {"/v1", *own, *(getattr(each, "path", "") for each in (*page.router.routes, *app.router.routes))}
    if prefix and prefix.split("/")[1] in {each.partition("/")[2].split("/")[0] for each in paths}:
        raise UsageError(
            f"the service itself has paths that begin with {prefix}",
            remedy="Choose another prefix, such as /zeus.",
        )
    return app
