"""The ASGI app: routes, authentication, errors, and the headers of every response."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from zeus_runtime import __version__
from zeus_runtime.errors import UsageError
from zeus_runtime.serving.http import problems
from zeus_runtime.serving.http.protocols import all_running
from zeus_runtime.serving.http.routes import approvals, context, page, sessions, trace, what_if

if TYPE_CHECKING:
    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service

access = logging.getLogger("zeus.access")

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def app_of(service: Service, protocols: Sequence[ServedProtocol] = ()) -> FastAPI:
    """The app of a service; its start resumes turns, and its end closes the service.

    Args:
        protocols: further forms in which clients use it.

    Raises:
        UsageError: a protocol has a path of the service itself.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            async with all_running(protocols):
                yield
        finally:
            await service.aclose()

    app = FastAPI(title="Zeus runtime", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    problems.install(app, service.mask)
    app.middleware("http")(_around)
    app.include_router(sessions.router, prefix="/v1")
    app.include_router(approvals.router, prefix="/v1")
    app.include_router(context.router, prefix="/v1")
    app.include_router(trace.router, prefix="/v1")
    app.include_router(what_if.router, prefix="/v1")
    app.include_router(page.router)

    @app.get("/health", tags=["operation"])
    async def health() -> Response:
        """Whether the process answers."""
        return PlainTextResponse("ok\n")

    @app.get("/ready", tags=["operation"])
    async def ready() -> Response:
        """Whether turns can run; configs that cannot be read are named."""
        bad = {each.name: service.mask(each.problem) for each in service.hosting if each.problem}
        return JSONResponse({"ready": True, "unread_configs": bad})

    own = {getattr(each, "path", "") for each in app.routes}
    for route in (each for protocol in protocols for each in protocol.routes()):
        if (path := getattr(route, "path", "")) in own:
            raise UsageError(
                f"a protocol serves {path}, which is the service's own", remedy="Choose another path."
            )
        app.router.routes.append(route)
    return app


async def _around(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Add the security headers, and write one line of the access log."""
    started = time.perf_counter()
    answer = await call_next(request)
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    caller = getattr(request.state, "caller", None)
    access.info(
        "%s %s %d %.0f ms caller=%s",
        request.method,
        request.url.path,
        answer.status_code,
        (time.perf_counter() - started) * 1000,
        caller.name if caller else "-",
    )
    return answer
