"""Tokens of an OpenID Connect issuer on loopback: its keys, what is accepted, and whom the claims name."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from zeus_runtime.errors import UnavailableError
from zeus_runtime.serving.http.oidc import LOOK_AGAIN_SECONDS, TokenIssuers
from zeus_runtime.serving.http.principals import UnknownPrincipalError
from zeus_runtime.serving.http.settings import Claims, Issuer


class Provider:
    """An issuer with one key at a time."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_down = False
        self.rotate("first")
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += self.path == "/keys"
                found = {
                    "/.well-known/openid-configuration": {
                        "issuer": provider.url,
                        "jwks_uri": f"{provider.url}/keys",
                    },
                    "/keys": {"keys": [provider.jwk]},
                }[self.path]
                self.send_response(500 if provider.is_down else 200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rotate(self, name: str) -> None:
        self.name, self.key = name, ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.jwk = {**public, "kid": name, "use": "sig"}

    def token(self, *, key: Any = None, algorithm: str = "ES256", **claims: Any) -> str:
        now = int(time.time())
        whole = {"iss": self.url, "aud": "zeus", "sub": "ann", "exp": now + 60, "iat": now, **claims}
        whole = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(whole, key or self.key, algorithm=algorithm, headers={"kid": self.name})


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.server.shutdown()
    found.server.server_close()


def issuers(provider: Provider, **values: Any) -> TokenIssuers:
    return TokenIssuers((Issuer(provider.url, "zeus", **values),))


async def test_claims_name_user_project_role_and_scopes(provider: Provider) -> None:
    claims = Claims(user="email", project="org.team", role="groups", scopes="scope")
    known = issuers(
        provider,
        claims=claims,
        roles={"heads": "admin", "all": "viewer"},
        scopes={"zeus.read": ("read",), "zeus.run": ("run",)},
        agents=("helper",),
    )
    token = provider.token(
        email="ann@example.org", org={"team": "blue"}, groups=["all", "heads"], scope="openid zeus.read"
    )
    found = await known.caller(token)
    assert found is not None
    assert found.owner == ("ann@example.org", "blue", "admin")
    assert (found.scopes, found.agents) == ({"read"}, {"helper"})
    plain = await issuers(provider).caller(provider.token())
    assert plain is not None
    assert (plain.owner, plain.scopes) == (("ann", None, "viewer"), {"run", "approve", "read"})
    assert await known.caller("no.token") is None


def unsigned(provider: Provider, algorithm: str) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = jwt.decode(provider.token(), options={"verify_signature": False})
    return f"{part({'alg': algorithm, 'kid': provider.name})}.{part(claims)}."


def shared(provider: Provider) -> str:
    """Signed by HMAC with the issuer's public key, which everyone knows."""
    import hashlib
    import hmac

    public = provider.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = unsigned(provider, "HS256").rstrip(".")
    signature = base64.urlsafe_b64encode(hmac.digest(public, text.encode(), hashlib.sha256)).rstrip(b"=")
    return f"{text}.{signature.decode()}"


@pytest.mark.parametrize(
    "bad",
    [
        lambda it: it.token(exp=int(time.time()) - 31),
        lambda it: it.token(exp=None),
        lambda it: it.token(nbf=int(time.time()) + 60),
        lambda it: it.token(aud="another"),
        lambda it: it.token(aud=None),
        lambda it: it.token(iss="http://127.0.0.1:1"),
        lambda it: it.token(sub=None),
        lambda it: it.token(key=ec.generate_private_key(ec.SECP256R1())),
        lambda it: unsigned(it, "none"),
        lambda it: unsigned(it, "ES256"),
        shared,
    ],
)
async def test_what_is_not_accepted(provider: Provider, bad: Any) -> None:
    with pytest.raises(UnknownPrincipalError):
        await issuers(provider).caller(bad(provider))


async def test_clocks_may_differ_a_little(provider: Provider) -> None:
    assert await issuers(provider).caller(provider.token(exp=int(time.time()) - 20)) is not None


async def test_an_algorithm_that_is_not_listed_is_refused(provider: Provider) -> None:
    with pytest.raises(UnknownPrincipalError, match="algorithm"):
        await issuers(provider, algorithms=("RS256",)).caller(provider.token())


async def test_keys_are_kept_and_a_new_key_is_found_but_not_at_any_rate(provider: Provider) -> None:
    now = 0.0
    known = TokenIssuers((Issuer(provider.url, "zeus", keys_max_age_seconds=100),), now=lambda: now)
    for _ in range(3):
        assert await known.caller(provider.token()) is not None
    assert provider.asked == 1
    provider.rotate("second")
    for _ in range(3):
        with pytest.raises(UnknownPrincipalError, match="no such key"):
            await known.caller(provider.token())
    assert provider.asked == 1, "unknown keys do not make it ask at any rate"
    now = LOOK_AGAIN_SECONDS + 1
    assert await known.caller(provider.token()) is not None
    assert provider.asked == 2
    now += 101
    provider.is_down = True
    with pytest.raises(UnavailableError, match="cannot be read"):
        await known.caller(provider.token())
    provider.is_down = False
    with pytest.raises(UnavailableError, match="a moment ago"):
        await known.caller(provider.token())
    now += LOOK_AGAIN_SECONDS + 1
    assert await known.caller(provider.token()) is not None


class Slow:
    """In the place of the question to an issuer: it is answered when the test says so."""

    def __init__(self, known: TokenIssuers, provider: Provider) -> None:
        (keys,) = known._keys.values()
        self._read, self.asked, self.answers = keys._read, 0, asyncio.Event()
        keys._read = self  # type: ignore[method-assign,assignment]

    async def __call__(self) -> Any:
        self.asked += 1
        await self.answers.wait()
        return await self._read()


async def others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_known_key_does_not_wait_while_the_issuer_is_asked_for_another(provider: Provider) -> None:
    now = 0.0
    known = TokenIssuers((Issuer(provider.url, "zeus"),), now=lambda: now)
    old = provider.token()
    assert await known.caller(old) is not None
    provider.rotate("second")
    now = LOOK_AGAIN_SECONDS + 1
    slow = Slow(known, provider)
    new = [asyncio.create_task(known.caller(provider.token())) for _ in range(2)]
    await others_run()
    assert slow.asked == 1
    same = asyncio.create_task(known.caller(old))
    await others_run()
    assert same.done()
    assert same.result() is not None
    slow.answers.set()
    assert all(await asyncio.gather(*new))
    assert slow.asked == 1, "both share one question"


async def test_a_caller_who_leaves_ends_no_question_that_others_wait_for(provider: Provider) -> None:
    known = issuers(provider)
    slow = Slow(known, provider)
    first, second = (asyncio.create_task(known.caller(provider.token())) for _ in range(2))
    await others_run()
    first.cancel()
    await others_run()
    slow.answers.set()
    assert await second is not None
    assert (slow.asked, first.cancelled()) == (1, True)
