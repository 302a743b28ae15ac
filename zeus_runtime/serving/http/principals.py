"""Who calls the service: a user with scopes, known by a token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from zeus_runtime.errors import ZeusError
from zeus_runtime.store.threads import Owner

Scope: TypeAlias = Literal["run", "approve", "read", "metrics", "admin"]
"""``run`` begins and cancels turns, ``approve`` decides calls, ``read`` reads, ``metrics`` reads the service's figures.

``admin`` does all this, and tries other policies. No scope reaches other users: that is for keys of all users.
"""

SCOPES: Final[frozenset[Scope]] = frozenset(get_args(Scope))


@dataclass(frozen=True)
class Principal:
    """Someone who may use the service.

    Args:
        name: for logs: the key's or the user's name.
        owner: whose sessions; None for those that were begun without a service's user.
        scopes: what the caller may do.
        agents: the agents that the caller may use; None for all.
        id: for logs and limits: ``local``, ``key:ID`` or ``oidc:ISSUER``.
    """

    name: str
    owner: Owner | None
    scopes: frozenset[Scope]
    agents: frozenset[str] | None = None
    id: str = "local"

    def require(self, scope: Scope) -> None:
        """Check that the caller may do that.

        Raises:
            ForbiddenError: the caller may not.
        """
        if scope not in self.scopes and "admin" not in self.scopes:
            raise ForbiddenError(
                f"this key has not the scope {scope!r}",
                remedy="Use a key that has it, or ask its administrator.",
            )

    def may_use(self, agent: str) -> bool:
        """Whether the caller may use that agent."""
        return self.agents is None or agent in self.agents


class UnknownPrincipalError(ZeusError):
    """No token was given, or one that is not valid."""

    code = "unauthorized"


class ForbiddenError(ZeusError):
    """The caller is known, and may not do that."""

    code = "forbidden"


class LocalToken:
    """The token of the user who started the service; it is new at each start, and only that user sees it.

    Attributes:
        text: the token.
    """

    def __init__(self, text: str | None = None) -> None:
        self.text: Final = text or secrets.token_urlsafe(32)
        self._digest = _digest(self.text)

    def caller(self, token: str) -> Principal | None:
        """The user who started the service, if it is that token."""
        # Digests have one length; of two texts, `compare_digest` would tell their length by its time.
        if not hmac.compare_digest(_digest(token), self._digest):
            return None
        return Principal("local", None, SCOPES)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
