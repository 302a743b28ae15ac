"""The callers with keys of the service's database."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from zeus_runtime.errors import ZeusError
from zeus_runtime.serving.http.principals import SCOPES, Principal, Scope, UnknownPrincipalError
from zeus_runtime.store.service_keys import find_key, fits, note_use, parts_of
from zeus_runtime.store.threads import Owner
from zeus_runtime.tools.run_to_completion import finished

if TYPE_CHECKING:
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.service_keys import ServiceKey
    from zeus_runtime.store.threads import Role

_log = logging.getLogger(__name__)

NOTE_SECONDS: Final = 60.0
"""How often the times of last use are stored."""

_NO_KEY: Final = "0" * 10


@dataclass
class KeyRing:
    """Finds the caller of a key. A revoked key is refused from the next request on: nothing is cached."""

    database: Database
    _used: dict[str, int] = field(default_factory=dict)
    _noting: asyncio.Task[None] | None = None

    async def caller(self, text: str) -> Principal | None:
        """The caller with that key; None if there is none.

        Raises:
            UnknownPrincipalError: the key was valid once.
        """
        parts = parts_of(text)
        if parts is None:
            return None
        name, secret = parts
        found = await find_key(self.database, name)
        # An unknown id takes as long as a known one with another secret.
        if not fits(name, secret, _NO_KEY if found is None else found[1]) or found is None:
            return None
        key, _ = found
        now = round(time.time() * 1000)
        if (state := key.state(now)) != "valid":
            raise UnknownPrincipalError(
                f"the key {key.name!r} is {state}", remedy="Ask the service's administrator for a new one."
            )
        self._note(key.id, now)
        return principal_of(key)

    async def aclose(self) -> None:
        """Store the last times of use."""
        if self._noting is not None:
            self._noting.cancel()
            with suppress(asyncio.CancelledError):
                await self._noting
        await self._store()

    def _note(self, name: str, now_ms: int) -> None:
        self._used[name] = now_ms
        if self._noting is None or self._noting.done():
            self._noting = asyncio.create_task(self._store_later(), name="use of keys")

    async def _store_later(self) -> None:
        # Again for uses that are noted during a write: they begin no task of their own.
        while self._used:
            await asyncio.sleep(NOTE_SECONDS)
            # To its end, as `aclose` may cancel this task, and the times of a write that is given up are lost.
            await finished(self._store())

    async def _store(self) -> None:
        # Exchanged before the await: a use that is noted meanwhile goes into the next write.
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await note_use(self.database, used)
        except ZeusError as error:
            _log.warning("the times of keys' last use are lost: %s", error)


def principal_of(key: ServiceKey) -> Principal:
    """The caller that a key stands for."""
    owner = None if key.user is None else Owner(key.user, key.project, cast("Role | None", key.role))
    scopes = frozenset(cast("Scope", each) for each in key.scopes) & SCOPES
    agents = None if key.agents is None else frozenset(key.agents)
    return Principal(key.name, owner, scopes, agents, f"key:{key.id}")
