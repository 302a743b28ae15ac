"""Requests to authorisation servers: within limits, and over a connection as safe as the one to the MCP server."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import issuers_match

from zeus_plugins.tools.mcp.sdk import http_client
from zeus_runtime.plugin import cut_address

_SECONDS: Final = 30
_MAX_BYTES: Final = 1_000_000


async def asked(request: httpx2.Request, server: str) -> httpx2.Response:
    """The complete answer to a request; redirects are not followed.

    Args:
        server: the address of the MCP server that the request is made for.

    Raises:
        OAuthFlowError: the answer is too late or too long, or the request would have been sent in clear text.
        httpx2.HTTPError: the authorisation server cannot be reached.
    """
    from zeus_runtime import __version__

    refuse_plain(str(request.url), server)
    # Some token endpoints, such as GitHub's, answer in JSON only if the request accepts JSON.
    request.headers.setdefault("Accept", "application/json")
    request.headers.setdefault("User-Agent", f"zeus-runtime/{__version__}")
    content = bytearray()
    try:
        async with asyncio.timeout(_SECONDS), http_client(timeout=httpx2.Timeout(_SECONDS)) as http:
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
    """Raise if an MCP server that is reached over https names a ``url`` that is not https.

    Raises:
        OAuthFlowError: codes and tokens would be sent in clear text, or to hosts that only this machine can reach.
    """
    if urlsplit(server).scheme == "https" and urlsplit(url).scheme != "https":
        raise OAuthFlowError(f"it names an address that is not https: {cut_address(url)}")


def refused_issuer(found: str, named: str | None) -> str:
    """Why an account is not used at the authorisation server ``found``; empty if the config allows it.

    Args:
        named: the issuer that the config names; None allows each.
    """
    if named is None or issuers_match(found, named):
        return ""
    return f"its authorisation server is {cut_address(found)}, but the issuer in the config is {named}"
