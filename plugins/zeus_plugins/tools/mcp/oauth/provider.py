"""The SDK's OAuth client with accounts that outlive the process, and one renewal at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx2
from anyio import CancelScope
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from zeus_plugins.tools.mcp.failures import UnauthorizedError
from zeus_plugins.tools.mcp.oauth.asking import asked, refuse_plain
from zeus_runtime.plugin import OptionsError, cut_text

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.oauth.store import AccountStore
    from zeus_plugins.tools.mcp.servers import PlannedServer

_NOWHERE = "http://127.0.0.1:1/callback"
"""The redirect address of a provider that asks nobody; it is never sent."""


_LONGEST: Final = 200
"""Characters of what a server names, as it is told."""
NOBODY_ASKS: Final = "it asks for no account and does not say who would give one"

_FOR_NOW: Final = ("temporarily_unavailable", "server_error", "slow_down")
"""Errors of a token endpoint that say nothing about the right."""


class Person(Protocol):
    """Somebody at a browser."""

    redirect_uri: str

    async def show(self, url: str) -> None:
        """Let them open an address."""
        ...

    async def answer(self) -> AuthorizationCodeResult:
        """What the browser came back with."""
        ...


class _WithScopes(OAuthClientMetadata):
    """What a client asks for where the YAML says it: whatever a server names does not change it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope":
            super().__setattr__(name, value)


class AccountProvider(OAuthClientProvider):
    """Authorises requests with a kept account, and renews it.

    Args:
        server: whose requests.
        store: where the account is kept.
        person: who may be asked for a right that is missing; None: nobody, and it is an ``UnauthorizedError``.

    Attributes:
        refusal: the right that was missing, if one was: on its way through the transport an exception may be lost.
        failure: what went wrong with the authorisation itself, for the same reason.
        lacks: what the account's right does not reach to, as the server named it in its last answer; empty for nothing.
    """

    def __init__(self, server: PlannedServer, store: AccountStore, person: Person | None = None) -> None:
        spec = server.spec
        address = spec.address
        assert address is not None
        scopes = " ".join(spec.oauth.scopes) or None
        super().__init__(
            address,
            (_WithScopes if scopes else OAuthClientMetadata)(
                client_name="Zeus runtime",
                redirect_uris=[AnyUrl(person.redirect_uri if person else _NOWHERE)],
                token_endpoint_auth_method="client_secret_post" if spec.oauth.client_secret else "none",
                scope=scopes,
            ),
            self,
            redirect_handler=None if person is None else person.show,
            callback_handler=None if person is None else person.answer,
        )
        self._server = server
        self._store = store
        self._person = person
        self._address = address
        self._account: Mapping[str, Any] = {}
        self._unasked = False
        self.refusal: UnauthorizedError | None = None
        self.failure: OAuthFlowError | None = None
        self.lacks = ""

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
        kept = self._account
        return OAuthToken.model_validate(kept["tokens"]) if "tokens" in kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        # Who renews holds the account already.
        async with nullcontext() if self._person is None else self._store.locked():
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
        kept = self._account if self._person is None else {}
        return OAuthClientInformationFull.model_validate(kept["client"]) if kept.get("client") else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Kept together with the tokens, which come next."""

    async def _initialize(self) -> None:
        # A keyring may ask its user before it answers.
        kept = self._account = await asyncio.to_thread(self._kept)
        await super()._initialize()
        self.context.token_expiry_time = kept.get("expires_at")
        if kept.get("metadata"):
            self.context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
        if self._person is not None:
            self.context.clear_tokens()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Only the request itself goes over the client that it came from, with its headers and its patience."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                if outgoing is request:
                    response = yield outgoing
                else:
                    # Whoever goes away now would take a renewed right along that nobody has kept yet.
                    with CancelScope(shield=self._person is None):
                        response = await asked(outgoing, self._address)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except OAuthFlowError as error:
            self.failure = error
            raise
        finally:
            await flow.aclose()

    def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        return self._renewing(request) if self._person is None else self._authorising(request)

    async def _renewing(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """A request with the kept right, which is renewed when it has run out or is no longer taken.

        The SDK would let one request wait for another's answer, and look for somebody to ask.
        """
        if not self._initialized:
            await self._initialize()
        context = self.context
        if not context.is_token_valid():
            async with self._renewal() as refresh:
                if refresh is not None:
                    await self._take((yield refresh))
        self._add_auth_header(request)
        used = context.current_tokens
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            async with self._renewal(used) as refresh:
                if refresh is not None:
                    await self._take((yield refresh))
            self._add_auth_header(request)
            response = yield request
            if response.status_code == httpx2.codes.UNAUTHORIZED:
                raise self._refused("is not taken by its server, though it was renewed")
        self.lacks = _lacking(response)

    @asynccontextmanager
    async def _renewal(self, refused: OAuthToken | None = None) -> AsyncIterator[httpx2.Request | None]:
        """The request that renews the right, while nobody else renews it; None if another process has done so.

        Args:
            refused: the tokens that the server did not take.
        """
        context = self.context
        if context.current_tokens is None:
            raise self._refused("is not authorised")
        async with self._store.locked():
            await self._initialize()
            tokens = context.current_tokens
            if tokens is None:
                raise self._refused("is not authorised")
            if context.is_token_valid() and (refused is None or tokens.access_token != refused.access_token):
                yield None
            elif context.can_refresh_token():
                self._store.check()
                self._choose_client_auth()
                yield await self._refresh_token()
            else:
                raise self._refused("is no longer authorised")

    async def _take(self, response: httpx2.Response) -> None:
        """Keep what a renewal gave."""
        if response.status_code == httpx2.codes.OK and await self._handle_refresh_response(response):
            return
        # The SDK forgets a right that could not be renewed now.
        await self._initialize()
        error = _error_of(response)
        if error not in _FOR_NOW and (error or response.status_code in (400, 401)):
            code = f" ({error})" if error not in ("", "invalid_grant") else ""
            raise self._refused(f"is no longer authorised: its access was revoked or has expired{code}")
        raise OAuthTokenError(
            f"the access could not be renewed: HTTP {response.status_code} {error}".rstrip()
        )

    async def _authorising(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow, begun also where the server has answered: some tell everybody what tools they have."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                if response.is_success and outgoing is request and self._may_be_asked(request):
                    self._unasked = True
                    response = httpx2.Response(httpx2.codes.UNAUTHORIZED, request=request)
                outgoing = await flow.asend(response)
                if outgoing is not request and outgoing.method == "POST":
                    self._refuse_nobody()
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _may_be_asked(self, request: httpx2.Request) -> bool:
        # The stream of the older SSE has no end, and would have to be read to it.
        return request.method == "POST" and self.context.current_tokens is None

    def _refuse_nobody(self) -> None:
        """Raise where the server neither asked for an account nor says who gives one."""
        if self._unasked and self.context.oauth_metadata is None:
            raise OAuthFlowError(NOBODY_ASKS)

    async def _perform_authorization(self) -> httpx2.Request:
        self._refuse_nobody()
        metadata = self.context.oauth_metadata
        if metadata is not None and metadata.authorization_endpoint:
            refuse_plain(str(metadata.authorization_endpoint), self._address)
        self._choose_client_auth()
        return await super()._perform_authorization()

    def _choose_client_auth(self) -> None:
        """Show the secret of a client of the user's own in the header, where its server takes it only there."""
        client, metadata = self.context.client_info, self.context.oauth_metadata
        ways = (metadata and metadata.token_endpoint_auth_methods_supported) or ()
        if (
            client is not None
            and client.client_id == self._server.spec.oauth.client_id
            and client.client_secret
            and "client_secret_post" not in ways
            and "client_secret_basic" in ways
        ):
            client.token_endpoint_auth_method = "client_secret_basic"

    def _refused(self, what: str) -> UnauthorizedError:
        name = self._server.name
        self.refusal = UnauthorizedError(
            f"The account of the MCP server {name!r} {what}. Authorise it: zeus auth login {name}"
        )
        return self.refusal


def scopes_of(kept: Any) -> str:
    """The rights that a kept account has, as its server named them."""
    return str(kept.get("tokens", {}).get("scope") or "")


def _lacking(response: httpx2.Response) -> str:
    """The scopes that a server says are missing for what was asked; empty if it does not."""
    if response.status_code != httpx2.codes.FORBIDDEN:
        return ""
    if extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return ""
    return cut_text(extract_field_from_www_auth(response, "scope") or "(it does not say which)", _LONGEST)


def _error_of(response: httpx2.Response) -> str:
    """The code of an error as OAuth has it; some send one with status 200."""
    try:
        content = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    return cut_text(str(content.get("error") or ""), _LONGEST) if isinstance(content, dict) else ""
