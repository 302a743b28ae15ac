"""The SDK's OAuth client with accounts that outlive the process, and one renewal at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from zeus_plugins.tools.mcp.failures import UnauthorizedError
from zeus_runtime import OptionsError

if TYPE_CHECKING:
    import httpx2

    from zeus_plugins.tools.mcp.oauth.store import AccountStore
    from zeus_plugins.tools.mcp.servers import Server

_NOWHERE = "http://127.0.0.1:1/callback"
"""The redirect address of a provider that asks nobody; it is never sent."""


_FOR_NOW = (408, 425, 429)
"""Answers that say nothing about the right: too late, too early, too often."""


class Person(Protocol):
    """Somebody at a browser."""

    redirect_uri: str

    async def show(self, url: str) -> None:
        """Let them open an address."""
        ...

    async def answer(self) -> AuthorizationCodeResult:
        """What the browser came back with."""
        ...


class AccountProvider(OAuthClientProvider):
    """Authorises requests with a kept account, and renews it.

    Args:
        server: whose requests.
        store: where the account is kept.
        person: who may be asked for a right that is missing; None: nobody, and it is an ``UnauthorizedError``.

    Attributes:
        refusal: the right that was missing, if one was: on its way through the transport an exception may be lost.
    """

    def __init__(self, server: Server, store: AccountStore, person: Person | None = None) -> None:
        spec = server.spec
        address = spec.address
        assert address is not None
        super().__init__(
            address,
            OAuthClientMetadata(
                client_name="Zeus runtime",
                redirect_uris=[AnyUrl(person.redirect_uri if person else _NOWHERE)],
                token_endpoint_auth_method="client_secret_post" if spec.oauth.client_secret else "none",
            ),
            self,
            redirect_handler=None if person is None else person.show,
            callback_handler=None if person is None else person.answer,
        )
        self._server = server
        self._store = store
        self._person = person
        self._held = AsyncExitStack()
        self._renewing = False
        self.refusal: UnauthorizedError | None = None

    def _kept(self) -> Mapping[str, Any]:
        """What is kept of the account; what cannot be read is no right, and whoever authorises it begins anew."""
        try:
            return self._store.read() or {}
        except OptionsError as error:
            if self._person is not None:
                return {}
            self.refusal = UnauthorizedError(f"{error.message}. {error.remedy or ''}".strip())
            raise self.refusal from None

    async def get_tokens(self) -> OAuthToken | None:
        kept = self._kept()
        return OAuthToken.model_validate(kept["tokens"]) if "tokens" in kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        self._store.write(
            {
                "tokens": tokens.model_dump(mode="json", exclude_none=True),
                "expires_at": context.token_expiry_time,
                "client": context.client_info
                and context.client_info.model_dump(mode="json", exclude_none=True),
                "metadata": context.oauth_metadata
                and context.oauth_metadata.model_dump(mode="json", exclude_none=True),
            }
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        own = self._server.spec.oauth
        if own.client_id is not None:
            return OAuthClientInformationFull(
                client_id=own.client_id,
                client_secret=own.client_secret.reveal() if own.client_secret else None,
                redirect_uris=self.context.client_metadata.redirect_uris,
                token_endpoint_auth_method=self.context.client_metadata.token_endpoint_auth_method,
            )
        # A registration belongs to the port that it was made for: who authorises anew registers anew.
        kept = self._kept() if self._person is None else {}
        return OAuthClientInformationFull.model_validate(kept["client"]) if kept.get("client") else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Kept together with the tokens, which come next."""

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = self._kept()
        self.context.token_expiry_time = kept.get("expires_at")
        if kept.get("metadata"):
            self.context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
        if self._person is not None:
            self.context.clear_tokens()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        try:
            if not self._initialized:
                await self._initialize()
            if self._person is None and self.context.current_tokens is None:
                raise self._refused("is not authorised")
            if self._person is None and not self.context.is_token_valid():
                await self._begin_renewal()
            flow = super()._auth_flow(request)
            try:
                outgoing = await flow.__anext__()
                while True:
                    response = yield outgoing
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
        finally:
            await self._end_renewal()

    async def _begin_renewal(self) -> None:
        """Take the account for oneself, and whatever another process has made of it meanwhile."""
        if not self._renewing:
            await self._held.enter_async_context(self._store.locked())
            self._renewing = True
            await self._initialize()

    async def _end_renewal(self) -> None:
        self._renewing = False
        held, self._held = self._held, AsyncExitStack()
        await held.aclose()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        try:
            renewed = await super()._handle_refresh_response(response)
        finally:
            await self._end_renewal()
        if not renewed and self._person is None:
            if 400 <= response.status_code < 500 and response.status_code not in _FOR_NOW:
                raise self._refused("is no longer authorised: its access was revoked or has expired")
            raise OAuthTokenError(f"the access could not be renewed: HTTP {response.status_code}")
        return renewed

    async def _perform_authorization(self) -> httpx2.Request:
        """Where the SDK would ask a person: without one, a token that the server no longer takes is renewed once."""
        if self._person is not None:
            scopes = self._server.spec.oauth.scopes
            if scopes:
                self.context.client_metadata.scope = " ".join(scopes)
            return await super()._perform_authorization()
        await self._begin_renewal()
        if not self.context.can_refresh_token():
            raise self._refused("is no longer authorised")
        return await self._refresh_token()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if self._person is not None:
            await super()._handle_token_response(response)
        else:
            await self._handle_refresh_response(response)

    def _refused(self, what: str) -> UnauthorizedError:
        name = self._server.name
        self.refusal = UnauthorizedError(
            f"The account of the MCP server {name!r} {what}. Authorise it: zeus auth login {name}"
        )
        return self.refusal


def scopes_of(kept: Any) -> str:
    """The rights that a kept account has, as its server named them."""
    return str(kept.get("tokens", {}).get("scope") or "")
