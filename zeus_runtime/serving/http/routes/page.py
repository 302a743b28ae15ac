"""The page: its files, and its login."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict

from zeus_runtime.serving.http import page_login
from zeus_runtime.serving.http.bundled import BUNDLE
from zeus_runtime.serving.http.principals import UnknownPrincipalError
from zeus_runtime.serving.http.routes.depends import known

router = APIRouter(include_in_schema=False)

FILES: Final = {
    "page.js": "text/javascript",
    "page.css": "text/css",
    "page.js.LEGAL.txt": "text/plain",
    "page.css.LEGAL.txt": "text/plain",
}
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}
_NOT_BUILT: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Zeus</title>
<h1>The page is not built</h1>
<p>This service runs from a checkout. Run <code>make web</code> there, then load this page again.</p></html>
"""


class Login(BaseModel):
    """A token to log in with."""

    model_config = ConfigDict(extra="forbid")
    token: str


@router.get("/")
async def index(request: Request, token: str | None = None) -> Response:
    """The page. With a valid token in the address, the browser gets the cookie and the address without the token."""
    if token is not None:
        answer: Response = RedirectResponse(".", status_code=303)
        if not page_login.is_own(request):
            # Another site's link would log its reader in as somebody else, who then reads what is written.
            return answer
        try:
            await known(request, token)
        except UnknownPrincipalError:
            # The page asks for another token. A cookie from before may be valid, so it stays.
            return answer
        page_login.remember(request, answer, token)
        return answer
    file = BUNDLE / "index.html"
    if not file.is_file():
        return HTMLResponse(_NOT_BUILT, status_code=503, headers=_HEADERS)
    return FileResponse(file, media_type="text/html", headers=_HEADERS)


@router.get("/page/{name}")
async def asset(name: str) -> Response:
    """One of the page's files; a browser asks again each time, and gets 304 if it has the newest."""
    file = BUNDLE / name
    if name not in FILES or not file.is_file():
        return Response(status_code=404)
    return FileResponse(file, media_type=FILES[name], headers=_HEADERS)


@router.post("/login", status_code=204)
async def login(request: Request, body: Login) -> Response:
    """Exchange a token for the cookie."""
    page_login.check_own(request)
    await known(request, body.token)
    answer = Response(status_code=204)
    page_login.remember(request, answer, body.token)
    return answer


@router.post("/logout", status_code=204)
async def logout(request: Request) -> Response:
    """Delete the cookie."""
    page_login.check_own(request)
    answer = Response(status_code=204)
    page_login.forget(request, answer)
    return answer
