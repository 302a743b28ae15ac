"""What an authorisation server is asked: over a way as safe as the one to its MCP server, within limits."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError

_SECONDS: Final = 30
_MAX_BYTES: Final = 1_000_000


async def asked(request: httpx2.Request, server: str) -> httpx2.Response:
    """The answer to a request, read to its end; a redirect is not followed.

    Args:
        server: the address of the MCP server that the request is made for.

    Raises:
        OAuthFlowError: it came too late, is too long, or would have been asked for in clear text.
        httpx2.HTTPError: nobody is there.
    """
    from zeus_runtime import __version__

    refuse_plain(str(request.url), server)
    # Some token endpoints, GitHub's among them, answer in JSON only to those who ask for it.
    request.headers.setdefault("Accept", "application/json")
    request.headers.setdefault("User-Agent", f"zeus-runtime/{__version__}")
    content = bytearray()
    try:
        async with asyncio.timeout(_SECONDS), httpx2.AsyncClient(timeout=_SECONDS) as http:
            response = await http.send(request, stream=True, follow_redirects=False)
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _MAX_BYTES:
                    raise OAuthFlowError(f"{request.url.host} answers with more than {_MAX_BYTES:,} bytes")
            await response.aclose()
    except (TimeoutError, httpx2.TimeoutException):
        raise OAuthFlowError(f"{request.url.host} did not answer within {_SECONDS} seconds") from None
    kept = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    whole = httpx2.Response(response.status_code, headers=kept, content=bytes(content), request=request)
    whole.next_request = response.next_request
    return whole


def refuse_plain(url: str, server: str) -> None:
    """Raise if ``url``, which a server spoken to over https has named, is not https itself.

    Raises:
        OAuthFlowError: codes and tokens would be readable on their way, or reach machines that only this one sees.
    """
    if urlsplit(server).scheme == "https" and urlsplit(url).scheme != "https":
        raise OAuthFlowError(f"it names an address that is not https: {url.partition('?')[0]}")
