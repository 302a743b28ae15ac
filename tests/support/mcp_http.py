"""An MCP server over streamable HTTP (or the older SSE) on a loopback port; with OAuth, its own authorisation server.

The authorisation server lets everybody in without asking: opening the address it is given redirects at once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl


@dataclass
class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Gives and takes rights; a refresh token is good for one use.

    Args:
        lifetime_seconds: of an access token.

    Attributes:
        refreshes: how often a token was renewed.
        reused: how often a refresh token was used a second time.
    """

    lifetime_seconds: int = 3600
    refuse: bool = False
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    refreshes: int = 0
    reused: int = 0

    def revoke_all(self) -> None:
        """What a user does on the provider's page."""
        self.access.clear()
        self.refresh.clear()

    def expire_all(self) -> None:
        """Access tokens are no longer taken, before their time; they can be renewed."""
        self.access.clear()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refuse:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = secrets.token_urlsafe()
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = self.refresh.get(refresh_token)
        if found is None:
            self.reused += 1
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            self.reused += 1
            raise TokenError("invalid_grant")
        self.refreshes += 1
        return self._tokens(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoke_all()

    def _tokens(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        now = int(time.time())
        self.access[access] = AccessToken(
            token=access,
            client_id=client.client_id,
            scopes=scopes,
            expires_at=now + self.lifetime_seconds,
            resource=resource,
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            expires_in=self.lifetime_seconds,
            scope=" ".join(scopes),
        )


def answering(status: int, content: bytes, headers: Mapping[str, str] | None = None) -> Any:
    """An ASGI application that answers so whatever it is asked."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": status, "headers": given})
        await send({"type": "http.response.body", "body": content})

    return answer


@dataclass
class Served:
    """A running server.

    Args:
        url: where it is.
        app: the SDK's server, to add tools to.
        headers: those of the last request.
        stop: ends it.
        token_status: what its token endpoint answers instead of tokens.
        instead: path to an ASGI application that answers there.
        pass_on: the server itself, for those that answer only sometimes.
        said_otherwise: bytes that its answers have, and what it sends in their place, of the same length.
    """

    url: str
    app: MCPServer
    server: uvicorn.Server
    headers: dict[str, str] = field(default_factory=dict)
    token_status: int | None = None
    instead: dict[str, Any] = field(default_factory=dict)
    pass_on: Any = None
    said_otherwise: dict[bytes, bytes] = field(default_factory=dict)


@asynccontextmanager
async def serving(
    authority: Authority | None = None,
    *,
    port: int = 0,
    sse: bool = False,
    json_response: bool = False,
    valid_scopes: Sequence[str] = ("notes",),
) -> AsyncIterator[Served]:
    """A server with the tools ``add`` (reads), ``note`` (writes) and ``more`` (gives itself another tool).

    Args:
        sse: speak the older SSE.
        json_response: answer a call with JSON alone instead of a stream of events.
        valid_scopes: what a client may be registered for.
    """
    import asyncio
    import socket

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(base),
        resource_server_url=AnyHttpUrl(f"{base}/sse" if sse else f"{base}/mcp"),
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=list(valid_scopes), default_scopes=["notes"]
        ),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["notes"],
        validate_token_resource=True,
    )
    app = MCPServer(
        "served",
        log_level="CRITICAL",
        auth=None if authority is None else settings,
        auth_server_provider=authority,
    )

    @app.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    @app.tool()
    async def note(text: str, ctx: Context[Any, Any]) -> str:
        """Note a text, and tell of progress: so the answer is a stream of events unless it may be none."""
        await ctx.report_progress(1, 1)
        return f"noted {text}"

    @app.tool()
    async def more(ctx: Context[Any, Any]) -> str:
        """Give this server another tool."""
        app.add_tool(lambda: "late", name="late", description="Late.")
        await ctx.notify_tools_changed()
        return "more"

    asgi: Any = app.sse_app() if sse else app.streamable_http_app(json_response=json_response)
    served: Served

    async def remembering(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            served.headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            if served.token_status is not None and scope["path"] == "/token":
                await send({"type": "http.response.start", "status": served.token_status})
                await send({"type": "http.response.body", "body": b"{}"})
                return
            if scope["path"] in served.instead:
                await served.instead[scope["path"]](scope, receive, send)
                return

        async def saying(event: Any) -> None:
            for word, instead in served.said_otherwise.items():
                if "body" in event:
                    event["body"] = event["body"].replace(word, instead)
            await send(event)

        await asgi(scope, receive, saying)

    server = uvicorn.Server(
        uvicorn.Config(remembering, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    )
    served = Served(f"{base}/sse" if sse else f"{base}/mcp", app, server, pass_on=asgi)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        yield served
    finally:
        server.should_exit = True
        await task
