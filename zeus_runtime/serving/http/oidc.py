"""The callers with JSON Web Tokens of an OpenID Connect issuer (RFC 7519, RFC 8725)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import UnavailableError
from zeus_runtime.serving.http.principals import SCOPES, Principal, UnknownPrincipalError
from zeus_runtime.store.threads import Owner, Role

if TYPE_CHECKING:
    from jwt import PyJWK

    from zeus_runtime.serving.http.settings import Issuer

TIMEOUT_SECONDS: Final = 10.0
LOOK_AGAIN_SECONDS: Final = 10.0
"""How long an issuer is not asked again for an unknown key: anyone can send a token that names one."""
MOST_BYTES: Final = 1_000_000
MOST_TOKEN_CHARACTERS: Final = 16_000


@dataclass
class _Keys:
    """The public keys of one issuer, by id.

    Args:
        issuer: whose.
        now: monotonic seconds.
    """

    issuer: Issuer
    now: Callable[[], float] = time.monotonic
    _found: Mapping[str | None, PyJWK] = field(default_factory=dict)
    _read_at: float | None = None
    _tried_at: float | None = None
    _asking: asyncio.Task[None] | None = None

    async def key(self, name: str | None) -> PyJWK | None:
        """The key with that id; None if the issuer has none.

        Raises:
            UnavailableError: the issuer cannot be asked, and its keys are not known or too old.
        """
        now = self.now()
        is_old = self._read_at is None or now - self._read_at > self.issuer.keys_max_age_seconds
        if not is_old and name in self._found:
            return self._found[name]
        if self._asking is None:
            if self._tried_at is not None and now - self._tried_at <= LOOK_AGAIN_SECONDS:
                if is_old:
                    raise self._unavailable("it did not answer a moment ago")
                return None
            # Before the question, so that a failed one, too, is not repeated for each request.
            self._tried_at = now
            self._asking = asyncio.create_task(self._ask(now))
        # Callers share one question to the issuer, which goes on if the caller who began it leaves.
        await asyncio.shield(self._asking)
        return self._found.get(name)

    async def _ask(self, now: float) -> None:
        try:
            # All keys at once: one that the issuer took back is gone with the next reading.
            self._found = await self._read()
            self._read_at = now
        finally:
            self._asking = None

    async def _read(self) -> Mapping[str | None, PyJWK]:
        import httpx
        from jwt import PyJWKSet
        from jwt.exceptions import PyJWTError

        try:
            # A redirect could lead from the issuer's host to another one, whose keys would then count as the issuer's.
            async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False) as client:
                about = await _json(
                    client, self.issuer.issuer.rstrip("/") + "/.well-known/openid-configuration"
                )
                # OpenID Connect Discovery 1.0, 4.3: otherwise one issuer could answer with the keys of another.
                if about.get("issuer") != self.issuer.issuer:
                    raise self._unavailable(f"it calls itself {about.get('issuer')!r}")
                place = str(about.get("jwks_uri", ""))
                if not place.startswith("https://") and self.issuer.issuer.startswith("https://"):
                    raise self._unavailable("its keys have no https:// address")
                found = PyJWKSet.from_dict(await _json(client, place))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, PyJWTError) as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        return {each.key_id: each for each in found.keys if each.public_key_use in (None, "sig")}

    def _unavailable(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"the keys of the issuer {self.issuer.issuer} cannot be read: {why}",
            remedy="Check `oidc` in the service's settings, and that the service reaches the issuer.",
        )


async def _json(client: Any, place: str) -> dict[str, Any]:
    answer = await client.get(place)
    answer.raise_for_status()
    if len(answer.content) > MOST_BYTES or not isinstance(found := answer.json(), dict):
        raise ValueError(f"{place} has no JSON object")
    return found


class TokenIssuers:
    """The callers with tokens of the issuers in a service's settings."""

    def __init__(self, issuers: tuple[Issuer, ...], *, now: Callable[[], float] = time.monotonic) -> None:
        self._keys = {each.issuer: _Keys(each, now) for each in issuers}

    async def caller(self, token: str) -> Principal | None:
        """The caller with that token; None if it is no JSON Web Token.

        Raises:
            UnknownPrincipalError: it is not valid.
            UnavailableError: its issuer's keys cannot be read.
        """
        if not self._keys or token.count(".") != 2:
            return None
        import jwt

        if len(token) > MOST_TOKEN_CHARACTERS:
            raise _refused("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            unread = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError as error:
            raise _refused(str(error)) from error
        # Read before the signature is checked, only to choose whose key has to fit; `decode` checks it again.
        keys = self._keys.get(str(unread.get("iss")))
        if keys is None:
            raise _refused("its issuer is unknown here")
        issuer = keys.issuer
        # The token must not choose how it is checked (RFC 8725, 3.1).
        if header.get("alg") not in issuer.algorithms:
            raise _refused("its algorithm is not accepted")
        key = await keys.key(header.get("kid"))
        if key is None:
            raise _refused("its issuer has no such key")
        # A key that names its algorithm signs with no other.
        accepted = [
            each for each in issuer.algorithms if not _names_algorithm(key) or each == key.algorithm_name
        ]
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=accepted,
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=issuer.clock_skew_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _refused(str(error)) from error
        return _principal(issuer, claims)


def _names_algorithm(key: PyJWK) -> bool:
    # PyJWT 2.15 sets `algorithm_name` for a key that names none, too: RS256 for RSA, so PS256 would be refused.
    return bool(key._jwk_data.get("alg"))


def _principal(issuer: Issuer, claims: Mapping[str, Any]) -> Principal:
    user = _at(claims, issuer.claims.user)
    if not isinstance(user, str) or not user or not user.isprintable():
        raise _refused(f"its claim {issuer.claims.user!r} names no user")
    project = None if issuer.claims.project is None else _at(claims, issuer.claims.project)
    if project is not None and (not isinstance(project, str) or not project.isprintable()):
        raise _refused(f"its claim {issuer.claims.project!r} names no project")
    roles = _texts(claims, issuer.claims.role)
    role: Role = next((each for value, each in issuer.roles.items() if value in roles), issuer.default_role)
    granted = _texts(claims, issuer.claims.scopes)
    scopes = {each for value, some in issuer.scopes.items() if value in granted for each in some}
    return Principal(
        user,
        Owner(user, project or None, role),
        frozenset(scopes or issuer.default_scopes) & SCOPES,
        None if issuer.agents is None else frozenset(issuer.agents),
        f"oidc:{issuer.issuer}",
    )


def _at(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or at that path."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(claims: Mapping[str, Any], name: str | None) -> frozenset[str]:
    """The texts of a claim: a list, or one text with spaces."""
    found = None if name is None else _at(claims, name)
    if isinstance(found, str):
        # The whole text too, because the name of a role may contain spaces.
        return frozenset(found.split()) | {found}
    return (
        frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()
    )


def _refused(why: str) -> UnknownPrincipalError:
    return UnknownPrincipalError(f"the token is not valid: {why}", remedy="Get a new one from its issuer.")
