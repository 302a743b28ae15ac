"""The page's login: a token, exchanged for a cookie, because a browser's EventSource sends no headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from zeus_runtime.serving.http.principals import ForbiddenError

if TYPE_CHECKING:
    from fastapi import Request
    from fastapi.responses import Response

SAFE: Final = ("GET", "HEAD", "OPTIONS")
WRITES: Final = "x-zeus-page"
"""The page sends this header with what changes something; another site's form or link cannot."""
_MAX_AGE_SECONDS: Final = 30 * 24 * 3600


def cookie_name(request: Request) -> str:
    """The cookie's name: browsers share cookies between the ports of a host, and each may have a service."""
    return f"zeus_token_{request.url.port or 0}"


def remember(request: Request, response: Response, token: str) -> None:
    """Set the cookie with the token."""
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=_MAX_AGE_SECONDS,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def forget(request: Request, response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(cookie_name(request), path=request.scope.get("root_path") or "/")


def token_of(request: Request) -> str | None:
    """The token of the request's cookie; None without a cookie.

    Raises:
        ForbiddenError: another site caused the request, or it writes without the page's header.
    """
    token = request.cookies.get(cookie_name(request))
    if token is not None:
        check_own(request)
    return token


def is_own(request: Request) -> bool:
    """Whether the browser says that no other site caused the request, or says nothing."""
    # Another port of this host is the same site, so SameSite alone lets its pages send the cookie.
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def check_own(request: Request) -> None:
    """Check that our page sent the request.

    Raises:
        ForbiddenError: another site caused it, or it writes without the page's header.
    """
    if not is_own(request):
        raise ForbiddenError("another site sent this request", remedy="Open the service's own page.")
    # Older browsers send no `sec-fetch-site`; `origin` comes with whatever writes.
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForbiddenError("another site sent this request", remedy="Open the service's own page.")
    if request.method not in SAFE and WRITES not in request.headers:
        raise ForbiddenError(
            f"a request that writes needs the header {WRITES} if a cookie tells who sent it",
            remedy="Send `Authorization: Bearer TOKEN` instead.",
        )
