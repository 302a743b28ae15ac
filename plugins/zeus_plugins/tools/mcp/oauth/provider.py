"""The SDK's OAuth client, extended: accounts are stored between processes, and only one renewal runs at a time."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import httpx2
from anyio import CancelScope
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from zeus_plugins.tools.mcp.failures import UnauthorizedError
from zeus_plugins.tools.mcp.oauth.asking import asked, refuse_plain, refused_issuer
from zeus_runtime.plugin import OptionsError, cut_address, cut_text, zeus_command
from zeus_runtime.plugin.tool import LoginPage, finished, in_thread

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.oauth.store import AccountStore
    from zeus_plugins.tools.mcp.servers import PlannedServer

_NOWHERE = "http://127.0.0.1:1/callback"
"""The redirect address of a provider that never asks the user; it is never sent."""


_LONGEST: Final = 200
"""Most characters of a server's own text in a message."""
NOBODY_ASKS: Final = "it requires no account and names no authorisation server"
OWN_PARAMETERS: Final = "its login page has parameters of its own, and the config names no issuer"

_FOR_NOW: Final = ("temporarily_unavailable", "server_error", "slow_down")
"""Temporary errors of a token endpoint; they do not mean that the access is lost."""


class Person(Protocol):
    """A user at a browser."""

    redirect_uri: str

    async def show(self, page: LoginPage) -> None:
        """Let the user open a page."""
        ...

    async def answer(self) -> AuthorizationCodeResult:
        """The authorisation code with which the browser was redirected."""
        ...


class _WithScopes(OAuthClientMetadata):
    """Client metadata with the scopes of the YAML, which the scopes that a server names do not replace."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope":
            super().__setattr__(name, value)


class AccountProvider(OAuthClientProvider):
    """Authorises requests with a stored account, and renews its tokens.

    Args:
        server: the server that the requests are sent to.
        store: the store of the account.
        person: the user who can authorise the account; if None, a missing authorisation is an ``UnauthorizedError``.

    Attributes:
        refusal: the error of a missing authorisation, kept because an exception may be lost in the transport.
        failure: the error of the authorisation itself, kept for the same reason.
        lacks: the missing scopes that the server named in its last answer; empty if none are missing.
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
            redirect_handler=None if person is None else self._show,
            callback_handler=None if person is None else person.answer,
        )
        self._server = server
        self._store = store
        self._person = person
        self._address = address
        self._issuer = spec.issuer
        self._account: Mapping[str, Any] = {}
        self._unasked = False
        self.refusal: UnauthorizedError | None = None
        self.failure: OAuthFlowError | None = None
        self.lacks = ""

    def _kept(self) -> Mapping[str, Any]:
        """The stored account. If it cannot be read, a login starts without it, and a run gets an error."""
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
        account = {
            "tokens": tokens.model_dump(mode="json", exclude_none=True),
            "expires_at": context.token_expiry_time,
            "client": context.client_info and context.client_info.model_dump(mode="json", exclude_none=True),
            "metadata": context.oauth_metadata
            and context.oauth_metadata.model_dump(mode="json", exclude_none=True),
        }
        # A renewal already holds the lock.
        async with nullcontext() if self._person is None else self._store.locked():
            # A cancellation would lose the tokens, or let go of the lock before they are stored. The scope keeps off
            # those of anyio, which come again and again; `finished` waits in spite of the others.
            with CancelScope(shield=True):
                await finished(in_thread(self._store.write, account=account))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        own = self._server.spec.oauth
        if own.client_id is not None:
            return OAuthClientInformationFull(
                client_id=own.client_id,
                client_secret=own.client_secret.reveal() if own.client_secret else None,
                redirect_uris=self.context.client_metadata.redirect_uris,
                token_endpoint_auth_method=self.context.client_metadata.token_endpoint_auth_method,
            )
        # A registration is valid only for the port that it was made for, so each login registers again.
        kept = self._account if self._person is None else {}
        return OAuthClientInformationFull.model_validate(kept["client"]) if kept.get("client") else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: ``set_tokens``, which is called next, stores the client too."""

    async def _initialize(self) -> None:
        # In its own thread, as `check` and `write` of the store: a keyring may ask its user before it answers.
        kept = self._account = await in_thread(self._kept)
        await super()._initialize()
        self.context.token_expiry_time = kept.get("expires_at")
        # A login asks anew: the endpoints of an earlier one may be another server's.
        if kept.get("metadata") and self._person is None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
        if self._person is not None:
            self.context.clear_tokens()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send OAuth's own requests through ``asked``: only ``request`` may use its client's headers and time limit."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                if outgoing is request:
                    response = yield outgoing
                else:
                    # A cancellation during a renewal would lose the new tokens, which are not stored yet.
                    with CancelScope(shield=self._person is None):
                        response = await asked(outgoing, self._address)
                    # Before anything else: an error may quote it, and a later answer may repeat it.
                    self._store.learn_held(_told(response))
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
        """Send a request with the stored tokens; renew them if they have expired or the server refuses them.

        The SDK's own flow would let one request wait for another's answer, and would try to ask a user.
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
        # A server may refuse a token before its time: revoked, or after a restart. It is renewed once.
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            async with self._renewal(used) as refresh:
                if refresh is not None:
                    await self._take((yield refresh))
            self._add_auth_header(request)
            response = yield request
            if response.status_code == httpx2.codes.UNAUTHORIZED:
                raise self._refused("is refused by its server although it was renewed")
        self.lacks = _lacking(response)

    @asynccontextmanager
    async def _renewal(self, refused: OAuthToken | None = None) -> AsyncIterator[httpx2.Request | None]:
        """The request that renews the tokens, under the account's lock; None if another process has renewed them.

        Args:
            refused: the tokens that the server refused.
        """
        context = self.context
        if context.current_tokens is None:
            raise self._refused("is not authorised")
        async with self._store.locked():
            # Read again under the lock: the process that had it may have renewed the tokens.
            await self._initialize()
            tokens = context.current_tokens
            if tokens is None:
                raise self._refused("is not authorised")
            if context.is_token_valid() and (refused is None or tokens.access_token != refused.access_token):
                yield None
            elif context.can_refresh_token():
                if why := refused_issuer(self._authority(), self._issuer):
                    raise self._refused(f"is not renewed: {why}")
                # Before the refresh token is used up: a provider that rotates tokens gives the new one only once.
                await in_thread(self._store.check)
                self._choose_client_auth()
                yield await self._refresh_token()
            else:
                raise self._refused("is no longer authorised")

    async def _take(self, response: httpx2.Response) -> None:
        """Store the tokens of a renewal, or raise."""
        if response.status_code == httpx2.codes.OK and await self._handle_refresh_response(response):
            return
        # The SDK forgets tokens after a failed renewal, even if the failure is temporary.
        await self._initialize()
        error = _error_of(response)
        if error not in _FOR_NOW and (error or response.status_code in (400, 401)):
            code = f" ({error})" if error not in ("", "invalid_grant") else ""
            raise self._refused(f"is no longer authorised: its access was revoked or has expired{code}")
        raise OAuthTokenError(
            f"the access could not be renewed: HTTP {response.status_code} {error}".rstrip()
        )

    async def _authorising(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow, started even after a successful answer: some servers list their tools without an account."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                # A 401 in place of the answer makes the SDK's flow begin the login.
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
        # The answer of the older SSE is an endless stream, which the flow would have to read to its end.
        return request.method == "POST" and self.context.current_tokens is None

    def _refuse_nobody(self) -> None:
        """Raise if the server neither asked for an account nor named an authorisation server."""
        if self._unasked and self.context.oauth_metadata is None:
            raise OAuthFlowError(NOBODY_ASKS)

    def _select_authorization_server(self, advertised: list[str]) -> str:
        # As the config has it: Google's servers name it with a slash, and its metadata has none.
        found = super()._select_authorization_server(advertised)
        named = self._issuer
        return named if named and any(issuers_match(each, named) for each in advertised) else found

    def _expected_issuer(self) -> str:
        # The SDK asks for it before it asks the authorisation server, and the metadata must have this issuer.
        found = super()._expected_issuer()
        self._refuse_issuer(found)
        return found

    def _authority(self) -> str:
        """The issuer of the endpoints that are used: without metadata they are the MCP server's own."""
        metadata = self.context.oauth_metadata
        return str(metadata.issuer) if metadata else self.context.get_authorization_base_url(self._address)

    def _refuse_issuer(self, found: str) -> None:
        if why := refused_issuer(found, self._issuer):
            raise OAuthFlowError(why)

    async def _show(self, url: str) -> None:
        """Show the page, and who gets its answer: the metadata may name another provider's page."""
        assert self._person is not None
        # The SDK puts a `?` before its parameters, also behind a query.
        page, _, parameters = url.rpartition("?")
        url = f"{page}{'&' if '?' in page else '?'}{parameters}"
        metadata = self.context.oauth_metadata
        asked = [self._get_token_endpoint()]
        if metadata is not None and metadata.revocation_endpoint:
            asked.append(str(metadata.revocation_endpoint))
        hosts = dict.fromkeys(_host(each) for each in asked)
        others = tuple(host for host in hosts if host != _host(url))
        await self._person.show(LoginPage(url, others, is_vouched=self._issuer is not None))

    async def _perform_authorization(self) -> httpx2.Request:
        self._refuse_nobody()
        self._refuse_issuer(self._authority())
        metadata = self.context.oauth_metadata
        if metadata is not None and metadata.authorization_endpoint:
            page = str(metadata.authorization_endpoint)
            refuse_plain(page, self._address)
            self._refuse_prepared(page)
        self._choose_client_auth()
        return await super()._perform_authorization()

    def _refuse_prepared(self, page: str) -> None:
        """Raise if the address of a login page may replace the parameters of this login, such as who gets the answer.

        A browser sends nothing behind a ``#``. A provider may take its own name of a parameter, the first of two, or
        those behind a ``request_uri``, so only an issuer that the config names may have a query.
        """
        if "#" in page:
            raise OAuthFlowError(f"the address of its login page has a #: {cut_address(page)}")
        if "?" in page and self._issuer is None:
            raise OAuthFlowError(f"{OWN_PARAMETERS}: {cut_address(page)}")

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        code, verifier = await super()._perform_authorization_code_grant()
        self._store.learn("code", code)
        self._store.learn("code_verifier", verifier)
        return code, verifier

    def _choose_client_auth(self) -> None:
        """Send the secret of the user's own client in the header if its server accepts it only there."""
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
            f"The account of the MCP server {name!r} {what}. Authorise it:"
            f" {zeus_command('auth', 'login', name, is_argument=True)}"
        )
        return self.refusal


def _host(url: str) -> str:
    """The host and port of an address, without a user that looks like a host (``https://real@other/``)."""
    return urlsplit(url).netloc.rpartition("@")[2]


def scopes_of(kept: Any) -> str:
    """The scopes of a stored account, as its server named them."""
    return str(kept.get("tokens", {}).get("scope") or "")


def _lacking(response: httpx2.Response) -> str:
    """The scopes that the server reports as missing for the request; empty if it reports none."""
    if response.status_code != httpx2.codes.FORBIDDEN:
        return ""
    if extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return ""
    return cut_text(extract_field_from_www_auth(response, "scope") or "(it does not say which)", _LONGEST)


def _error_of(response: httpx2.Response) -> str:
    """The OAuth error code of an answer; some servers send one with status 200."""
    return cut_text(str(_told(response).get("error") or ""), _LONGEST)


def _told(response: httpx2.Response) -> Mapping[str, Any]:
    """The JSON object of an answer; empty if it has none."""
    try:
        content = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
